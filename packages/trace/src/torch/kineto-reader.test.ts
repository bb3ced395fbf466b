import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { decodeUtf8 } from '../model/decode-utf8.ts';
import { TraceError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import { KinetoReader, readKineto } from './kineto-reader.ts';
import type { KinetoTable } from './kineto-table.ts';

const reference = new URL('../../../../test/data/kineto/torch-reference/', import.meta.url);
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

const small = `{"schemaVersion": 1, "with_flops": 1, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": [
 {"ph": "M", "name": "thread_name", "pid": 4, "tid": 5, "args": {"name": "main \\u00e9\\ud83d\\ude00"}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm é", "pid": 4, "tid": 5, "ts": 4376996912525.316, "dur": 51.958,
  "args": {"External id": 1538, "Input Dims": [[4, 32], [32, 8]], "Sequence number": 73, "Fwd thread id": 0, "x": {"y": [1.5e-3, null, true, false]}}},
 {"ph": "i", "name": "[memory]", "s": "t", "pid": 4, "tid": 5, "ts": 4376996912530.001, "args": {"Bytes": -8192, "Total Allocated": 139948, "Device Type": 0}},
 {"ph": "s", "id": 13, "pid": 4, "tid": "stream 7", "ts": 4376996912526, "cat": "fwdbwd", "name": "fwdbwd"},
 {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 4376996912525.316, "dur": 1},
 {"ph": "C", "name": "counter", "pid": 4, "ts": 1, "args": {"value": 3}},
 {"ph": "X", "name": "no time", "pid": 4}
], "distributedInfo": {"rank": 3}, "traceName": "a\\/b"}`;

/** All contents of a table, as plain values. */
function plain(table: KinetoTable) {
  const rows = ({ columns, length }: { readonly columns: object; readonly length: number }) =>
    Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, Array.from((column as Float64Array).subarray(0, length))]));
  const { epoch, profileStart, tracks, metadata, processNames, threadNames, skipped, strings } = table;
  const tables = { events: rows(table.events), memory: rows(table.memory), flows: rows(table.flows) };
  return { ...tables, epoch, profileStart, tracks, metadata, processNames, threadNames, skipped, strings: strings.strings };
}

function readInPieces(bytes: Uint8Array, cuts: readonly number[]): KinetoTable {
  const reader = new KinetoReader();
  // Refill one buffer each time, as a stream may do.
  const buffer = new Uint8Array(bytes.length);
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    buffer.set(bytes.subarray(from, to));
    reader.push(buffer.subarray(0, to - from));
    buffer.fill(0x2a);
    from = to;
  }
  return reader.finish();
}

