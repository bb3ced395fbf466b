import { nanos, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TraceEvent, TraceLane, TraceSink, WriteBytes } from '../model/trace-sink.ts';
import { perfettoWriter } from '../perfetto/perfetto-writer.ts';
import {
  droppedCounts,
  eventCounts,
  processTotals,
  sampled,
  traceEvent,
  traceHeader,
  traceLane,
  traceProcess,
} from '../testing/trace-events.ts';
import { chromeWriter } from './chrome.ts';
import { dumpWriter } from './dump.ts';

const process = traceProcess({
  ...{ rank: 3, incarnation: 'a-1', hostName: 'host-a', pid: 4242 },
  alignment: sampled(12_000),
  metadata: new Map([['torch', '2.9']]),
});
const main = traceLane({ process, tid: 77 });
const memory: TraceLane = { ...main, index: 2, kind: 'counter', name: 'memory', tid: 0, unit: 'MB' };
const totals = processTotals({ process, batches: 2, missing: 1, dropped: droppedCounts({ events: 5 }), counts: eventCounts({ span: 1 }) });

/** An event of rank 3's main thread, ns. */
function event(name: string, start: number, length: number, about: Partial<TraceEvent> = {}): TraceEvent {
  return traceEvent({ lane: main, name, start: traceTime(start), length: nanos(length), ...about });
}

function bytesOf(writer: (write: WriteBytes) => TraceSink, events: Iterable<TraceEvent>): Uint8Array {
  const chunks: Uint8Array[] = [];
  const sink = writer((chunk) => chunks.push(chunk.slice()));
  sink.begin(traceHeader([process], { worldSize: 4, unixEpoch: 1_766_000_000_123_456_789n }));
  sink.lane(main);
  sink.lane(memory);
  for (const one of events) sink.event(one);
  sink.end([totals]);
  const bytes = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

function textOf(writer: (write: WriteBytes) => TraceSink, events: Iterable<TraceEvent>): string {
  return new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(writer, events));
}

/** Compares the dump's event lines alone. */
function checkDump(events: readonly TraceEvent[], expected: string): void {
  const lines = textOf(dumpWriter, events).split('\n').slice(4, -2);
  expect(`\n${lines.map((line) => line.trim()).join('\n')}\n`).toBe(expected.replaceAll(/^ +/gm, ''));
}

interface ChromeEvent {
  readonly ph: string;
  readonly name: string;
}

function chromeEvents(events: readonly TraceEvent[]): ChromeEvent[] {
  const { traceEvents } = JSON.parse(textOf(chromeWriter, events)) as { traceEvents: ChromeEvent[] };
  return traceEvents.filter(({ ph }) => ph !== 'M');
}

const collective = { kind: 'collective', group: 'dp', sequence: 7, bytes: 64, flow: 0xffn } as const;

describe('dumpWriter', () => {
  it('writes the whole of a small trace', () => {
    expect(textOf(dumpWriter, [event('forward', 12_345_678, 1_234_000, { category: 'cpu', arguments: new Map([['batch', 32]]) })])).toBe(
      `run r  world size 4  unix epoch 1766000000.123456789 s
process 1  rank 3 · host-a  pid 4242  incarnation a-1  clock ±0.012 ms  {torch="2.9"}
lane 1  rank 3  main  thread  tid 77
lane 2  rank 3  memory  counter  unit MB
       12.345678 ms  rank 3  main  SPAN forward  1.234000 ms  [cpu]  {batch=32}
totals  rank 3  batches 2  missing 1  late 0  ended yes  dropped events 5, arguments 0, names 0, batches 0  counts span 1, instant 0, counter 0, step 0, collective 0, rpc 0
`,
    );
  });

  it('writes every kind of event on one line', () => {
    checkDump(
      [
        event('slow', 0, 0, { state: 'open' }),
        event('memory', 5, 0, { kind: 'counter', lane: memory, value: 1.5 }),
        event('mark', -1, 0, { kind: 'instant' }),
        event('all_reduce', 1000, 10, collective),
        event('send', 1000, 10, { ...collective, peerRank: 0 }),
        event('slow', 0, 2000, { state: 'close' }),
        event('two  words\n', 0, 1),
        event('ProfilerStep#4', 0, 9, { kind: 'step', step: 4, phases: new Map([['forward', nanos(5)]]) }),
      ],
      `
      0.000000 ms  rank 3  main  OPEN slow
      0.000005 ms  rank 3  memory  COUNTER memory  1.5 MB
      -0.000001 ms  rank 3  main  INSTANT mark
      0.001000 ms  rank 3  main  SPAN all_reduce  0.000010 ms  {op="all_reduce", group="dp", sequence=7, bytes=64}  flow 0xff
      0.001000 ms  rank 3  main  SPAN send  0.000010 ms  {op="send", group="dp", sequence=7, bytes=64, peer=0}  flow 0xff
      0.002000 ms  rank 3  main  CLOSE slow  0.002000 ms
      0.000000 ms  rank 3  main  SPAN "two  words\\n"  0.000001 ms
      0.000000 ms  rank 3  main  SPAN ProfilerStep#4  0.000009 ms  {step=4, phaseNs.forward=5}
      `,
    );
  });
});

