import { besideOf, nanos, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Lanes } from '../model/lanes.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import { processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { KeyAveragesSink } from './key-averages.ts';

const laneOf = (index: number): TraceLane => traceLane({ index, name: `lane ${index}`, tid: index });

function eventOf(
  lane: TraceLane,
  kind: TraceEvent['kind'],
  state: TraceEvent['state'],
  name: string,
  start: number,
  end: number,
): TraceEvent {
  return traceEvent({ kind, state, lane, name, start: traceTime(start), length: nanos(end - start) });
}

/** `until`: when the process was last heard of. Lines `[lane N] [KIND] NAME START-END`, `open NAME START-` and `close NAME START-END`, in the order a merge writes them. */
function averagesOf(text: string, until?: number): KeyAveragesSink {
  const sink = new KeyAveragesSink();
  const lanes = new Map<number, TraceLane>();
  for (const line of text.trim().split('\n')) {
    const parts = /^\s*(?:lane (\d+) )?(?:(span|instant|counter|step|collective|rpc) )?(?:(open|close) )?(\S+) (\d+)-(\d*)$/.exec(line);
    if (parts === null) throw new Error(`Cannot read ${JSON.stringify(line)}`);
    const [, index = '1', kind = 'span', state = 'whole', name, start, end] = parts;
    let lane = lanes.get(Number(index));
    if (lane === undefined) {
      lane = laneOf(Number(index));
      lanes.set(Number(index), lane);
      sink.lane(lane);
    }
    const states = state as TraceEvent['state'];
    sink.event(eventOf(lane, kind as TraceEvent['kind'], states, name as string, Number(start), Number(end || start)));
  }
  const [process] = [...lanes.values()].map((lane) => lane.process);
  sink.end(until === undefined || process === undefined ? [] : [processTotals({ process, until: traceTime(until) })]);
  return sink;
}

function check(text: string, expected: string, until?: number): void {
  const lines = averagesOf(text, until).averages.map(({ key, kind, count, total, self }) => {
    return `${kind === 'span' ? '' : `${kind} `}${key} ×${count} total ${total} self ${self}`;
  });
  expect(lines).toEqual(expected.trim().split(/\n\s*/));
}

