import fc from 'fast-check';
import { pack } from 'msgpackr';
import { expect, test } from 'vitest';
import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';
import { checkMsgpack } from './strict-msgpack.ts';

const bytesOf = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));

function code(bytes: Uint8Array): string {
  try {
    checkMsgpack(bytes, 'Cannot read');
  } catch (error) {
    if (error instanceof ProtocolError) return error.code;
    throw error;
  }
  return 'taken';
}

test('plain data passes, whatever its shape, and no part of it does (seed 11)', () => {
  const leaf = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.uint8Array({ maxLength: 400 }).map(Buffer.from),
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      leaf,
      fc.array(tie('tree'), { maxLength: 20 }),
      fc.dictionary(fc.string(), tie('tree'), { maxKeys: 20, noNullPrototype: true }),
    ),
  }));
  fc.assert(
    fc.property(tree, (value) => {
      const bytes = pack(value);
      expect(code(bytes)).toBe('taken');
      for (let length = 0; length < Math.min(bytes.length, 200); length++) expect(code(bytes.subarray(0, length))).toBe('truncated');
      expect(code(Buffer.concat([bytes, Buffer.of(0)]))).toBe('corrupt');
    }),
    { seed: 11, numRuns: 300 },
  );
});

test.for([
  ['every kind of integer', 'da 0003 616263', 'taken'],
  ['uint 8 to 64', '94 cc01 cd0001 ce00000001 cf0000000000000001', 'taken'],
  ['int 8 to 64 and fixint', '95 d0ff d1ffff d2ffffffff d3ffffffffffffffff ff', 'taken'],
  ['floats, nil, booleans', '95 ca00000000 cb0000000000000000 c0 c2 c3', 'taken'],
  ['str 8, 16, 32', '93 d90161 da000161 db0000000161', 'taken'],
  ['bin 8, 16, 32', '93 c40161 c5000161 c60000000161', 'taken'],
  ['array and map 16, 32', '94 dc0001 01 dd00000001 01 de0001 a161 01 df00000001 a161 01', 'taken'],
  ['nothing', '', 'truncated'],
  ['the never-used byte', 'c1', 'corrupt'],
  ['fixext 1: a record', 'd4 72 40 91a161 01', 'corrupt'],
  ['fixext 1: a regular expression', 'd4 78 00 92 a161 a167', 'corrupt'],
  ['fixext 4: a pointer', 'd6 70 00000000', 'corrupt'],
  ['fixext 2, 8, 16', 'd5 00 0000', 'corrupt'],
  ['fixext 8: a date', 'd7 ff 0000000000000000', 'corrupt'],
  ['fixext 16', 'd8 00 00000000000000000000000000000000', 'corrupt'],
  ['ext 8, a big integer', 'c7 01 42 01', 'corrupt'],
  ['ext 16', 'c8 0001 42 01', 'corrupt'],
  ['ext 32', 'c9 00000001 42 01', 'corrupt'],
  ['a map with a number as key', '81 01 01', 'corrupt'],
  ['a map with an array as key', '81 9101 01', 'corrupt'],
  ['a map with bin as key', '81 c40161 01', 'corrupt'],
  ['array 32 of 2^32 − 1', 'dd ffffffff 00', 'truncated'],
  ['map 32 of 2^32 − 1', 'df ffffffff a161 00', 'truncated'],
  ['bin 32 of 4 GiB', 'c6 ffffffff 00', 'truncated'],
  ['str 32 of 4 GiB', 'db ffffffff 00', 'truncated'],
  ['a value too many', '01 02', 'corrupt'],
] as const)('%s: %s is %s', ([, bytes, expected]) => {
  expect(code(bytesOf(bytes))).toBe(expected);
});

test('nesting stops at 8 levels, and a million of them end as quickly', () => {
  const nested = (levels: number) => Uint8Array.from([...Array(levels).fill(0x91), 0xc0]);
  expect(code(nested(8))).toBe('taken');
  expect(code(nested(9))).toBe('corrupt');
  expect(code(new Uint8Array(1_000_000).fill(0x91))).toBe('corrupt');
  expect(code(new Uint8Array(1_000_000).fill(0x81))).toBe('corrupt');
});

test('more values than a batch can have are refused', () => {
  const values = (count: number) => pack(new Array(count - 1).fill(0));
  expect(code(values(limits.valuesPerBatchMax))).toBe('taken');
  expect(code(values(limits.valuesPerBatchMax + 1))).toBe('oversized');
  // Arrays of arrays: 15 times as many values as bytes.
  expect(code(Uint8Array.from([0xdd, 0, 1, 0x86, 0xa0, ...new Array(100_000).fill(0x90)]))).toBe('oversized');
});
