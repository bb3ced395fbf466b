// A stretch of a simulated run: its steps and the events in them, and nothing else.

import { expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import type { TraceEvent, TraceSink } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { StepRangeSink, StepTimesSink } from './step-range.ts';
import { StepSummarySink } from './step-summary.ts';

const { sources } = simulatedCluster({ ranks: 3, hosts: 1, steps: 40, stepMs: 50 });
const merged = <Sink extends TraceSink>(sink: Sink): Sink => {
  for (const _ of mergeRun(sources, sink));
  return sink;
};

it('hands on the steps of the range, with what began in them', () => {
  const times = merged(new StepTimesSink(10, 19));
  expect(times.steps).toEqual({ first: 0, last: 39 });
  expect([...times.times.keys()].sort()).toEqual([1, 2, 3]);
  const summary = new StepSummarySink();
  const outside: string[] = [];
  let events = 0;
  const check: TraceSink = {
    begin: (header) => summary.begin(header),
    lane: () => {},
    end: () => summary.end(),
    event: (event: TraceEvent) => {
      events++;
      const { from, until } = times.times.get(event.lane.process.index) ?? { from: 0, until: 0 };
      if (event.start < from || event.start >= until) outside.push(event.name);
      summary.event(event);
    },
  };
  merged(new StepRangeSink(times.times, check));
  expect(outside).toEqual([]);
  expect(summary.summary.steps.map(({ step }) => step).sort((a, b) => a - b)).toEqual(Array.from({ length: 10 }, (_, step) => 10 + step));
  expect(events).toBeGreaterThan(10 * 3 * 5);
});

it('finds no times for steps that were never taken', () => {
  expect(merged(new StepTimesSink(100, 200)).times.size).toBe(0);
});
