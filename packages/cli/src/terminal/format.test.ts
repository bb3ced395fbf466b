import { expect, it } from 'vitest';
import { formatTable } from './format.ts';

it('a table may have more rows than a call takes arguments', () => {
  const rows = Array.from({ length: 200_000 }, (_, row) => [`op_${row}`, '1']);
  const lines = formatTable([['name', 'calls'], ...rows], [false, true]).split('\n');
  expect([lines.length, lines[0], lines[1]]).toEqual([200_001, 'name       calls', 'op_0           1']);
});
