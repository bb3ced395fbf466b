import { type TraceTime, traceTime } from '@ranktrace/protocol';
import { mergeRun, type TraceProcess, type TraceSink, teeSink } from '@ranktrace/trace';
import { simulatedCluster } from '@ranktrace/trace/simulate';
import { MemoryBlocks, Timeline, timelineSink } from '@ranktrace/trace/timeline';
import { expect, it } from 'vitest';
import { ModelLog } from './model-log.ts';

const about = { worldSize: 4, unixEpoch: null, live: false, read: 1, total: 1, clockConflicts: [] };

it('a page is told of no bound that an event exceeds, and of the time around a clock step alone that it is wide', () => {
  // Four minutes: a part of it, of which 64 are told, is longer than the half second about the step.
  const { sources } = simulatedCluster({
    ranks: 4,
    hosts: 4,
    seconds: 240,
    stepMs: 500,
    seed: 5,
    clockSteps: [{ host: 2, seconds: 90.3, micros: -20_000 }],
  });
  const timeline = new Timeline({ blocks: new MemoryBlocks() });
  const times = new Map<TraceProcess, TraceTime[]>();
  const noting: TraceSink = {
    begin: ({ processes }) => {
      for (const process of processes) times.set(process, []);
    },
    lane: () => {},
    event: ({ lane, start, length }) => void times.get(lane.process)?.push(start, traceTime(start + length)),
    end: () => {},
  };
  for (const _ of mergeRun(sources, teeSink(timelineSink(timeline), noting)));
  const { processes } = new ModelLog('run', 'epoch', timeline).model(about);
  for (const [at, [process, all]] of [...times].entries()) {
    const { bounds = [], bound } = processes[at]?.alignment ?? {};
    const told = (time: number): number => bounds.findLast(([from]) => from <= time)?.[1] ?? Number.NaN;
    const { boundAt = () => 0 } = process.alignment;
    expect(all.filter((time) => !(told(time) >= boundAt(time)))).toEqual([]);
    expect(bounds.length).toBeLessThanOrEqual(64);
    const wide = bounds.filter(([, most]) => most > 10e6);
    expect(wide.length).toBe(process.rank === 2 ? 1 : 0);
    expect(bounds.every(([, most]) => most <= (bound ?? 0))).toBe(true);
  }
});
