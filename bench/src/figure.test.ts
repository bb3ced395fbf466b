import { describe, expect, it } from 'vitest';
import { figure, meetsTarget } from './figure.ts';

describe('figure', () => {
  const baseline = { name: 'two clock readings', value: 80 };

  it('holds a target on a ratio against the baseline of the same run', () => {
    const at = (value: number) => figure({ name: 'a step', value, unit: 'ns', baseline, target: { at: 'most', value: 4, of: 'ratio' } });
    expect(at(320)).toMatchObject({ ratio: 4 });
    expect([at(320), at(321)].map(meetsTarget)).toEqual([true, false]);
  });

  it('holds a target on an amount as it is', () => {
    const at = (value: number) => figure({ name: 'sent', value, unit: 'B', target: { at: 'most', value: 7, of: 'value' } });
    expect([at(7), at(7.1)].map(meetsTarget)).toEqual([true, false]);
    expect(meetsTarget(figure({ name: 'sent', value: 9, unit: 'B' }))).toBeUndefined();
  });

  it('takes no absolute target on a speed, and no ratio without a baseline: the compiler refuses them', () => {
    // @ts-expect-error A speed is held against a baseline of the same run.
    figure({ name: 'a step', value: 1, unit: 'ns', target: { at: 'most', value: 300, of: 'value' } });
    // @ts-expect-error Nor does a baseline beside it make an absolute target right.
    figure({ name: 'a step', value: 1, unit: 'M events/s', baseline, target: { at: 'least', value: 5, of: 'value' } });
    // @ts-expect-error A ratio to nothing.
    figure({ name: 'a step', value: 1, unit: 'ns', target: { at: 'most', value: 4, of: 'ratio' } });
  });
});
