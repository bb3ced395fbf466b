// Batches for tests: random ones by fast-check, one hand-made example of every table, and a readable dump of any.

import { deflateRawSync, inflateRawSync } from 'node:zlib';
import {
  type Batch,
  type BatchHeader,
  type ColumnType,
  createEventTables,
  type Deflate,
  type EventTable,
  elementsPerRow,
  type Inflate,
  type Row,
  rankTime,
  spanState,
  type TableName,
  tableColumns,
  tableNames,
} from '@ranktrace/protocol';
import fc from 'fast-check';

export const deflate: Deflate = (body) => deflateRawSync(body);
/** Compresses nothing: the batch is sent plain, and its bytes do not depend on a zlib version. */
export const noDeflate: Deflate = (body) => body;
export const inflate: Inflate = (body, bytesMax) => inflateRawSync(body, { maxOutputLength: Math.max(1, bytesMax) });

/** A header with `fields` changed. */
export function header(fields: Partial<BatchHeader> = {}): BatchHeader {
  return {
    run: 'night-42',
    rank: 3,
    worldSize: 8,
    incarnation: '0192f3a1-7c',
    sequence: 17,
    host: 'b1f0c6de-0000-4000-8000-0242ac110002',
    hostName: 'node-a',
    pid: 4711,
    epoch: '8123456789012345',
    watermark: rankTime(2_000_000),
    last: false,
    dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
    ...fields,
  };
}

type Fields = Record<string, number | Uint8Array>;

/** The rows of a table as objects, ids as hex text. */
export function rowsOf(table: EventTable<TableName>): Record<string, number | string>[] {
  const types = Object.entries(tableColumns[table.name]) as [string, ColumnType][];
  const columns = table.columns as Record<string, ArrayLike<number>>;
  return Array.from({ length: table.length }, (_, row) =>
    Object.fromEntries(
      types.map(([column, type]) => {
        const values = columns[column] as ArrayLike<number>;
        const width = elementsPerRow(type);
        return [column, width === 1 ? (values[row] as number) : hex(Array.from(values).slice(row * width, (row + 1) * width))];
      }),
    ),
  );
}

/** Header, strings and rows of a batch as plain values: two batches have the same content when these are equal. */
export function contentOf(batch: Batch): {
  header: BatchHeader;
  strings: readonly string[];
  rows: Record<string, Record<string, number | string>[]>;
} {
  return {
    header: batch.header,
    strings: batch.strings,
    rows: Object.fromEntries(tableNames.map((name) => [name, rowsOf(batch.tables[name])])),
  };
}

