import { type Nanos, nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import { quantile, StepSummarySink, stepsMax } from './step-summary.ts';

const lanes = new Map<number, TraceLane>();

/** `life`: of the rank, 0, 1, … */
function laneOf(rank: number, life: number): TraceLane {
  const index = 100 * life + rank + 1;
  const lane = lanes.get(index) ?? traceLane({ index, process: traceProcess({ index, rank }), kind: 'steps', name: 'ProfilerSteps' });
  lanes.set(index, lane);
  return lane;
}

function stepOf(rank: number, step: number, length: number, phases: Readonly<Record<string, number>> = {}, life = 0): TraceEvent {
  const entries = Object.entries(phases).map(([name, time]): [string, Nanos] => [name, nanos(time)]);
  return traceEvent({
    ...{ kind: 'step', lane: laneOf(rank, life), length: nanos(length), step, name: `ProfilerStep#${step}` },
    phases: entries.length > 0 ? new Map(entries) : undefined,
  });
}

describe('numbers that go back in a life', () => {
  const lap = (sink: StepSummarySink, rank: number, numbers: readonly number[], from: number): void => {
    for (const [at, step] of numbers.entries()) {
      const times = { start: traceTime(from + 10 * at), length: nanos(10) };
      sink.event(traceEvent({ kind: 'step', lane: laneOf(rank, 0), step, name: `ProfilerStep#${step}`, ...times }));
    }
  };

  it('are further steps', () => {
    const sink = new StepSummarySink();
    for (const [from, numbers] of [
      [0, [2, 3, 4]],
      [100, [2, 3, 4]],
      [200, [4]],
      [300, [5, 6]],
    ] as const)
      for (const rank of [0, 1]) lap(sink, rank, numbers, from);
    const { steps, stepCount, lives } = sink.summary;
    expect(steps.map(({ step, ranks }) => [step, ranks])).toEqual([2, 3, 4, 5, 6, 2, 3, 4, 4].map((step) => [step, 2]));
    expect([stepCount, lives.length]).toEqual([9, 2]);
    expect(lives[0]).toEqual({ process: 1, first: 2, last: 6, from: 0, until: 320 });
  });

  it('of steps inside each other are the same step', () => {
    const sink = new StepSummarySink();
    lap(sink, 0, [5, 6], 0);
    lap(sink, 0, [5, 6], 5);
    expect(sink.summary.steps.map(({ step, ranks }) => [step, ranks])).toEqual([[5, 2], [6, 2]]); // biome-ignore format: pairs
  });
});

/** Lines `rank R [life L] step N LENGTH [phase=time …]`. */
function sinkOf(text: string): StepSummarySink {
  const sink = new StepSummarySink();
  for (const line of text.trim().split('\n')) {
    const parts = /^\s*rank (\d+)(?: life (\d+))? step (\d+) (\d+)(.*)$/.exec(line);
    if (parts === null) throw new Error(`Cannot read ${JSON.stringify(line)}`);
    const phases = Object.fromEntries([...(parts[5] as string).matchAll(/(\w+)=(\d+)/g)].map(([, name, time]) => [name, Number(time)]));
    sink.event(stepOf(Number(parts[1]), Number(parts[3]), Number(parts[4]), phases, Number(parts[2] ?? 0)));
  }
  return sink;
}

function checkSteps(text: string, expected: string): void {
  const lines = sinkOf(text).summary.steps.map(({ step, ranks, shortest, longest, slowestRank }) => {
    return `step ${step}: ${ranks} ranks, ${shortest} to ${longest}, slowest rank ${slowestRank}`;
  });
  expect(lines).toEqual(expected.trim().split(/\n\s*/));
}

function checkRanks(text: string, expected: string): void {
  const lines = sinkOf(text).summary.ranks.map(({ rank, steps, mean, phases }) => {
    return [`rank ${rank}: ${steps} steps of ${mean}`, ...[...phases].map(([name, time]) => `${name} ${time}`)].join(', ');
  });
  expect(lines).toEqual(expected.trim().split(/\n\s*/));
}

describe('steps', () => {
  it('that ranks repeat after they were started again are further ones', () => {
    checkSteps(
      `rank 0 step 0 10
       rank 1 step 0 12
       rank 0 step 1 20
       rank 1 step 1 22
       rank 0 life 1 step 1 30
       rank 0 life 1 step 2 40
       rank 1 life 1 step 1 32
       rank 1 life 1 step 2 42
       rank 1 life 2 step 2 52
       rank 0 step 9 60
       rank 1 life 2 step 9 62`,
      `step 0: 2 ranks, 10 to 12, slowest rank 1
       step 1: 2 ranks, 20 to 22, slowest rank 1
       step 2: 2 ranks, 40 to 42, slowest rank 1
       step 9: 2 ranks, 60 to 62, slowest rank 1
       step 1: 2 ranks, 30 to 32, slowest rank 1
       step 2: 1 ranks, 52 to 52, slowest rank 1`,
    );
  });

  it('are as long as their slowest rank’s, in order of number', () => {
    checkSteps(
      `rank 1 step 1 30
       rank 0 step 0 10
       rank 1 step 0 15
       rank 0 step 1 20
       rank 2 step 1 25`,
      `step 0: 2 ranks, 10 to 15, slowest rank 1
       step 1: 3 ranks, 20 to 30, slowest rank 1`,
    );
  });

  it('blame the first of equally slow ranks', () => {
    checkSteps('rank 2 step 0 10\nrank 1 step 0 10', 'step 0: 2 ranks, 10 to 10, slowest rank 2');
  });

  it('have median and 95th percentile of the longest ranks', () => {
    const { median, p95, stepCount } = sinkOf('rank 0 step 0 10\nrank 1 step 0 50\nrank 0 step 1 20\nrank 0 step 2 30').summary;
    expect({ median, p95, stepCount }).toEqual({ median: 30, p95: 48, stepCount: 3 });
  });

  it('of a run without any have no median', () => {
    const sink = new StepSummarySink();
    sink.event({ ...stepOf(0, 0, 10), kind: 'span' });
    expect(sink.summary).toEqual({
      steps: [],
      stepCount: 0,
      firstStart: undefined,
      median: undefined,
      p95: undefined,
      ranks: [],
      lives: [],
      phaseOrder: [],
    });
  });

  it('beyond the bound are forgotten, the first ones first, and still counted', () => {
    const sink = new StepSummarySink();
    for (let step = 0; step < stepsMax + 10; step++) sink.event(stepOf(0, step, 10));
    expect(sink.summary.stepCount).toBe(stepsMax + 10);
    expect(sink.summary.steps.length).toBe(stepsMax);
    expect(sink.summary.steps[0]?.step).toBe(10);
    expect(sink.summary.ranks[0]?.steps).toBe(stepsMax + 10);
    // A rank that lags by more than the bound: its step was counted, and stays evicted.
    sink.event(stepOf(1, 3, 999));
    expect(sink.summary.stepCount).toBe(stepsMax + 10);
    expect(sink.summary.steps[0]?.step).toBe(10);
    expect(sink.summary.ranks[1]).toMatchObject({ rank: 1, steps: 1, mean: 999 });
  });
});

describe('ranks', () => {
  it('have the mean time of each phase, the longest first, then the rest of the step', () => {
    checkRanks(
      `rank 1 step 0 100 forward=30 backward=50
       rank 1 step 1 200 forward=60 backward=80 optimizer=10
       rank 0 step 0 90`,
      `rank 0: 1 steps of 90
       rank 1: 2 steps of 150, backward 65, forward 45, optimizer 5, other 35`,
    );
  });

  it('have no rest where phases overlapped', () => {
    checkRanks('rank 0 step 0 100 forward=80 loader=70', 'rank 0: 1 steps of 100, forward 80, loader 70, other 0');
  });

  it('keep a phase that is called other in the rest', () => {
    checkRanks('rank 0 step 0 100 forward=60 other=30', 'rank 0: 1 steps of 100, forward 60, other 40');
    checkRanks('rank 0 step 0 100 forward=90 other=30', 'rank 0: 1 steps of 100, forward 90, other 30');
  });
});

describe('quantile', () => {
  const check = (values: readonly number[], share: number, expected: number | undefined): void => {
    expect(quantile(values.map(nanos), share)).toBe(expected);
  };

  // R: quantile(c(1, 2, 4, 8, 16), c(0, .25, .5, .6, .9, 1), type = 7); numpy.quantile does the same by default.
  it.each([
    [0, 1],
    [0.25, 2],
    [0.5, 4],
    [0.6, 5.6],
    [0.9, 12.8],
    [1, 16],
  ])('interpolates as type 7 does: share %f of 1 2 4 8 16 is %f', (share, expected) => {
    expect(quantile([1, 2, 4, 8, 16].map(nanos), share)).toBeCloseTo(expected, 9);
  });

  it('of one value is that value, and of none is undefined', () => {
    check([7], 0.95, 7);
    check([], 0.5, undefined);
  });

  it('of an even number of values has the middle of the two middle ones as its median', () => {
    check([1, 2, 3, 10], 0.5, 2.5);
  });
});
