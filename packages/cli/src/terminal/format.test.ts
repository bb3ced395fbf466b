import { expect, it } from 'vitest';
import { formatLengths, formatTable } from './format.ts';

it('a table may have more rows than a call takes arguments', () => {
  const rows = Array.from({ length: 200_000 }, (_, row) => [`op_${row}`, '1']);
  const lines = formatTable([['name', 'calls'], ...rows], [false, true]).split('\n');
  expect([lines.length, lines[0], lines[1]]).toEqual([200_001, 'name       calls', 'op_0           1']);
});

it.each([
  [[1.2e6, 3.4e6, 9e6], '1.20/3.40/9.00 ms'],
  [[0.4, 60, 700], '0/60/700 ns'],
  [[0, -12e6, -120e6], '0.00/-12.0/-120 ms'],
  [[1800e9, 7200e9, 12_600e9], '0.50/2.00/3.50 h'],
  [[0, 43_200e9, 9e15], '0.00/0.50/104 d'],
])('several lengths are in the unit of the last: %j', (lengths, text) => expect(formatLengths(lengths)).toBe(text));