describe('chromeWriter', () => {
  it('prints times from whole ns', () => {
    const text = textOf(chromeWriter, [event('a', 1_234_567_890_123, 1), event('b', 1_234_567_891_007, 1_000_000)]);
    expect(text).toContain('"ts":1234567890.123,"dur":0.001,"name":"a"');
    expect(text).toContain('"ts":1234567891.007,"dur":1000.000,"name":"b"');
    expect(text).not.toContain('zeroNs');
  });

  it('has no time below 0, which Perfetto would drop: they count from the first event', () => {
    const read = JSON.parse(textOf(chromeWriter, [event('a', -42_996_084, 7), event('b', -42_996_000, 1), event('c', 1000, 5)])) as {
      traceEvents: { ph: string; ts: number }[];
      otherData: object;
    };
    expect(read.traceEvents.filter(({ ph }) => ph === 'X').map(({ ts }) => ts)).toEqual([0, 0.084, 42_997.084]);
    expect(read.otherData).toMatchObject({ unixEpochNs: '1766000000123456789', zeroNs: -42_996_084 });
  });

  it('is not moved by a first event of 1970', () => {
    const text = textOf(chromeWriter, [event('a', -1.7e18, 1), event('b', -3e15, 1), event('c', 2000, 1)]);
    expect(text).toContain('"ts":-3000000000000.000,"dur":0.001,"name":"b"');
    expect(text).toContain('"ts":2.000,"dur":0.001,"name":"c"');
    expect(JSON.parse(text)).toMatchObject({ otherData: { outOfRange: 1 } });
  });

  it('chains flows, those of a remote call with several servers too', () => {
    const call = { kind: 'rpc', flow: 5n } as const;
    const events = [
      event('c', 0, 1, collective),
      event('c', 1, 1, collective),
      event('c', 2, 1, collective),
      event('m', 3, 1, call),
      event('m', 4, 1, call),
      event('m', 5, 1, call),
    ];
    expect(
      chromeEvents(events)
        .map(({ ph }) => ph)
        .join(''),
    ).toBe('XsXtXtXsXtXt');
  });

  it('keeps both arguments of one name', () => {
    const given = event('all_reduce', 0, 1, {
      ...collective,
      arguments: new Map<string, string | number>([
        ['group', 'mine'],
        ['x', Number.NaN],
      ]),
    });
    const args = { op: 'all_reduce', group: 'dp', sequence: 7, bytes: 64, 'argument.group': 'mine', x: 'NaN' };
    expect(chromeEvents([given])[0]).toMatchObject({ args });
  });

  it('ends with the place of each process, and the last collective that it entered in each group', () => {
    const chunks: Uint8Array[] = [];
    const sink = chromeWriter((chunk) => chunks.push(chunk.slice()));
    sink.begin(traceHeader([process]));
    sink.end([{ ...totals, place: { step: 3, phase: undefined, collective: undefined, entered: new Map([['dp', 7]]) } }]);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toMatchObject({
      otherData: { totals: [{ place: { step: 3, entered: { dp: 7 } } }] },
    });
  });

  it('leaves out and counts counter values that JSON cannot hold', () => {
    const text = textOf(chromeWriter, [event('memory', 0, 0, { kind: 'counter', lane: memory, value: Number.POSITIVE_INFINITY })]);
    expect(JSON.parse(text)).toMatchObject({ otherData: { countersNotFinite: 1 } });
  });

  it('gives back any text and time, through every chunk', () => {
    const anyEvent = fc.record({ name: fc.string({ unit: 'binary' }), start: fc.maxSafeInteger(), length: fc.nat() });
    fc.assert(
      fc.property(fc.array(anyEvent), (rows) => {
        const read = chromeEvents(rows.map(({ name, start, length }) => event(name, start / 2, length)));
        expect(read.map(({ name }) => name)).toEqual(rows.map(({ name }) => name.replace(/\p{Surrogate}/gu, '\ufffd')));
      }),
      { seed: 7, numRuns: 100 },
    );
    const many = Array.from({ length: 20_000 }, (_, index) => event(`é${index % 7}`.repeat(1 + (index % 50)), index, 1));
    expect(chromeEvents(many)).toHaveLength(20_000);
  });
});

describe('perfettoWriter', () => {
  it('writes the same bytes for the same events', () => {
    const events = [event('a', 0, 5, { arguments: new Map([['x', -1]]) }), event('c', 1, 2, collective)];
    expect(bytesOf(perfettoWriter, events)).toEqual(bytesOf(perfettoWriter, events));
  });

  it('needs at most 44 bytes for a span whose name is known', () => {
    const spans = (count: number): Iterable<TraceEvent> =>
      Array.from({ length: count }, (_, index) => event('op', index * 1000, 500, { category: 'cpu' }));
    const [few, many] = [bytesOf(perfettoWriter, spans(10)).length, bytesOf(perfettoWriter, spans(10_010)).length];
    expect((many - few) / 10_000).toBeLessThanOrEqual(44);
  });

  it('leaves out and counts what began more than 52 days before the epoch', () => {
    const text = new TextDecoder().decode(bytesOf(perfettoWriter, [event('too early', -53 * 86_400e9, 1), event('kept', -86_399e9, 1)]));
    expect(text).toContain('outOfRange \u0001');
    expect(text).toContain('kept');
    expect(text).not.toContain('too early');
  });
});
