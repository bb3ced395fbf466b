// One machine plays several hosts: all data that leaves a rank is on its host's clock; without a test clock nothing changes.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { Batch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { Collector } from '../collect/collector.ts';
import { originOf } from '../process/thread-clock.ts';
import { Recorder } from '../record/recorder.ts';
import { createRing, RingWriter } from '../record/ring.ts';
import { controlBytes } from '../record/session.ts';
import { ClockPinger } from '../ship/clock-pinger.ts';
import { keepingShipper } from '../testing/keeping-shipper.ts';
import { hostClock, parseTestClock, type TestClock } from './host-clock.ts';
import { resolveOptions } from './options.ts';

const text = 'offset_ns=17900000000,drift_ppm=-27.5,host=node-b';
const clock: TestClock = { offsetNs: 17_900_000_000n, driftNs: -27_500n, host: 'node-b' };

test('the variable says offset, drift and name, and what it says wrongly stops the start', () => {
  expect(parseTestClock(text)).toEqual(clock);
  expect(resolveOptions({}, { RANKTRACE_TEST_CLOCK: text }).testClock).toEqual(clock);
  expect(resolveOptions({}, {}).testClock).toBeUndefined();
  for (const wrong of ['offset_ns=-1,drift_ppm=0,host=a', 'offset_ns=1,drift_ppm=501,host=a', 'offset_ns=1,drift_ppm=0,host=', 'host=a']) {
    expect(() => resolveOptions({}, { RANKTRACE_TEST_CLOCK: wrong })).toThrow(
      `Bad variable RANKTRACE_TEST_CLOCK: it must be offset_ns=0…10^15,drift_ppm=-500…500,host=NAME, got "${wrong}"`,
    );
  }
});

test('without one, the clock is CLOCK_MONOTONIC itself', () => {
  const { now, at, nsPerMs, host } = hostClock();
  expect([now, at(123n), nsPerMs]).toEqual([process.hrtime.bigint, 123n, 1e6]);
  expect(host).not.toBe('');
});

test('worked numbers: an hour after boot, 27.5 ppm slow and 17.9 s ahead', () => {
  const { at, nsPerMs, host } = hostClock(clock);
  expect(at(3_600_000_000_000n)).toBe(3_600_000_000_000n - 99_000_000n + 17_900_000_000n);
  expect([nsPerMs, host]).toEqual([999_972.5, 'node-b']);
});

test('pings are sent and received by it', () => {
  const { at, now } = hostClock(clock);
  const pinger = new ClockPinger(() => {}, now);
  const before = at(process.hrtime.bigint());
  pinger.start();
  pinger.pong({ type: 'clock_pong', id: 1, host: 'h', received: '0', sent: '0' });
  pinger.stop();
  const [sample] = pinger.take();
  expect(sample?.sent).toBeGreaterThanOrEqual(before);
  expect(sample?.received).toBeLessThanOrEqual(at(process.hrtime.bigint()));
});

test('epoch, events, counters and wall clock readings of a batch are on it, to the ns', () => {
  const { at, nsPerMs, host } = hostClock(clock);
  // True time: the thread's clock began at 5 s, RankTime 0 is at 6 s, the events happen at 3600 s.
  let monotonic = 6_000_000_000n;
  const zero = 5_000_000_000n;
  const session = {
    id: 'a-1',
    thread: 0,
    control: new SharedArrayBuffer(controlBytes),
    epochNs: monotonic,
    ringBytes: 0,
    hooks: undefined,
  };
  const batches: Batch[] = [];
  const collector = new Collector({
    session: { ...session, epochNs: at(session.epochNs) },
    identity: { run: 'test', rank: 0, worldSize: 1, host, pid: 1 },
    shipper: keepingShipper(batches),
    flushIntervalMs: 200,
    flightRecorderSteps: 0,
    flightRecorderBytes: 0,
    mainThread: 0,
    monotonicNs: () => at(monotonic),
    nsPerMs,
    threadEnded: () => false,
  });
  const ring = createRing(64 * 1024);
  const now = () => Number(monotonic - zero) / 1e6;
  const recorder = new Recorder({ ring: new RingWriter(ring), now, context: new AsyncLocalStorage(), idBase: 0 });
  collector.attach({ type: 'attach', session: 'a-1', thread: 0, name: 'main', tid: 1, ring, origin: originOf(zero, session.epochNs) });
  monotonic = 3_600_000_000_000n;
  recorder.instant('x');
  collector.addSamples([{ name: 'load', value: 1, unit: '' }]);
  collector.flush();
  const { header, tables } = batches[0] as Batch;
  const expected = Number(at(monotonic) - at(session.epochNs));
  expect([header.host, BigInt(header.epoch)]).toEqual(['node-b', at(6_000_000_000n)]);
  for (const column of [tables.instants.columns.time, tables.counters.columns.time, tables.wallClocks.columns.time]) {
    expect(Math.abs((column[0] as number) - expected)).toBeLessThanOrEqual(1);
  }
});
