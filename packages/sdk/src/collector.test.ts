// Threads that come and go: what each recorded is shipped or counted, once.

import { AsyncLocalStorage } from 'node:async_hooks';
import { inflateRawSync } from 'node:zlib';
import { type Batch, decodeBatch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { Collector } from './collector.ts';
import { Recorder } from './recorder.ts';
import { recordingLimits } from './recording-limits.ts';
import { cellBytes, createRing, RingWriter } from './ring.ts';
import type { AttachedThread, Session } from './session.ts';

const session: Session = { id: 'a-1', control: new SharedArrayBuffer(8), epochNs: 0n, ringBytes: 0, hooks: undefined };

/** A collector whose clock is set by hand, and what it shipped. */
class Rig {
  ns = 1_000_000_000n;
  readonly ended = new Set<number>();
  readonly batches: Batch[] = [];
  readonly collector = new Collector({
    session,
    identity: { run: 'test', rank: 0, worldSize: 1, host: 'h', pid: 1 },
    shipper: {
      ship: (bytes) => {
        this.batches.push(decodeBatch(bytes, (body, max) => inflateRawSync(body, { maxOutputLength: max })));
        return true;
      },
      takeClockSamples: () => [],
      droppedBatches: 0,
      drained: async () => true,
      close: async () => {},
    },
    flushIntervalMs: 200,
    flightRecorderSteps: 4,
    flightRecorderBytes: 1024 * 1024,
    mainThread: 0,
    monotonicNs: () => this.ns,
    threadEnded: (tid) => this.ended.has(tid),
  });

  thread(thread: number, cells = 64): { recorder: Recorder; about: AttachedThread } {
    const ring = createRing(cells * cellBytes);
    const recorder = new Recorder({
      ring: new RingWriter(ring),
      now: () => Number(this.ns) / 1e6,
      context: new AsyncLocalStorage(),
      idBase: 0,
    });
    const about = { type: 'attach', session: 'a-1', thread, name: `t${thread}`, tid: 1000 + thread, ring, origin: 0 } as const;
    this.collector.attach(about);
    return { recorder, about };
  }

  tick(ms: number): void {
    this.ns += BigInt(ms) * 1_000_000n;
    this.collector.tick();
  }

  get last(): Batch {
    return this.batches.at(-1) as Batch;
  }

  get tracks(): number[] {
    const { columns, length } = this.last.tables.tracks;
    return [...columns.track.subarray(0, length)];
  }
}

test('a thread that is announced again after it ended does not count its losses twice', () => {
  const rig = new Rig();
  const { recorder, about } = rig.thread(1);
  for (let i = 0; i < 100; i++) recorder.instant('x');
  recorder.close();
  rig.tick(20);
  rig.collector.attach(about);
  rig.tick(1000);
  const shown = rig.batches.reduce((sum, { tables }) => sum + tables.instants.length, 0);
  expect(rig.last.header.dropped.events).toBe(100 - shown);
});

test('a thread that was terminated is read to its end and forgotten', () => {
  const rig = new Rig();
  const { recorder } = rig.thread(1);
  rig.tick(1000);
  recorder.instant('x');
  rig.ended.add(1001);
  rig.tick(1000);
  expect(rig.last.tables.instants.length).toBe(1);
  expect(rig.tracks).toEqual([1]);
  rig.tick(1000);
  expect(rig.tracks).toEqual([]);
});

test('events of threads over the limit are counted, while they live and after', () => {
  const rig = new Rig();
  for (let thread = 0; thread < recordingLimits.threadsMax; thread++) rig.thread(thread);
  const { recorder } = rig.thread(recordingLimits.threadsMax);
  for (let i = 0; i < 100; i++) recorder.instant('x');
  rig.tick(1000);
  expect(rig.last.header.dropped.events).toBe(100);
  recorder.record('y', undefined, () => 1);
  recorder.close();
  rig.tick(1000);
  rig.tick(1000);
  expect(rig.last.header.dropped.events).toBe(101);
  expect(rig.tracks).toHaveLength(recordingLimits.threadsMax);
});
