// The threads of this process that record, each with its drain, while they live; and what is lost of those that are gone or too many.
//
// Invariant: drop counts never go back, also when a thread ends.

import { collectionsSuffix } from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';
import { type RingDrops, sumDrops } from '../record/ring.ts';
import type { AttachedThread } from '../record/session.ts';
import { addCounts, BatchBuilder, noneRecorded, type RecordedCounts } from './batch-builder.ts';
import { RingDrain } from './ring-drain.ts';

export interface RecordedThread {
  readonly about: AttachedThread;
  readonly drain: RingDrain;
}

export interface RecordedThreadsParts {
  /** `threadId` of the thread that opened the session. */
  readonly mainThread: number;
  /** Steps of it whose times are kept. */
  readonly flightRecorderSteps: number;
  /** ns on the host's clock in a ms of the threads' clocks. Default 1e6. */
  readonly nsPerMs?: number;
  /** Whether the system's thread `tid` has certainly ended. */
  readonly threadEnded: (tid: number) => boolean;
}

export class RecordedThreads {
  readonly #parts: RecordedThreadsParts;
  readonly #threads = new Map<number, RecordedThread>();
  /** Threads beyond `threadsMax`: their events are counted, as lost. */
  readonly #excess = new Map<number, RecordedThread>();
  readonly #excessRecorded = noneRecorded();
  /** Threads that ended during this batch: it still has to name their tracks. */
  #ended: RecordedThread[] = [];
  #gone: RingDrops = { events: 0, arguments: 0, names: 0 };
  #endsCheckedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: RecordedThreadsParts) {
    this.#parts = parts;
  }

  /** Begins to drain a thread, and returns it; repeated announcements have no effect. */
  attach(about: AttachedThread): RecordedThread | undefined {
    const { flightRecorderSteps, mainThread, nsPerMs = 1e6 } = this.#parts;
    const read = { ring: about.ring, origin: about.origin, track: about.thread, nsPerMs };
    const drain = new RingDrain(read, about.thread === mainThread ? Math.max(1, flightRecorderSteps) : 0);
    if (!drain.claim()) return undefined;
    const threads = this.#threads.size < recordingLimits.threadsMax ? this.#threads : this.#excess;
    const thread = { about, drain };
    threads.set(about.thread, thread);
    return threads === this.#threads ? thread : undefined;
  }

  get all(): Iterable<RecordedThread> {
    return this.#threads.values();
  }

  /** When the thread that steps ended its recording, RankTime, ns; infinite while it goes on. */
  get closedAt(): number {
    return this.main?.closedAt ?? Number.POSITIVE_INFINITY;
  }

  /** The thread that steps. */
  get main(): RingDrain | undefined {
    return this.#threads.get(this.#parts.mainThread)?.drain;
  }

  /** The track of the thread that the system numbers so, if it records. */
  trackOf(tid: number): number | undefined {
    for (const { about } of this.#threads.values()) if (about.tid === tid) return about.thread;
    return undefined;
  }

  /** Threads that ended without notice (`worker.terminate`): nothing more enters their rings. Checked once a heartbeat. */
  ended(nowMs: number): Set<number> {
    const ended = new Set<number>();
    if (nowMs - this.#endsCheckedMs < recordingLimits.heartbeatIntervalMs) return ended;
    this.#endsCheckedMs = nowMs;
    for (const { about } of [...this.#threads.values(), ...this.#excess.values()]) {
      if (this.#parts.threadEnded(about.tid)) ended.add(about.thread);
    }
    return ended;
  }

  /** Counts every event of the threads beyond the limit as lost. */
  drainExcess(ended: ReadonlySet<number>): void {
    for (const { about, drain } of this.#excess.values()) {
      for (let batches = 0, empty = false; batches < ringBatches(about) && !empty; batches++) {
        const builder = new BatchBuilder();
        empty = drain.drain({ summary: builder, detail: builder }, 0);
        addCounts(this.#excessRecorded, builder.recorded);
      }
      if (!drain.finished && !ended.has(about.thread)) continue;
      drain.countOpen(this.#excessRecorded);
      this.#excess.delete(about.thread);
      this.#gone = sumDrops(this.#gone, drain.dropped);
    }
  }

  /** A thread has ended, and its ring is read; `recorded` gets its open spans. */
  forget(about: AttachedThread, drain: RingDrain, recorded: RecordedCounts): void {
    this.#gone = sumDrops(this.#gone, drain.dropped);
    drain.countOpen(recorded);
    this.#threads.delete(about.thread);
    this.#ended.push({ about, drain });
  }

  /** Names the tracks of a batch. */
  addTracks(builder: BatchBuilder): void {
    const append = (track: number, name: string, tid: number): void => {
      builder.append('tracks', { track, kind: builder.string('thread'), name: builder.string(name), tid });
    };
    for (const { about, drain } of [...this.#ended, ...this.#threads.values()]) {
      append(about.thread, about.name, about.tid);
      if (drain.hasPauses) append(recordingLimits.extraLineBase + about.thread, `${about.name}${collectionsSuffix}`, about.tid);
    }
  }

  /** A batch has named the threads that ended. */
  forgetEnded(): void {
    this.#ended = [];
  }

  /** Losses of all threads so far. */
  get dropped(): RingDrops {
    let sum = this.#gone;
    for (const { drain } of [...this.#threads.values(), ...this.#excess.values()]) sum = sumDrops(sum, drain.dropped);
    const excess = Object.values(this.#excessRecorded).reduce((events, count) => events + count, 0);
    return { ...sum, events: sum.events + excess };
  }
}

/** Most batches that one full ring can make: a recorder faster than the collector must not hold it at its ring. */
export const ringBatches = (about: AttachedThread) => 8 + about.ring.byteLength / recordingLimits.batchBytesFull;
