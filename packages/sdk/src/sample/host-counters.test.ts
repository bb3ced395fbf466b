import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import { HostCounters } from './host-counters.ts';

function burn(ms: number): void {
  for (const endMs = performance.now() + ms; performance.now() < endMs; );
}

const named = (counters: HostCounters) => Object.fromEntries(counters.sample().map(({ name, value }) => [name, value]));

test('has no rates the first time', () => {
  expect(new HostCounters().sample()).toEqual([{ name: 'rss', value: expect.any(Number), unit: 'bytes' }]);
});

test('shows a thread that computes, in the process, the system and the thread', () => {
  const counters = new HostCounters();
  counters.sample();
  burn(400);
  const { 'process cpu': processCpu = 0, 'system cpu': systemCpu = 0, 'shipper cpu': shipperCpu, rss = 0 } = named(counters);
  // Another process may have taken the core for a part of it.
  expect(processCpu).toBeGreaterThan(20);
  expect(processCpu).toBeLessThan(100 * (availableParallelism() + 4));
  expect(systemCpu).toBeGreaterThan(0);
  expect(systemCpu).toBeLessThanOrEqual(100);
  if (process.platform === 'linux') expect(shipperCpu).toBeGreaterThan(20);
  expect(shipperCpu ?? 0).toBeLessThan(105);
  expect(rss).toBeGreaterThan(1e6);
});

test('shows a thread that waits', async () => {
  const counters = new HostCounters();
  counters.sample();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const { 'shipper cpu': shipperCpu = 0 } = named(counters);
  expect(shipperCpu).toBeLessThan(50);
});

test('tells no rate of no time, and goes on from the reading before', () => {
  let nowMs = 0;
  const counters = new HostCounters(() => nowMs);
  counters.sample();
  expect(counters.sample()).toHaveLength(1);
  burn(30);
  nowMs = 1e9;
  const { 'process cpu': processCpu = 0 } = named(counters);
  expect(processCpu).toBeGreaterThan(0);
  expect(processCpu).toBeLessThan(1);
});

test('costs little', () => {
  const counters = new HostCounters();
  const beganMs = performance.now();
  for (let time = 0; time < 100; time++) counters.sample();
  expect((performance.now() - beganMs) / 100).toBeLessThan(5);
});
