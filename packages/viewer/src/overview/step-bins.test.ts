import type { OverviewRank } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { binOfStep, binRange, binsFor, cellRange, lastStepOf, longestSteps, slowestRankIn, stepsText, timeOfStep } from './step-bins.ts';

const overview = { bins: [0, 10, 20, 30], times: [0, 1000, 2000, 3000], toStep: 36, slowest: [100, 100, null, 120] };

describe('bins of steps', () => {
  it('end where the next begins, the last at the last step', () => {
    expect(binRange(overview, 0)).toEqual({ fromStep: 0, toStep: 9, from: 0, until: 1000 });
    expect(binRange(overview, 3)).toEqual({ fromStep: 30, toStep: 36, from: 3000, until: 3000 + 7 * 120 });
    expect(binRange(overview, 4)).toBeUndefined();
    expect(lastStepOf(overview, 3)).toBe(36);
  });

  it('are never empty, also where time goes back', () => {
    const range = binRange({ ...overview, times: [0, 1000, 500, 3000], slowest: [null, null, null, null] }, 1);
    expect(range).toEqual({ fromStep: 10, toStep: 19, from: 1000, until: 1001 });
  });

  it('are at the time of its own life in the row of a rank that was started again', () => {
    const row = { starts: [null, 9000, null, 9500], cells: [null, 50, null, 60] };
    expect(cellRange(overview, row, 1)).toEqual({ fromStep: 10, toStep: 19, from: 9000, until: 9000 + 10 * 50 });
    expect(cellRange(overview, row, 3)).toEqual({ fromStep: 30, toStep: 36, from: 9500, until: 9500 + 7 * 60 });
    expect(cellRange(overview, { cells: row.cells }, 1)).toEqual(binRange(overview, 1));
  });

  it('are found by a step', () => {
    expect([-1, 0, 9, 10, 35, 36, 37].map((step) => binOfStep(overview, step))).toEqual([undefined, 0, 0, 1, 3, 3, undefined]);
    expect(binOfStep({ bins: [], toStep: 0 }, 0)).toBeUndefined();
    expect([binOfStep(overview, Number.NaN), timeOfStep(overview, Number.NaN)]).toEqual([undefined, undefined]);
  });

  it('reports when a step begins', () => {
    expect([0, 5, 10, 31, 40].map((step) => timeOfStep(overview, step))).toEqual([0, 500, 1000, 3120, undefined]);
  });

  it('are as many as pixels and ranks allow', () => {
    expect([binsFor(4, 700), binsFor(4, 4000), binsFor(1024, 700), binsFor(100_000, 700), binsFor(0, 0)]).toEqual([320, 512, 128, 32, 32]);
    // Unknown number of ranks: the same bins as for a thousand, so that these are not requested twice.
    expect(binsFor(undefined, 700)).toBe(binsFor(1024, 700));
  });
});

it('finds the slowest rank of a bin, and none where nobody was', () => {
  const ranks = [[1, null], [3, null], [2]].map((peaks, rank) => ({ rank, peaks }) as unknown as OverviewRank);
  expect(slowestRankIn(ranks, 0)?.rank).toBe(1);
  expect(slowestRankIn(ranks, 1)).toBeUndefined();
  expect(longestSteps({ bins: [0, 10], ranks })).toEqual([3, null]);
});

it('names steps', () => {
  expect([stepsText(3, 3), stepsText(3, 9)]).toEqual(['step 3', 'steps 3–9']);
});
