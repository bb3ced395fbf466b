// Blame over runs longer than the steps held at full detail, with faults at any place.

import { cpuWaitCounter, cpuWaitTimeCounter, createEventTables, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { inLaterLife } from '../simulate/later-life.ts';
import { Random } from '../simulate/random.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { traceEvent, traceLane } from '../testing/trace-events.ts';
import { blameLimits } from './blame-limits.ts';
import { type RunBlame, RunBlameSink } from './run-blame-sink.ts';

function blameOf(options: ClusterOptions): RunBlame {
  const sink = new RunBlameSink();
  const cluster = { ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, ...options };
  for (const _ of mergeRun(simulatedCluster(cluster).sources, sink));
  return sink.blame;
}

const fault = (step: number, lastStep: number, rank = 2) => ({ rank, phase: 'backward' as const, ms: 8, step, lastStep });

/** Steps by which a fault's ends may be off: a noisy first or last step may look unaffected. */
const offMax = 8;

describe('a run of 900 steps', () => {
  it.each([
    [400, 527, 1],
    [330, 399, 2],
    [0, 90, 3],
    [200, 299, 4],
    [700, 899, 5],
    [850, 899, 6],
  ])('finds the rank that was slow from step %i to %i, and says when', (first, last, seed) => {
    const { verdict, verdictSteps, findings, steps, last: lastSteps } = blameOf({ seed, steps: 900, stragglers: [fault(first, last)] });
    expect(lastSteps.verdict).toBe(last === 899 ? 'straggler' : 'balanced');
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'backward' }]);
    const [{ steps: covered, affectedSteps, costMsPerAffectedStep, costMsPerStep }] = findings as [RunBlame['findings'][number]];
    expect(verdictSteps).toEqual(covered);
    expect(Math.abs(covered.first - first)).toBeLessThanOrEqual(offMax);
    expect(Math.abs(covered.last - last)).toBeLessThanOrEqual(offMax);
    // Noise may hide the fault in some of its steps.
    expect(Math.abs(affectedSteps - (last - first + 1))).toBeLessThanOrEqual(3 * offMax);
    expect(costMsPerAffectedStep).toBeGreaterThan(5);
    expect(costMsPerAffectedStep).toBeLessThan(8);
    // The same over the run; step 0 is of another kind, and left out.
    expect(costMsPerStep).toBeCloseTo((costMsPerAffectedStep * affectedSteps) / 899, 6);
    expect(steps).toMatchObject({ first: 0, last: 899, count: 900 });
    expect(steps.windows).toBeGreaterThan(900 / blameLimits.blameWindowSteps - 2);
  });

  it('begins a window where all ranks become slower, and shows the last steps since then', () => {
    const stragglers = [0, 1, 2, 3].map((rank) => fault(700, 899, rank));
    const { last, findings } = blameOf({ steps: 900, stragglers });
    expect(Math.abs((last.steps.first ?? 0) - 700)).toBeLessThanOrEqual(offMax);
    expect(findings).toMatchObject([{ kind: 'cluster_wide', phase: 'backward' }]);
    expect(Math.abs((findings[0]?.steps.first ?? 0) - 700)).toBeLessThanOrEqual(offMax);
    expect(Math.abs((findings[0]?.costMsPerAffectedStep ?? 0) - 8)).toBeLessThan(2);
  });

  it('reports what is the fault of no rank once, however often it comes and goes', () => {
    const random = new Random(1, 'who is slow');
    const uneven = [...Array(100).keys()].flatMap((at) => [150 + at, 600 + at].map((step) => fault(step, step, random.whole(4))));
    const { findings } = blameOf({ steps: 900, stragglers: uneven.map((one) => ({ ...one, ms: 30 })) });
    const rotating = findings.filter(({ kind }) => kind === 'rotating_imbalance');
    expect(rotating).toMatchObject([{ stretches: 2, ranks: [] }]);
    const [{ steps, affectedSteps }] = rotating as [RunBlame['findings'][number]];
    // Partly uneven windows count as a whole, or not at all.
    expect(Math.abs(steps.first - 150)).toBeLessThan(blameLimits.blameWindowSteps);
    expect(Math.abs(steps.last - 699)).toBeLessThan(blameLimits.blameWindowSteps);
    expect(affectedSteps).toBeGreaterThan(100);
    expect(affectedSteps).toBeLessThan(400);
  });

  it('reports two faults of half of the ranks as theirs, and the same time once', () => {
    const { findings, last } = blameOf({ steps: 900, stragglers: [fault(200, 500, 1), fault(350, 650, 3)] });
    // Both cost the same: either may come first.
    expect(findings.map(({ kind, ranks }) => [kind, ranks]).sort()).toEqual([
      ['straggler', [1]],
      ['straggler', [3]],
    ]);
    expect(last.findings).toEqual([]);
  });

  it('reports what cost most first, wherever it was, and the verdict is that', () => {
    const { verdictSteps, findings, last } = blameOf({ steps: 900, stragglers: [fault(100, 499, 1), fault(700, 899, 3)] });
    expect(last.findings).toMatchObject([{ kind: 'straggler', ranks: [3] }]);
    expect(findings.map(({ ranks }) => ranks)).toEqual([[1], [3]]);
    expect(verdictSteps).toEqual(findings[0]?.steps);
  });

  it('names two faults one after the other, each with its steps', () => {
    const { findings } = blameOf({ steps: 900, stragglers: [fault(128, 255, 1), fault(448, 575, 3)] });
    const of = (rank: number) => findings.find(({ ranks }) => ranks[0] === rank)?.steps;
    expect(findings).toHaveLength(2);
    expect(of(1)?.last).toBeLessThan(of(3)?.first ?? 0);
  });

  it('reports a fault of the whole run once, from its first step to its last', () => {
    const { verdict, findings } = blameOf({ steps: 900, stragglers: [{ rank: 2, phase: 'backward', ms: 8 }] });
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], steps: { first: 0, last: 899 } }]);
    const [{ affectedSteps, comparedSteps, costMsPerAffectedStep, costMsPerStep }] = findings as [RunBlame['findings'][number]];
    expect([affectedSteps, costMsPerAffectedStep]).toEqual([comparedSteps, costMsPerStep]);
  });

  it.each(someSeeds([0, 1, 2, 3]))('is balanced where no rank is slow, seed %i', (seed) => {
    const { verdict, findings } = blameOf({ steps: 900, seed });
    expect([verdict, findings]).toEqual(['balanced', []]);
  });
});

