// Jobs with a fault in some of their steps, of any rank, phase and pattern, and jobs without one: who is named, and what it costs.

import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { workedWindow } from '../testing/worked-window.ts';
import { type Blame, type BlameFinding, blameOfWindow } from './blame.ts';

const seeds = Number(process.env.RANKTRACE_TEST_SEEDS ?? 30);
const line = 'data 4, forward 12, backward 24, all_reduce 1, optimizer 4';
const phases = ['data', 'forward', 'backward', 'optimizer'];

const patterns = {
  'every third step': (step: number) => step % 3 === 1,
  'every second step': (step: number) => step % 2 === 0,
  'every ninth step': (step: number) => step % 9 === 4,
  'half of the steps': (_step: number, random: Random) => random.chance(0.5),
  'the last third': (step: number, _random: Random, steps: number) => step >= Math.ceil((2 * steps) / 3),
  'a stretch in the middle': (step: number, _random: Random, steps: number) =>
    step >= steps >> 2 && step < (steps >> 2) + Math.max(4, steps >> 3),
} as const;
type Pattern = keyof typeof patterns;

interface Job {
  readonly blame: Blame;
  readonly rank: number;
  readonly phase: string;
  /** What the fault costs per step, ns, in truth. */
  readonly cost: number;
  readonly affected: number;
}

/** Noise of 1 to 5 % in every phase; one in a hundred takes up to half as long again. `pattern` undefined: no fault. */
function jobOf(seed: number, pattern: Pattern | undefined): Job {
  const random = new Random(seed, 'job');
  const ranks = 3 + Math.floor(random.uniform(0, 6));
  const steps = 15 + Math.floor(random.uniform(0, 50));
  const [rank, phase] = [Math.floor(random.uniform(0, ranks)), phases[Math.floor(random.uniform(0, 4))] as string];
  const ms = random.uniform(9, 25);
  const noise = random.uniform(0.01, 0.05);
  const affected = Array.from({ length: steps }, (_, step) => pattern !== undefined && patterns[pattern](step, random, steps));
  const lengths = new Map<string, number>();
  const length = (usual: number, of: number, name: string, step: number): number => {
    const key = `${of} ${name} ${step}`;
    const own = lengths.get(key) ?? usual * (1 + random.normal(0, noise) + (random.chance(0.01) ? random.uniform(0, 0.5) : 0));
    lengths.set(key, own);
    return own;
  };
  const lines = Array.from({ length: ranks }, () => line);
  const even = workedWindow(lines, { steps, length });
  const slow = workedWindow(lines, {
    steps,
    length: (usual, of, name, step) => length(usual, of, name, step) + (of === rank && name === phase && affected[step] === true ? ms : 0),
  });
  const [blame, without] = [blameOfWindow(slow), blameOfWindow(even)];
  return { blame, rank, phase, cost: blame.step - without.step, affected: affected.filter(Boolean).length };
}

const stragglersOf = ({ findings }: Blame): BlameFinding[] => findings.filter(({ kind }) => kind === 'straggler');

describe.each(Object.keys(patterns) as Pattern[])('a rank that is slow in %s', (pattern) => {
  it(`is named with its phase, how often, and what it costs within a quarter (seeds 0 to ${seeds - 1})`, () => {
    const missed: unknown[] = [];
    let jobs = 0;
    for (let seed = 0; seed < seeds; seed++) {
      const { blame, rank, phase, cost, affected } = jobOf(seed, pattern);
      // Of four steps in noise nobody can tell whether they were chance.
      if (affected < 5) continue;
      jobs++;
      const [first] = stragglersOf(blame);
      const isRight = first?.ranks.length === 1 && first.ranks[0] === rank && first.phase === phase;
      const off = (first?.costMsPerStep ?? 0) / (cost / 1e6) - 1;
      if (!isRight || Math.abs(off) > 0.25) missed.push({ seed, rank, phase, affected, off });
    }
    expect({ jobs, missed: missed.length <= Math.max(1, 0.02 * jobs) ? [] : missed }).toEqual({ jobs, missed: [] });
  });
});

it(`nobody is named where steps are merely noisy (seeds 1000 to ${1000 + 4 * seeds - 1})`, () => {
  const blamed: unknown[] = [];
  for (let seed = 1000; seed < 1000 + 4 * seeds; seed++) {
    const found = stragglersOf(jobOf(seed, undefined).blame);
    if (found.length > 0) blamed.push({ seed, found });
  }
  expect(blamed).toEqual([]);
});

it('is told with its rule, and what an affected step costs', () => {
  const length = (ms: number, rank: number, phase: string, step: number): number =>
    ms + (rank === 0 && phase === 'data' && step % 3 === 1 ? 25 : 0);
  const blame = blameOfWindow(workedWindow([line, line, line, line], { steps: 12, length }));
  expect(blame.verdict).toBe('straggler');
  expect(blame.findings).toMatchObject([{ kind: 'straggler', ranks: [0], phase: 'data' }]);
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(25 / 3, 6);
  expect(blame.findings[0]?.evidence).toEqual([
    'rank 0 works 25.00 ms longer in data than the median of its peers in 4 of 12 steps, every third',
    'a step so affected is 25.00 ms longer for all',
  ]);
});

it('costs add up to no more than the step, whatever is found', () => {
  for (let seed = 0; seed < seeds; seed++) {
    const random = new Random(seed, 'heavy');
    const length = (ms: number): number => ms * (1 + random.exponential(0.6));
    const blame = blameOfWindow(workedWindow([line.replace('data 4', 'data 30'), line, line, line], { steps: 30, length }));
    const sum = blame.findings.reduce((all, { costMsPerStep }) => all + costMsPerStep, 0);
    expect(sum).toBeLessThanOrEqual(blame.step / 1e6);
  }
});
