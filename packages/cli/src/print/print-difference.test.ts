import type { RunDifference } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { formatDifference } from './print-difference.ts';

it('says of a mean that it is one, and nothing about the number of steps that have it', () => {
  const side = { ranks: 1, ownRanks: [], steps: 8, detailSteps: 8, lateParts: 0, stepTimes: null, bins: [], leftOut: 0 };
  const times = { count: 1, total: 20e6, self: 20e6, steps: 8, level: 20e6, p90: 20e6 };
  const row = { kind: 'phase', on: 'host', name: 'backward', group: '', status: 'slower', ranks: [] } as const;
  const difference: RunDifference = {
    ...{ verdict: null, verdictText: '', longText: '', provableText: '', failOn: 0.03, stepsTakenBy: 'hosts' },
    a: { run: 'a', ...side },
    b: { run: 'b', ...side },
    ...{ binsFrom: 0, binsUntil: 1, namesLeftOut: 0 },
    names: [{ ...row, a: times, b: { ...times, level: 22e6 }, more: 2e6, low: 1.9e6, high: 2.1e6, part: 0.1, basis: 'mean' }],
  };
  const text = formatDifference(difference, { limit: 20, sort: 'cost', all: false });
  expect(text).toMatch(/^backward .* 1 → 1 {2}slower \(mean\)$/m);
  expect(text).toMatch(/medians over steps, or means where it is said\.$/);
});
