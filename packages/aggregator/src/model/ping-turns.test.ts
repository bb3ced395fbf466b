import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { waitUntil } from '../testing/wait-until.ts';
import { guardedBy } from './guarded.ts';
import { startPings } from './ping-turns.ts';

test('a turn after the process stood still judges nobody, others do', async () => {
  const turns: boolean[] = [];
  const pings = startPings(
    guardedBy(() => undefined),
    'pings',
    100,
    (judges) => turns.push(judges),
  );
  try {
    await waitUntil('some turns judge', () => turns.filter(Boolean).length >= 3);
    turns.length = 0;
    const until = performance.now() + 500;
    while (performance.now() < until);
    await waitUntil('a turn has come', () => turns.length > 0);
    expect(turns[0]).toBe(false);
    await waitUntil('they judge again', () => turns.includes(true));
    clearInterval(pings);
    await sleep(0);
    const count = turns.length;
    await sleep(300);
    expect(turns).toHaveLength(count);
  } finally {
    clearInterval(pings);
  }
});
