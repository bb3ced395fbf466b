// Jobs with faults of any rank, phase and pattern, in little noise and on busy hosts, and jobs without faults: checks the blamed rank and the
// cost. `RANKTRACE_TEST_SEEDS=200` tests more of them.

import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { Random } from '../simulate/random.ts';
import { type FaultyJobOptions, faultyJob, type JobFault, jobLine, jobPhases } from '../testing/faulty-job.ts';
import { workedWindow } from '../testing/worked-window.ts';
import { type Blame, type BlameFinding, blameOfWindow } from './blame.ts';

const seeds = seedCount(30);
/** Two misses are allowed in 200 jobs, one in fewer. */
const missedMax = (jobs: number): number => Math.max(1, Math.floor(0.01 * jobs));

const patterns = {
  'all steps': () => true,
  'every third step': (step: number) => step % 3 === 1,
  'every second step': (step: number) => step % 2 === 0,
  'every ninth step': (step: number) => step % 9 === 4,
  'half of the steps': (step: number, seed: number) => new Random(seed, 'half', step).chance(0.5),
  'the last third': (step: number, _seed: number, steps: number) => step >= Math.ceil((2 * steps) / 3),
  'a stretch in the middle': (step: number, _seed: number, steps: number) =>
    step >= steps >> 2 && step < (steps >> 2) + Math.max(4, steps >> 3),
} as const;
type Pattern = keyof typeof patterns;

function shapeOf(seed: number, noise: FaultyJobOptions['noise']): Omit<FaultyJobOptions, 'faults'> {
  const random = new Random(seed, 'shape');
  return { seed, noise, ranks: 3 + random.whole(6), steps: 15 + random.whole(50) };
}

const stragglersOf = ({ findings }: Blame): BlameFinding[] => findings.filter(({ kind }) => kind === 'straggler');
const isOf = (finding: BlameFinding | undefined, { rank, phase }: JobFault): boolean =>
  finding?.ranks.length === 1 && finding.ranks[0] === rank && finding.phase === phase;

describe.each(Object.keys(patterns) as Pattern[])('a rank that is slow in %s', (pattern) => {
  it(`is named with its phase and what it costs, within a quarter (seeds 0 to ${seeds - 1})`, () => {
    const missed: unknown[] = [];
    let jobs = 0;
    for (let seed = 0; seed < seeds; seed++) {
      const shape = shapeOf(seed, 'jitter');
      const random = new Random(seed, 'fault');
      const isAffected = (step: number): boolean => patterns[pattern](step, seed, shape.steps);
      const fault: JobFault = {
        rank: random.whole(shape.ranks),
        phase: jobPhases[random.whole(4)] as string,
        ms: random.uniform(9, 25),
        isAffected,
      };
      const affected = Array.from({ length: shape.steps }, (_, step) => isAffected(step)).filter(Boolean).length;
      // Four noisy steps may be chance, and a few irregular ones do not single out a rank.
      if (affected < 5 || (pattern === 'half of the steps' && shape.ranks ** (1 - affected) > 1e-4)) continue;
      jobs++;
      const { blame, costs } = faultyJob({ ...shape, faults: [fault] });
      const [first] = stragglersOf(blame);
      const off = (first?.costMsPerStep ?? 0) / (costs[0] as number) - 1;
      if (!isOf(first, fault) || Math.abs(off) > 0.25) missed.push({ seed, ...fault, affected, off });
    }
    expect({ jobs, missed: missed.length <= missedMax(jobs) ? [] : missed }).toEqual({ jobs, missed: [] });
  });
});

