// The shipper worker's work, without the worker: drains the rings of all threads, makes batches, and hands them to the shipper.
//
//   rings ──drain──► batch builder ──every flushIntervalMs, or when full──► encode ──► shipper
//
// Invariants: sequence numbers have no gaps, also when a batch is dropped (the gap is what tells of it); the watermark never goes back;
// drop counts never go back, also when a thread ends.

import { hostname } from 'node:os';
import { deflateRawSync } from 'node:zlib';
import { type BatchHeader, batchId, encodeBatch, limits, ProtocolError, rankTime, recordedKey } from '@ranktrace/protocol';
import { BatchBuilder } from './batch-builder.ts';
import { recordingLimits } from './recording-limits.ts';
import type { RingDrops } from './ring.ts';
import { type RecordedCounts, RingDrain } from './ring-drain.ts';
import type { AttachedThread, Session } from './session.ts';
import type { Shipper } from './shipper.ts';
import { readWallClock } from './wall-clock.ts';

export interface CollectorParts {
  readonly session: Session;
  readonly identity: {
    readonly run: string;
    readonly rank: number;
    readonly worldSize: number;
    readonly host: string;
    readonly pid: number;
  };
  readonly shipper: Shipper;
  readonly flushIntervalMs: number;
  /** `threadId` of the thread that opened the session. */
  readonly mainThread: number;
  /** Monotonic clock, ns. */
  readonly monotonicNs: () => bigint;
  /** Whether the system's thread `tid` has ended for sure. */
  readonly threadEnded: (tid: number) => boolean;
}

interface Thread {
  readonly about: AttachedThread;
  readonly drain: RingDrain;
}

const deflate = (body: Uint8Array) => deflateRawSync(body);