describe('self time', () => {
  it('is what no span directly inside took', () => {
    check(
      `A 0-100
       B 10-40
       C 15-20
       D 50-60`,
      `A ×1 total 100 self 60
       B ×1 total 30 self 25
       D ×1 total 10 self 10
       C ×1 total 5 self 5`,
    );
  });

  it('of spans one after the other is their length, also where one begins as the last ends', () => {
    check(
      `A 0-10
       A 10-30
       B 30-31`,
      `A ×2 total 30 self 30
       B ×1 total 1 self 1`,
    );
  });

  it('of two equal spans is all the inner one’s', () => {
    check(
      `outer 5-10
       inner 5-10`,
      `inner ×1 total 5 self 5
       outer ×1 total 5 self 0`,
    );
  });

  it('of a name inside itself counts each moment once, its total twice', () => {
    check(
      `f 0-10
       f 2-6`,
      'f ×2 total 14 self 10',
    );
  });

  it('does not mind spans of no length', () => {
    check(
      `A 0-10
       zero 0-0
       zero 5-5
       B 5-10
       zero 10-10`,
      `A ×1 total 10 self 5
       B ×1 total 5 self 5
       zero ×3 total 0 self 0`,
    );
  });

  it('of a span that opens and closes apart is the same as if it came whole', () => {
    check(
      `open A 0-
       B 10-40
       open C 50-
       D 55-60
       close C 50-70
       close A 0-100
       E 100-101`,
      `A ×1 total 100 self 50
       B ×1 total 30 self 30
       C ×1 total 20 self 15
       D ×1 total 5 self 5
       E ×1 total 1 self 1`,
    );
  });

  it('of a span that never ended lasts until its process was last heard of', () => {
    check(
      `open epoch 0-
       A 10-20
       open stuck 30-
       B 35-40`,
      `stuck ×1 total 70 self 65
       epoch ×1 total 100 self 20
       A ×1 total 10 self 10
       B ×1 total 5 self 5`,
      100,
    );
  });

  it('of a span that never ended is none without such a time, and never less', () => {
    check(
      `open stuck 0-
       A 10-40`,
      `A ×1 total 30 self 30
       stuck ×1 total 0 self 0`,
    );
  });

  it('does not depend on which of two spans that end at one time is reported to end first', () => {
    const open = 'open A 0-\nopen B 1-\nC 2-4';
    const expected = 'B ×1 total 9 self 7\nC ×1 total 2 self 2\nA ×1 total 10 self 1';
    check(`${open}\nclose B 1-10\nclose A 0-10`, expected);
    check(`${open}\nclose A 0-10\nclose B 1-10`, expected);
  });

  it('of spans on different lanes has nothing to do with each other', () => {
    check(
      `A 0-100
       lane 2 B 10-20`,
      `A ×1 total 100 self 100
       B ×1 total 10 self 10`,
    );
  });

  it('of what a collection of the heap interrupts is without it, though that is reported beside', () => {
    const sink = new KeyAveragesSink();
    const [thread, async, other] = [1, 2, 3].map((index) => traceLane({ index, name: 'main', tid: index === 3 ? 5 : 4 })) as [
      TraceLane,
      TraceLane,
      TraceLane,
    ];
    const overflow = { ...async, name: 'main (2)', overflow: 1 };
    const beside = traceLane({ index: 4, name: 'main garbage collection', tid: 4 });
    for (const lane of [beside, thread, overflow, other]) sink.lane(lane);
    const report = (lane: TraceLane, name: string, start: number, end: number, state: TraceEvent['state'] = 'whole'): void =>
      sink.event(eventOf(lane, 'span', state, name, start, end));
    report(thread, 'run', 0, 0, 'open');
    report(other, 'elsewhere', 0, 1000);
    report(thread, 'forward', 10, 100);
    report(overflow, 'load', 20, 200);
    report(thread, 'op', 30, 60);
    report(beside, 'gc', 40, 50);
    report(beside, 'gc', 70, 90);
    report(beside, 'gc', 110, 115);
    report(beside, 'gc', 300, 301);
    sink.event(eventOf(thread, 'span', 'close', 'run', 0, 400));
    report(beside, 'gc', 500, 503);
    sink.end([]);
    const self = Object.fromEntries(sink.averages.map((row) => [row.key, row.self]));
    expect(self).toEqual({ elsewhere: 1000, run: 309, forward: 60, load: 155, op: 20, gc: 39 });
  });

  it('distinguishes kinds of one name, gathers steps in one row and leaves out what has no length', () => {
    check(
      `span send 0-10
       collective send 2-6
       rpc send 7-8
       instant mark 9-9
       counter loss 9-9
       lane 2 step ProfilerStep#0 0-20
       lane 2 step ProfilerStep#1 20-50`,
      `step ProfilerStep ×2 total 50 self 50
       send ×1 total 10 self 5
       collective send ×1 total 4 self 4
       rpc send ×1 total 1 self 1`,
    );
  });

  it('closes the right one of two open spans of one name and time', () => {
    check(
      `open f 0-
       collective open f 0-
       close f 0-10
       collective close f 0-10`,
      `collective f ×1 total 10 self 10
       f ×1 total 10 self 0`,
    );
  });

  it('adds up, over a lane, to the time the lane is covered (seed 5)', () => {
    const span = fc.record({
      start: fc.nat({ max: 60 }),
      length: fc.nat({ max: 30 }),
      apart: fc.boolean(),
      name: fc.constantFrom('a', 'b', 'c'),
    });
    fc.assert(
      fc.property(fc.array(span, { maxLength: 30 }), (drawn) => {
        const spans = drawn.map((one, index) => ({ ...one, end: one.start + one.length, index }));
        spans.sort((a, b) => a.start - b.start || b.end - a.end || a.index - b.index);
        const lanes = new Map<TraceLane, typeof spans>();
        const places = new Lanes((overflow) => {
          const lane = laneOf(overflow + 1);
          lanes.set(lane, []);
          return lane;
        });
        for (const one of spans) lanes.get(places.place(one.start, one.end) as TraceLane)?.push(one);
        for (const [lane, on] of lanes) {
          const sink = new KeyAveragesSink();
          sink.lane(lane);
          // In a merge's order: by time, ends before begins, inner ends first.
          const rows = on.flatMap(({ name, start, end, apart, index }) => {
            if (!apart || start === end)
              return [{ at: start, close: 0, order: -end, row: eventOf(lane, 'span', 'whole', name, start, end) }];
            const unique = `${name}${index}`;
            return [
              { at: start, close: 0, order: -end, row: eventOf(lane, 'span', 'open', unique, start, start) },
              { at: end, close: 1, order: index % 2 === 0 ? -start : start, row: eventOf(lane, 'span', 'close', unique, start, end) },
            ];
          });
          rows.sort((a, b) => a.at - b.at || b.close - a.close || a.order - b.order);
          for (const { row } of rows) sink.event(row);
          sink.end([]);
          const covered = new Set(on.flatMap(({ start, length }) => Array.from({ length }, (_, tick) => start + tick))).size;
          const { averages } = sink;
          expect(averages.reduce((sum, { self }) => sum + self, 0)).toBe(covered);
          expect(averages.reduce((sum, { count }) => sum + count, 0)).toBe(on.length);
          expect(averages.every(({ self, total }) => self >= 0 && self <= total)).toBe(true);
        }
      }),
      { seed: 5, numRuns: 500 },
    );
  });
});