/** Each step takes 30 ms more on some rank. */
function unevenSteps(seed: number, steps: number, ranks = 4): ReturnType<typeof fault>[] {
  const random = new Random(seed, 'who is slow in this step');
  return [...Array(steps).keys()].map((step) => ({ ...fault(step, step, random.whole(ranks)), ms: 30 }));
}

it.each(someSeeds([1, 2, 3, 4, 5, 6, 7, 8]))(
  'names nobody where in each step another rank is slow, by chance often the same (seed %i)',
  (seed) => {
    const ranks = 3 + (seed % 4);
    const { verdict, findings } = blameOf({ seed, ranks, steps: 600, stragglers: unevenSteps(seed, 600, ranks) });
    expect([verdict, findings.map(({ kind }) => kind)]).toEqual(['rotating_imbalance', ['rotating_imbalance']]);
  },
);

describe('on a busy host', () => {
  /** In each step, threads wait for a CPU in so many % of the time that they want one, and of all time. */
  function waitingRun(waitOf: (step: number) => readonly [wanted: number, all?: number], options: ClusterOptions): RunBlame {
    const sink = new RunBlameSink();
    const waits = new Map<TraceProcess, TraceLane[]>();
    const names = [cpuWaitCounter, cpuWaitTimeCounter];
    const withWaits: TraceSink = {
      begin: (header) => {
        sink.begin(header);
        for (const process of header.processes) {
          const laneOf = (name: string, at: number): TraceLane =>
            traceLane({ index: 1000 * (1 + at) + process.index, process, kind: 'counter', name, unit: '%' });
          waits.set(process, names.map(laneOf));
        }
      },
      lane: (lane) => sink.lane(lane),
      event: (event) => {
        sink.event(event);
        if (event.kind !== 'step') return;
        const start = traceTime(event.start + event.length);
        for (const [at, lane] of (waits.get(event.lane.process) ?? []).entries()) {
          const value = waitOf(event.step)[at];
          if (value !== undefined) sink.event(traceEvent({ kind: 'counter', lane, name: lane.name, start, value }));
        }
      },
      end: (totals) => sink.end(totals),
    };
    for (const _ of mergeRun(
      simulatedCluster({ ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, seed: 3, ...options }).sources,
      withWaits,
    ));
    return sink.blame;
  }
  /** Steps of 85 ms. */
  const busyRun = (cpuWait: number, stragglers: ReturnType<typeof fault>[], steps = 900): RunBlame =>
    waitingRun(() => [cpuWait], { steps, stragglers: [...unevenSteps(3, steps), ...stragglers] });
  const slowFrom = (step: number, lastStep: number, ms = 60) => [{ ...fault(step, lastStep), ms }];
  const ofRanks = ({ findings }: RunBlame) => findings.filter(({ kind }) => kind === 'straggler').map(({ ranks }) => ranks);

  it('a rank that is slow for a few seconds is not named: scheduling may be the cause, and has the cost', () => {
    const short = slowFrom(300, 342);
    expect(ofRanks(busyRun(2, short))).toEqual([[2]]);
    const busy = busyRun(60, short);
    expect([busy.verdict, ofRanks(busy)]).toEqual(['cpu_contention', []]);
    const costOf = (run: RunBlame): number => run.findings.reduce((sum, { costMsPerStep }) => sum + costMsPerStep, 0);
    expect(Math.abs(costOf(busy) / costOf(busyRun(2, short)) - 1)).toBeLessThan(0.05);
  });

  it.each([
    ['too little for it', 0.6, 'rotating_imbalance'],
    ['enough for it', 30, 'cpu_contention'],
  ] as const)('uneven work is that of the host only where threads wait %s', (_, all, kind) => {
    const { verdict, findings } = waitingRun(() => [60, all], { steps: 600, stragglers: unevenSteps(3, 600) });
    expect([verdict, findings.map((finding) => finding.kind)]).toEqual([kind, [kind]]);
    expect(findings[0]?.evidence[0]).toContain(`they had none, ${all.toFixed(1)} % of all time`);
  });

  it('steps that are long now and then are the verdict where the hosts were busy in the first steps alone', () => {
    const [random, steps] = [new Random(5), 600];
    const long = Array.from({ length: steps }, (_, step) => step).filter((step) => step > 20 && random.uniform() < 0.05);
    const stragglers = long.map((step) => ({ ...fault(step, step), ms: 400 }));
    const verdictWith = (busySteps: number): string =>
      waitingRun((step) => (step < busySteps ? [60, 30] : [1, 0.1]), { steps, stragglers }).verdict;
    expect([verdictWith(40), verdictWith(steps)]).toEqual(['long_steps', 'balanced']);
  });

  it('ranks that all become slower for some seconds are not the host, where their threads wait too little for that', () => {
    const stragglers = [0, 1, 2, 3].map((rank) => ({ ...fault(230, 319, rank), ms: 40 }));
    const kindsWith = (ofAll: number): string[] =>
      waitingRun(() => [60, ofAll], { steps: 320, stragglers }).findings.flatMap(({ kind }) => (kind === 'cluster_wide' ? [kind] : []));
    expect([kindsWith(2.5), kindsWith(60)]).toEqual([['cluster_wide'], []]);
  });

  it.each([
    ['for longer than ten seconds', slowFrom(300, 499)],
    ['in more of the steps than not', slowFrom(30, 99), 100],
    ['by more than scheduling explains', slowFrom(300, 342, 400)],
  ])('one that is slow %s is named', (_, straggler, steps = 900) => {
    expect(ofRanks(busyRun(60, straggler, steps))).toEqual([[2]]);
  });
});

