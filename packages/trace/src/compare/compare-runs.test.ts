import { type NameDifference, nanos, type RunDifference, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { noisySteps, stepNoises } from '../simulate/noisy-steps.ts';
import { Random } from '../simulate/random.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { kinetoSources } from '../torch/kineto-source.ts';
import { compareRuns } from './compare-runs.ts';
import { type RunTimes, type RunTimesOptions, RunTimesSink } from './run-times.ts';
import { type SeriesMiddle, StepSeries } from './step-series.ts';

const ms = 1e6;

/** Spans of one step of a rank: name, start and length in ms from the step's start; on a device with `gpu:`. */
type Drawn = readonly (readonly [name: string, start: number, length: number])[];

interface RunOptions extends RunTimesOptions {
  /** Steps that each rank is behind the one before it. */
  readonly behind?: number;
  /** Time of each rank's phase `forward`, in ms, 0 for a rank that has none; without it, steps have no phases. */
  readonly forward?: (rank: number) => number;
}

/** A run of steps of 100 ms, of `ranks` ranks, with what `draw` puts into each. */
function run(ranks: number, steps: number, draw: (step: number, rank: number) => Drawn, options: RunOptions = {}): RunTimes {
  const { behind = 0, forward } = options;
  const sink = new RunTimesSink(options);
  const processes = Array.from({ length: ranks }, (_, rank) => traceProcess({ index: rank + 1, rank, pid: rank }));
  sink.begin(traceHeader(processes));
  const lanes = processes.map((process) => ({
    host: traceLane({ index: 3 * process.index, process }),
    device: traceLane({ index: 3 * process.index + 1, process, kind: 'stream', name: 'GPU 0 · stream 7' }),
    steps: traceLane({ index: 3 * process.index + 2, process, kind: 'steps' }),
  }));
  for (const { host, device, steps: stepLane } of lanes) for (const lane of [host, device, stepLane]) sink.lane(lane);
  for (let turn = 0; turn < steps + behind * (ranks - 1); turn++) {
    lanes.forEach((lane, rank) => {
      const step = turn - behind * rank;
      if (step < 0 || step >= steps) return;
      const from = turn * 100 * ms;
      for (const [name, start, length] of draw(step, rank)) {
        const isDevice = name.startsWith('gpu:');
        sink.event(
          traceEvent({
            lane: isDevice ? lane.device : lane.host,
            name: name.replace('gpu:', ''),
            start: traceTime(from + start * ms),
            length: nanos(length * ms),
          }),
        );
      }
      const time = forward?.(rank) ?? 0;
      const phases = time === 0 ? undefined : new Map([['forward', nanos(time * ms)]]);
      sink.event(traceEvent({ kind: 'step', lane: lane.steps, step, start: traceTime(from), length: nanos(100 * ms), phases }));
    });
  }
  sink.end();
  return sink.times;
}

const named = ({ names }: RunDifference, name: string): NameDifference => names.find((one) => one.name === name) as NameDifference;
const shape = (difference: RunDifference): string[] =>
  difference.names.map(({ on, name, status, more }) => `${on} ${name} ${status} ${(more / ms).toFixed(1)}`);

describe('a name', () => {
  it('that is slower, faster, added, gone or the same is said to be that, most costly first', () => {
    const a = run(2, 20, (step) => [
      ['outer', 0, 60],
      ['inner', 10, 20 + (step % 3)],
      ['old', 70, 5],
      ['gpu:mm', 0, 30],
    ]);
    const b = run(2, 20, (step) => [
      ['outer', 0, 70],
      ['inner', 10, 30 + (step % 3)],
      ['new', 72, 6],
      ['gpu:mm', 0, 25],
    ]);
    expect(shape(compareRuns(a, b, 0.03))).toEqual([
      'host inner slower 10.0',
      'host new added 6.0',
      'device mm faster -5.0',
      'host old gone -5.0',
      // Longer as a whole, by what is inside of it.
      'host outer noise 0.0',
    ]);
    const { a: before, b: after, part } = named(compareRuns(a, b, 0.03), 'inner');
    expect([before?.count, before?.steps, after?.level, part]).toEqual([1, 20, 31 * ms, 10 / 21]);
    expect(named(compareRuns(a, b, 0.03), 'old')).toMatchObject({ b: null, part: null });
  });

  it('that is a phase of one rank of three is a third of a call per step and rank, as the span of that name', () => {
    const of = (length: number): RunTimes =>
      run(3, 20, (_, rank) => [[rank === 1 ? 'forward' : 'other', 0, rank === 1 ? length : 5]], {
        forward: (rank) => (rank === 1 ? length : 0),
      });
    const counts = compareRuns(of(30), of(45), 0.03).names.map(({ kind, a, b, more }) => [kind, a?.count, b?.count, Math.round(more / ms)]);
    expect(counts.filter(([, , , more]) => more !== 0).sort()).toEqual([
      ['op', 1 / 3, 1 / 3, 5],
      ['phase', 1 / 3, 1 / 3, 5],
    ]);
  });

  it('that scatters as much as it differs is noise, and the interval says why', () => {
    const noisy = (seed: number): RunTimes => {
      const random = new Random(seed, 'scatter');
      return run(1, 40, () => [['op', 0, 30 * (1 + 0.2 * (random.uniform(0, 1) - 0.5))]]);
    };
    const { status, low, high, more } = named(compareRuns(noisy(1), noisy(2), 0.001), 'op');
    expect(status).toBe('noise');
    expect(low as number).toBeLessThan(0);
    expect(high as number).toBeGreaterThan(0);
    expect(Math.abs(more)).toBeLessThan(2 * ms);
  });

  it('of a rank is found on that rank, and rare steps count by their mean', () => {
    const a = run(4, 20, (step) => [['op', 0, 20], ...(step % 5 === 0 ? [['save', 60, 10] as const] : [])]);
    const b = run(4, 20, (step, rank) => [['op', 0, rank === 2 ? 40 : 20], ...(step % 5 === 0 ? [['save', 60, 30] as const] : [])]);
    const difference = compareRuns(a, b, 0.03);
    expect(named(difference, 'op')).toMatchObject({ status: 'slower', more: 5 * ms, basis: 'median' });
    expect(named(difference, 'op').ranks[0]).toEqual({ rank: 2, a: 20 * ms, b: 40 * ms });
    expect(named(difference, 'save')).toMatchObject({ basis: 'mean', more: 4 * ms });
  });

  it.each([0, 10])(
    'that half of the steps have is the same in the same job, whichever of them one step more has (%i ms in the others)',
    (rest) => {
      const job = (steps: number, first: number, more = 0): RunTimes =>
        run(2, steps, (step) => {
          const time = (step % 2 === first ? 20 + more : rest) + (step % 3) / 10;
          return [['forward', 0, 40], ...(time < 1 ? [] : [['optimizer', 50, time] as const])];
        });
      for (const steps of [10, 21, 101]) {
        for (const other of [job(steps, 1), job(steps + 1, 0)]) {
          const same = named(compareRuns(job(steps, 0), other, 0.03), 'optimizer');
          expect([steps, same.status]).toEqual([steps, 'noise']);
        }
      }
      const longer = named(compareRuns(job(301, 0), job(301, 1, 15), 0.03), 'optimizer');
      expect(longer).toMatchObject({ status: 'slower', basis: 'mean' });
      expect(Math.abs(longer.more / ms - 7.5)).toBeLessThan(0.3);
    },
  );

  it('that is slower in each of few steps is said to be that, though the first one took five times as long', () => {
    for (const steps of [6, 7, 8, 9, 10, 11]) {
      const draw =
        (factor: number) =>
        (step: number): Drawn => [['op', 0, factor * (step === 0 ? 10 : 2 + 0.01 * (step % 3))]];
      const row = named(compareRuns(run(1, steps, draw(1)), run(1, steps, draw(1.3)), 0.03), 'op');
      expect([steps, row.status, row.basis]).toEqual([steps, 'slower', 'median']);
      expect((row.part as number) / 0.3).toBeCloseTo(1, 1);
    }
  });

  it('that is slower in each step is said to be that, though every tenth one takes three times as long', () => {
    for (const steps of [15, 17, 25, 29, 39, 63]) {
      const draw =
        (factor: number) =>
        (step: number): Drawn => [['op', 0, factor * (step % 10 === 4 ? 30 : 10 + 0.1 * (step % 3))]];
      const row = named(compareRuns(run(1, steps, draw(1)), run(1, steps, draw(1.3)), 0.03), 'op');
      expect([steps, row.status, row.basis]).toEqual([steps, 'slower', 'median']);
    }
  });

  it('that is longer in every other step differs from itself by no more than its interval, whichever of few steps come first', () => {
    for (const steps of [3, 4, 5, 6, 7, 8, 9, 10, 11]) {
      const draw =
        (first: number) =>
        (step: number): Drawn => [['op', 0, (step + first) % 2 === 0 ? 20 : 36]];
      const row = named(compareRuns(run(1, steps, draw(0)), run(1, steps, draw(1)), 0.03), 'op');
      expect([steps, row.status]).toEqual([steps, 'noise']);
      expect([(row.low as number) <= 0, (row.high as number) >= 0]).toEqual([true, true]);
    }
  });

  it('of work that the other run did not record at all is neither gone nor added', () => {
    const a = run(1, 5, () => [
      ['op', 0, 20],
      ['gpu:mm', 0, 10],
    ]);
    const b = run(1, 5, () => [['op', 0, 20]]);
    expect(named(compareRuns(a, b, 0.03), 'mm').status).toBe('unrecorded');
    expect(named(compareRuns(b, a, 0.03), 'mm').status).toBe('unrecorded');
  });

  it('with fewer than three steps has no noise that is known, and there is no verdict', () => {
    const a = run(1, 2, () => [['op', 0, 20]]);
    const difference = compareRuns(
      a,
      run(1, 2, () => [['op', 0, 30]]),
      0.03,
    );
    expect(named(difference, 'op')).toMatchObject({ status: 'unknown', low: null, high: null });
    expect(difference).toMatchObject({ verdict: null, verdictText: expect.stringContaining('A has 2, B has 2') });
  });

  it('counts in the steps and on the ranks that were asked for', () => {
    const draw = (step: number, rank: number): Drawn => [['op', 0, step < 5 ? 10 : 20 + rank]];
    const times = run(3, 10, draw, { steps: { first: 5, last: 7 }, hasRank: (rank) => rank > 0 });
    expect([times.ranks, times.detailSteps, times.names[0]?.count]).toEqual([[1, 2], 3, 6]);
    expect(times.names[0]?.series.median(3).level).toBe(21.5 * ms);
  });
});

it('a step is counted once however far its ranks lie apart, and the parts that come late are in sums and counted', () => {
  const draw = (_: number, rank: number): Drawn => [['op', 0, 20 + 10 * rank]];
  const forward = (rank: number): number => 1 + rank;
  const together = run(2, 100, draw, { forward });
  const near = run(2, 100, draw, { forward, behind: 31 });
  const apart = run(2, 100, draw, { forward, behind: 40 });
  const figures = ({ steps, detailSteps, stepParts, lateParts }: RunTimes): number[] => [steps, detailSteps, stepParts, lateParts];
  expect(figures(together)).toEqual([100, 100, 200, 0]);
  expect(figures(near)).toEqual([100, 100, 200, 0]);
  // While rank 0 runs, 32 steps wait: rank 1 comes late to all but the last 32.
  expect(figures(apart)).toEqual([100, 100, 200, 68]);
  const difference = compareRuns(together, apart, 0.03);
  expect([difference.a.lateParts, difference.b.lateParts]).toEqual([0, 68]);
  for (const name of ['op', 'forward']) {
    const { a, b } = named(difference, name);
    expect([b?.count, b?.total, b?.self], name).toEqual([a?.count, a?.total, a?.self]);
  }
  expect(named(difference, 'op').ranks.map(({ a, b }) => b - a)).toEqual([0, 0]);
});

const seeds = seedCount(12);
it(`the same job twice has no certain difference, and a planted one is certain, whatever the seed (seeds 1 to ${seeds})`, () => {
  const times = (seed: number, options: ClusterOptions = {}): RunTimes => {
    const sink = new RunTimesSink();
    const { sources } = simulatedCluster({ seed, ranks: 4, hosts: 1, steps: 40, rpcsPerSecond: 0, ...options });
    for (const _ of mergeRun(sources, sink));
    return sink.times;
  };
  for (let seed = 1; seed <= seeds; seed++) {
    const before = times(seed);
    const same = compareRuns(before, times(seed + 100), 0.03);
    expect(
      same.names.filter(({ status }) => ['slower', 'faster', 'added', 'gone'].includes(status)),
      `seed ${seed}`,
    ).toEqual([]);
    expect(same.verdict, `seed ${seed}`).toBe('unchanged');
    const slow = compareRuns(before, times(seed + 200, { stragglers: [{ rank: 2, phase: 'backward', ms: 20 }] }), 0.03);
    const backward = slow.names.find(({ kind, name }) => kind === 'op' && name === 'backward') as NameDifference;
    expect([slow.verdict, backward.status, backward.ranks[0]?.rank], `seed ${seed}`).toEqual(['slower', 'slower', 2]);
    // 20 ms on one of four ranks, within 10 %.
    expect(Math.abs(backward.more / ms - 5), `seed ${seed}`).toBeLessThan(0.5);
  }
});

it('adds up to the kernels in the files of a GPU job, counted on their own', () => {
  const { files } = gpuJob({ seed: 3, ranks: 4, steps: 5 });
  const sources = kinetoSources(
    files.map(({ name, text }, rank) => {
      const table = readKineto(new TextEncoder().encode(text), { keep: 'all' });
      return { run: 'job', rank, worldSize: files.length, files: [{ name, table }] };
    }),
  );
  const sink = new RunTimesSink();
  for (const _ of mergeRun(sources, sink));
  const { times } = sink;
  // Steps end later than their last kernels here, so each kernel of a step ends in it.
  const counts = new Map<string, number>();
  for (const { text } of files) {
    const { traceEvents } = JSON.parse(text) as { traceEvents: { ph: string; cat?: string; name: string; ts: number; dur?: number }[] };
    const steps = traceEvents.filter(({ name, cat }) => cat === 'user_annotation' && name.startsWith('ProfilerStep#'));
    const from = Math.min(...steps.map(({ ts }) => ts));
    for (const { cat, name, ts } of traceEvents)
      if (cat === 'kernel' && ts >= from && !name.startsWith('nccl')) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const kernels = times.names.filter(({ kind, on }) => kind === 'kernel' && on === 'device');
  expect(counts.size).toBeGreaterThan(2);
  expect(Object.fromEntries(kernels.map(({ name, count }) => [name, count]))).toEqual(Object.fromEntries(counts));
  const difference = compareRuns(times, times, 0.03);
  expect(difference.verdict).toBe('unchanged');
  expect(new Set(difference.names.map(({ more, status }) => `${status} ${more}`))).toEqual(new Set(['noise 0']));
});

it.each([undefined, { first: 5, last: 40 }])(
  'counts kernels to the step that launched them, however far hosts run ahead (steps %o)',
  (steps) => {
    const { files } = gpuJob({
      seed: 4,
      ranks: 2,
      steps: 60,
      layers: 2,
      synchronizes: 'last',
      faults: [{ kind: 'slow_kernels', amount: 30 }],
    });
    const sink = new RunTimesSink({ steps });
    const sources = files.map(({ name, text }, rank) => {
      return { run: 'job', rank, worldSize: 2, files: [{ name, table: readKineto(new TextEncoder().encode(text), { keep: 'all' }) }] };
    });
    for (const _ of mergeRun(kinetoSources(sources), sink));
    interface Event {
      readonly cat?: string;
      readonly name: string;
      readonly ts: number;
      readonly dur: number;
      readonly args?: { readonly correlation?: number };
    }
    /** By name: its kernels, and by step their length, µs, as the mean of the ranks that have the step. */
    const truth = new Map<string, { count: number; readonly bySteps: Map<number, number> }>();
    let late = 0;
    for (const { text } of files) {
      const { traceEvents } = JSON.parse(text) as { traceEvents: Event[] };
      // Rank 1's file begins in step 2.
      const ranksOf = (number: number): number => (number === 2 ? 1 : 2);
      const calls = new Map(traceEvents.flatMap(({ cat, args, ts }) => (cat === 'cuda_runtime' ? [[args?.correlation, ts] as const] : [])));
      const all = traceEvents.filter(({ name, cat }) => cat === 'user_annotation' && name.startsWith('ProfilerStep#'));
      for (const { cat, name, args, ts, dur } of traceEvents) {
        const launched = calls.get(args?.correlation) ?? Number.NaN;
        const step = all.find((one) => launched >= one.ts && launched < one.ts + one.dur);
        const number = Number(step?.name.slice('ProfilerStep#'.length));
        if (
          cat !== 'kernel' ||
          name.startsWith('nccl') ||
          step === undefined ||
          number < (steps?.first ?? 0) ||
          number > (steps?.last ?? 99)
        )
          continue;
        if (ts > step.ts + step.dur) late++;
        const of = truth.get(name) ?? { count: 0, bySteps: new Map() };
        truth.set(name, of);
        of.count++;
        of.bySteps.set(number, (of.bySteps.get(number) ?? 0) + dur / ranksOf(number));
      }
    }
    expect(late).toBeGreaterThan(100);
    const kernels = sink.times.names.filter(({ kind, on }) => kind === 'kernel' && on === 'device');
    expect(Object.fromEntries(kernels.map(({ name, count }) => [name, count]))).toEqual(
      Object.fromEntries([...truth].map(([name, { count }]) => [name, count])),
    );
    for (const { name, series } of kernels) {
      const of = [...(truth.get(name)?.bySteps.values() ?? [])].sort((a, b) => a - b);
      expect(series.steps).toBe(of.length);
      expect(series.quantile(1, of.length) / ((of.at(-1) as number) * 1000)).toBeCloseTo(1, 2);
      expect(series.quantile(0, of.length) / ((of[0] as number) * 1000)).toBeCloseTo(1, 2);
    }
  },
);

describe('a series over steps', () => {
  it('counts steps without it as 0', () => {
    const series = new StepSeries();
    for (const value of [10, 20, 30]) series.add(value);
    // 0, 0, 10, 20, 30
    expect([0, 0.25, 0.5, 0.75, 1].map((share) => series.quantile(share, 5))).toEqual([0, 0, 10, 20, 30]);
    // 0, 10, 20, 30
    expect(series.quantile(0.5, 4)).toBe(15);
    expect(series.quantile(1 / 6, 4)).toBe(5);
    expect(series.mean(6)).toBe(10);
  });

  it('does not let one slow step among a few decide', () => {
    const series = new StepSeries();
    for (const value of [1000, 101, 100, 99, 100, 100]) series.add(value);
    const { level, error } = series.median(6);
    expect(level).toBe(100);
    expect(error as number).toBeLessThan(2);
  });

  it.each([12, 64, 160, 640])('knows how little %i steps say that are alike, whatever the noise (50 seeds each)', (steps) => {
    // The level of telegraph noise jumps.
    const kinds = stepNoises.filter((kind) => kind !== 'telegraph');
    let far = 0;
    for (const kind of kinds)
      for (let seed = 0; seed < 50; seed++) {
        const times = noisySteps({ kind, seed: 50_000 + seed, steps: 10 + 3 * steps }).subarray(10);
        const [a, b] = [times.subarray(0, steps), times.subarray(2 * steps)].map((part) => {
          const series = new StepSeries();
          for (const time of part) series.add(time);
          return series.median(steps);
        }) as [SeriesMiddle, SeriesMiddle];
        if (Math.abs(b.level - a.level) > 5 * Math.hypot(a.error as number, b.error as number)) far++;
      }
    // Taken for independent, up to 15 % of them are that far apart.
    expect(far / (50 * kinds.length)).toBeLessThan(0.05);
  });

  it.each([50, 200, 640])('knows how little a mean of %i steps says where many in a row are alike (100 seeds)', (steps) => {
    let far = 0;
    for (let seed = 0; seed < 100; seed++) {
      const random = new Random(seed, 'alike');
      const [a, b] = [0, 1].map(() => {
        const series = new StepSeries();
        let wander = random.normal(0, 1);
        for (let step = 0; step < steps; step++) {
          wander = 0.9 * wander + Math.sqrt(0.19) * random.normal(0, 1);
          series.add(1e6 * (1 + 0.1 * wander));
        }
        return series.middleMean(steps);
      }) as [SeriesMiddle, SeriesMiddle];
      if (Math.abs(b.level - a.level) > 4 * Math.hypot(a.error as number, b.error as number)) far++;
    }
    // Taken for independent, a third of them are that far apart.
    expect(far).toBeLessThan(3);
  });

  it('knows the middle of many steps no better than the sketch of their values', () => {
    for (let at = 0; at < 50; at++) {
      const [a, b] = [0, 1].map((side) => {
        const series = new StepSeries();
        const level = 1e6 * (1 + at / 5000);
        for (let step = 0; step < 600; step++) series.add(level * (1 + 0.0002 * side + 0.001 * Math.sin(step)) + (step === 0 ? 1e8 : 0));
        return series.median(600);
      }) as [SeriesMiddle, SeriesMiddle];
      // Their medians differ by 0.02 %, and may fall into buckets whose values differ by 0.4 %.
      expect(Math.abs(b.level - a.level)).toBeLessThan(1.96 * Math.hypot(a.error as number, b.error as number));
    }
  });
});
