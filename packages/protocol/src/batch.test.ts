import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, test } from 'vitest';
import { batchArbitrary, batchOf, contentOf, deflate, exampleBatches, header, inflate, noDeflate } from '../../../test/setup/batches.ts';
import { runCount, someSeeds } from '../../../test/setup/seeds.ts';
import { type Batch, besideOf, decodeBatch, decodeBatchHeader, encodeBatch, isBeside } from './batch.ts';
import { ProtocolError } from './errors.ts';
import { tableNames } from './event-tables.ts';
import { limits } from './limits.ts';

const packr = new Packr({ useRecords: false, variableMapSize: true });
const example = exampleBatches()['every-table'] as Batch;

/** The envelope's fields with `fields` changed, packed; `body` may be given as a value. */
function craft(fields: Record<string, unknown>, body: unknown = { strings: [''], tables: {} }): Uint8Array {
  const bytes = body instanceof Uint8Array ? body : packr.pack(body);
  return packr.pack({ v: 1, ...header(), encoding: 'plain', size: bytes.length, body: bytes, ...fields });
}

const craftTable = (name: string, table: unknown, strings: unknown = ['', 'a']): Uint8Array =>
  craft({}, { strings, tables: { [name]: table } });

/** `code: message` of the ProtocolError; any other outcome fails the test. */
function refusal(bytes: Uint8Array): string {
  try {
    decodeBatch(bytes, inflate);
  } catch (error) {
    if (error instanceof ProtocolError) return `${error.code}: ${error.message}`;
    throw error;
  }
  throw new Error('it was taken');
}

/** Decodes; only a value or a ProtocolError is allowed. */
function attempt(bytes: Uint8Array): string {
  try {
    decodeBatch(bytes, inflate);
    decodeBatchHeader(bytes);
    return 'taken';
  } catch (error) {
    if (error instanceof ProtocolError) return error.code;
    throw error;
  }
}

describe('decode∘encode = id', () => {
  test('for any batch, plain and deflated (seed 20261121)', () => {
    fc.assert(
      fc.property(batchArbitrary, (batch) => {
        const content = contentOf(batch);
        for (const compress of [deflate, noDeflate]) {
          const bytes = encodeBatch(batch, compress);
          expect(contentOf(decodeBatch(bytes, inflate))).toEqual(content);
          expect(decodeBatchHeader(bytes)).toEqual(batch.header);
        }
      }),
      { seed: 20_261_121, numRuns: runCount(150) },
    );
  });

  test.for(Object.entries(exampleBatches()))('for the example %s', ([, batch]) => {
    expect(contentOf(decodeBatch(encodeBatch(batch, deflate), inflate))).toEqual(contentOf(batch));
  });

  test('encoding is a function of the content: cleared and larger tables give the same bytes', () => {
    const used = batchOf(example.header, example.strings, {});
    for (const name of tableNames) {
      const source = example.tables[name];
      const table = used.tables[name];
      table.columns = Object.fromEntries(
        Object.entries(source.columns).map(([column, values]) => {
          const larger = new (values.constructor as Uint8ArrayConstructor)(values.length + 640).fill(255);
          larger.set(values as Uint8Array);
          return [column, larger];
        }),
      ) as never;
      table.length = source.length;
    }
    expect(Buffer.from(encodeBatch(used, noDeflate)).equals(encodeBatch(example, noDeflate))).toBe(true);
  });

  test('with `only`, the other tables are empty', () => {
    const { tables } = decodeBatch(encodeBatch(example, deflate), inflate, ['clockSamples']);
    expect(tables.clockSamples.length).toBe(1);
    expect(tableNames.filter((name) => tables[name].length > 0)).toEqual(['clockSamples']);
  });

  test('what a later version adds is skipped: header fields, drop counters, tables, columns', () => {
    const body = {
      more: 1,
      strings: ['', 'a'],
      tables: {
        metadata: { rows: 1, tick: 1, key: new Uint8Array([1]), value: new Uint8Array([1]), weight: new Uint8Array([9]) },
        news: { rows: 1 },
      },
    };
    const bytes = craft({ more: { deep: [1, 2] }, dropped: { events: 1, arguments: 2, names: 3, batches: 4, later: 5 } }, body);
    const batch = decodeBatch(bytes, inflate);
    expect(contentOf(batch).rows.metadata).toEqual([{ key: 1, value: 1 }]);
    expect(batch.header.dropped).toEqual({ events: 1, arguments: 2, names: 3, batches: 4 });
  });
});

