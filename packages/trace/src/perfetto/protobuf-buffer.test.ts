import fc from 'fast-check';
import protobuf from 'protobufjs';
import { expect, it } from 'vitest';
import { ProtobufBuffer } from './protobuf-buffer.ts';

const seeded = { seed: 11, numRuns: 300 };

function written(write: (buffer: ProtobufBuffer) => void): Uint8Array {
  const chunks: Uint8Array[] = [];
  const buffer = new ProtobufBuffer((chunk) => chunks.push(chunk.slice()));
  write(buffer);
  buffer.flush();
  return new Uint8Array(Buffer.concat(chunks));
}

it('writes numbers as protobufjs does', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.double(), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (integer, double, wide) => {
      const ours = written((buffer) => {
        buffer.int(1, integer);
        buffer.double(2, double);
        buffer.uint64(36, wide);
        buffer.fixed64(47, wide);
      });
      const long = new protobuf.util.Long(Number(BigInt.asIntN(32, wide)), Number(BigInt.asIntN(32, wide >> 32n)), true);
      const theirs = protobuf.Writer.create()
        .uint32(8)
        .int64(integer)
        .uint32(17)
        .double(double)
        .uint32(288)
        .uint64(long)
        .uint32(377)
        .fixed64(long);
      expect(ours).toEqual(Uint8Array.from(theirs.finish()));
    }),
    seeded,
  );
});

it('gives nested messages of every size their length', () => {
  for (const size of [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152]) {
    const text = 'x'.repeat(size);
    const ours = written((buffer) => {
      const outer = buffer.open(1);
      buffer.string(2, text);
      buffer.close(outer);
    });
    const theirs = protobuf.Writer.create().uint32(10).fork().uint32(18).string(text).ldelim().finish();
    expect(Buffer.compare(ours, theirs), `${size} bytes`).toBe(0);
  }
});

it('encodes any text as TextEncoder does', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(written((buffer) => buffer.utf8(text))).toEqual(new TextEncoder().encode(text));
    }),
    seeded,
  );
  expect(written((buffer) => buffer.utf8('\ud800a\udc00'))).toEqual(new TextEncoder().encode('\ud800a\udc00'));
});
