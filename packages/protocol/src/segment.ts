// Segment files: the format of batches on disk, in the run store and in a rank's spool alike.
//
//   | magic "RTSEG1\r\n" | frame | frame | …        frame = | length: u32 LE | crc32 of payload: u32 LE | payload: one batch |
//
// Append-only. A process killed while it wrote leaves a torn last frame: readers stop there, writers cut it off before they append.

import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';

/** First bytes of every segment file; the line end reveals a transfer that converted line ends. */
export const segmentMagic: Uint8Array = Uint8Array.from([0x52, 0x54, 0x53, 0x45, 0x47, 0x31, 0x0d, 0x0a]);

export const frameHeaderBytes = 8;

/** The 8 bytes in front of `payload`. */
export function encodeFrameHeader(payload: Uint8Array): Uint8Array {
  const header = new DataView(new ArrayBuffer(frameHeaderBytes));
  header.setUint32(0, payload.length, true);
  header.setUint32(4, crc32(payload), true);
  return new Uint8Array(header.buffer);
}

/** Reads a frame header. A length of 0 or above the batch limit is corrupt. */
export function decodeFrameHeader(bytes: Uint8Array, offset = 0): { length: number; checksum: number } {
  if (bytes.length < offset + frameHeaderBytes) {
    throw new ProtocolError('truncated', `Cannot read frame: it must begin with ${frameHeaderBytes} bytes, got ${bytes.length - offset}`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset, frameHeaderBytes);
  const length = view.getUint32(0, true);
  if (length === 0 || length > limits.batchBytesMax) {
    throw new ProtocolError('corrupt', `Cannot read frame: its length must be 1 to ${limits.batchBytesMax} bytes, got ${length}`);
  }
  return { length, checksum: view.getUint32(4, true) };
}

/** Whether `bytes` begin like a segment file. */
export function isSegment(bytes: Uint8Array): boolean {
  return bytes.length >= segmentMagic.length && segmentMagic.every((byte, index) => bytes[index] === byte);
}

const table = new Uint32Array(256);
for (let byte = 0; byte < 256; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  table[byte] = value;
}

/** CRC-32 (ISO-HDLC, as zlib and PNG use it). */
export function crc32(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (let index = 0; index < bytes.length; index++) value = (table[(value ^ (bytes[index] as number)) & 0xff] as number) ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