const errorOf = (read: () => unknown): TraceError => {
  try {
    read();
  } catch (error) {
    if (error instanceof TraceError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
};

test('reads a small trace into columns', () => {
  const table = readKineto(bytesOf(small));
  const { columns } = table.events;
  expect(table.epoch).toBe(1790857026000000000n + 4376996912525000n);
  expect(table.events.length).toBe(1);
  expect([columns.start[0], columns.duration[0]]).toEqual([316, 51_958]);
  expect(table.strings.get(columns.name[0] as number)).toBe('aten::mm é');
  expect(table.strings.get(columns.shapes[0] as number)).toBe('[[4, 32], [32, 8]]');
  expect([columns.externalId[0], columns.sequence[0]]).toEqual([1538, 73]);
  expect([table.memory.columns.time[0], table.memory.columns.bytes[0], table.memory.columns.totalAllocated[0]]).toEqual([
    5001, -8192, 139_948,
  ]);
  expect([table.flows.length, table.flows.columns.time[0], table.flows.columns.id[0]]).toEqual([1, 1000, 13]);
  expect(table.tracks).toEqual([
    { pid: 4, tid: 5 },
    { pid: 4, tid: 'stream 7' },
  ]);
  expect(table.threadNames.get(0)).toBe('main é😀');
  expect(table.profileStart).toBe(316);
  expect(table.metadata.get('distributedInfo')).toEqual({ rank: 3 });
  expect(table.metadata.get('traceName')).toBe('a/b');
  expect(table.skipped).toEqual({
    markers: 1,
    otherKinds: 1,
    malformed: 1,
    metadata: 0,
    arguments: 0,
    values: 0,
    broken: 0,
    flows: 1,
    rest: 0,
  });
});

test.for(['bmm_nested', 'conv_train', 'mask_indices'])('has every time of %s as JSON.parse has it, to the nanosecond', (name) => {
  const text = gunzipSync(readFileSync(new URL(`${name}.pt.trace.json.gz`, reference)));
  const table = readKineto(text);
  // Cut out the digits as text: a double of µs is off by up to 0.5 ns here.
  const wanted = (
    JSON.parse(text.toString().replaceAll(/"(ts|dur)": ?([\d.]+)/g, '"$1": "$2"')) as { traceEvents: Record<string, unknown>[] }
  ).traceEvents
    .filter((event) => event.ph === 'X' && typeof event.pid === 'number')
    .map((event) => ({
      start: BigInt((event.ts as string).replace('.', '')),
      duration: Number((event.dur as string).replace('.', '')),
      name: event.name,
    }));
  const { start, duration, name: names } = table.events.columns;
  const base = table.metadata.get('baseTimeNanoseconds') as bigint;
  const got = wanted.map((_, row) => ({
    start: table.epoch - base + BigInt(start[row] as number),
    duration: duration[row],
    name: table.strings.get(names[row] as number),
  }));
  expect(table.events.length).toBe(wanted.length);
  expect(got).toEqual(wanted);
});

describe('chunks', () => {
  const bytes = bytesOf(small);
  const whole = plain(readKineto(bytes));

  test('a cut at any byte changes nothing', () => {
    for (let cut = 0; cut <= bytes.length; cut++) expect(plain(readInPieces(bytes, [cut]))).toEqual(whole);
  });

  test('nor does a byte at a time', () => {
    const cuts = Array.from({ length: bytes.length }, (_, at) => at);
    expect(plain(readInPieces(bytes, cuts))).toEqual(whole);
  });

  test('a large value a byte at a time is read in time linear in its bytes', () => {
    const long = bytesOf(`{"note": "${'x'.repeat(300_000)}", "traceEvents": []}`);
    const reader = new KinetoReader();
    for (let at = 0; at < long.length; at++) reader.push(long.subarray(at, at + 1));
    expect((reader.finish().metadata.get('note') as string).length).toBe(300_000);
  });
});

describe('hostile input', () => {
  test('a file that ends at any byte is truncated, says where, and keeps its events', () => {
    const bytes = bytesOf(small);
    const firstEvent = small.indexOf('}},\n {"ph": "i"') + 2;
    for (let end = 0; end < bytes.length; end++) {
      const cut = bytes.subarray(0, end);
      if (end <= firstEvent) {
        const error = errorOf(() => readKineto(cut));
        expect(error.code).toBe('truncated');
        expect(error.message).toMatch(/^Cannot read the trace: at byte \d+ the file ends [^\n]*$/);
      } else {
        const { events, stopped, skipped } = readKineto(cut);
        expect(stopped).toMatch(/^at byte \d+ the file ends [^\n]*$/);
        expect([events.length, skipped.rest]).toEqual([1, 1]);
      }
    }
  });

  test('a recorded file cut at any kilobyte keeps the events before the cut', () => {
    const bytes = gunzipSync(readFileSync(new URL('conv_train.pt.trace.json.gz', reference)));
    const whole = readKineto(bytes);
    let before = 0;
    // The first event ends in the fourth.
    expect(errorOf(() => readKineto(bytes.subarray(0, 1024))).code).toBe('truncated');
    for (let end = 4096; end < bytes.length; end += 1024) {
      const cut = readInPieces(bytes.subarray(0, end), [end >> 1]);
      expect(cut.stopped).toMatch(/^at byte \d+ the file ends/);
      const { length, columns } = cut.events;
      expect(length).toBeGreaterThanOrEqual(before);
      expect(columns.start[length - 1]).toBe(whole.events.columns.start[length - 1]);
      before = length;
    }
    expect(before).toBeGreaterThan(whole.events.length - 20);
  });

  test.for(['', ',', ',\n', ' \n,  '])('a bare array that ends with an event and %j, as of a program that runs, is whole', (end) => {
    const event = '{"ph":"X","name":"a","pid":1,"ts":1,"dur":1}';
    const { events, stopped } = readKineto(bytesOf(`[${event},\n${event}${end}`));
    expect([events.length, stopped]).toEqual([2, undefined]);
  });

  test('what Python and C++ write and JSON forbids is left out and counted, the event kept', () => {
    const event = (args: string): string => `{"ph":"X","name":"a\u0001b","pid":1,"ts":1,"dur":1,"args":{"x":1,${args},"y":2}}`;
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const odd = [
      '"n":NaN',
      '"n":[Infinity,-Infinity]',
      '"n":inf',
      '"n":-inf',
      '"n":nan',
      '"n":[-nan,null]',
      '"flops":nan',
      '"n":"line\nline"',
      `"n":${deep}`,
      '"External id":NaN',
      '"Input Dims":[NaN]',
    ];
    const table = readKineto(bytesOf(`[${odd.map(event).join(',')},{"ph":"X","name":"b","pid":1,"ts":NaN,"dur":1}]`), { keep: 'all' });
    const { events, skipped, strings } = table;
    expect([events.length, skipped.values, skipped.malformed, table.leftOutAt]).toEqual([odd.length, odd.length, 1, 1]);
    for (let row = 0; row < events.length; row++) {
      expect(strings.get(events.columns.name[row] as number)).toBe('a\u0001b');
      expect(JSON.parse(`{${table.arguments.get(events.columns.others[row] as number)}}`)).toEqual({ x: 1, y: 2 });
    }
  });

  test('metadata that is no JSON is left out and counted', () => {
    const { metadata, skipped } = readKineto(bytesOf('{"a": [NaN], "b": "\n", "c": 1, "traceEvents": []}'));
    expect([[...metadata.keys()], skipped.metadata]).toEqual([['c'], 2]);
  });

  test('a control character beside an escape is kept', () => {
    const { strings, events } = readKineto(bytesOf('[{"ph":"X","name":"a\n\\u00e9","pid":1,"ts":1,"dur":1}]'));
    expect(strings.get(events.columns.name[0] as number)).toBe('a\né');
  });

  describe('where it is no JSON, reading goes on with the next event', () => {
    const event = (name: string): string => `{"ph":"X","name":"${name}","pid":1,"ts":1,"dur":1,"args":{"d":[{"e":1},{"f":{}}]}}`;
    const [a, b, c] = ['a', 'b', 'c'].map(event) as [string, string, string];

    test.for([
      ['a decimal comma', `${a},{"ph":"X","name":"?","pid":1,"ts":4,0,"dur":1},${b},${c}`, 'abc'],
      ['a quote in a name', `${a},{"ph":"X","name":"f("x")","pid":1,"ts":4,"dur":1,"args":{"a":{"b":1}}},${b},${c}`, 'abc'],
      ['a path with backslashes', `${a},${b},{"ph":"X","name":"C:\\Users\\x.py".,"pid":1},${c}`, 'abc'],
      ['a comma too few', `${a} ${b},${c}`, 'abc'],
      ['a comma too many', `${a},,\n${b},${c}`, 'abc'],
      ['an end in the midst of an event, and another beginning', `${a},{"ph":"X","name":"?","pid":1,\n${b},${c}`, 'abc'],
      ['an end in the midst of a name', `${a},{"ph":"X","name":"?\n${b},${c}`, 'ac'],
      ['the first event', `{"ph":X},${a},${b},${c}`, 'abc'],
    ])('%s', ([, events, names]) => {
      for (const text of [`{"traceEvents":[${events}],"after":1}`, `[${events}`]) {
        const whole = readKineto(bytesOf(text), { keep: 'all' });
        const { events: rows, strings, skipped, stopped, metadata } = whole;
        const read = Array.from({ length: rows.length }, (_, row) => strings.get(rows.columns.name[row] as number)).join('');
        expect([read, skipped.broken, stopped]).toEqual([names, 1, undefined]);
        if (text.startsWith('{')) expect(metadata.get('after')).toBe(1);
        const bytes = bytesOf(text);
        const everyByte = Array.from({ length: bytes.length }, (_, at) => at);
        expect(plain(readInPieces(bytes, everyByte))).toEqual(plain(readKineto(bytes)));
      }
    });

    test('the first place is named with its reason, and each is counted', () => {
      const { skipped, brokenAt } = readKineto(bytesOf(`[${a},{"ph":X},${b},{"ph":Y},${c}]`));
      expect([skipped.broken, brokenAt]).toEqual([2, 'at byte 84 it must have a value, got `X`']);
    });

    test('where no event follows, the rest is left out', () => {
      const { events, stopped, skipped } = readKineto(bytesOf(`{"traceEvents":[${a},${b},{"ph":X}],"after":{"ph":1}}`));
      expect([events.length, skipped.broken, skipped.rest]).toEqual([2, 0, 1]);
      expect(stopped).toContain('it must have a value, got `X`');
    });

    test('a file of nothing but broken events ends soon', () => {
      const { events, stopped, skipped } = readKineto(bytesOf(`[${a}${',{"ph":X}'.repeat(100_000)},${b}]`));
      expect([events.length, skipped.broken, skipped.rest]).toEqual([1, limits.brokenPlacesMax, 1]);
      expect(stopped).toContain('it must have a value, got `X`');
    });
  });

  test.for([
    ['[1,]', 'not_json', 'at byte 3 it must have a value, got `]`'],
    ['{"a" 1}', 'not_json', 'at byte 5 it must have `:`, got `1`'],
    ['{"a": 01}', 'not_json', 'at byte 7 it must have `,` or `}`, got `1`'],
    ['{"a": "\\x"}', 'not_json', 'at byte 8 it must have an escape, got `x`'],
    ['{"a": tru1}', 'not_json', 'at byte 9 it must have `true`, got `1`'],
    ['{"a": -}', 'not_json', 'at byte 7 it must have a digit, got `}`'],
    ['{"traceEvents": {}}', 'not_json', 'at byte 16 it must have `[`, got `{`'],
    ['{"traceEvents": []} x', 'not_json', 'at byte 20 it must have nothing after its end, got `x`'],
    ['<html>', 'not_json', 'at byte 0 it must have `{` or `[`, got `<`'],
    ['{}', 'no_events', 'it must have `traceEvents`, got none'],
  ] as const)('%s is refused as %s', ([text, code, message]) => {
    const error = errorOf(() => readKineto(bytesOf(text)));
    expect({ code: error.code, message: error.message }).toEqual({ code, message: `Cannot read the trace: ${message}` });
  });

  test('nesting without end is refused', () => {
    const error = errorOf(() => readKineto(bytesOf(`{"a": ${'['.repeat(1_000_001)}`)));
    expect(error.code).toBe('too_deep');
    expect(error.message).toBe('Cannot read the trace: at byte 1000006 values may be 1000000 deep to be skipped, got deeper');
  });

  test('one value without end is refused before it fills the memory', () => {
    const reader = new KinetoReader();
    const chunk = new Uint8Array(16 * 1024 * 1024).fill(0x78);
    reader.push(bytesOf('{"a": "'));
    const error = errorOf(() => {
      for (let fed = 0; fed < 16; fed++) reader.push(chunk);
    });
    expect(error.code).toBe('too_large');
  });

  test('fields of wrong types count as missing', () => {
    const table = readKineto(
      bytesOf(
        '[{"ph":"X","name":7,"pid":1,"ts":1,"dur":1},{"ph":["X"]},5,{"ph":"X","name":"a","pid":1,"ts":"1","dur":1},{"ph":"X","name":"a","pid":1,"ts":1,"dur":-1}]',
      ),
    );
    expect([table.events.length, table.skipped.malformed, table.skipped.otherKinds]).toEqual([0, 4, 1]);
  });

  test('any bytes give a table or a TraceError (seed 7)', () => {
    const bytes = bytesOf(small);
    const edits = fc.array(fc.record({ at: fc.nat(bytes.length - 1), byte: fc.nat(255) }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(edits, fc.array(fc.nat(bytes.length), { maxLength: 5 }), (edited, cuts) => {
        const damaged = bytes.slice();
        for (const { at, byte } of edited) damaged[at] = byte;
        const read = (run: () => KinetoTable) => {
          try {
            return plain(run());
          } catch (error) {
            if (!(error instanceof TraceError)) throw error;
            return { code: error.code, message: error.message };
          }
        };
        // Read in pieces, the result is the same table, or the same error at the same byte.
        expect(
          read(() =>
            readInPieces(
              damaged,
              cuts.toSorted((a, b) => a - b),
            ),
          ),
        ).toEqual(read(() => readKineto(damaged)));
      }),
      { seed: 7, numRuns: runCount(3000) },
    );
  });

  test('accepts what JSON.parse accepts, and nothing else (seed 8)', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.nat(), fc.string({ maxLength: 2 }), fc.boolean(), (json, at, noise, isDamaged) => {
        const cut = at % (json.length + 1);
        const value = isDamaged ? json.slice(0, cut) + noise + json.slice(cut) : json;
        const text = `{"a":${value},"traceEvents":[{"ph":"X","args":{"b":${value}}}]}`;
        let isJson = true;
        try {
          JSON.parse(text);
        } catch {
          isJson = false;
        }
        // Beyond JSON, it takes NaN, Infinity, other spellings of these and control characters, and counts them.
        if (isJson) expect(readKineto(bytesOf(text)).skipped).toMatchObject({ malformed: 1, values: 0 });
        else if (/nan|inf|\p{Cc}/iu.test(value)) return;
        else expect(errorOf(() => readKineto(bytesOf(text))).code).toMatch(/^(not_json|truncated)$/);
      }),
      { seed: 8, numRuns: runCount(3000) },
    );
  });

  test('UTF-8 is decoded as the platform does it, broken bytes without throwing (seed 9)', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const bytes = bytesOf(text);
        expect(decodeUtf8(bytes, 0, bytes.length)).toBe(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
      }),
      { seed: 9 },
    );
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        decodeUtf8(bytes, 0, bytes.length);
      }),
      { seed: 9 },
    );
  });
});

