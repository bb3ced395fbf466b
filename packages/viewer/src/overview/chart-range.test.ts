import { describe, expect, it } from 'vitest';
import { chartRange } from './chart-range.ts';

describe('chartRange', () => {
  it('begins at 0 when values differ', () => {
    expect(
      chartRange([
        [50, 100],
        [null, 80],
      ]),
    ).toEqual({ low: 0, high: 106, beyond: [] });
  });

  it('comes nearer when they hardly do', () => {
    const { low, high } = chartRange([[100, 99, 101]]);
    expect([low, high]).toEqual([99 - 10.1, 101 + 0.06 * (101 - 88.9)]);
    expect(chartRange([[100]]).low).toBe(90);
    expect(chartRange([[100, 85]]).low).toBe(70);
  });

  it('is not set by a first step that takes far longer', () => {
    const { high, beyond } = chartRange([[9000, ...new Array<number>(99).fill(100)]]);
    expect([high < 150, beyond]).toEqual([true, [0]]);
  });

  it('is a range when there is nothing', () => {
    expect(chartRange([])).toEqual({ low: 0, high: 1, beyond: [] });
    expect(chartRange([[null, 0]])).toEqual({ low: 0, high: 1, beyond: [] });
  });
});