it.each([8, 10, 12, 14, 16, 18, 20, 30])('the rank that is slow in the last %i of 200 steps is the verdict', (count) => {
  // It takes much of a window's steps, and little of all of them.
  const first = 200 - count;
  const { verdict, verdictSteps, findings } = blameOf({
    ...{ ranks: 8, stepMs: 200, steps: 200, seed: count },
    stragglers: [{ rank: 3, phase: 'forward', ms: 40, step: first, lastStep: 199 }],
  });
  expect({ verdict, findings }).toMatchObject({ verdict: 'straggler', findings: [{ kind: 'straggler', ranks: [3], phase: 'forward' }] });
  expect(verdictSteps).toEqual({ first, last: 199 });
  expect(findings[0]?.affectedSteps).toBe(count);
  expect(findings[0]?.costMsPerStep).toBeCloseTo((37 * count) / 199, 0);
});

it.each([6, 8, 10, 12, 14])('so is one that is slow in %i of the first steps, which are most of those before the fault ends', (count) => {
  const { verdict, findings } = blameOf({
    ...{ ranks: 4, stepMs: 100, steps: 200, seed: 7 + count },
    stragglers: [{ rank: 1, phase: 'backward', ms: 20, step: 2, lastStep: count + 1 }],
  });
  expect({ verdict, findings }).toMatchObject({ verdict: 'straggler', findings: [{ kind: 'straggler', ranks: [1], phase: 'backward' }] });
  // Where it is slow in almost all steps of a window, it counts as slow in each.
  expect(Math.abs((findings[0]?.affectedSteps ?? 0) - count)).toBeLessThanOrEqual(2);
});

