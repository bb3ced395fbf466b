import fc from 'fast-check';
import { expect, it } from 'vitest';
import { mean } from '../model/robust.ts';
import { workedWindow } from '../testing/worked-window.ts';
import { breakdownOf } from './breakdown.ts';
import { frontierOf } from './frontier.ts';
import { Replay } from './replay.ts';

const lengths = fc.array(fc.tuple(fc.nat(50), fc.nat(50), fc.nat(50)), { minLength: 1, maxLength: 5 });
/** Odd fractions of ms, so that means are not whole ns. */
const windows = fc.tuple(lengths, fc.integer({ min: 1, max: 7 })).map(([ranks, steps]) => {
  const lines = ranks.map(([a, b, c]) => `data ${a}, all_reduce 1, forward ${b}, other ${c}, all_gather 2, optimizer 1`);
  return workedWindow(lines, { steps, length: (ms, rank, _phase, step) => ms / 3 + ((7 * rank + 13 * step) % 5) / 7 });
});

it('has parts that add up to the step, exactly', () => {
  fc.assert(
    fc.property(windows, (window) => {
      for (const { step, own, waits, transfer, unmatched, other, rank } of breakdownOf(window)) {
        const parts = [...own.values(), ...waits.map(({ length }) => length), transfer, unmatched, other];
        expect(parts.reduce((sum, length) => sum + length, 0)).toBe(step);
        expect(parts.every((length) => Number.isInteger(length) && length >= 0)).toBe(true);
        const ranks = window.ranks.findIndex((about) => about.rank === rank);
        expect(step).toBe(Math.round(mean(window.steps.map((of) => of.ranks[ranks]?.length ?? 0))));
      }
    }),
  );
});

it('says whom a rank waited for, longest first', () => {
  const [first, second] = breakdownOf(
    workedWindow(['data 4, all_reduce 1, forward 9, all_gather 1', 'data 7, all_reduce 1, forward 2, all_gather 1']),
  );
  expect(first?.waits).toEqual([{ rank: 1, name: 'all_reduce world', length: 3e6 }]);
  expect(second?.waits).toEqual([{ rank: 0, name: 'all_gather world', length: 7e6 }]);
  expect(first?.transfer).toBe(2e6);
});

it('has a frontier whose advances add up to the longest rank of each step', () => {
  fc.assert(
    fc.property(windows, (window) => {
      const sum = frontierOf(window).reduce((all, { advance }) => all + advance, 0);
      expect(sum).toBeCloseTo(mean(window.steps.map(({ ranks }) => Math.max(...ranks.map(({ length }) => length)))), 3);
    }),
  );
});

it('has a frontier that names a rank only where it leads in more steps than by chance', () => {
  const leaders = (later: (rank: number, step: number) => number, steps = 16) => {
    const lines = Array(4).fill('forward 10, all_reduce 1, optimizer 2');
    const length = (ms: number, rank: number, phase: string, step: number) => (phase === 'forward' ? ms + later(rank, step) : ms);
    return frontierOf(workedWindow(lines, { steps, length })).find(({ phase }) => phase === 'forward');
  };
  expect(leaders(() => 0)).toMatchObject({ leader: undefined, leaderShare: 0 });
  expect(leaders((rank, step) => (rank === step % 4 ? 1 : 0))).toMatchObject({ leader: undefined, leaderShare: 0.25 });
  expect(leaders((rank) => (rank === 2 ? 1 : 0))).toMatchObject({ leader: 2, leaderShare: 1 });
  expect(leaders((rank) => (rank === 2 ? 1 : 0), 2)).toMatchObject({ leader: undefined, leaderShare: 1 });
});

it('replays a window to the times that were measured', () => {
  fc.assert(
    fc.property(windows, (window) => {
      const measured = mean(window.steps.map(({ ranks }) => Math.max(...ranks.map(({ length }) => length))));
      expect(new Replay(window).meanStep((_rank, _step, _phase, length) => length)).toBeCloseTo(measured, 3);
    }),
  );
});
