// Blocks in a file without a name: it disappears when it is closed, or when the process ends, however it does.

import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BlockStore } from '@ranktrace/trace/timeline';
import { AggregatorError, messageOf } from '../model/errors.ts';

export class BlockFile implements BlockStore, Disposable {
  readonly #file: number;
  readonly #holds: string;
  readonly #bytesMax: number;
  #end = 0;

  /**
   * `holds`: what it is for, in messages. `bytesMax`: largest size. Throws AggregatorError `store_write_failed` when there is no room for temporary
   * files.
   */
  constructor(holds = 'the timeline', bytesMax = Number.POSITIVE_INFINITY) {
    this.#holds = holds;
    this.#bytesMax = bytesMax;
    try {
      const directory = mkdtempSync(join(tmpdir(), 'ranktrace-blocks-'));
      try {
        this.#file = openSync(join(directory, 'blocks'), 'w+', 0o600);
      } finally {
        rmSync(directory, { recursive: true, force: true });
      }
    } catch (cause) {
      throw this.#error(messageOf(cause), cause);
    }
  }

  /** Bytes written. */
  get bytes(): number {
    return this.#end;
  }

  write(bytes: Uint8Array): number {
    const place = this.#end;
    if (place + bytes.length > this.#bytesMax) throw this.#error(`it would take more than ${this.#bytesMax} bytes`);
    this.overwrite(place, bytes);
    this.#end += bytes.length;
    return place;
  }

  overwrite(place: number, bytes: Uint8Array): void {
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#file, bytes, done, bytes.length - done, place + done);
    } catch (cause) {
      throw this.#error(messageOf(cause), cause);
    }
  }

  read(place: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#file, bytes, done, length - done, place + done);
      if (read === 0) throw new RangeError(`No block of ${length} bytes at ${place}: the file ends at ${this.#end}`);
      done += read;
    }
    return bytes;
  }

  #error(why: string, cause?: unknown): AggregatorError {
    return new AggregatorError('store_write_failed', `Cannot keep ${this.#holds} in "${tmpdir()}": ${why}`, { cause });
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}