describe.each(['jitter', 'busy'] as const)('in noise: %s', (noise) => {
  it(`no rank is named where none is slow (seeds 1000 to ${1000 + 4 * seeds - 1})`, () => {
    const blamed: unknown[] = [];
    for (let seed = 1000; seed < 1000 + 4 * seeds; seed++) {
      const { blame } = faultyJob({ ...shapeOf(seed, noise), faults: [] });
      const isCalm = blame.verdict === 'balanced' || (noise === 'busy' && blame.verdict === 'cpu_contention');
      if (stragglersOf(blame).length > 0 || !isCalm) blamed.push({ seed, verdict: blame.verdict, found: blame.findings });
    }
    expect(blamed).toEqual([]);
  });

  it(`a fault as large as can be seen there is found, with what it costs (seeds 2000 to ${2000 + seeds - 1})`, () => {
    const missed: unknown[] = [];
    for (let seed = 2000; seed < 2000 + seeds; seed++) {
      const shape = shapeOf(seed, noise);
      const random = new Random(seed, 'fault');
      const phase = jobPhases[random.whole(4)] as string;
      const { blame: without } = faultyJob({ ...shape, faults: [] });
      const visible = (without.visible.find((of) => of.phase === phase)?.length ?? 0) / 1e6;
      const fault: JobFault = { rank: random.whole(shape.ranks), phase, ms: visible * random.uniform(1, 3), isAffected: () => true };
      const { blame, costs } = faultyJob({ ...shape, faults: [fault] });
      const [first] = stragglersOf(blame);
      const off = (first?.costMsPerStep ?? 0) / (costs[0] as number) - 1;
      // A fault this cheap may not merit a finding.
      const isCheap = first === undefined && (costs[0] as number) < 0.015 * (without.step / 1e6);
      if (!isCheap && (!isOf(first, fault) || Math.abs(off) > 0.25)) missed.push({ seed, ...fault, visible, cost: costs[0], off, first });
    }
    expect(missed.length <= missedMax(seeds) ? [] : missed).toEqual([]);
  });

  it(`of two faults each costs what it costs with the other mended (seeds 3000 to ${3000 + seeds - 1})`, () => {
    const missed: unknown[] = [];
    for (let seed = 3000; seed < 3000 + seeds; seed++) {
      const shape = shapeOf(seed, noise);
      const random = new Random(seed, 'faults');
      const { blame: without } = faultyJob({ ...shape, faults: [] });
      const rank = random.whole(shape.ranks);
      let before = '';
      const faults = [rank, (rank + 1 + random.whole(shape.ranks - 1)) % shape.ranks].map((of): JobFault => {
        // Two ranks of three or four in one phase are no longer exceptions.
        const open = jobPhases.filter((phase) => shape.ranks > 4 || phase !== before);
        const phase = open[random.whole(open.length)] as string;
        before = phase;
        const visible = (without.visible.find((one) => one.phase === phase)?.length ?? 0) / 1e6;
        return { rank: of, phase, ms: visible * random.uniform(1.5, 4) + 2, isAffected: () => true };
      });
      const { blame, costs } = faultyJob({ ...shape, faults });
      const found = stragglersOf(blame);
      for (const [at, fault] of faults.entries()) {
        const own = found.find((finding) => isOf(finding, fault));
        const off = (own?.costMsPerStep ?? 0) / (costs[at] as number) - 1;
        if (own === undefined || Math.abs(off) > 0.25) missed.push({ seed, ...fault, cost: costs[at], off });
      }
    }
    expect(missed.length <= missedMax(2 * seeds) ? [] : missed).toEqual([]);
  });
});

it('costs add up to no more than the step, whatever is found', () => {
  for (let seed = 0; seed < seeds; seed++) {
    const random = new Random(seed, 'heavy');
    const length = (ms: number): number => ms * (1 + random.exponential(0.6));
    const blame = blameOfWindow(workedWindow([jobLine.replace('data 4', 'data 30'), jobLine, jobLine, jobLine], { steps: 30, length }));
    const sum = blame.findings.reduce((all, { costMsPerStep }) => all + costMsPerStep, 0);
    expect(sum).toBeLessThanOrEqual(blame.step / 1e6);
  }
});
