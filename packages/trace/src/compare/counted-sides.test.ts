import { expect, test } from 'vitest';
import { sidesTakenBy, sidesText } from './counted-sides.ts';

test.each([
  ['devices', 'devices', 'devices', /^steps as the GPUs take them$/],
  // A host that waits for its devices in each step takes as long as they do.
  ['devices', 'both', 'devices', /^steps as the GPUs take them$/],
  ['both', 'both', 'hosts', /^$/],
  ['hosts', 'both', 'hosts', /^$/],
  ['hosts', 'hosts', 'hosts', /^$/],
  [undefined, 'hosts', 'hosts', /^$/],
  // The pace of launches says nothing beside a window on the devices.
  ['hosts', 'devices', 'hosts', /^steps as the hosts take them: .* of A$/],
  [undefined, 'devices', 'hosts', /^steps as the hosts take them: .* of A$/],
  ['devices', 'unknown', 'hosts', /^steps as the hosts take them: .* of B$/],
  ['unknown', 'unknown', 'hosts', /^steps as the hosts take them: .* of A and B$/],
] as const)('steps taken by %s and by %s compare by those of %s', (before, after, compared, text) => {
  const [a, b] = [{ takenBy: before }, { takenBy: after }];
  expect(sidesTakenBy(a, b)).toBe(compared);
  expect(sidesText(a, b)).toMatch(text);
});
