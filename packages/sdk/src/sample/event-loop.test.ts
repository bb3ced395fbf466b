import { expect, test } from 'vitest';
import { watchEventLoop } from './event-loop.ts';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const intervalMs = 100;

test('reports how long the event loop was held up, whenever that began, and an idle one as idle', async () => {
  const reports: { name: string; value: number; unit: string }[] = [];
  const stop = watchEventLoop((name, value, unit) => reports.push({ name, value, unit }), intervalMs);
  // On a busy machine, until the loop was idle for once.
  while (reports.length < 4 || Math.min(...reports.map(({ value }) => value)) >= 20) await sleep(10);
  const idle = reports.splice(0);
  expect(new Set(idle.map(({ name, unit }) => `${name} ${unit}`))).toEqual(
    new Set(['event loop delay max ms', 'event loop delay mean ms']),
  );
  expect(Math.min(...idle.map(({ value }) => value))).toBeGreaterThanOrEqual(0);

  // The later it begins after a report, the sooner the next report is due: it may then be the first thing that the loop does.
  for (const beginsMs of [0, 50, 80, 85, 90, 92, 94, 96, 98]) {
    const sinceMs = performance.now();
    while (reports.length === 0) await sleep(1);
    await sleep(beginsMs);
    reports.length = 0;
    for (const endMs = performance.now() + 300; performance.now() < endMs; );
    await sleep(2 * intervalMs);
    const longest = Math.max(...reports.filter(({ name }) => name === 'event loop delay max').map(({ value }) => value));
    expect(longest, `begun ${beginsMs} ms after a report`).toBeGreaterThan(200);
    expect(longest).toBeLessThanOrEqual(performance.now() - sinceMs + intervalMs);
  }

  stop();
  reports.length = 0;
  await sleep(250);
  expect(reports).toEqual([]);
});
