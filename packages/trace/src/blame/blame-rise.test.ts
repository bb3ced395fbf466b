import { describe, expect, it } from 'vitest';
import { workedWindow } from '../testing/worked-window.ts';
import { blameOfRise, type RiseBlame } from './blame-rise.ts';
import type { BlameWindow } from './blame-window.ts';

const even = 'data 4, forward 10, backward 20, all_reduce 1, optimizer 3';
const [slow, late] = [even.replace('forward 10', 'forward 16'), even.replace('backward 20', 'backward 32')];
const steps = (...lines: string[]): BlameWindow => workedWindow(lines);
const said = ({ kind, ranks, phase, shareOfChange }: RiseBlame) => [kind, ranks.join('+'), phase, Math.round(100 * shareOfChange)];
const ofRank = (rank: number, before: BlameWindow, now: BlameWindow, ms: number): RiseBlame =>
  blameOfRise(before, now, { series: { kind: 'rank', rank }, change: ms * 1e6 });

describe('the rise of a rank’s own work', () => {
  it.each([2, 3, 8])('is its own, of %i ranks, where another one becomes well', (count) => {
    const others = Array.from({ length: count - 2 }, () => even);
    for (const [rank, before, now] of [
      [1, steps(slow, even, ...others), steps(even, slow, ...others)],
      [0, steps(even, slow, ...others), steps(slow, even, ...others)],
    ] as const) {
      const found = ofRank(rank, before, now, 6);
      expect(said(found)).toEqual(['straggler', `${rank}`, 'forward', 100]);
      expect(found.evidence).toEqual([
        `rank ${rank} works 6.00 ms more per step, 6.00 ms of it in forward`,
        `the own work of rank ${rank} is 6.00 ms longer: 6.00 ms by that`,
        `steps are 0.00 ms longer, for rank ${1 - rank} works 6.00 ms less`,
      ]);
    }
  });

  it('is its own where it hides behind another one', () => {
    const found = ofRank(2, steps(even, late, even, even), steps(even, late, slow, even), 6.5);
    expect(said(found)).toEqual(['straggler', '2', 'forward', 92]);
    expect(found.evidence.slice(1)).toEqual([
      'the own work of rank 2 is 6.50 ms longer: 6.00 ms by that, 0.50 ms not explained',
      'steps are 0.00 ms longer: it hides behind rank 1, which works 6.00 ms longer',
    ]);
  });

  it('is nobody’s where half of the ranks have it, and unknown where its work did not grow by half of it', () => {
    expect(said(ofRank(2, steps(even, even, even, even), steps(even, slow, slow, even), 6))).toEqual(['cluster_wide', '', 'forward', 100]);
    const less = ofRank(2, steps(even, even, even, even), steps(even, slow, even.replace('forward 10', 'forward 12'), even), 6);
    expect(said(less)).toEqual(['inconclusive', '', undefined, 0]);
    // Not by transfers, either.
    const far = [even, even, even, even].map((line) => line.replace('all_reduce 1', 'all_reduce 7'));
    expect(said(ofRank(2, steps(even, even, even, even), steps(...far), 6))).toEqual(['inconclusive', '', undefined, 0]);
  });
});

it('the rise of a phase is of the ranks that are longer in it, and of transfers where ranks wait in it', () => {
  const before = steps(even, late, even, even);
  const of = (phase: string, now: BlameWindow) => said(blameOfRise(before, now, { series: { kind: 'phase', phase }, change: 6e6 }));
  expect(of('forward', steps(slow, late, even, even))).toEqual(['straggler', '0', 'forward', 100]);
  expect(of('forward', steps(slow, late.replace('forward 10', 'forward 16'), slow, slow))).toEqual(['cluster_wide', '', 'forward', 100]);
  const far = [even, late, even, even].map((line) => line.replace('all_reduce 1', 'all_reduce 7'));
  expect(of('all_reduce', steps(...far))).toEqual(['network', '', undefined, 100]);
});

describe('on a busy host', () => {
  const windowOf = (lines: readonly string[], cpuWait: number, byChance: number): BlameWindow =>
    workedWindow(lines, {
      steps: 32,
      about: () => ({ cpuWait, cpuWaitTime: cpuWait }),
      length: (ms, rank, phase, step) => ms + (phase === 'backward' && (step * 7 + rank * 3) % 5 === 0 ? byChance : 0),
    });
  const four = [even, even, even, even];
  const cluster = (before: BlameWindow, now: BlameWindow, ms: number): RiseBlame =>
    blameOfRise(before, now, { series: { kind: 'cluster' }, change: ms * 1e6 });

  it('what ranks wait for a CPU is the cause if it is enough', () => {
    expect(said(cluster(windowOf(four, 0.02, 0), windowOf(four, 0.5, 20), 18)).slice(0, 2)).toEqual(['cpu_contention', '']);
    // It was as busy before.
    expect(said(cluster(windowOf(four, 0.5, 20), windowOf(four, 0.5, 20), 18))[0]).toBe('inconclusive');
  });

  it('a rank is named that is slow in all steps', () => {
    const now = windowOf([even, even.replace('forward 10', 'forward 60'), even, even], 0.3, 8);
    expect(said(cluster(windowOf(four, 0.3, 8), now, 48)).slice(0, 3)).toEqual(['straggler', '1', 'forward']);
    expect(cluster(windowOf(four, 0.3, 8), now, 48).stragglers).toEqual([1]);
  });
});