/** A batch as text: the readable side of a golden file. */
export function dumpBatch(batch: Batch): string {
  const { header, strings, rows } = contentOf(batch);
  const lines = ['header', ...Object.entries(header).map(([field, value]) => `  ${field} = ${JSON.stringify(value)}`), 'strings'];
  lines.push(...strings.map((text, index) => `  ${index} ${JSON.stringify(text)}`));
  for (const name of tableNames) {
    lines.push(`${name}: ${rows[name]?.length ?? 0} rows`);
    const types = tableColumns[name] as Record<string, ColumnType>;
    for (const row of rows[name] ?? []) {
      const fields = Object.entries(row).map(([column, value]) => {
        const shown = Object.is(value, -0) ? '-0' : String(value);
        return `${column}=${types[column] === 'string' ? JSON.stringify(strings[value as number]) : shown}`;
      });
      lines.push(`  ${fields.join(' ')}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

const hex = (bytes: readonly number[]): string => bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** One row of `name`; string fields lie below `strings`, arguments belong to the first row of the table they name. */
function rowArbitrary(name: TableName, strings: number): fc.Arbitrary<Fields> {
  const fields: Record<string, fc.Arbitrary<number | Uint8Array>> = {};
  for (const [column, type] of Object.entries(tableColumns[name]) as [string, ColumnType][]) {
    fields[column] = column === 'state' ? fc.integer({ min: 0, max: spanState.close }) : fieldArbitrary(type, strings);
  }
  return fc.record(fields) as fc.Arbitrary<Fields>;
}

function fieldArbitrary(type: ColumnType, strings: number): fc.Arbitrary<number | Uint8Array> {
  // Small and large values alike: the width of a column is that of its largest.
  const upTo = (max: number) =>
    fc.oneof(
      fc.nat({ max: 300 }),
      fc.maxSafeNat().map((value) => value % (max + 1)),
      fc.constantFrom(0, max),
    );
  switch (type) {
    case 'time':
      return fc.oneof(
        upTo(2 ** 51 - 1),
        upTo(2 ** 51 - 1).map((value) => -value || 0),
        upTo(1e12).map((value) => 1000 * value),
      );
    case 'length':
      return fc.oneof(
        upTo(Number.MAX_SAFE_INTEGER),
        upTo(1e12).map((value) => 1000 * value),
      );
    case 'count':
      return upTo(Number.MAX_SAFE_INTEGER);
    case 'small':
      return upTo(2 ** 32 - 1);
    case 'string':
      return fc.nat({ max: strings - 1 });
    case 'number':
      return fc.double();
    default:
      return fc.uint8Array({ minLength: elementsPerRow(type), maxLength: elementsPerRow(type) });
  }
}

/** Any batch that may be sent: up to 12 rows in each table. */
export const batchArbitrary: fc.Arbitrary<Batch> = fc
  .array(fc.oneof(fc.string({ unit: 'grapheme', maxLength: 30 }), fc.string({ unit: 'binary-ascii', maxLength: 300 })), { maxLength: 8 })
  .chain((texts) => {
    const strings = ['', ...texts];
    const tables = fc.record(
      Object.fromEntries(tableNames.map((name) => [name, fc.array(rowArbitrary(name, strings.length), { maxLength: 12 })])),
    ) as fc.Arbitrary<Record<TableName, Fields[]>>;
    return tables.map((rows) => batchOf(header(), strings, withOwners(rows)));
  });

/** Arguments must belong to a row: those without one are dropped, the others get an existing row. */
function withOwners(rows: Record<TableName, Fields[]>): Record<TableName, Fields[]> {
  const placed = { ...rows };
  const { length: spans } = rows.spans;
  placed.ops = spans === 0 ? [] : rows.ops.map((fields) => ({ ...fields, row: (fields.row as number) % spans }));
  const owners = tableNames.filter((name) => !name.endsWith('Arguments') && placed[name].length > 0);
  for (const name of ['numberArguments', 'stringArguments'] as const) {
    placed[name] = rows[name].flatMap((fields) => {
      const owner = owners[(fields.table as number) % Math.max(1, owners.length)];
      return owner === undefined ? [] : [{ ...fields, table: tableNames.indexOf(owner), row: (fields.row as number) % rows[owner].length }];
    });
  }
  return placed;
}

/** A batch of these rows. */
export function batchOf(batchHeader: BatchHeader, strings: readonly string[], rows: Partial<Record<TableName, readonly Fields[]>>): Batch {
  const tables = createEventTables();
  for (const name of tableNames) for (const row of rows[name] ?? []) (tables[name] as EventTable<TableName>).append(row as Row<TableName>);
  return { header: batchHeader, strings, tables };
}

const id = (width: 8 | 16, first: number): Uint8Array => Uint8Array.from({ length: width }, (_, index) => first + index);

/** Every table with a few rows that show its edges, for golden files and the manual's examples. */
export function exampleBatches(): Readonly<Record<string, Batch>> {
  // 0 is always the empty string.
  const strings = [
    '',
    'main',
    'thread',
    'forward',
    'op',
    'matmul 3×3',
    'loss',
    '1',
    'all_reduce',
    'dp',
    'Get',
    'client',
    'rank 0',
    'ok',
    'backward',
  ];
  strings.push('shape', '[32,784]', 'b1f0c6de-0000-4000-8000-0242ac110001', '9000000000000000', 'device', '🚀', 'flops');
  const s = (text: string): number => {
    const index = strings.indexOf(text);
    if (index === -1) throw new Error(`Cannot make the example: "${text}" must be one of its strings`);
    return index;
  };
  const table = (name: TableName): number => tableNames.indexOf(name);
  const whole = spanState.whole;
  const opStrings = [...strings, '{"Input Dims":[[32,784]]}', 'PARAMETER'];
  return {
    empty: batchOf(header({ sequence: 0, watermark: rankTime(0) }), [''], {}),
    'last-with-losses': batchOf(
      header({
        sequence: 9_007_199_254_740_991,
        last: true,
        watermark: rankTime(-1),
        dropped: { events: 7, arguments: 2, names: 1, batches: 3 },
      }),
      [''],
      {},
    ),
    // Detail of earlier steps, sent after a pull; a step with the overhead of its recording.
    'held-back': batchOf(header({ sequence: 40, since: rankTime(-3_000_000), watermark: rankTime(2_000_000) }), opStrings, {
      spans: [
        { start: -3_000_000, length: 500, track: 1, name: s('forward'), category: s('op'), id: 0, parent: 0, state: whole },
        { start: -2_999_990, length: 400, track: 1, name: s('backward'), category: s('op'), id: 0, parent: 0, state: whole },
      ],
      ops: [
        {
          row: 1,
          signature: strings.length,
          sequence: 7,
          isBackward: 1,
          allocated: 100_352,
          freed: 64,
          step: 13,
          module: s('main'),
          stack: s('forward'),
        },
      ],
      memory: [
        { time: -2_999_900, track: 1, bytes: 100_352, total: 200_704, address: 9, device: 1, category: 0 },
        { time: -2_999_800, track: 1, bytes: -64, total: 200_640, address: 4, device: 0, category: strings.length + 1 },
      ],
      steps: [{ start: 1_000_000, length: 900_000, track: 1, step: 12, overhead: 2_100 }],
    }),
    'every-table': batchOf(header(), strings, {
      tracks: [
        { track: 1, kind: s('thread'), name: s('main'), tid: 4711 },
        { track: 2, kind: s('device'), name: s('🚀'), tid: 0 },
      ],
      spans: [
        { start: 1_000_001, length: 500, track: 1, name: s('forward'), category: s('op'), id: 0, parent: 0, state: whole },
        { start: 1_000_101, length: 70_000, track: 1, name: s('matmul 3×3'), category: s('op'), id: 0, parent: 0, state: whole },
        { start: 999_000, length: 0, track: 2, name: s('backward'), category: s(''), id: 2 ** 40, parent: 9, state: spanState.open },
        { start: -5, length: 2_000_000, track: 2, name: s('backward'), category: s(''), id: 3, parent: 0, state: spanState.close },
      ],
      instants: [{ time: 1_500_000, track: 1, name: s('loss'), category: s('op') }],
      counters: [
        { time: 1_500_000, track: 1, name: s('loss'), unit: s('1'), value: 0.1 },
        { time: 1_600_000, track: 1, name: s('loss'), unit: s('1'), value: -2.5e-300 },
      ],
      steps: [{ start: 1_000_000, length: 900_000, track: 1, step: 12 }],
      phases: [
        { step: 12, name: s('forward'), length: 300_000, calls: 1 },
        { step: 12, name: s('backward'), length: 450_000, calls: 2 },
      ],
      collectives: [
        {
          start: 1_700_000,
          length: 90_000,
          track: 1,
          op: s('all_reduce'),
          group: s('dp'),
          sequence: 31,
          bytes: 407_050 * 4,
          id: 77,
          parent: 76,
          state: spanState.close,
        },
      ],
      rpcs: [
        {
          start: 1_810_003,
          length: 20_001,
          track: 1,
          method: s('Get'),
          side: s('client'),
          peer: s('rank 0'),
          status: s('ok'),
          trace: id(16, 0xa0),
          span: id(8, 1),
          parentSpan: id(8, 0xf0),
          id: 78,
          parent: 77,
          state: spanState.open,
        },
      ],
      clockSamples: [
        {
          sent: 10,
          received: 60_010,
          remoteReceived: -899_970_000,
          remoteSent: -899_969_000,
          host: s(strings[17] as string),
          hostEpoch: s('9000000000000000'),
        },
      ],
      wallClocks: [{ time: 5_000, width: 120, seconds: 1_766_000_000, nanos: 123_456_789 }],
      metadata: [{ key: s('device'), value: s('🚀') }],
      numberArguments: [{ table: table('spans'), row: 1, key: s('flops'), value: 1e12 }],
      stringArguments: [{ table: table('spans'), row: 1, key: s('shape'), value: s('[32,784]') }],
    }),
    'point-to-point': batchOf(header({ sequence: 19 }), ['', 'send', 'pp'], {
      tracks: [{ track: 1, kind: 0, name: 0, tid: 0 }],
      collectives: [
        { start: 2_000_000, sequence: 4, peer: 1 },
        { start: 2_100_000, sequence: 0, peer: 65_536 },
      ].map((about) => ({ ...about, length: 70_001, track: 1, op: 1, group: 2, bytes: 4096, id: 0, parent: 0, state: whole })),
    }),
    // All times whole microseconds: unit 1000.
    'microsecond-times': batchOf(header({ sequence: 18 }), ['', 'kernel', 'stream'], {
      tracks: [{ track: 7, kind: 2, name: 2, tid: 7 }],
      spans: [
        { start: 5_000, length: 3_000, track: 7, name: 1, category: 0, id: 0, parent: 0, state: whole },
        { start: 9_000, length: 1_000, track: 7, name: 1, category: 0, id: 0, parent: 0, state: whole },
        { start: 700_000, length: 256_000, track: 7, name: 1, category: 0, id: 0, parent: 0, state: whole },
      ],
    }),
  };
}
