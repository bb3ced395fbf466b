// Sums of ops: the same, whether a span came whole, or with its begin and its end in different batches.

import { nanos, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TraceEvent } from '../model/trace-sink.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { OpSumsSink } from './op-sums.ts';

interface Span {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** It is in two parts, so all around it are. */
  readonly isSplit: boolean;
}

/** Spans that nest: each of `shape` begins one, or ends the innermost; all last a while. */
function spansOf(shape: readonly { readonly begins: boolean; readonly name: string; readonly isSplit: boolean }[]): Span[] {
  const spans: Span[] = [];
  const open: { name: string; start: number; isSplit: boolean }[] = [];
  let time = 0;
  const end = (): void => {
    const last = open.pop();
    if (last !== undefined) spans.push({ ...last, end: ++time });
  };
  for (const { begins, name, isSplit } of shape) {
    if (begins) {
      open.push({ name, start: ++time, isSplit });
      if (isSplit) for (const around of open) around.isSplit = true;
    } else end();
  }
  while (open.length > 0) end();
  return spans;
}

function begun() {
  const process = traceProcess();
  const lane = traceLane({ process });
  const sink = new OpSumsSink();
  sink.begin(traceHeader([process]));
  sink.lane(lane);
  return { sink, lane };
}

function sumsOf(spans: readonly Span[], isWhole: boolean) {
  const { sink, lane } = begun();
  const events = spans.flatMap(({ name, start, end, isSplit }): [at: number, Partial<TraceEvent>][] => {
    const [of, length] = [{ name, start: traceTime(start), category: 'cpu_op' }, nanos(end - start)];
    if (isWhole || !isSplit) return [[start, { ...of, length }]];
    return [
      [start, { ...of, state: 'open' }],
      [end, { ...of, length, state: 'close' }],
    ];
  });
  for (const [, event] of events.sort(([a], [b]) => a - b)) sink.event(traceEvent({ lane, ...event }));
  return sink.ranks.map(({ ops }) => [...ops.values()]);
}

const shapes = fc.array(fc.record({ begins: fc.boolean(), name: fc.constantFrom('a', 'b', 'c'), isSplit: fc.boolean() }), {
  maxLength: 60,
});

test('are those of whole spans', () => {
  fc.assert(
    fc.property(shapes.map(spansOf), (spans) => {
      const whole = sumsOf(spans, true);
      expect(sumsOf(spans, false)).toEqual(whole);
      expect(whole.flat().reduce((sum, { calls }) => sum + calls, 0)).toBe(spans.length);
    }),
    { seed: 7, numRuns: 300 },
  );
});

test('an asynchronous span counts like any other: what lies inside of it on its line is not its own time', () => {
  const { sink, lane } = begun();
  const forward = { lane, name: 'forward', isAsync: true };
  sink.event(traceEvent({ ...forward, start: traceTime(1), length: nanos(10) }));
  sink.event(traceEvent({ lane, name: 'data', start: traceTime(2), length: nanos(4) }));
  sink.event(traceEvent({ ...forward, start: traceTime(20), state: 'open' }));
  sink.event(traceEvent({ lane, name: 'data', start: traceTime(22), length: nanos(2) }));
  sink.event(traceEvent({ ...forward, start: traceTime(20), length: nanos(7), state: 'close' }));
  const [{ ops } = { ops: new Map() }] = sink.ranks;
  expect([...ops.values()].map(({ name, calls, total, self }) => ({ name, calls, total, self }))).toEqual([
    { name: 'forward', calls: 2, total: 17, self: 11 },
    { name: 'data', calls: 2, total: 6, self: 6 },
  ]);
});

test('a span that never ends has no call, and takes nothing from others', () => {
  const { sink, lane } = begun();
  sink.event(traceEvent({ lane, name: 'epoch', start: traceTime(1), state: 'open' }));
  sink.event(traceEvent({ lane, name: 'step', start: traceTime(2), length: nanos(5) }));
  sink.event(traceEvent({ lane, name: 'of another window', start: traceTime(-3), length: nanos(12), state: 'close' }));
  const [{ ops } = { ops: new Map() }] = sink.ranks;
  expect([...ops.values()].map(({ name, calls, total, self }) => ({ name, calls, total, self }))).toEqual([
    { name: 'step', calls: 1, total: 5, self: 5 },
  ]);
});