test.for([
  ['1', 1000],
  ['1.5', 1500],
  ['1.0005', 1001],
  ['1.9996', 2000],
  ['1e3', 1_000_000],
  ['1.25e-1', 125],
  ['0.001', 1],
] as const)('a length of %s µs is %d ns', ([text, nanos]) => {
  const table = readKineto(bytesOf(`[{"ph":"X","name":"a","pid":1,"ts":0,"dur":${text}}]`));
  expect(table.events.columns.duration[0]).toBe(nanos);
});

describe("other programs' Chrome traces", () => {
  test("begins and ends, as in Horovod's timeline, become spans; what has no other half is counted", () => {
    const text = `[
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad.0"}},
{"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
{"ph": "E", "ts": 5, "pid": 1},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 10.5, "pid": 1},
{"ph": "X", "name": "0", "ts": 12, "pid": 1, "dur": 0},
{"ph": "E", "ts": 20.001, "pid": 1},
{"ph": "B", "name": "ALLREDUCE", "ts": 21, "pid": 1, "args": {"a": 1}},
{"ph": "B", "name": "NCCL_ALLREDUCE", "ts": 22, "pid": 1},
{"ph": "B", "name": "other tensor", "ts": 22, "pid": 2},
{"ph": "E", "ts": 30, "pid": 1},
{"ph": "E", "ts": 31, "pid": 1, "args": {"dtype": "float32"}},
`;
    const { events, strings, arguments: texts, skipped, stopped, epoch } = readKineto(bytesOf(text), { keep: 'all' });
    const { columns } = events;
    const rows = Array.from({ length: events.length }, (_, row) => [
      strings.get(columns.name[row] as number),
      Number(epoch) + (columns.start[row] as number),
      columns.duration[row],
      texts.get(columns.others[row] as number),
    ]);
    expect(rows).toEqual([
      ['0', 12_000, 0, ''],
      ['NEGOTIATE_ALLREDUCE', 10_500, 9501, ''],
      ['NCCL_ALLREDUCE', 22_000, 8000, ''],
      ['ALLREDUCE', 21_000, 10_000, '"a": 1,"dtype": "float32"'],
    ]);
    expect([skipped.malformed, skipped.otherKinds, stopped]).toEqual([2, 0, undefined]);
  });

  test('a span of two events has the arguments of both, whatever has a column', () => {
    const begin = { 'External id': 3, correlation: 7, 'Sequence number': 0, 'Input Dims': [[2]], 'Collective name': 'allreduce', Seq: 4 };
    const end = { 'External id': 5, 'Process Group Name': '1', Seq: 6 };
    const of = (ph: string, ts: number, args: object): object => ({ ph, name: 'k', pid: 1, tid: 1, ts, args });
    for (const keep of ['known', 'all'] as const) {
      const read = (...events: object[]) => {
        const table = readKineto(bytesOf(JSON.stringify(events)), { keep });
        const communications = Object.values(table.communications.columns).map((column) => column[0]);
        return [
          ...['externalId', 'correlation', 'sequence', 'shapes'].map((name) => table.events.columns[name as 'shapes'][0]),
          communications,
        ];
      };
      expect(read(of('B', 1, begin), of('E', 3, end))).toEqual(read({ ...of('X', 1, { ...begin, ...end }), dur: 2 }));
    }
  });

  test("arguments with torch's names, and values of another type than torch gives them, are kept as any others", () => {
    const others = '"Stack":["f","g"],"Async":"yes","correlation":"abc","External id":{"a":1},"Sequence number":null,"Module Hierarchy":3';
    const own = '"Call stack":"f;g","Fwd thread id":-2,"Ev Idx":4,"Python id":null';
    const text = `[{"ph":"X","name":"a","pid":1,"ts":0,"dur":1,"args":{${others},${own}}}]`;
    const { events, arguments: texts, skipped } = readKineto(bytesOf(text), { keep: 'all' });
    expect([texts.get(events.columns.others[0] as number), skipped.values]).toEqual([others, 0]);
  });

  test('whole numbers that no double holds are kept as text', () => {
    const wide = ['18446744073709551615', '-9007199254740993', `1${'0'.repeat(62)}`];
    const exact = ['9007199254740991', '0.12345678901234567', '1e300', '"18446744073709551615"', '{"x":18446744073709551615}'];
    const members = (texts: readonly string[]) => texts.map((text, at) => `"k${at}":${text}`).join();
    const text = `[{"ph":"X","name":"a","pid":1,"ts":0,"dur":1,"args":{${members([...wide, ...exact])}}}]`;
    const { events, arguments: texts } = readKineto(bytesOf(text), { keep: 'all' });
    expect(texts.get(events.columns.others[0] as number)).toBe(members([...wide.map((number) => `"${number}"`), ...exact]));
  });

  test('ends of arrows inside of events are counted: a batch has those at the start of one', () => {
    const span = (ts: number, tid = 1): object => ({ ph: 'X', name: 'a', pid: 1, tid, ts, dur: 10 });
    const flow = (ph: string, ts: number, tid = 1): object => ({ ph, name: 'f', cat: 'x', id: 7, pid: 1, tid, ts });
    const placed = [flow('s', 0), span(0), span(20), span(20), flow('f', 20), flow('s', 20)];
    const left = (...events: object[]) => readKineto(bytesOf(JSON.stringify(events)), { keep: 'all' }).skipped.flows;
    expect(left(...placed)).toBe(0);
    expect(left(...placed, flow('s', 5), flow('f', 20.001), flow('f', 20, 2), span(20, 3))).toBe(3);
  });

  test('an end closes the last span of its name, or the last one', () => {
    const of = (ph: string, ts: number, name?: string): object => ({ ph, name, pid: 1, tid: 1, ts });
    const events = [of('B', 0, 'step'), of('B', 2, 'op'), of('E', 9, 'step'), of('B', 9, 'next'), of('E', 9.001, 'op'), of('E', 12)];
    const { columns, length } = readKineto(bytesOf(JSON.stringify(events))).events;
    expect([length, ...columns.duration.subarray(0, 3)]).toEqual([3, 9000, 7001, 3000]);
  });

  test('events at 0 before those of a clock are left out, and set no epoch; a file whose times begin at 0 is read whole', () => {
    const clock = 1.7e15;
    const of = (ts: number, more: object = {}): object => ({ ph: 'X', name: 'a', pid: 1, tid: 1, ts, dur: 0, ...more });
    const read = (...events: object[]) => {
      const table = readKineto(bytesOf(JSON.stringify(events)), { keep: 'all' });
      const { columns, length } = table.events;
      const { epoch, skipped, leftOutAt } = table;
      return [[...columns.start.subarray(0, length)], Number(epoch / 1000n), skipped.malformed, leftOutAt];
    };
    const later = [of(clock), of(clock + 4)];
    expect(read(of(0), ...later)).toEqual([[0, 4000], clock, 1, 1]);
    const zeros = [
      of(0),
      of(0, { ph: 'i' }),
      of(0, { ph: 'B' }),
      of(0, { ph: 'C', args: { v: 1 } }),
      of(0, { args: { 'Collective name': 'x' } }),
    ];
    expect(read(...zeros, ...later)).toEqual([[0, 4000], clock, 5, 1]);
    expect(read(of(0, { pid: 'Spans', cat: 'Trace' }), ...later)).toEqual([[0, 4000], clock, 0, undefined]);
    expect(read(...later, of(0))).toEqual([[0, 4000], clock, 1, expect.any(Number)]);
    expect(read(of(0), of(0), of(4), of(clock), of(9))).toEqual([[0, 0, 4000, 9000], 0, 1, expect.any(Number)]);
    expect(read(of(0), of(clock), of(4), of(9))).toEqual([[0, 5000], 4, 2, 1]);
    expect(read(of(0), of(0))).toEqual([[0, 0], 0, 0, undefined]);
    const { profileStart } = readKineto(bytesOf(JSON.stringify([of(0, { pid: 'Spans', cat: 'Trace' }), ...later])));
    expect(profileStart).toBe(0);
  });

  test('a process number may be text', () => {
    const text = '[{"ph":"X","name":"a","pid":"4000","tid":"1","ts":1,"dur":1},{"ph":"X","name":"a","pid":"Spans","ts":1,"dur":1}]';
    const { events, tracks, skipped } = readKineto(bytesOf(text));
    expect([events.length, tracks, skipped.markers]).toEqual([1, [{ pid: 4000, tid: 1 }], 1]);
  });

  test('events of a process whose number is other text are counted', () => {
    const { events, skipped, leftOutAt } = readKineto(bytesOf('[{"ph":"X","name":"a","pid":"GPU 0","tid":1,"ts":1,"dur":1}]'));
    expect([events.length, skipped.markers, skipped.malformed, leftOutAt]).toEqual([0, 0, 1, 1]);
  });

  test('an id may be text: arrows and counters of different ids are different ones', () => {
    const flow = (ph: string, id: string): object => ({ ph, id, name: 'fl', pid: 1, tid: 1, ts: 1 });
    const counter = (id: string | number): object => ({ ph: 'C', id, name: 'c', pid: 1, ts: 1, args: { v: 1 } });
    const text = JSON.stringify([flow('s', '0x1f'), flow('f', '32'), flow('s', 'a b'), counter(1), counter('0x2'), counter(0)]);
    const { flows, counters, strings, skipped } = readKineto(bytesOf(text), { keep: 'all' });
    expect([...flows.columns.id.subarray(0, flows.length)]).toEqual([31, 32]);
    expect([...counters.columns.name.subarray(0, counters.length)].map((name) => strings.get(name))).toEqual(['c[1]', 'c[0x2]', 'c']);
    expect(skipped.malformed).toBe(1);
  });

  test('a counter name has its keys and processes in all of its series, or in none', () => {
    const counter = (pid: number, args: object, id?: string): object => ({ ph: 'C', name: 'mem', pid, id, ts: 1, args });
    const names = (...events: object[]) => {
      const { counters, strings } = readKineto(
        bytesOf(JSON.stringify([{ ph: 'C', name: 'x', pid: 9, ts: 1, args: { v: 1 } }, ...events])),
        {
          keep: 'all',
        },
      );
      return [...counters.columns.name.subarray(0, counters.length)].map((name) => strings.get(name));
    };
    expect(names(counter(5, { a: 1 }), counter(5, { a: 2 }))).toEqual(['x', 'mem', 'mem']);
    expect(names(counter(5, { a: 1 }), counter(5, { a: 2, b: 3 }))).toEqual(['x', 'mem a', 'mem a', 'mem b']);
    expect(names(counter(5, { a: 1 }), counter(6, { a: 2 }))).toEqual(['x', 'process 5 · mem', 'process 6 · mem']);
    expect(names(counter(5, { a: 1 }, 'ab-1'), counter(5, { a: 2 }, 'ab-2'))).toEqual(['x', 'mem[ab-1]', 'mem[ab-2]']);
    expect(names(counter(5, { a: 1, b: 1 }), counter(6, { a: 2 }, '7'))).toEqual([
      ...['x', 'process 5 · mem a', 'process 5 · mem b', 'process 6 · mem[7] a'],
    ]);
  });

  test("a counter's series that are no numbers are counted, and numbers may be text", () => {
    const counter = (args: object | undefined): object => ({ ph: 'C', name: 'c', pid: 1, ts: 1, args });
    const text = JSON.stringify([
      counter({ a: 1, b: 'x' }),
      counter({ a: 'x', b: null }),
      counter({}),
      counter(undefined),
      counter({ a: '7.5' }),
    ]);
    const { counters, skipped } = readKineto(bytesOf(text), { keep: 'all' });
    expect([...counters.columns.value.subarray(0, counters.length)]).toEqual([1, 7.5]);
    expect([skipped.otherKinds, skipped.malformed]).toEqual([5, 0]);
  });

  test("VizTracer's file", () => {
    const text = `{"traceEvents": [{"ph": "M", "pid": 7, "tid": 7, "name": "process_name", "args": {"name": "MainProcess"}},
      {"pid": 7, "tid": 7, "ts": 1e3, "ph": "X", "dur": 2.5, "name": "f (a.py:1)", "cat": "FEE", "args": {"return_value": "NaN"}, "caller_lineno": 3},
      {"pid": 7, "tid": 7, "ts": 1001, "ph": "C", "name": "loss", "args": {"value": NaN}},
      {"pid": 7, "tid": 7, "ts": 1001, "ph": "i", "name": "note", "s": "g"}],
      "viztracer_metadata": {"overflow": false, "version": "1.0.0"}, "file_info": {"files": {"a.py": ["x\\n", 1]}, "functions": {}}}`;
    const { events, instants, counters, skipped } = readKineto(bytesOf(text), { keep: 'all' });
    expect([events.length, instants.length, counters.length, skipped.values]).toEqual([1, 1, 0, 1]);
  });
});