describe('the encoder keeps the limits', () => {
  const refusesToEncode = (batch: Batch, compress = deflate): string => {
    try {
      encodeBatch(batch, compress);
    } catch (error) {
      if (error instanceof ProtocolError) return `${error.code}: ${error.message}`;
      throw error;
    }
    throw new Error('it was encoded');
  };
  const noise = (count: number) => Array.from({ length: count }, (_, index) => `${index}-${'x'.repeat(1000)}`);

  test('of bytes, on the wire and inflated', () => {
    expect(refusesToEncode(batchOf(header(), ['', ...noise(1000)], {}), noDeflate)).toBe(
      'oversized: Cannot encode batch: its batch may have 983040 bytes, got 1007170',
    );
    expect(refusesToEncode(batchOf(header(), ['', ...noise(17_000)], {}))).toMatch(/^oversized: .* its body may have 16777216 bytes/);
  });

  test('of rows and strings', () => {
    const batch = batchOf(header(), [''], {});
    batch.tables.metadata.length = limits.rowsPerTableMax + 1;
    expect(refusesToEncode(batch)).toMatch(/^oversized: .* table metadata may have 65536 rows, got 65537/);
    expect(refusesToEncode(batchOf(header(), new Array(limits.stringsPerBatchMax + 1).fill(''), {}))).toMatch(/^oversized: .* strings/);
    expect(refusesToEncode(batchOf(header(), ['', 'x'.repeat(limits.stringBytesMax + 1)], {}))).toMatch(/^bad_string: /);
    expect(refusesToEncode(batchOf(header(), [], {}))).toMatch(/^bad_string: /);
  });

  test('of values: a bug is reported with its column', () => {
    const batch = batchOf(header(), [''], { steps: [{ start: 0, length: Number.POSITIVE_INFINITY, track: 0, step: 1 }] });
    expect(refusesToEncode(batch)).toMatch(/^bad_table: Cannot encode column steps\.length: .* got Infinity/);
  });
});

describe('a batch is refused', () => {
  const rows = { rows: 1, tick: 1 };
  const column = (...bytes: number[]) => Uint8Array.from(bytes);
  test.for<[string, Uint8Array, string]>([
    ['that is empty', new Uint8Array(0), 'truncated: Cannot decode batch: it ends too early, after 0 bytes'],
    [
      'that is larger than a batch may be',
      new Uint8Array(limits.batchBytesMax + 1),
      'oversized: Cannot decode batch: it may have 983040 bytes, got 983041',
    ],
    ['that is not a map', packr.pack([1]), 'bad_header: Cannot decode batch: it must be a msgpack map'],
    ['of another version', craft({ v: 2 }), 'wrong_version: Cannot decode batch: its protocol version must be 1, got 2'],
    ['without a version', packr.pack({}), 'wrong_version: '],
    ['with a version of text', craft({ v: '1' }), 'wrong_version: '],
    ['with no rank', craft({ rank: null }), 'bad_header: Cannot decode batch: header field "rank"'],
    ['with a rank above 65535', craft({ rank: 65_536 }), 'bad_header: '],
    ['with a fraction as sequence', craft({ sequence: 0.5 }), 'bad_header: '],
    ['with a run name that is a wildcard', craft({ run: '>' }), 'bad_header: '],
    ['with a run name that is a path', craft({ run: '../x' }), 'bad_header: '],
    ['with an incarnation that holds a dot', craft({ incarnation: 'a.b' }), 'bad_header: '],
    ['with an epoch that is a number', craft({ epoch: 12 }), 'bad_header: '],
    ['with NaN as watermark', craft({ watermark: Number.NaN }), 'bad_header: '],
    ['with dropped as a list', craft({ dropped: [] }), 'bad_header: '],
    ['with an unknown encoding', craft({ encoding: 'zstd' }), 'bad_header: '],
    ['that promises a huge body', craft({ size: limits.bodyBytesMax + 1 }), 'bad_header: '],
    ['with text as body', craft({ body: 'x' }), 'bad_header: '],
    [
      'whose body is shorter than promised',
      craft({ size: 1000 }),
      'corrupt: Cannot decode batch 17 of rank 3: its body must hold 1000 bytes',
    ],
    ['whose body is not deflated', craft({ encoding: 'deflate' }), 'corrupt: '],
    ['whose body is a list', craft({}, []), 'corrupt: '],
    ['whose body is cut', craft({}, packr.pack({ strings: [''], tables: {} }).subarray(0, 8)), 'truncated: '],
    ['without strings', craft({}, { tables: {} }), 'corrupt: '],
    ['without tables', craft({}, { strings: [''] }), 'corrupt: '],
    ['with strings as a map', craft({}, { strings: {}, tables: {} }), 'corrupt: '],
    ['without the empty string', craft({}, { strings: ['a'], tables: {} }), 'bad_string: '],
    ['with a number as string', craft({}, { strings: ['', 1], tables: {} }), 'bad_string: '],
    ['with a string that is too long', craft({}, { strings: ['', 'x'.repeat(4097)], tables: {} }), 'bad_string: '],
    ['with a table as bytes', craftTable('spans', column(1)), 'bad_table: '],
    ['with a table without rows', craftTable('spans', { tick: 1 }), 'bad_table: '],
    ['with too many rows', craftTable('spans', { rows: 65_537, tick: 1 }), 'bad_table: '],
    ['with half a row', craftTable('spans', { rows: 0.5, tick: 1 }), 'bad_table: '],
    ['with an unknown tick', craftTable('spans', { rows: 1, tick: 60 }), 'bad_table: '],
    ['with a column as text', craftTable('spans', { ...rows, name: 'x' }), 'bad_table: '],
    ['with a column as a list', craftTable('spans', { ...rows, name: [1] }), 'bad_table: '],
    ['with a column of half rows', craftTable('spans', { rows: 2, tick: 1, name: column(1, 1, 1) }), 'bad_table: '],
    ['with an empty column', craftTable('spans', { ...rows, name: column() }), 'bad_table: '],
    ['with a string index beyond its strings', craftTable('spans', { ...rows, name: column(2) }), 'bad_table: '],
    ['with a state that is none', craftTable('spans', { ...rows, state: column(3) }), 'bad_table: '],
    ['with an id of seven bytes', craftTable('rpcs', { ...rows, span: column(1, 2, 3, 4, 5, 6, 7) }), 'bad_table: '],
    ['with arguments of no table', craftTable('numberArguments', { ...rows, table: column(13) }), 'bad_table: '],
    ['with arguments of no row', craftTable('stringArguments', { ...rows, table: column(1) }), 'bad_table: '],
  ])('%s', ([, bytes, expected]) => {
    expect(refusal(bytes).slice(0, expected.length)).toBe(expected);
  });
});

