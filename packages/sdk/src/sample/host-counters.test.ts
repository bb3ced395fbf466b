import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { HostCounters } from './host-counters.ts';

/** CPU time of this thread, where the system tells it, else of this process, ms: other threads of it may compute, too. */
function usedMs(): number {
  if (existsSync(schedule)) return Number(readFileSync(schedule, 'utf8').split(' ')[0]) / 1e6;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
const schedule = '/proc/thread-self/schedstat';

/** Computes until this thread has used `ms` of CPU time. */
function burnCpu(ms: number): void {
  for (const until = usedMs() + ms; usedMs() < until; );
}

const named = (counters: HostCounters) => Object.fromEntries(counters.sample().map(({ name, value }) => [name, value]));

test('has no rates the first time', () => {
  expect(new HostCounters().sample()).toEqual([{ name: 'rss', value: expect.any(Number), unit: 'bytes' }]);
});

test('shows a thread that computes, in the process, the system and the thread', () => {
  const counters = new HostCounters();
  const begunMs = performance.now();
  counters.sample();
  // As much CPU time on a busy machine as on a quiet one: there it only takes longer.
  burnCpu(300);
  const { 'process cpu': processCpu = 0, 'system cpu': systemCpu = 0, 'shipper cpu': shipperCpu, rss = 0 } = named(counters);
  const least = (100 * 300) / (performance.now() - begunMs);
  expect(processCpu).toBeGreaterThan(0.95 * least);
  expect(processCpu).toBeLessThan(100 * (availableParallelism() + 4));
  expect(systemCpu).toBeGreaterThan(0);
  expect(systemCpu).toBeLessThanOrEqual(100);
  if (process.platform === 'linux') expect(shipperCpu).toBeGreaterThan(0.8 * least);
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

test('shows that threads want a CPU and have none', async () => {
  const counters = new HostCounters();
  // More threads than cores, each of which wants a core all the time.
  const busy = Array.from({ length: 4 * availableParallelism() }, () => new Worker('for (;;);', { eval: true }));
  try {
    await Promise.all(busy.map((worker) => new Promise((resolve) => worker.once('online', resolve))));
    counters.sample();
    burnCpu(500);
    const { 'cpu wait': wait, 'cpu wait time': waitTime = 0 } = named(counters);
    // Other systems do not report it.
    if (!existsSync('/proc/self/schedstat')) return expect(wait).toBeUndefined();
    expect(wait).toBeGreaterThan(50);
    expect(wait).toBeLessThan(100);
    // Several threads at once.
    expect(waitTime).toBeGreaterThan(100);
  } finally {
    await Promise.all(busy.map((worker) => worker.terminate()));
  }
});

/** ns on a CPU of each thread of this process. */
const onCpuByThread = () =>
  new Map(
    readdirSync('/proc/self/task').map((thread) => [
      thread,
      Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
    ]),
  );

test('a thread that ends takes no time from the others', async () => {
  if (!existsSync('/proc/self/schedstat')) return;
  const computes = `
    const { readFileSync } = require('node:fs');
    while (Number(readFileSync('${schedule}', 'utf8').split(' ')[0]) < 1e9);
    require('node:worker_threads').parentPort.postMessage('done');
    setInterval(() => {}, 1e6);`;
  const ends = new Worker(computes, { eval: true });
  await new Promise((resolve) => ends.once('message', resolve));
  const busy = Array.from({ length: 2 * availableParallelism() }, () => new Worker('for (;;);', { eval: true }));
  try {
    await Promise.all(busy.map((worker) => new Promise((resolve) => worker.once('online', resolve))));
    let nowMs = 0;
    const counters = new HostCounters(() => nowMs);
    counters.sample();
    await ends.terminate();
    const before = onCpuByThread();
    burnCpu(200);
    const after = onCpuByThread();
    nowMs = 1000;
    const { 'cpu wait': wait = 0, 'cpu wait time': waitTime = 0 } = named(counters);
    const onCpu = [...after].reduce((sum, [thread, ns]) => sum + ns - (before.get(thread) ?? 0), 0);
    // Together they state for how long threads had a CPU, in ns.
    expect(((waitTime * 1e7) / wait) * (100 - wait)).toBeGreaterThan(0.999 * onCpu);
  } finally {
    await Promise.all([ends, ...busy].map((worker) => worker.terminate()));
  }
});

test('reports no rate of no time, and goes on from the reading before', () => {
  let nowMs = 0;
  const counters = new HostCounters(() => nowMs);
  counters.sample();
  expect(counters.sample()).toHaveLength(1);
  burnCpu(30);
  nowMs = 1e9;
  const { 'process cpu': processCpu = 0 } = named(counters);
  expect(processCpu).toBeGreaterThan(0);
  expect(processCpu).toBeLessThan(1);
});
