// One fault is one incident, and two are two: on simulated ranks that wait for the slowest, and on recordings of four ranks on a busy host.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { Random } from '../simulate/random.ts';
import type { AlertChange, EngineAlert } from './alert-change.ts';
import { AlertEngine, type AlertEngineState } from './alert-engine.ts';

const ms = 1e6;
const seeds = someSeeds([1, 2, 3, 4, 5, 6]);

/** Own work and the all-reduce of each rank in one step, ns. */
type Step = readonly { readonly data: number; readonly forward: number; readonly allReduce: number }[];

/** Feeds steps to an engine, and keeps its reports. */
class Watched {
  engine = new AlertEngine('night');
  readonly reported: (AlertChange & { readonly atStep: number })[] = [];
  #nowMs = Date.UTC(2026, 0, 5, 12);
  #step = 0;
  readonly #third: string;

  /** `third`: the phase in which ranks wait; DistributedDataParallel does so in `backward`, which a rank does not say of itself. */
  constructor(third: 'all_reduce' | 'backward' = 'all_reduce') {
    this.#third = third;
  }

  /** `isByBatch`: judges after each rank's batch, so that the first step is judged with the first rank alone. */
  step(ranks: Step, isByBatch = false): void {
    const lengths = ranks.map(({ data, forward, allReduce }) => data + forward + allReduce);
    this.#nowMs += Math.max(...lengths) / ms;
    for (const [rank, { data, forward, allReduce }] of ranks.entries()) {
      const worldSize = ranks.length;
      const fact = { worldSize, host: 'a', incarnation: '1', ended: false, dropped: 0, missing: 0, lost: 0, clockSamples: 1 };
      this.engine.rank(rank, fact, this.#nowMs);
      const phases = new Map([
        ['data', data],
        ['forward', forward],
        [this.#third, allReduce],
      ]);
      this.engine.step(rank, { step: this.#step, length: lengths[rank] as number, overhead: 0, phases, context: 0 });
      if (isByBatch || rank === ranks.length - 1)
        this.reported.push(...this.engine.changes(this.#nowMs).map((change) => ({ ...change, atStep: this.#step })));
    }
    this.#step++;
  }

  restart(): void {
    this.engine = AlertEngine.restore(JSON.parse(JSON.stringify(this.engine.state())) as AlertEngineState, this.#nowMs);
  }

  /** Incidents as last reported, in the order in which they fired. */
  get incidents(): EngineAlert[] {
    const last = new Map(this.reported.map(({ alert }) => [alert.id, alert]));
    return this.reported.filter(({ kind }) => kind === 'fired').map(({ alert }) => last.get(alert.id) as EngineAlert);
  }
}

interface Noise {
  /** Noise of each rank's own work, and of all ranks together. */
  readonly own: number;
  readonly common: number;
}

interface Job {
  readonly seed: number;
  readonly steps: number;
  /** Own work of a rank, ms, at a step. */
  readonly work: (rank: number, step: number) => number;
  readonly transfer?: (step: number) => number;
  readonly noise?: Noise;
  readonly restartAt?: number;
}

const quiet: Noise = { own: 0.004, common: 0 };

/** Four ranks that meet at the end of each step; now and then one is delayed for a while, as on any host. */
function watch({ seed, steps, work, transfer = () => 2, noise = quiet, restartAt }: Job): Watched {
  const random = new Random(seed, 'incidents');
  const watched = new Watched();
  for (let step = 0; step < steps; step++) {
    if (step === restartAt) watched.restart();
    const common = random.lognormal(1, noise.common);
    const own = [0, 1, 2, 3].map((rank) => {
      const spike = random.chance(0.01) ? 3 : 0;
      return {
        data: random.lognormal(2, noise.own) * ms,
        forward: (work(rank, step) * common * random.lognormal(1, noise.own) + spike) * ms,
      };
    });
    const longest = Math.max(...own.map(({ data, forward }) => data + forward)) + random.lognormal(transfer(step), noise.own) * ms;
    watched.step(own.map(({ data, forward }) => ({ data, forward, allReduce: longest - data - forward })));
  }
  return watched;
}

const summaries = (watched: Watched): string[] => watched.reported.map(({ alert }) => alert.summary);
const jump =
  (slow: number, from: number, byMs: number, until = Number.POSITIVE_INFINITY) =>
  (rank: number, step: number): number =>
    rank === slow && step >= from && step < until ? byMs : 0;

/** Step times of four ranks (10 µs), rank by rank: length, data, forward, and the phase in which they wait. */
function recorded(name: string, watched = new Watched()): Watched {
  const text = gunzipSync(readFileSync(new URL(`fixtures/${name}.csv.gz`, import.meta.url))).toString();
  for (const line of text.trim().split('\n').slice(1)) {
    const values = line.split(',').map((value) => Number(value) * 0.01 * ms);
    const part = (rank: number, at: number): number => values[1 + 4 * rank + at] as number;
    watched.step([0, 1, 2, 3].map((rank) => ({ data: part(rank, 1), forward: part(rank, 2), allReduce: part(rank, 3) })));
  }
  return watched;
}

describe('a jump of 40 ms of one rank on a busy host, as recorded', () => {
  // These used to be three, two and two incidents: the rank, the cluster "little by little" or "cluster wide", and ranks that waited.
  it.each([
    ['busy-host-a', 400],
    ['busy-host-b', 400],
    ['busy-host-c', 250],
  ])('%s: is one incident with the rank, the size and the onset', (name, from) => {
    const watched = recorded(name);
    expect(watched.incidents).toHaveLength(1);
    const [alert] = watched.incidents as [EngineAlert];
    expect(alert).toMatchObject({ rule: 'step_time', state: 'firing', ranks: [2], hint: { ranks: [2], phase: 'forward' } });
    expect(Math.abs((alert.onsetStep ?? 0) - from)).toBeLessThanOrEqual(16);
    const first = watched.reported[0]?.alert;
    expect((first?.after ?? 0) - (first?.before ?? 0)).toBeGreaterThan(30 * ms);
    expect(summaries(watched).join()).not.toContain('little by little');
  });
});

it('a rank that sleeps 20 ms in forward is found where its peers wait in backward, on a host so busy that steps rise by 7 ms at first', () => {
  const watched = recorded('busy-host-ddp', new Watched('backward'));
  expect(watched.incidents).toMatchObject([
    { rule: 'step_time', state: 'firing', series: { kind: 'phase', phase: 'forward' }, onsetStep: 1000 },
  ]);
});

it('a rank that was slow for 40 steps and is back when its alert would be due raises none', () => {
  const work = (rank: number, step: number): number => 20 + jump(2, 600, 6, 640)(rank, step) + jump(1, 0, 10)(rank, step);
  expect(watch({ seed: 1, steps: 1200, work }).incidents).toEqual([]);
});

describe.each(seeds)('one fault (seed %i)', (seed) => {
  const noises: Noise[] = [
    { own: 0.004, common: 0 },
    { own: 0.03, common: 0.03 },
    { own: 0.1, common: 0.08 },
  ];
  it.each(noises)('is one incident wherever it begins, with noise $own and $common', (noise) => {
    for (const from of [180, 240, 270, 330, 400, 600]) {
      const watched = watch({ seed, steps: 1400, noise, work: (rank, step) => 20 + jump(2, from, 40)(rank, step) });
      // Before there is a baseline, no slow-down is known.
      expect(watched.incidents.length, `from ${from}`).toBeLessThanOrEqual(1);
      if (from >= 330) expect(watched.incidents, `from ${from}`).toHaveLength(1);
      for (const alert of watched.incidents) {
        expect(alert, `from ${from}`).toMatchObject({ rule: 'step_time', ranks: [2], hint: { ranks: [2] } });
        expect(Math.abs((alert.onsetStep ?? 0) - from), `from ${from}`).toBeLessThanOrEqual(24);
      }
      expect(summaries(watched).join()).not.toContain('little by little');
    }
  });

  it.each(noises)('that doubles the steps names rank and phase within 40 of them, with noise $own and $common', (noise) => {
    const from = 500 + 13 * seed;
    const watched = watch({ seed, steps: from + 200, noise, work: (rank, step) => 20 + jump(2, from, 20)(rank, step) });
    const named = watched.reported.find(({ alert: { hint } }) => hint?.ranks.join() === '2' && hint.phase === 'forward');
    expect((named?.atStep ?? Number.NaN) - from).toBeLessThan(40);
  });

  it('is one where it grows, and where the service is started again meanwhile', () => {
    const work = (rank: number, step: number): number => 20 + jump(2, 600, 20)(rank, step) + jump(2, 1000, 20)(rank, step);
    for (const restartAt of [undefined, 610, 1030]) {
      const watched = watch({ seed, steps: 1500, work, ...(restartAt === undefined ? {} : { restartAt }) });
      expect(watched.incidents).toMatchObject([{ rule: 'step_time', severity: 'critical', ranks: [2] }]);
      // 24 → 64 ms since the first of the two.
      expect(watched.incidents[0]?.change).toBeGreaterThan(1.5);
      expect(Math.abs((watched.incidents[0]?.onsetStep ?? 0) - 600)).toBeLessThanOrEqual(16);
    }
  });

  it('that grows slowly is told again as it does, and with what it came to', () => {
    for (const restartAt of [undefined, 1210]) {
      const work = (rank: number, step: number): number => 40 + (rank === 2 ? Math.min(20, Math.max(0, step - 600) * 0.015) : 0);
      const watched = watch({ seed, steps: 2600, work, ...(restartAt === undefined ? {} : { restartAt }) });
      expect(watched.incidents).toMatchObject([{ ranks: [2], state: 'firing' }]);
      // 20 of 44 ms.
      expect(watched.incidents[0]?.change).toBeGreaterThan(0.35);
      expect(watched.incidents[0]?.change).toBeLessThan(0.5);
      const told = watched.reported.map(({ alert: { after } }) => after ?? 0);
      expect(told).toEqual(told.toSorted((a, b) => a - b));
      expect(told.length).toBeLessThan(20);
    }
  });

  it('of all ranks together is one, of nobody', () => {
    const watched = watch({ seed, steps: 1300, work: (_, step) => (step >= 600 ? 30 : 20) });
    expect(watched.incidents).toMatchObject([{ rule: 'step_time', ranks: [], series: { kind: 'cluster' } }]);
  });
});

describe.each(seeds)('two faults (seed %i)', (seed) => {
  it('of two ranks are two, each with its rank and its onset, and each ends by itself', () => {
    const work = (rank: number, step: number): number => 20 + jump(2, 600, 20, 1800)(rank, step) + jump(1, 1000, 50, 2400)(rank, step);
    const watched = watch({ seed, steps: 3000, work });
    expect(watched.incidents).toMatchObject([{ ranks: [2] }, { ranks: [1], series: { kind: 'rank', rank: 1 } }]);
    for (const [at, onset] of [600, 1000].entries()) {
      expect(Math.abs((watched.incidents[at]?.onsetStep ?? 0) - onset)).toBeLessThanOrEqual(16);
    }
    const ends = watched.reported.filter(({ kind }) => kind === 'resolved').map(({ alert }) => alert.ranks);
    expect(ends).toEqual([[2], [1]]);
  });

  it('are two where the second hides behind the first', () => {
    const work = (rank: number, step: number): number => 20 + jump(2, 600, 40)(rank, step) + jump(1, 1000, 30)(rank, step);
    const watched = watch({ seed, steps: 1600, work });
    expect(watched.incidents).toMatchObject([{ ranks: [2] }, { ranks: [1], severity: 'warning' }]);
  });

  it('are two where all ranks become slower after one did: the second is of the steps of the cluster, also where the service is started again', () => {
    const work = (rank: number, step: number): number => 40 + jump(2, 600, 10)(rank, step) + (step >= 1000 ? 12 : 0);
    for (const restartAt of [undefined, 610, 1010]) {
      const watched = watch({ seed, steps: 1300, work, ...(restartAt === undefined ? {} : { restartAt }) });
      expect(watched.incidents).toMatchObject([{ ranks: [2] }, { ranks: [], series: { kind: 'cluster' }, hint: { isOfAll: true } }]);
      expect(Math.abs((watched.incidents[1]?.onsetStep ?? 0) - 1000)).toBeLessThanOrEqual(16);
    }
  });

  it('are two where steps jump after they drifted, with the onset of each', () => {
    const drift = (step: number): number => Math.max(0, Math.min(step, 3000) - 600) * 0.0015;
    const watched = watch({ seed, steps: 3700, work: (rank, step) => 40 + drift(step) + jump(2, 3200, 20)(rank, step) });
    expect(watched.incidents.map(({ rule }) => rule)).toEqual(['step_time_drift', 'step_time']);
    const [drifting, jumped] = watched.incidents as [EngineAlert, EngineAlert];
    expect(drifting.ranks).toEqual([]);
    expect(drifting.summary).toContain('little by little');
    expect(jumped).toMatchObject({ ranks: [2] });
    expect(jumped.summary).not.toContain('little by little');
    expect(Math.abs((jumped.onsetStep ?? 0) - 3200)).toBeLessThanOrEqual(16);
  });

  it('are two where the network becomes slower after a rank did', () => {
    const watched = watch({
      seed,
      steps: 1500,
      work: (rank, step) => 20 + jump(2, 600, 20)(rank, step),
      transfer: (step) => (step >= 1000 ? 25 : 2),
    });
    expect(watched.incidents).toHaveLength(2);
    expect(watched.incidents[1]?.hint).toMatchObject({ ranks: [], phase: 'all_reduce' });
    expect(Math.abs((watched.incidents[1]?.onsetStep ?? 0) - 1000)).toBeLessThanOrEqual(16);
  });
});

it('restores an open incident from a state that names its step `toldStep`', () => {
  const watched = watch({ seed: 1, steps: 500, work: (rank, step) => 100 + jump(2, 250, 40)(rank, step) });
  const now = JSON.stringify(watched.engine.state());
  expect(now).toContain('"reportedStep":');
  const old = now.replaceAll('"reportedStep":', '"toldStep":');
  const restored = AlertEngine.restore(JSON.parse(old) as AlertEngineState, 0);
  expect(JSON.parse(JSON.stringify(restored.state()))).toEqual(JSON.parse(now));
});

it.each(seeds)('does not blame the rank that is certain first for what all ranks take longer (seed %i)', (seed) => {
  const random = new Random(seed, 'uneven hosts');
  // Three of the ranks are noisy: theirs is certain later.
  const work = (rank: number, step: number): number => (step < 200 ? 60 : 80) * (rank === 1 ? 1 : random.lognormal(1, 0.12));
  const { reported, incidents } = watch({ seed, steps: 620, work });
  expect(incidents).toHaveLength(1);
  expect(reported.map(({ alert: { ranks } }) => ranks)).not.toContainEqual([1]);
  expect(incidents[0]?.hint).toMatchObject({ ranks: [], isOfAll: true });
});

describe.each(seeds)('a slow-down of all ranks alike (seed %i)', (seed) => {
  it.each([
    [4, 0.01, 2.5],
    [4, 0.02, 2.5],
    [4, 0.03, 2.5],
    [8, 0.02, 4],
  ])('names no rank at any time (%i ranks, noise %d, %d ms)', (ranks, noise, more) => {
    const random = new Random(seed, 'all alike');
    const watched = new Watched();
    for (let step = 0; step < 700; step++) {
      const forward = Array.from({ length: ranks }, () => (step < 400 ? 40 : 40 + more) * (1 + noise * (random.uniform() - 0.5)) * ms);
      const longest = Math.max(...forward) + 2 * ms;
      watched.step(
        forward.map((own) => ({ data: 0, forward: own, allReduce: longest - own })),
        true,
      );
    }
    expect(watched.incidents).toMatchObject([{ ranks: [], hint: { ranks: [], isOfAll: true } }]);
    expect(watched.reported.map(({ alert }) => alert.ranks).filter((named) => named.length > 0)).toEqual([]);
  });
});

describe('long steps that take more of the time than before', () => {
  /** A checkpoint of rank 1 every 25 steps. */
  const checkpoints =
    (from: number, ms: number, until = Number.POSITIVE_INFINITY) =>
    (rank: number, step: number): number =>
      20 + (rank === 1 && step % 25 === 24 ? (step >= from && step < until ? ms : 15) : 0);

  it.each(seeds)('are one incident, of the rank and the phase, until they are over (seed %i)', (seed) => {
    const { incidents } = watch({ seed, steps: 3000, work: checkpoints(1000, 200, 2000), restartAt: 1700 });
    expect(incidents).toHaveLength(1);
    const [alert] = incidents as [EngineAlert];
    expect(alert).toMatchObject({ rule: 'step_time', state: 'resolved', severity: 'critical', ranks: [1], hint: { phase: 'forward' } });
    expect(alert.summary).toMatch(
      /^long steps, about one step in 25, make the mean of all steps \d\d\.\d % longer since step 10\d\d: 2\d\.\d ms → 3\d\.\d ms$/,
    );
    expect(alert.hint?.stated).toEqual({ kind: 'long_steps', text: 'rank 1 takes longer in about one step in 25, mostly in forward' });
    expect(alert.resolution).toMatch(/^long steps add \d\.\d % again$/);
    expect(alert.step).toBeLessThan(1400);
  });

  it('have the numbers of all that came since, where the first were those of chance', () => {
    let again = 0;
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const stalls = new Random(seed, 'stalls');
      const isLong = Array.from({ length: 5000 }, () => stalls.uniform() < 0.1);
      const work = (rank: number, step: number): number => 20 + (rank === 1 && step >= 1000 && isLong[step] === true ? 80 : 0);
      const { incidents, reported } = watch({ seed, steps: 5000, work });
      expect(incidents).toHaveLength(1);
      const [alert] = incidents as [EngineAlert];
      expect(alert).toMatchObject({ rule: 'step_time', state: 'firing', ranks: [1], hint: { phase: 'forward' } });
      const share = isLong.slice(1000).filter((is) => is).length / 4000;
      const truth = (share * 80) / ((alert.before ?? 0) / 1e6);
      expect(Math.abs((alert.change ?? 0) / truth - 1), `seed ${seed}`).toBeLessThan(0.25);
      expect(alert.summary).toMatch(/^long steps, about one step in \d+, make the mean of all steps \d\d\.\d % longer since step/);
      for (const { alert: told } of reported) {
        const [often = 'none'] = /about one step in \d+|nearly each step/.exec(told.summary) ?? [];
        expect(told.hint?.stated?.text, told.summary).toBe(`rank 1 takes longer in ${often}, mostly in forward`);
      }
      again += reported.filter(({ kind }) => kind === 'updated').length;
    }
    expect(again).toBeGreaterThan(0);
  });

  it.each(seeds)('are none where they are as they were from the beginning on (seed %i)', (seed) => {
    expect(watch({ seed, steps: 3000, work: checkpoints(0, 200) }).incidents).toEqual([]);
  });

  it.each(seeds)('beside a jump of all other steps are that jump alone (seed %i)', (seed) => {
    const both = (rank: number, step: number): number => checkpoints(0, 200)(rank, step) + (step >= 1000 ? 10 : 0);
    const { incidents } = watch({ seed, steps: 2000, work: both });
    expect(incidents).toHaveLength(1);
    expect(incidents[0]?.summary).toMatch(/^steps are \d\d\.\d % slower since step (99\d|100\d)/);
  });
});
