import { nanos, traceTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { csvWriter } from './csv.ts';
import { foldedWriter } from './folded.ts';

const process = traceProcess();
const lane = traceLane({ process });

function written(writer: typeof csvWriter, events: readonly Parameters<typeof traceEvent>[0][]): string {
  const chunks: Uint8Array[] = [];
  const sink = writer((chunk) => chunks.push(chunk.slice()));
  sink.begin(traceHeader([process]));
  sink.lane(lane);
  for (const event of events) sink.event(traceEvent({ lane, ...event }));
  sink.end([processTotals({ process })]);
  return Buffer.concat(chunks).toString();
}

/** Cells of RFC 4180, read on their own. */
function cellsOf(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    row.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end === ',') continue;
    if (row.length > 1) rows.push(row);
    row = [];
  }
  return rows;
}

const hostile = ['=1+1', '+SUM(A1)', '-2+3', '@cmd', '\tx', 'a,b', 'say "hi"', 'two\r\nlines', 'nul\0', '\ud800', 'plain', '∂ü'];

it('CSV: any name is one cell, and none a formula', () => {
  const rows = cellsOf(
    written(
      csvWriter,
      hostile.map((name) => ({ name })),
    ),
  );
  expect(new Set(rows.map((row) => row.length))).toEqual(new Set([18]));
  const names = rows.slice(1).map((row) => row[6] as string);
  expect(names).toEqual([
    "'=1+1",
    "'+SUM(A1)",
    "'-2+3",
    "'@cmd",
    "'\tx",
    'a,b',
    'say "hi"',
    'two\r\nlines',
    'nul\ufffd',
    '\ufffd',
    'plain',
    '∂ü',
  ]);
});

it('CSV: a span announced as open is one row when it ends, and one without a length if it never does', () => {
  const open = { state: 'open', start: traceTime(5) } as const;
  const rows = cellsOf(
    written(csvWriter, [
      { ...open, name: 'a', arguments: new Map([['k', 1]]) },
      { ...open, name: 'b' },
      { name: 'c', kind: 'counter', start: traceTime(7), value: 2.5 },
      { name: 'a', state: 'close', start: traceTime(5), length: nanos(20) },
    ]),
  );
  expect(rows.slice(1).map((row) => [row[0], row[6], row[8], row[9], row[15], row[17]])).toEqual([
    ['counter', 'c', '7', '', '2.5', ''],
    ['span', 'a', '5', '20', '', '{"k":1}'],
    ['span', 'b', '5', '', '', ''],
  ]);
});

it('CSV: a span ends within the one around it, whatever parts of a ns the correction of a clock gives', () => {
  const rows = cellsOf(
    written(csvWriter, [
      { name: 'outer', start: traceTime(0.4), length: nanos(10.2) },
      { name: 'inner', start: traceTime(0.6), length: nanos(9.9) },
    ]),
  );
  expect(rows.slice(1).map((row) => [row[8], row[9]])).toEqual([
    ['0', '11'],
    ['1', '10'],
  ]);
});

it('CSV: a collective that ends without arguments keeps those of its begin', () => {
  const call = { kind: 'collective', name: 'all_reduce', group: 'dp', start: traceTime(5) } as const;
  const rows = cellsOf(
    written(csvWriter, [
      { ...call, state: 'open', arguments: new Map([['k', 1]]) },
      { ...call, state: 'close', length: nanos(20) },
    ]),
  );
  expect(rows.slice(1).map((row) => [row[9], row[17]])).toEqual([['20', '{"k":1}']]);
});

it('spans of one lane, start and name each keep their end, the inner one first', () => {
  const f = { name: 'f', start: traceTime(5) } as const;
  const events = [
    ...[
      { ...f, state: 'open', arguments: new Map([['k', 1]]) } as const,
      { ...f, state: 'open' } as const,
      { ...f, state: 'open' } as const,
    ],
    { name: 'h', start: traceTime(10), length: nanos(4) },
    ...[{ ...f, state: 'close', length: nanos(20) } as const, { ...f, state: 'close', length: nanos(40) } as const],
  ];
  const rows = cellsOf(written(csvWriter, events)).slice(1);
  expect(rows.map((row) => [row[6], row[9], row[17]])).toEqual([
    ...[
      ['h', '4', ''],
      ['f', '20', ''],
      ['f', '40', ''],
    ],
    ['f', '', '{"k":1}'],
  ]);
  expect(written(foldedWriter, [...events, { ...f, state: 'close', length: nanos(80) }]).split('\n')).toEqual([
    ...['rank 0 · host;main;f 40', 'rank 0 · host;main;f;f 20', 'rank 0 · host;main;f;f;f 16', 'rank 0 · host;main;f;f;f;h 4', ''],
  ]);
});

it('CSV: a collective without a number of its own has its place instead', () => {
  const collective = { kind: 'collective', name: 'all_reduce', group: 'dp' } as const;
  const numbers = [7, 2 ** 40 + 7, 2 ** 52 - 6, 2 ** 52 - 2 ** 32 - 2 ** 31 - 3];
  const rows = cellsOf(
    written(
      csvWriter,
      numbers.map((sequence) => ({ ...collective, sequence })),
    ),
  );
  expect(rows.slice(1).map((row) => [row[12], row[17]])).toEqual([
    ['7', ''],
    ['7', '{"part":2}'],
    ['', '{"fromEnd":6,"window":0}'],
    ['', '{"beforeCut":3,"window":1}'],
  ]);
});

it('collapsed stacks: spans nest as on the timeline, and no name makes a line or a frame of its own', () => {
  const text = written(foldedWriter, [
    { name: 'outer', start: traceTime(0), length: nanos(100) },
    { name: 'in;ner\n', start: traceTime(10), length: nanos(30) },
    { name: 'leaf', start: traceTime(15), length: nanos(5) },
    { name: 'in;ner\n', start: traceTime(50), length: nanos(10) },
    { name: 'outer', start: traceTime(100), length: nanos(1) },
    { name: 'later', state: 'open', start: traceTime(200) },
    { name: 'inside', start: traceTime(210), length: nanos(4) },
    { name: 'later', state: 'close', start: traceTime(200), length: nanos(20) },
  ]);
  expect(text.split('\n')).toEqual([
    'rank 0 · host;main;outer 61',
    'rank 0 · host;main;outer;in_ner_ 35',
    'rank 0 · host;main;outer;in_ner_;leaf 5',
    'rank 0 · host;main;later 16',
    'rank 0 · host;main;later;inside 4',
    '',
  ]);
});

it('collapsed stacks: spans that lie thousands deep count for the last stack that has a line', () => {
  const depth = 20_000;
  const spans = Array.from({ length: depth }, (_, at) => ({ name: 'f', start: traceTime(at), length: nanos(2 * (depth - at)) }));
  const lines = written(foldedWriter, spans).trimEnd().split('\n');
  expect(Math.max(...lines.map((line) => line.split(';').length))).toBe(2 + 1024);
  expect(lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)).toBe(2 * depth);
});
