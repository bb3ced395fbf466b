// Walks the frames of one segment file, front to back, checking every checksum.
//
//   | magic | frame | frame | bad frame | frame | torn …
//                           ^ skipped: its length leads to the next frame
//                                             ^ readable ends here; size − readable is the tail
//
// Invariant: never writes, never reads a frame's bytes twice, holds one buffer of `bufferBytes`.

import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { frameHeaderBytes, isSegment, limits, segmentMagic } from '@ranktrace/protocol';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';

const bufferBytes = 4 * 1024 * 1024;

export interface SegmentScan {
  /** Bytes of the file when it was read. */
  readonly size: number;
  /** Offset behind the last whole frame (0 when not even the magic is whole). */
  readonly readable: number;
  /** Whole frames with a right checksum. */
  readonly frames: number;
  /** Frames with a wrong checksum before the last whole one. */
  readonly damaged: number;
  /** Whether the file begins like a segment, as far as it goes. */
  readonly segment: boolean;
}

/**
 * Calls `onFrame` with every whole frame's payload (valid during the call) and the payload's offset in bytes.
 * Throws AggregatorError `store_missing` or `store_unreadable`; the file's contents never make it throw.
 */
export function scanSegment(path: string, onFrame: (payload: Uint8Array, offset: number) => void): SegmentScan {
  const file = openForReading(path);
  try {
    const buffer = Buffer.allocUnsafeSlow(bufferBytes);
    let filled = 0;
    let base = 0; // offset in the file of buffer[0]
    const fill = (): boolean => {
      const got = readSync(file, buffer, filled, bufferBytes - filled, base + filled);
      filled += got;
      return got > 0;
    };
    while (filled < segmentMagic.length && fill());
    if (filled < segmentMagic.length || !isSegment(buffer)) {
      const begins = buffer.subarray(0, filled).every((byte, index) => byte === segmentMagic[index] || index >= segmentMagic.length);
      return { size: fstatSync(file).size, readable: 0, frames: 0, damaged: 0, segment: begins };
    }
    let at = segmentMagic.length;
    let readable = at;
    let frames = 0;
    let damaged = 0;
    let damagedAfter = 0;
    for (;;) {
      const need = filled - at < frameHeaderBytes ? frameHeaderBytes : frameHeaderBytes + frameLength(buffer, at);
      if (filled - at < need) {
        buffer.copyWithin(0, at, filled);
        base += at;
        filled -= at;
        at = 0;
        if (fill()) continue;
        break;
      }
      if (need === frameHeaderBytes) break; // impossible length: nothing shows where the next frame would be
      const payload = buffer.subarray(at + frameHeaderBytes, at + need);
      const offset = base + at + frameHeaderBytes;
      at += need;
      if (crc32(payload) !== buffer.readUInt32LE(at - need + 4)) {
        damagedAfter++;
        continue;
      }
      damaged += damagedAfter;
      damagedAfter = 0;
      frames++;
      readable = base + at;
      onFrame(payload, offset);
    }
    const size = Math.max(base + filled, fstatSync(file).size);
    return { size, readable, frames, damaged, segment: true };
  } catch (cause) {
    if (cause instanceof AggregatorError || systemCode(cause) === '') throw cause;
    throw new AggregatorError('store_unreadable', `Cannot read "${path}": ${messageOf(cause)}`, { cause });
  } finally {
    closeSync(file);
  }
}

/** Payload bytes that the frame header at `at` promises, 0 when it cannot be one. */
function frameLength(buffer: Buffer, at: number): number {
  const length = buffer.readUInt32LE(at);
  return length > limits.batchBytesMax ? 0 : length;
}

/** A file descriptor for reading; throws AggregatorError `store_missing` or `store_unreadable`. */
export function openForReading(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (cause) {
    if (systemCode(cause) === 'ENOENT')
      throw new AggregatorError('store_missing', `Cannot open "${path}": there is no such file`, { cause });
    throw new AggregatorError('store_unreadable', `Cannot open "${path}": ${messageOf(cause)}`, { cause });
  }
}

/** The 8 bytes before `payload`: protocol's `encodeFrameHeader` with zlib's checksum, which is several times faster. */
export function writeFrameHeader(header: Buffer, payload: Uint8Array): void {
  header.writeUInt32LE(payload.length, 0);
  header.writeUInt32LE(crc32(payload), 4);
}