export class Collector {
  readonly #parts: CollectorParts;
  readonly #builder = new BatchBuilder();
  readonly #threads = new Map<number, Thread>();
  /** Threads over `threadsMax`: read for the number of their events alone, which are lost. */
  readonly #excess = new Map<number, Thread>();
  /** Threads that ended while this batch was built: it still has to name their tracks. */
  readonly #ended: AttachedThread[] = [];
  readonly #remoteEpochs = new Map<string, bigint>();
  #gone: RingDrops = { events: 0, arguments: 0, names: 0 };
  readonly #goneRecorded: RecordedCounts = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };
  #refusedBatches = 0;
  #sequence = 0;
  #watermark = 0;
  #flushedMs = Number.NEGATIVE_INFINITY;
  #wallClockMs = Number.NEGATIVE_INFINITY;
  #endsCheckedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: CollectorParts) {
    this.#parts = parts;
  }

  /** Begins to drain a thread; once for each, however often it is announced. */
  attach(about: AttachedThread): void {
    if (about.session !== this.#parts.session.id) return;
    const drain = new RingDrain({ ring: about.ring, origin: about.origin, track: about.thread });
    if (!drain.claim()) return;
    const threads = this.#threads.size < recordingLimits.threadsMax ? this.#threads : this.#excess;
    threads.set(about.thread, { about, drain });
  }

  /** Drains, and ships when it is time to. */
  tick(): void {
    const nowMs = this.#now() / 1e6;
    const drained = this.#drainAll();
    const waited = nowMs - this.#flushedMs;
    const due = waited >= (this.#builder.empty ? recordingLimits.heartbeatIntervalMs : this.#parts.flushIntervalMs);
    if (due) this.#ship(drained, false);
  }

  /** Ships what there is now. */
  flush(last = false): void {
    const complete = this.#drainAll();
    // After the last batch nothing comes, so there is nothing to stay behind of.
    this.#ship(last ? this.#now() : complete, last);
  }

  /** RankTime, ns, before which everything has been read: the clock as it was before the rings were looked at, for those read empty. */
  #drainAll(): number {
    let complete = this.#now() - recordingLimits.watermarkMarginMs * 1e6;
    const ended = this.#endedThreads();
    for (const { about, drain } of this.#threads.values()) {
      const batchesMax = ringBatches(about);
      let empty = drain.drain(this.#builder, this.#watermark);
      for (let batches = 0; !empty && batches < batchesMax; batches++) {
        this.#ship(this.#watermark, false);
        empty = drain.drain(this.#builder, this.#watermark);
      }
      if (!empty) complete = Math.min(complete, drain.newest);
      // The thread that opened the session closes its ring at the end of everything.
      if ((drain.finished || (empty && ended.has(about.thread))) && about.thread !== this.#parts.mainThread) this.#forget(about, drain);
    }
    for (const { about, drain } of this.#excess.values()) {
      for (let batches = ringBatches(about); batches > 0 && !drain.drain(new BatchBuilder(), 0); ) batches--;
      if (!drain.finished && !ended.has(about.thread)) continue;
      this.#excess.delete(about.thread);
      this.#gone = sumDrops(this.#gone, lostOf(drain));
    }
    return complete;
  }

  /** Threads that ended without a word (`worker.terminate`): nothing follows what is in their rings now. Looked for once a heartbeat. */
  #endedThreads(): Set<number> {
    const nowMs = this.#now() / 1e6;
    const ended = new Set<number>();
    if (nowMs - this.#endsCheckedMs < recordingLimits.heartbeatIntervalMs) return ended;
    this.#endsCheckedMs = nowMs;
    for (const { about } of [...this.#threads.values(), ...this.#excess.values()]) {
      if (this.#parts.threadEnded(about.tid)) ended.add(about.thread);
    }
    return ended;
  }

  #forget(about: AttachedThread, drain: RingDrain): void {
    this.#gone = sumDrops(this.#gone, drain.dropped);
    addCounts(this.#goneRecorded, drain.recorded);
    this.#threads.delete(about.thread);
    this.#ended.push(about);
  }

  #ship(complete: number, last: boolean): void {
    const { session, identity, shipper } = this.#parts;
    this.#watermark = Math.max(this.#watermark, Math.floor(complete));
    this.#addTracks();
    this.#addClocks();
    if (last) this.#addRecorded();
    const header: BatchHeader = {
      run: identity.run,
      rank: identity.rank,
      worldSize: identity.worldSize,
      incarnation: session.id,
      sequence: this.#sequence++,
      host: identity.host,
      hostName: hostname().slice(0, limits.hostCharsMax) || 'unknown',
      pid: identity.pid,
      epoch: String(session.epochNs),
      watermark: rankTime(this.#watermark),
      last,
      dropped: this.#dropped(),
    };
    this.#flushedMs = this.#now() / 1e6;
    try {
      shipper.ship(encodeBatch(this.#builder.take(header), deflate), batchId(header));
    } catch (error) {
      // The builder keeps batches below the limit; should one pass it all the same, it is lost and said to be.
      if (!(error instanceof ProtocolError)) throw error;
      this.#refusedBatches++;
    }
  }

  #addTracks(): void {
    for (const about of [...this.#ended, ...[...this.#threads.values()].map((thread) => thread.about)]) {
      this.#builder.append('tracks', {
        track: about.thread,
        kind: this.#builder.string('thread'),
        name: this.#builder.string(about.name),
        tid: about.tid,
      });
    }
    this.#ended.length = 0;
  }

  /** The recorder's own counts, for whoever merges to compare with what arrived. */
  #addRecorded(): void {
    const counts = { ...this.#goneRecorded };
    for (const { drain } of this.#threads.values()) addCounts(counts, drain.recorded);
    this.#builder.append('metadata', { key: this.#builder.string(recordedKey), value: this.#builder.string(JSON.stringify(counts)) });
  }

  #addClocks(): void {
    const { shipper, session, monotonicNs } = this.#parts;
    const nowMs = this.#now() / 1e6;
    if (nowMs - this.#wallClockMs >= recordingLimits.wallClockIntervalMs) {
      this.#wallClockMs = nowMs;
      const { time, widthNs, unixMs } = readWallClock(monotonicNs, Date.now);
      const seconds = Math.floor(unixMs / 1000);
      this.#builder.append('wallClocks', {
        time: Number(time - session.epochNs),
        width: widthNs,
        seconds,
        nanos: (unixMs - seconds * 1000) * 1e6,
      });
    }
    for (const { sent, received, remoteReceived, remoteSent, host } of shipper.takeClockSamples()) {
      // Few hosts in a run's life; the first answer of each is as good an epoch as any.
      const hostEpoch = this.#remoteEpochs.get(host) ?? remoteReceived;
      this.#remoteEpochs.set(host, hostEpoch);
      this.#builder.append('clockSamples', {
        sent: Number(sent - session.epochNs),
        received: Number(received - session.epochNs),
        remoteReceived: Number(remoteReceived - hostEpoch),
        remoteSent: Number(remoteSent - hostEpoch),
        host: this.#builder.string(host),
        hostEpoch: this.#builder.string(String(hostEpoch)),
      });
    }
  }

  #dropped(): BatchHeader['dropped'] {
    let sum = this.#gone;
    for (const { drain } of this.#threads.values()) sum = sumDrops(sum, drain.dropped);
    for (const { drain } of this.#excess.values()) sum = sumDrops(sum, lostOf(drain));
    return { ...sum, batches: this.#parts.shipper.droppedBatches + this.#refusedBatches };
  }

  /** RankTime, ns. */
  #now(): number {
    return Number(this.#parts.monotonicNs() - this.#parts.session.epochNs);
  }
}

/** Batches that one ring full can make: a recorder faster than the collector must not keep it at its ring. */
const ringBatches = (about: AttachedThread) => 8 + about.ring.byteLength / recordingLimits.batchBytesFull;

/** What is lost of a thread over the limit: everything. */
function lostOf({ dropped, recorded }: RingDrain): RingDrops {
  return { ...dropped, events: Object.values(recorded).reduce((sum, count) => sum + count, dropped.events) };
}

function sumDrops(left: RingDrops, right: RingDrops): RingDrops {
  return { events: left.events + right.events, arguments: left.arguments + right.arguments, names: left.names + right.names };
}

function addCounts(to: RecordedCounts, more: RecordedCounts): void {
  for (const kind of Object.keys(to) as (keyof RecordedCounts)[]) to[kind] += more[kind];
}