describe('hostile bytes end in a value or a ProtocolError', () => {
  const plain = encodeBatch(example, noDeflate);
  const deflated = encodeBatch(example, deflate);

  test('every truncation', () => {
    const codes = new Set<string>();
    for (const whole of [plain, deflated]) {
      for (let length = 0; length < whole.length; length++) codes.add(attempt(whole.subarray(0, length)));
    }
    expect([...codes]).toEqual(['truncated']);
  });

  test('every truncation of the body', () => {
    const { tables, strings } = example;
    const body = deflateRawSync(packr.pack({ strings, tables: { spans: { rows: tables.spans.length, tick: 1 } } }));
    for (let length = 0; length < body.length; length++) {
      expect(['corrupt', 'truncated']).toContain(attempt(craft({ encoding: 'deflate', size: 1000 }, body.subarray(0, length))));
    }
  });

  const hardValues = someSeeds([0xdd, 0x00, 0x7f, 0x80, 0x90, 0xa0, 0xc1, 0xc6, 0xc7, 0xd4, 0xd6, 0xdb, 0xdf, 0xff]);

  test(`every byte changed to every hard value (${hardValues.length})`, () => {
    for (const whole of [plain, deflated]) {
      for (let at = 0; at < whole.length; at++) {
        for (const byte of hardValues) {
          const changed = Uint8Array.from(whole);
          changed[at] = byte;
          attempt(changed);
        }
      }
    }
  });

  test('several random bytes changed (seed 42)', () => {
    const change = fc.tuple(fc.nat(), fc.nat({ max: 255 }));
    fc.assert(
      fc.property(fc.boolean(), fc.array(change, { minLength: 1, maxLength: 12 }), (small, changes) => {
        const changed = Uint8Array.from(small ? deflated : plain);
        for (const [at, byte] of changes) changed[at % changed.length] = byte;
        attempt(changed);
      }),
      { seed: 42, numRuns: runCount(3000) },
    );
  });

  test('random bytes, also as a body (seed 42)', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        attempt(bytes);
        attempt(craft({}, bytes));
        attempt(craft({ encoding: 'deflate', size: 65_536 }, bytes));
      }),
      { seed: 42, numRuns: runCount(2000) },
    );
  });

  test('random values where bytes, numbers or maps belong (seed 42)', () => {
    const value = fc.anything({ withNullPrototype: false, maxDepth: 2 });
    const keys = ['strings', 'tables', 'rows', 'tick', 'start', 'length', 'name', ...tableNames];
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...keys), fc.oneof(value, fc.dictionary(fc.constantFrom(...keys), value))), (body) => {
        attempt(craft({}, { strings: [''], tables: {}, ...body }));
        attempt(craft({}, { strings: [''], tables: body }));
        attempt(craft(body));
      }),
      { seed: 42, numRuns: runCount(1000) },
    );
  });

  test("bombs made of msgpackr's own extensions do not reach it", () => {
    // [a0, [a0, a0], [a1, a1], …] by pointers: 2^200 parts in 3 KB, which msgpackr prints into its error about the excess byte.
    const links = [0xdc, 0, 200];
    for (let index = 0; index < 200; index++) {
      links.push(
        0xd6,
        0x69,
        0,
        0,
        0,
        index,
        ...(index === 0 ? [0x90] : [0x92, 0xd6, 0x70, 0, 0, 0, index - 1, 0xd6, 0x70, 0, 0, 0, index - 1]),
      );
    }
    const bomb = Uint8Array.from([...links, 0]);
    expect(attempt(bomb)).toBe('corrupt');
    expect(attempt(craft({}, bomb))).toBe('corrupt');
    // A record: msgpackr would compile its reader with `new Function`.
    expect(attempt(craft({}, Uint8Array.from([0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 0x01])))).toBe('corrupt');
    // 15 MiB of bin and an excess byte: 5 s and 700 MB of JSON in msgpackr's error.
    const large = Buffer.concat([Buffer.from([0xc6, 0, 0xf0, 0, 0]), Buffer.alloc(0xf00000), Buffer.of(0)]);
    expect(refusal(craft({ encoding: 'deflate', size: large.length }, deflateRawSync(large)))).toMatch(/^corrupt: .* got 1 more bytes/);
  });

  test('a deflate bomb ends at the size it admits to, whatever it would become', () => {
    const bomb = deflateRawSync(Buffer.alloc(200 * 1024 * 1024));
    expect(bomb.length).toBeLessThan(limits.batchBytesMax);
    let largest = 0;
    const watched = (body: Uint8Array, bytesMax: number) => {
      largest = Math.max(largest, bytesMax);
      return inflate(body, bytesMax);
    };
    for (const size of [0, 1, 1000, limits.bodyBytesMax]) {
      expect(() => decodeBatch(craft({ encoding: 'deflate', size }, bomb), watched)).toThrow(/not a deflate stream of \d+ bytes/);
    }
    expect(largest).toBe(limits.bodyBytesMax);
  });

  test('no key reaches a prototype', () => {
    const key = (text: string) => [0xa0 + text.length, ...Buffer.from(text)];
    for (const name of ['__proto__', 'constructor', 'toString']) {
      const body = Uint8Array.from([0x82, ...key('strings'), 0x91, 0xa0, ...key('tables'), 0x81, ...key(name), 0x81, ...key('rows'), 0x01]);
      expect(attempt(craft({}, body))).toBe('taken');
      expect(attempt(Uint8Array.from([0x81, ...key(name), 0x81, ...key('v'), 0x01]))).toBe('wrong_version');
    }
    expect(({} as Record<string, unknown>).rows).toBeUndefined();
    expect(attempt(craft({}, { strings: [''], tables: { spans: { tick: 1, rows: 1, constructor: 1, hasOwnProperty: 1 } } }))).toBe('taken');
  });

  test('rows are allocated for what a table may hold, and no more', () => {
    const empty = Object.fromEntries(
      tableNames.filter((name) => !name.endsWith('Arguments')).map((name) => [name, { rows: 65_536, tick: 1 }]),
    );
    const { tables } = decodeBatch(craft({}, { strings: [''], tables: empty }), inflate);
    const bytes = tableNames.reduce(
      (sum, name) => sum + Object.values(tables[name].columns).reduce((own, column) => own + column.byteLength, 0),
      0,
    );
    expect(bytes).toBeLessThan(2 * limits.bodyBytesMax);
  });
});

test('the incarnation of a recorder beside a rank is a valid one, sorts before all lives, and is known by its beginning', () => {
  const longest = 'z'.repeat(32);
  for (const life of ['mwt8l0o5-17kelig39fhqw-dz2', '0001', longest]) {
    const beside = besideOf(life);
    expect([isBeside(beside), isBeside(life)]).toEqual([true, false]);
    const bytes = encodeBatch({ ...example, header: { ...example.header, incarnation: beside } }, noDeflate);
    expect(decodeBatchHeader(bytes).incarnation).toBe(beside);
  }
  expect(besideOf('mwt8l0o5-1') < 'mwt8l0o5-1').toBe(true);
});
