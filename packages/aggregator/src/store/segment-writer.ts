// Appends frames to numbered segment files and rolls them.
//
//   000001.seg | magic | frame … frame |      000002.seg | magic | frame … frame | torn     ← cut before the first append
//
// Durability: an append is one writev into the page cache before it is acknowledged, so a killed process loses nothing. `sync` puts the
// page cache on the disk; the service calls it once a second, so a power cut or kernel crash may lose the last second.
// Invariant: `offset` is the end of the last whole frame; after a failed write the file is cut back to it, or left and a new one begun.

import {
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  writeSync,
  writevSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { frameHeaderBytes, segmentMagic } from '@ranktrace/protocol';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { writeFrameHeader } from './segment-scan.ts';

const flushToDisk = promisify(fdatasync);

/** Place of a frame's payload: `segment` counts from 1. */
export interface Placed {
  readonly segment: number;
  readonly offset: number;
}

export class SegmentWriter {
  readonly #directory: string;
  readonly #bytesMax: number;
  readonly #header = Buffer.alloc(frameHeaderBytes);
  #segment: number;
  #file: number | undefined;
  #offset = 0;
  #dirty = false;
  /** Rolled files that are not yet on the disk. */
  #rolled: number[] = [];
  #syncing: Promise<void> | undefined;

  /**
   * Begins after segment number `last` (0 = there is none); with `end`, continues in that segment at that offset and cuts the rest.
   * `bytesMax`: size in bytes at which a segment is rolled.
   */
  constructor(directory: string, bytesMax: number, last: number, end?: number) {
    this.#directory = directory;
    this.#bytesMax = bytesMax;
    this.#segment = last;
    if (end === undefined || end >= bytesMax) return;
    this.#file = guard(this.path(last), () => {
      const file = openSync(this.path(last), 'r+');
      // A truncation that cuts nothing would renew the file's time, and retention goes by its age.
      if (fstatSync(file).size > end) ftruncateSync(file, end);
      return file;
    });
    this.#offset = end;
  }

  path(segment: number): string {
    return join(this.#directory, segmentName(segment));
  }

  /** The last segment that received an append, 0 = none; its path while it still grows. */
  get current(): { readonly segment: number; readonly path: string | undefined } {
    return { segment: this.#segment, path: this.#file === undefined ? undefined : this.path(this.#segment) };
  }

  /** Whether something may not be on the disk yet. */
  get isDirty(): boolean {
    return this.#dirty || this.#rolled.length > 0;
  }

  /** The next append begins a new segment. Throws AggregatorError `store_write_failed`. */
  async endSegment(): Promise<void> {
    if (this.#file !== undefined) this.#rolled.push(this.#file);
    this.#file = undefined;
    await this.sync();
  }

  /** Appends one frame; throws AggregatorError `store_full` or `store_write_failed`, after which the store is as before. */
  append(payload: Uint8Array): Placed {
    if (this.#file === undefined || this.#offset + frameHeaderBytes + payload.length > this.#bytesMax) this.#roll();
    const file = this.#file as number;
    writeFrameHeader(this.#header, payload);
    try {
      writeAll(file, this.#header, payload, this.#offset);
    } catch (cause) {
      this.#cutBack(file);
      throw writeError(this.path(this.#segment), cause);
    }
    this.#dirty = true;
    const offset = this.#offset + frameHeaderBytes;
    this.#offset = offset + payload.length;
    return { segment: this.#segment, offset };
  }

  /**
   * Flushes earlier appends to the disk; joins a running sync, and leaves appends after its begin for the next.
   * Throws AggregatorError `store_write_failed`.
   */
  async sync(): Promise<void> {
    if (!this.isDirty) return this.#syncing;
    this.#syncing ??= this.#flush().finally(() => {
      this.#syncing = undefined;
    });
    await this.#syncing;
  }

  /** Waits for a running sync, flushes the rest to the disk and closes. */
  async close(): Promise<void> {
    await this.#syncing?.catch(() => undefined);
    const open = this.#file === undefined ? this.#rolled : [...this.#rolled, this.#file];
    const isDirty = this.isDirty;
    this.#rolled = [];
    this.#file = undefined;
    for (const file of open) {
      try {
        if (isDirty) fdatasyncSync(file);
      } finally {
        closeSync(file);
      }
    }
  }

  async #flush(): Promise<void> {
    this.#dirty = false;
    const rolled = this.#rolled;
    this.#rolled = [];
    const results = await Promise.allSettled(rolled.map((file) => flushToDisk(file)));
    for (const file of rolled) closeSync(file);
    if (this.#file !== undefined) results.push(...(await Promise.allSettled([flushToDisk(this.#file)])));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed === undefined) return;
    this.#dirty = true;
    throw writeError(this.path(this.#segment), failed.reason);
  }

  #roll(): void {
    const path = this.path(this.#segment + 1);
    const file = guard(path, () => {
      const opened = openSync(path, 'wx');
      try {
        writeSync(opened, segmentMagic);
        syncDirectory(this.#directory);
        return opened;
      } catch (error) {
        // A full disk takes the name and not the bytes: a leftover name would be in the way once there is room again.
        closeSync(opened);
        rmSync(path, { force: true });
        throw error;
      }
    });
    if (this.#file !== undefined) this.#rolled.push(this.#file);
    this.#segment++;
    this.#file = file;
    this.#offset = segmentMagic.length;
  }

  #cutBack(file: number): void {
    try {
      ftruncateSync(file, this.#offset);
    } catch {
      // The cut failed, too: readers stop at the torn frame, and the next append begins a new segment.
      this.#rolled.push(file);
      this.#file = undefined;
    }
  }
}

/** File name of segment number `segment`, which counts from 1. */
export const segmentName = (segment: number): string => `${String(segment).padStart(6, '0')}.seg`;

/**
 * Makes a directory and its missing parents; an existing one stays. Not `recursive`: where a folder rejects new ones with ENOENT (/proc), Node never
 * returns. Throws the system's error.
 */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || existsSync(above)) throw error;
    makeDirectory(above);
    makeDirectory(path);
  }
}

/** Makes new names in a folder durable. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** Runs file system calls on `path`; throws AggregatorError `store_full` or `store_write_failed`. */
export function guard<T>(path: string, calls: () => T): T {
  try {
    return calls();
  } catch (cause) {
    throw writeError(path, cause);
  }
}

function writeAll(file: number, header: Uint8Array, payload: Uint8Array, offset: number): void {
  let written = writevSync(file, [header, payload], offset);
  while (written < header.length + payload.length) {
    const part = written < header.length ? header.subarray(written) : payload.subarray(written - header.length);
    written += writeSync(file, part, 0, part.length, offset + written);
  }
}

function writeError(path: string, cause: unknown): AggregatorError {
  if (cause instanceof AggregatorError) return cause;
  const full = systemCode(cause) === 'ENOSPC' || systemCode(cause) === 'EDQUOT';
  if (full) return new AggregatorError('store_full', `Cannot write "${path}": the disk is full`, { cause });
  return new AggregatorError('store_write_failed', `Cannot write "${path}": ${messageOf(cause)}`, { cause });
}