it.each([
  ['recovers before the other', 3, [0, 53], [0, 63]],
  ['becomes slow later than the other', 2, [0, 63], [54, 63]],
] as const)('counts the time of two slow ranks of a host once, where one of them %s', (_, inAll, first, second) => {
  const stragglers = [first, second].map(([step, lastStep], at) => ({ rank: 2 + at, phase: 'data' as const, ms: 40, step, lastStep }));
  const { findings } = blameOf({ steps: 64, seed: 102, stepMs: 200, hosts: 2, stragglers });
  // Steps are as long as if only the rank that is slow in all of them were.
  const cost = findings.filter(({ ranks }) => ranks.includes(inAll)).reduce((sum, { costMsPerStep }) => sum + costMsPerStep, 0);
  expect(Math.abs(cost - 38)).toBeLessThan(2);
  expect(new Set(findings.flatMap(({ ranks }) => ranks))).toEqual(new Set([2, 3]));
});

const stages = { ranks: 4, steps: 50, stepMs: 200, tensorParallel: 2, pipeline: 2 } as const;

it('says of no stage that it works longer, where a rank of the other one is slow from the third step on, and hides it', () => {
  const [rank, phase] = [3, 'data'] as const;
  for (const seed of someSeeds([1, 2, 3, 4])) {
    const { verdict, findings } = blameOf({ ...stages, seed, stragglers: [{ rank, phase, ms: 34, step: 2, lastStep: 49 }] });
    expect([seed, verdict, findings]).toEqual([seed, 'balanced', []]);
  }
});