describe('averages', () => {
  it('are totals over counts, the largest self time first, equal ones by name', () => {
    const { averages } = averagesOf('b 0-10\na 10-20\nc 20-30\nc 30-35');
    expect(averages.map(({ key, average }) => [key, average])).toEqual([
      ['c', 7.5],
      ['a', 10],
      ['b', 10],
    ]);
  });

  it('of nothing are none', () => {
    expect(new KeyAveragesSink().averages).toEqual([]);
  });
});

it('a span of a rank that a window of PyTorch’s profiler beside it repeats as an annotation counts once', () => {
  const [own, window, alone] = [
    traceProcess({ index: 1, rank: 0 }),
    traceProcess({ index: 2, rank: 0, incarnation: besideOf('a') }),
    traceProcess({ index: 3, rank: 1, incarnation: besideOf('b') }),
  ];
  const sink = new KeyAveragesSink();
  sink.begin(traceHeader([window, own, alone]));
  const lanes = [own, window, alone].map((process, index) => traceLane({ index, process }));
  for (const lane of lanes) sink.lane(lane);
  const spanOf = (at: number, name: string, category: string, start: number, length: number): void =>
    sink.event(traceEvent({ lane: lanes[at] as TraceLane, name, category, start: traceTime(start), length: nanos(length) }));
  // The annotation begins before the span, and what lies in it is counted; one that the rank did not record, and one of a rank that recorded nothing, too.
  spanOf(1, 'forward', 'user_annotation', 0, 100);
  spanOf(0, 'forward', '', 1, 98);
  spanOf(1, 'aten::mm', 'cpu_op', 10, 20);
  spanOf(1, 'loss', 'user_annotation', 100, 5);
  spanOf(2, 'forward', 'user_annotation', 100, 7);
  sink.end([]);
  expect(sink.averages.map(({ key, count, total, self }) => [key, count, total, self])).toEqual([
    ['forward', 2, 105, 105],
    ['aten::mm', 1, 20, 20],
    ['loss', 1, 5, 5],
  ]);
});

it('a kernel and the host span of the same name are two rows', () => {
  const sink = new KeyAveragesSink();
  const lanes = [laneOf(1), traceLane({ index: 2, kind: 'stream', name: 'GPU 0 stream 7' })] as const;
  for (const lane of lanes) sink.lane(lane);
  for (const [at, lane] of lanes.entries())
    sink.event(traceEvent({ lane, name: 'triton_poi_fused_0', start: traceTime(0), length: nanos(30 - 20 * at) }));
  sink.end([]);
  expect(sink.averages.map(({ key, kind, total }) => [key, kind, total])).toEqual([
    ['triton_poi_fused_0', 'span', 30],
    ['triton_poi_fused_0', 'kernel', 10],
  ]);
});
