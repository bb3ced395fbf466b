// What a rank's process records of itself in shared memory (packages/gpu): NCCL's collectives by the profiler plugin, kernels by the library that CUDA's
// driver loaded. Both need a folder in the rank's environment, RANKTRACE_GPU_DIR, and nothing of the program.
//
//   $RANKTRACE_GPU_DIR/nccl-<pid>.ring, gpu-<pid>.ring ──► rows ──► events of the rank ──► its session
//
// Invariant: a ring is a regular file of the rank's user, opened without following a link; one that is broken is named once and left alone.

import { unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { GpuRows, RingReader } from '@ranktrace/gpu';
import { GpuEvents, reasonOf } from '@ranktrace/sdk/shipping';
import type { SeenRank } from '../ranks/rank-finder.ts';
import type { RankSession } from '../ship/rank-session.ts';

interface OpenRing {
  readonly reader: RingReader;
  readonly events: GpuEvents;
  /** Losses that were counted. */
  lost: number;
}

export class ProcessRings {
  readonly #seen: SeenRank;
  readonly #session: RankSession;
  readonly #notice: (line: string) => void;
  readonly #rows = new GpuRows();
  /** By path; undefined: broken, or read by the process itself. */
  readonly #rings = new Map<string, OpenRing | undefined>();

  constructor(seen: SeenRank, session: RankSession, notice: (line: string) => void) {
    this.#seen = seen;
    this.#session = session;
    this.#notice = notice;
  }

  /** Takes what has come. `isOver`: the process is gone, so nothing follows, and its files are removed. */
  drain(isOver = false): void {
    const { place, life, ownPid } = this.#seen;
    if (place.ringFolder === undefined) return;
    for (const pid of new Set([life.pid, ownPid])) {
      for (const kind of ['nccl', 'gpu']) this.#drain(join(place.ringFolder, `${kind}-${pid}.ring`), isOver);
    }
  }

  #drain(path: string, isOver: boolean): void {
    try {
      const ring = this.#rings.has(path) ? this.#rings.get(path) : this.#open(path);
      if (ring === undefined) return;
      const { reader, events } = ring;
      if (reader.isReadInside) {
        reader.close();
        this.#rings.set(path, undefined);
        return;
      }
      for (let more = true; more; ) {
        more = reader.read(this.#rows, isOver);
        events.add(this.#rows, reader);
      }
      if (isOver) events.finish(reader);
      const { dropped, droppedRecords, unknownRecords } = reader.state;
      const lost = dropped + droppedRecords + unknownRecords + reader.malformed + reader.unpublished + events.lost;
      this.#session.addLost(Math.max(0, lost - ring.lost));
      ring.lost = lost;
      if (isOver) this.#close(path, ring);
    } catch (error) {
      this.#rings.set(path, undefined);
      const { run, rank } = this.#session.options;
      this.#notice(`rank ${rank} of run "${run}": ${reasonOf(error)}`);
    }
  }

  #open(path: string): OpenRing | undefined {
    let reader: RingReader;
    try {
      reader = new RingReader(path, this.#session.epochNs, this.#seen.uid);
    } catch (error) {
      // It may still be made.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
    const session = this.#session;
    const target = {
      // All of it is sent.
      takesLaunches: false,
      catchUp: () => {},
      builderAt: (start: number) => session.builderAt(start),
      trackOf: () => undefined,
      added: () => session.added(),
    };
    const ring = { reader, events: new GpuEvents(target, 1, this.#rings.size), lost: 0 };
    this.#rings.set(path, ring);
    const { message } = reader.state;
    const { run, rank } = session.options;
    if (message !== '') this.#notice(`rank ${rank} of run "${run}": ${message}`);
    return ring;
  }

  #close(path: string, { reader }: OpenRing): void {
    reader.close();
    this.#rings.set(path, undefined);
    try {
      unlinkSync(path);
    } catch {
      // Somebody else removed it, or owns the folder.
    }
  }
}
