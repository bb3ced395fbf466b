// Keeps unreadable batches aside for inspection: same framing as a segment, bounded, counted.
//
// Invariant: never throws into ingest. Batches without room, or that cannot be written, are still counted.

import { closeSync, existsSync, openSync, writeSync } from 'node:fs';
import { limits as batchLimits, frameHeaderBytes, segmentMagic } from '@ranktrace/protocol';
import { systemCode } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { scanSegment, writeFrameHeader } from './segment-scan.ts';

export class Quarantine {
  readonly #path: string;
  readonly #bytesMax: number;
  #file: number | undefined;
  #bytes = 0;
  #count = 0;
  #kept = 0;

  /** `path`: the file, created with the first bad batch. `bytesMax`: its size in bytes at most. */
  constructor(path: string, bytesMax: number = limits.quarantineBytesMax) {
    this.#path = path;
    this.#bytesMax = bytesMax;
    if (!existsSync(path)) return;
    try {
      const scan = scanSegment(path, () => this.#kept++);
      this.#count = this.#kept;
      // Readers would find nothing after a torn frame: keep the file as it is, and count new batches only.
      this.#bytes = scan.readable === scan.size ? scan.size : bytesMax;
    } catch {
      this.#bytes = bytesMax; // unreadable: leave it alone, continue to count
    }
  }

  /** Bad batches: those in the file and those counted since it was opened. */
  get count(): number {
    return this.#count;
  }

  /** Bad batches whose bytes are in the file. */
  get kept(): number {
    return this.#kept;
  }

  /** Keeps bad bytes, cut to the length of a frame. */
  add(bytes: Uint8Array): void {
    this.#count++;
    const payload = bytes.subarray(0, batchLimits.batchBytesMax);
    const frame = Buffer.allocUnsafe(frameHeaderBytes + payload.length);
    if (payload.length === 0 || Math.max(this.#bytes, segmentMagic.length) + frame.length > this.#bytesMax) return;
    writeFrameHeader(frame, payload);
    frame.set(payload, frameHeaderBytes);
    try {
      this.#file ??= openForAppending(this.#path);
      // A full disk may take half a frame, and readers could not find any frame after it.
      if (writeSync(this.#file, frame) < frame.length) throw new Error('half a frame');
    } catch {
      this.#bytes = this.#bytesMax;
      return;
    }
    this.#bytes = Math.max(this.#bytes, segmentMagic.length) + frame.length;
    this.#kept++;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

/** Appending, not positional: two services may share the folder. */
function openForAppending(path: string): number {
  try {
    const created = openSync(path, 'ax');
    writeSync(created, segmentMagic);
    return created;
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    return openSync(path, 'a');
  }
}
