import type { OverviewRank } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { deviationsOf, heatLimit, heatRamp, paintCells, parseColour, rampIndex, slowestCells } from './heat-cells.ts';

const colours = {
  fast: [0, 0, 255],
  equal: [255, 255, 255],
  slow: [
    [255, 255, 0],
    [255, 128, 0],
    [255, 0, 0],
  ],
  none: [1, 2, 3],
} as const;
const rank = (cells: readonly (number | null)[], peaks = cells): OverviewRank => ({ cells, peaks }) as unknown as OverviewRank;
const overview = { median: [100, 200, null, 100], percentiles: { p50: 200, p90: 0, p95: 0, p99: 0 } };

describe('deviationsOf', () => {
  it('is each cell against the median of the same steps, or of all', () => {
    const ranks = [rank([110, 200, 100, null]), rank([90, 300, null, 100], [180, 300, null, 100])];
    const shown = (rows: readonly Float32Array[]) => rows.map((row) => [...row].map((value) => Number(value.toFixed(2))));
    expect(shown(deviationsOf(overview, ranks, 'mean', 'step'))).toEqual([
      [0.1, 0, Number.NaN, Number.NaN],
      [-0.1, 0.5, Number.NaN, 0],
    ]);
    expect(shown(deviationsOf(overview, ranks, 'longest', 'step'))[1]?.[0]).toBe(0.8);
    expect(shown(deviationsOf(overview, ranks, 'mean', 'run'))[0]).toEqual([-0.45, 0, -0.5, Number.NaN]);
  });

  it('has none without a median to compare with', () => {
    const of = (median: readonly (number | null)[]) => [
      ...(deviationsOf({ median, percentiles: null }, [rank([75, 50])], 'mean', 'run')[0] as Float32Array),
    ];
    expect(of([null, null])).toEqual([Number.NaN, Number.NaN]);
    // Steps that are not known one by one: the median of the bins.
    expect(of([40, 60])).toEqual([0.5, 0]);
  });
});

it('takes a round scale that hardly a cell lies beyond', () => {
  const rows = (...values: number[]): Float32Array[] => [new Float32Array(values)];
  expect(heatLimit([])).toBe(0.1);
  expect(heatLimit(rows(0.01, Number.NaN, 0.02))).toBe(0.1);
  expect(heatLimit(rows(0.01, -0.3))).toBe(0.5);
  expect(heatLimit(rows(...new Array<number>(999).fill(0.01), 8))).toBe(0.1);
  expect(heatLimit(rows(90, 80))).toBe(10);
});

describe('painting', () => {
  const ramp = heatRamp(colours);
  const hex = (pixel: number | undefined): string => (pixel ?? 0).toString(16);

  it('goes from fast over equal to slow', () => {
    expect([rampIndex(-9, 0.1), rampIndex(0, 0.1), rampIndex(9, 0.1), rampIndex(Number.NaN, 0.1)]).toEqual([0, 128, 255, 256]);
    expect([0, 128, 255, 256].map((at) => hex(ramp[at]))).toEqual(['ffff0000', 'ffffffff', 'ff0000ff', 'ff030201']);
  });

  it('has a pixel for every cell, also where there is none', () => {
    const pixels = paintCells([new Float32Array([0, 1]), new Float32Array([Number.NaN])], 2, 0.1, ramp);
    expect([...pixels].map(hex)).toEqual(['ffffffff', 'ff0000ff', 'ff030201', 'ff030201']);
  });
});

it('finds the slowest cells among very many', () => {
  const rows = Array.from({ length: 50 }, (_, row) => Float32Array.from({ length: 200 }, (_, bin) => ((row * 200 + bin) * 7919) % 10_007));
  const all = rows.flatMap((row) => [...row]).sort((a, b) => b - a);
  expect(slowestCells(rows, 5).map(({ deviation }) => deviation)).toEqual(all.slice(0, 5));
  expect(slowestCells([new Float32Array([Number.NaN, -1, 0, 2])], 5)).toEqual([{ row: 0, bin: 3, deviation: 2 }]);
});

it('reads colours as browsers report them', () => {
  expect(['rgb(1, 2, 3)', 'rgba(1, 2, 3, 0.5)', '#fff', '#010203', 'color(srgb 1 0 0)'].map(parseColour)).toEqual([
    [1, 2, 3],
    [1, 2, 3],
    [255, 255, 255],
    [1, 2, 3],
    [128, 128, 128],
  ]);
});
