import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';
import { crc32, decodeFrameHeader, encodeFrameHeader, frameHeaderBytes, isSegment, segmentMagic } from './segment.ts';

const code = (decode: () => unknown): string => {
  try {
    decode();
  } catch (error) {
    if (error instanceof ProtocolError) return error.code;
    throw error;
  }
  return 'taken';
};

test('the checksum is the CRC-32 of the catalogues, and of zlib where this Node has it', () => {
  expect(crc32(Buffer.from('123456789'))).toBe(0xcbf43926);
  expect(crc32(new Uint8Array(0))).toBe(0);
  expect(crc32(Buffer.from('The quick brown fox jumps over the lazy dog'))).toBe(0x414fa339);
  // Available since Node 20.15 and 22.2; the known answers above hold without it.
  const zlibCrc32 = (zlib as { crc32?: (data: Uint8Array) => number }).crc32;
  if (zlibCrc32 === undefined) return;
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => crc32(bytes) === zlibCrc32(bytes)),
    { seed: 7 },
  );
});

test('a frame header says length and checksum of its payload, at any offset (seed 7)', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 300 }), fc.nat({ max: 20 }), (payload, offset) => {
      const header = encodeFrameHeader(payload);
      expect(header).toHaveLength(frameHeaderBytes);
      const file = new Uint8Array(offset + frameHeaderBytes);
      file.set(header, offset);
      expect(decodeFrameHeader(file, offset)).toEqual({ length: payload.length, checksum: crc32(payload) });
    }),
    { seed: 7 },
  );
});

test('the bytes: length and checksum, little-endian', () => {
  expect(Buffer.from(encodeFrameHeader(Buffer.from('123456789'))).toString('hex')).toBe('090000002639f4cb');
});

test('a header that is cut or promises too much is refused', () => {
  const header = encodeFrameHeader(new Uint8Array(5));
  for (let length = 0; length < frameHeaderBytes; length++)
    expect(code(() => decodeFrameHeader(header.slice(0, length)))).toBe('truncated');
  expect(code(() => decodeFrameHeader(header, 1))).toBe('truncated');
  expect(code(() => decodeFrameHeader(new Uint8Array(8)))).toBe('corrupt');
  expect(code(() => decodeFrameHeader(new Uint8Array(8).fill(0xff)))).toBe('corrupt');
  const length = (bytes: number) => new Uint8Array(new Uint32Array([bytes, 0]).buffer);
  expect(code(() => decodeFrameHeader(length(limits.batchBytesMax)))).toBe('taken');
  expect(code(() => decodeFrameHeader(length(limits.batchBytesMax + 1)))).toBe('corrupt');
});

test('a segment begins with its magic, which a change of line ends breaks', () => {
  expect(Buffer.from(segmentMagic).toString('latin1')).toBe('RTSEG1\r\n');
  expect(isSegment(segmentMagic)).toBe(true);
  expect(isSegment(Buffer.concat([segmentMagic, Buffer.from('more')]))).toBe(true);
  expect(isSegment(Buffer.from('RTSEG1\n\n'))).toBe(false);
  expect(isSegment(segmentMagic.slice(0, 7))).toBe(false);
});