it('lets steps in which a stage is like the others take as long, where the others are mended', () => {
  const options = { ...stages, ranks: 2, tensorParallel: 1, steps: 64, seed: 102 };
  const { verdict, findings } = blameOf({ ...options, stragglers: [{ rank: 0, phase: 'data', ms: 59, step: 30, lastStep: 63 }] });
  expect(verdict).toBe('stage_imbalance');
  expect(findings).toMatchObject([{ ranks: [0], phase: 'data' }]);
  const cost = (59 * 34) / 64;
  expect(Math.abs((findings[0]?.costMsPerStep ?? 0) - cost)).toBeLessThan(0.05 * cost);
});

it.each([
  ['with a pipeline', { pipeline: 2, ranks: 8 }],
  ['without one', { tensorParallel: 2, ranks: 6 }],
])('a rank whose metadata was lost has the peers that the others of its groups have, in a job %s', (_, shape) => {
  const options = { ...shape, hosts: 1, steps: 30, stepMs: 200, rpcsPerSecond: 0, seed: 3 };
  const { sources } = simulatedCluster({ ...options, stragglers: [{ rank: 1, phase: 'forward', ms: 30 }] });
  const without = ({ batch, ...source }: BatchSource): BatchSource => ({
    ...source,
    batch: (index, only) => {
      const read = batch(index, only);
      return read && { ...read, tables: { ...read.tables, metadata: createEventTables().metadata } };
    },
  });
  const sink = new RunBlameSink();
  for (const _ of mergeRun(
    sources.map((source) => (source.rank === 1 ? without(source) : source)),
    sink,
  ));
  expect(sink.blame.findings).toMatchObject([{ kind: 'straggler', ranks: [1], phase: 'forward' }]);
});

it('says of a short run what its steps say', () => {
  const { verdict, findings, steps } = blameOf({ steps: 24, stragglers: [{ rank: 2, phase: 'backward', ms: 8 }] });
  expect(verdict).toBe('straggler');
  expect(findings).toMatchObject([{ ranks: [2], steps: { first: 0, last: 23 } }]);
  expect(steps).toEqual({ first: 0, last: 23, count: 24, windows: 1 });
});

describe('numbers of steps that go back in a life, as with profilers one after the other', () => {
  /** `numberOf`: the number that a step has, by how many came before it. */
  function blameOfNumbered(options: ClusterOptions, numberOf: (step: number) => number): RunBlame {
    const sink = new RunBlameSink();
    const numbered: TraceSink = {
      begin: (header) => sink.begin(header),
      lane: (lane) => sink.lane(lane),
      event: (event) => sink.event(event.kind === 'step' ? Object.create(event, { step: { value: numberOf(event.step) } }) : event),
      end: (totals) => sink.end(totals),
    };
    const cluster = { ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, ...options };
    for (const _ of mergeRun(simulatedCluster(cluster).sources, numbered));
    return sink.blame;
  }

  it.each([
    [0, 199],
    [300, 499],
    [500, 699],
  ])('judges all of them, and names a rank that is slow from the %i. to the %i. step', (first, last) => {
    const { verdict, findings, steps } = blameOfNumbered({ steps: 700, stragglers: [fault(first, last)] }, (step) => step % 250);
    expect(steps).toMatchObject({ first: 0, last: 249, count: 700, areRepeated: true });
    expect(verdict).toBe('straggler');
    expect(findings.map(({ kind, ranks, phase }) => [kind, ranks, phase])).toContainEqual(['straggler', [2], 'backward']);
    const affected = findings.filter(({ ranks }) => ranks.includes(2)).reduce((sum, { affectedSteps }) => sum + affectedSteps, 0);
    expect(Math.abs(affected - 200)).toBeLessThanOrEqual(3 * offMax);
  });

  it('stays quick where they go back all the time', () => {
    expect(blameOfNumbered({ steps: 3000, ranks: 2 }, (step) => step % 2).verdict).not.toBe('straggler');
  });
});

