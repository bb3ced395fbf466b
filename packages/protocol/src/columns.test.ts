import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeColumn, encodeColumn, sharedUnit } from './columns.ts';
import { ProtocolError } from './errors.ts';
import { type ColumnType, elementsPerRow } from './event-tables.ts';

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const bytesOf = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));

/** Both ways: the column gives these bytes, and these bytes give the column. */
function check(type: ColumnType, values: readonly number[], unit: number, expected: string): void {
  const column =
    type === 'small' || type === 'string'
      ? Uint32Array.from(values)
      : type.startsWith('id')
        ? Uint8Array.from(values)
        : Float64Array.from(values);
  const rows = values.length / elementsPerRow(type);
  const bytes = encodeColumn(type, column, rows, unit);
  expect(hexOf(bytes)).toBe(expected.replaceAll(' ', ''));
  expect(decodeColumn(type, bytes, rows, unit, 'column')).toEqual(column);
}

const refusal = (decode: () => unknown): string => {
  try {
    decode();
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError);
    return `${(error as ProtocolError).code}: ${(error as ProtocolError).message}`;
  }
  throw new Error('it was taken');
};

describe('the bytes', () => {
  test('integers are as wide as the largest, lowest bytes first', () => {
    check('small', [1, 2, 255], 1, '0102ff');
    check('small', [1, 256, 515], 1, '010003 000102');
    check('count', [0, 2 ** 32], 1, '0000 0000 0000 0000 0001');
    check('count', [Number.MAX_SAFE_INTEGER], 1, 'ff ff ff ff ff ff 1f');
    check('small', [2 ** 32 - 1], 1, 'ff ff ff ff');
  });

  test('lengths count units', () => {
    check('length', [3000, 1000], 1000, '0301');
    check('length', [3000, 1001], 1, 'b8e9 0b03');
  });

  test('times are the first one and zigzag differences', () => {
    // 5000, +4000, −1000 ns in µs: 0, 2·4, 2·1−1.
    check('time', [5000, 9000, 8000], 1000, '000000000088b340 00 08 01');
    // The worked example of docs/batch-format.md.
    check('time', [5000, 9000, 700_000], 1000, '000000000088b340 000866 000005');
    check('time', [-1], 1, '000000000000f0bf 00');
  });

  test('doubles are eight planes', () => check('number', [1, -2], 1, '0000 0000 0000 0000 0000 0000 f000 3fc0'));

  test('ids are themselves', () =>
    check('id8', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], 1, '0102030405060708 090a0b0c0d0e0f10'));

  test('no rows are no bytes', () => {
    for (const type of ['time', 'length', 'count', 'small', 'string', 'number', 'id8', 'id16'] as const) check(type, [], 1, '');
  });
});

describe('decode∘encode = id', () => {
  const seed = 20_261_121;
  const cases: Record<string, fc.Arbitrary<number[]>> = {
    time: fc.array(fc.integer({ min: -(2 ** 51), max: 2 ** 51 })),
    length: fc.array(fc.maxSafeNat()),
    count: fc.array(fc.maxSafeNat()),
    small: fc.array(fc.nat({ max: 2 ** 32 - 1 })),
    number: fc.array(fc.double()),
  };
  for (const [type, values] of Object.entries(cases)) {
    test(`for any ${type} column (seed ${seed})`, () => {
      fc.assert(
        fc.property(values, (numbers) => {
          const column =
            type === 'small' ? Uint32Array.from(numbers) : Float64Array.from(numbers, (value) => (type === 'number' ? value : value + 0));
          const unit = type === 'time' || type === 'length' ? sharedUnit([column as Float64Array], numbers.length) : 1;
          const bytes = encodeColumn(type as ColumnType, column, numbers.length, unit);
          expect(decodeColumn(type as ColumnType, bytes, numbers.length, unit, 'column')).toEqual(column);
        }),
        { seed, numRuns: 300 },
      );
    });
  }

  test('rows beyond the given number are not sent', () => {
    expect(hexOf(encodeColumn('small', Uint32Array.of(1, 2, 70_000), 2, 1))).toBe('0102');
  });

  test('what is decoded does not share memory with what it came from', () => {
    const source = Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]);
    const column = decodeColumn('id8', source, 1, 1, 'column');
    source.fill(0);
    expect(column).toEqual(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  });
});

describe('units', () => {
  test('are µs when all times and lengths are whole µs', () => {
    expect(sharedUnit([Float64Array.of(1000, -5000), Float64Array.of(0, 7000)], 2)).toBe(1000);
    expect(sharedUnit([Float64Array.of(1000, -5000), Float64Array.of(0, 7001)], 2)).toBe(1);
    expect(sharedUnit([Float64Array.of(1000, 1)], 1)).toBe(1000);
  });
});

describe('the encoder refuses what a column cannot hold', () => {
  test.for([
    ['length', -1],
    ['length', 0.5],
    ['length', Number.NaN],
    ['length', Number.POSITIVE_INFINITY],
    ['count', 2 ** 53],
    ['time', Number.NaN],
    ['time', Number.NEGATIVE_INFINITY],
    ['time', 1.5],
  ] as const)('%s %d', ([type, value]) => {
    expect(refusal(() => encodeColumn(type, Float64Array.of(value), 1, 1, 'Cannot encode column spans.x'))).toMatch(
      /^bad_table: Cannot encode column spans\.x: every value must be an integer/,
    );
  });

  test('times further apart than 2^52', () => {
    expect(refusal(() => encodeColumn('time', Float64Array.of(-(2 ** 52), 2 ** 52), 2, 1))).toMatch(/^bad_table: .*differences/);
  });
});

describe('the decoder refuses', () => {
  test.for([
    ['small', '010203', 2, '1 to 4 planes of 2 bytes, got 3 bytes'],
    ['small', '', 2, '1 to 4 planes of 2 bytes, got 0 bytes'],
    ['small', '01', 0, '1 to 4 planes of 0 bytes, got 1 bytes'],
    ['small', '0102030405', 1, '1 to 4 planes of 1 bytes, got 5 bytes'],
    ['count', '0102030405060708', 1, '1 to 7 planes of 1 bytes, got 8 bytes'],
    ['count', 'ffffffffffff20', 1, 'within ±2^53'],
    ['length', 'ffffffffffff1f', 1, 'within ±2^53'],
    ['time', '00', 1, 'at least 8 bytes, got 1 bytes'],
    ['time', '0000000000000000', 1, '1 to 7 planes of 1 bytes, got 0 bytes'],
    ['time', '000000000000f87f 00', 1, 'within ±2^53, got NaN'],
    ['time', '000000000000f07f 00', 1, 'within ±2^53, got Infinity'],
    ['time', '000000000000e03f 00', 1, 'within ±2^53, got 0.5'],
    ['time', 'ffffffffffff3f43 0002', 2, 'within ±2^53'],
    ['number', '00', 1, '1 × 8 bytes, got 1 bytes'],
    ['id8', '00', 1, '1 × 8 bytes, got 1 bytes'],
    ['id16', '00', 1, '1 × 16 bytes, got 1 bytes'],
  ] as const)('%s from %s with %d rows', ([type, bytes, rows, why]) => {
    const message = refusal(() => decodeColumn(type, bytesOf(bytes), rows, 1000, 'column spans.x'));
    expect(message).toMatch(/^bad_table: column spans\.x/);
    expect(message).toContain(why);
  });
});
