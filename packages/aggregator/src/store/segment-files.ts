// The segment files behind a reader, numbered as in the index; a bounded number is open at a time.
//
// Invariant: returned bytes are never written again, so callers may keep them; every read is positional, so a writer may append.

import { closeSync, readSync } from 'node:fs';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { aggregatorLimits } from '../model/limits.ts';
import { openForReading } from './segment-scan.ts';

export class SegmentFiles {
  readonly #paths: string[] = [];
  /** Open descriptors by file number, least recently opened first. */
  readonly #open = new Map<number, number>();

  /** Assigns a number to the file at `path`. */
  add(path: string): number {
    return this.#paths.push(path) - 1;
  }

  path(file: number): string {
    return this.#paths[file] ?? '';
  }

  /** Exactly `length` bytes from `offset`; throws AggregatorError `store_missing`, `store_unreadable` or `store_truncated`. */
  read(file: number, offset: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafeSlow(length);
    const descriptor = this.#descriptor(file);
    let filled = 0;
    while (filled < length) {
      let got: number;
      try {
        got = readSync(descriptor, bytes, filled, length - filled, offset + filled);
      } catch (cause) {
        throw new AggregatorError('store_unreadable', `Cannot read "${this.path(file)}": ${messageOf(cause)}`, { cause });
      }
      if (got === 0) {
        const wanted = `it must hold ${length} bytes at ${offset}, got ${filled}`;
        throw new AggregatorError('store_truncated', `Cannot read "${this.path(file)}": ${wanted} (it was cut after it was opened)`);
      }
      filled += got;
    }
    return bytes;
  }

  /** Closes a file that is no longer read; remaining places in it reopen it, as long as it exists. */
  release(file: number): void {
    const descriptor = this.#open.get(file);
    if (descriptor !== undefined) closeSync(descriptor);
    this.#open.delete(file);
  }

  close(): void {
    for (const descriptor of this.#open.values()) closeSync(descriptor);
    this.#open.clear();
  }

  #descriptor(file: number): number {
    const open = this.#open.get(file);
    if (open !== undefined) return open;
    if (this.#open.size >= aggregatorLimits.openFilesMax) {
      const [oldest] = this.#open;
      if (oldest !== undefined) {
        closeSync(oldest[1]);
        this.#open.delete(oldest[0]);
      }
    }
    const descriptor = openForReading(this.path(file));
    this.#open.set(file, descriptor);
    return descriptor;
  }
}