describe('ranks that are started again', () => {
  /** A life that begins later, with steps from `firstStep` on. */
  const laterLife = (source: BatchSource, firstStep: number, seconds = 60): BatchSource => {
    const incarnation = `z${seconds}${source.incarnation.slice(3)}`;
    return {
      ...source,
      incarnation,
      batch: (index, only) => {
        const read = source.batch(index, only);
        return read && inLaterLife(read, { incarnation, seconds, firstStep });
      },
    };
  };

  function blameOfLives(before: ClusterOptions, since: ClusterOptions, first: number): RunBlame {
    const shared = { ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0 };
    const [one, other] = [before, since].map((options) => simulatedCluster({ ...shared, ...options }).sources);
    const sink = new RunBlameSink();
    for (const _ of mergeRun([...(one ?? []), ...(other ?? []).map((source) => laterLife(source, first))], sink));
    return sink.blame;
  }

  const slow = { rank: 2, phase: 'backward' as const, ms: 8 };

  it.each([
    ['from a checkpoint', 250],
    ['from 0 again', 0],
    ['where they were', 300],
  ])('%s: every life is judged, and a rank that is slow in one of them is named', (_, first) => {
    for (const isSlowSince of [true, false]) {
      const stragglers = [slow];
      const [before, since] = [
        { steps: 300, ...(!isSlowSince && { stragglers }) },
        { steps: 400, ...(isSlowSince && { stragglers }) },
      ];
      const { verdict, findings, steps, last } = blameOfLives(before, since, first);
      expect(verdict).toBe('straggler');
      expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'backward' }]);
      const affected = isSlowSince ? 400 : 300;
      expect(Math.abs((findings[0]?.affectedSteps ?? 0) - affected)).toBeLessThanOrEqual(3 * offMax);
      expect(findings[0]?.steps.last).toBeLessThan(isSlowSince ? first + 400 : 300);
      expect(steps).toMatchObject({ first: 0, last: first + 399, count: 700 });
      expect(steps.areRepeated).toBe(first < 300 ? true : undefined);
      expect(last.verdict).toBe(isSlowSince ? 'straggler' : 'balanced');
      const change = last.change?.change ?? 0;
      expect(isSlowSince ? change : -change).toBeGreaterThan(4e6);
    }
  });

  it('soon, again and again, and before they are warm: no life is lost', () => {
    const sink = new RunBlameSink();
    const lives = [5, 30, 1, 60, 20].map((steps, life) => {
      const { sources } = simulatedCluster({ ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, steps, stragglers: [slow] });
      return sources.map((source) =>
        life === 0 ? source : { ...laterLife(source, 0, 60 * life), incarnation: `z${life}${source.incarnation.slice(2)}` },
      );
    });
    for (const _ of mergeRun(lives.flat(), sink));
    const { verdict, findings, steps } = sink.blame;
    expect([verdict, findings.map(({ ranks }) => ranks)]).toEqual(['straggler', [[2]]]);
    expect(steps).toMatchObject({ first: 0, last: 59, count: 5 + 30 + 1 + 60 + 20, areRepeated: true });
  });

  it('one alone, while the others wait: all steps but those in which it began are judged', () => {
    const [cluster] = [{ ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, steps: 400, stragglers: [slow] }];
    const sources = simulatedCluster(cluster).sources.flatMap((source) => {
      if (source.rank !== 1) return [source];
      const half = source.count >> 1;
      const life = (from: number, until: number, incarnation: string): BatchSource => ({
        ...{ rank: 1, incarnation, count: until - from, missing: 0, tellsTracks: true },
        batch: (index, only) => {
          const read = source.batch(from + index, only);
          return read && { ...read, header: { ...read.header, incarnation, sequence: index, last: index === until - from - 1 } };
        },
      });
      return [life(0, half, 'a-1'), life(half, source.count, 'a-2')];
    });
    const sink = new RunBlameSink();
    for (const _ of mergeRun(sources, sink));
    const { verdict, findings, steps } = sink.blame;
    expect([verdict, findings.map(({ ranks }) => ranks)]).toEqual(['straggler', [[2]]]);
    expect(steps.count).toBeGreaterThan(395);
  });
});
