import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ClockPinger } from './clock-pinger.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** A pinger whose k-th ping takes `ways[k]` ns in all, or is lost if that is undefined; the aggregator's clock is 1000 ahead. */
function start(ways: (number | undefined)[]) {
  let now = 0n;
  let pings = 0;
  const pinger = new ClockPinger(
    (id) => {
      const way = ways[pings++ % ways.length];
      if (way === undefined) return;
      const remote = String(now + 1000n + BigInt(way) / 2n);
      queueMicrotask(() => {
        now += BigInt(way);
        pinger.pong({ type: 'clock_pong', id, host: 'h', received: remote, sent: remote });
      });
    },
    () => now,
  );
  pinger.start();
  return { pinger, pings: () => pings };
}

test('16 pings at connect, 4 each second after, the half with the shortest ways is kept', async () => {
  const { pinger, pings } = start([10, 400, 30, 200]);
  await vi.advanceTimersByTimeAsync(0);
  expect(pings()).toBe(16);
  const first = pinger.take();
  expect(first.map(({ sent, received }) => received - sent).sort()).toEqual([10n, 10n, 10n, 10n, 30n, 30n, 30n, 30n]);
  expect(first[0]).toEqual({
    sent: expect.any(BigInt),
    received: expect.any(BigInt),
    remoteReceived: expect.any(BigInt),
    remoteSent: expect.any(BigInt),
    host: 'h',
  });
  for (const { sent, received, remoteReceived } of first) expect(remoteReceived - 1000n).toBe((sent + received) / 2n);
  await vi.advanceTimersByTimeAsync(1000);
  expect(pings()).toBe(20);
  expect(pinger.take()).toHaveLength(2);
  expect(pinger.take()).toEqual([]);
});

test('bursts come as far apart as they are asked for', async () => {
  const { pinger, pings } = start([10]);
  pinger.start(3000);
  await vi.advanceTimersByTimeAsync(0);
  const connected = pings();
  await vi.advanceTimersByTimeAsync(2999);
  expect(pings()).toBe(connected);
  await vi.advanceTimersByTimeAsync(1);
  expect(pings()).toBe(connected + 4);
  await vi.advanceTimersByTimeAsync(3000);
  expect(pings()).toBe(connected + 8);
});

test('a lost ping holds up nothing but its timeout, and its late answer is not a sample', async () => {
  const { pinger, pings } = start([10, undefined]);
  await vi.advanceTimersByTimeAsync(8 * 500);
  expect(pings()).toBe(16);
  pinger.pong({ type: 'clock_pong', id: 2, host: 'h', received: '1', sent: '1' });
  expect(pinger.take()).toHaveLength(4);
});

test('samples nobody takes are bounded, the latest stay; after stop there are no pings', async () => {
  const { pinger, pings } = start([10]);
  await vi.advanceTimersByTimeAsync(100_000);
  const samples = pinger.take();
  expect(samples).toHaveLength(64);
  expect(samples.at(-1)?.received).toBeGreaterThan(100n);
  pinger.stop();
  const before = pings();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(pings()).toBe(before);
});
