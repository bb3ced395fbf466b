// What a rank's process records of itself in shared memory (packages/gpu): NCCL's collectives by the profiler plugin, kernels by the library that CUDA's
// driver loaded. Both need a folder in the rank's environment, RANKTRACE_GPU_DIR, and nothing of the program.
//
//   $RANKTRACE_GPU_DIR/nccl-<pid>-<start>.ring, gpu-<pid>-<start>.ring ──► rows ──► events of the rank ──► its session
//
// <pid> is the process's own number for itself, which differs in a container; <start> tells processes of several containers, or of one after the other,
// apart. A library that does not know it leaves it out.
// A rank may be a shell, or another program that starts the one with the rings: the oldest of its descendants that has some stands for it, until it is gone.
// Invariant: a ring is a regular file of the rank's user, opened without following a link; one that is broken is named once and left alone.
// Invariant: a ring whose header has another start than the process is another process's, and is left alone, too.

import { existsSync, readdirSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { GpuRows, RingReader } from '@ranktrace/gpu';
import { GpuEvents, reasonOf } from '@ranktrace/sdk/shipping';
import { agentLimits as limits } from '../model/limits.ts';
import { descendantsOf, numbersOf, type ProcessLife, processLife } from '../ranks/process-table.ts';
import { environmentOf, placeOf } from '../ranks/rank-environment.ts';
import type { SeenRank } from '../ranks/rank-finder.ts';
import type { RankSession } from '../ship/rank-session.ts';

interface OpenRing {
  readonly reader: RingReader;
  readonly events: GpuEvents;
  /** Losses that were counted. */
  lost: number;
}

/** A process, and the numbers that its rings may have. */
interface RingProcess {
  readonly life: ProcessLife;
  readonly numbers: readonly number[];
}

export class ProcessRings {
  readonly #seen: SeenRank;
  readonly #session: RankSession;
  readonly #notice: (line: string) => void;
  readonly #rows = new GpuRows();
  /** By path; undefined: broken, or read by the process itself. */
  readonly #rings = new Map<string, OpenRing | undefined>();
  /** Rings that were opened so far: each has tracks of its own. */
  #opened = 0;
  /** Remembered: nothing is known of a process that is gone. */
  #own: RingProcess;
  /** The descendant that has the rings. */
  #within: RingProcess | undefined;
  #nextLookMs = 0;
  #isMissingSaid = false;

  constructor(seen: SeenRank, session: RankSession, notice: (line: string) => void) {
    this.#seen = seen;
    this.#session = session;
    this.#notice = notice;
    this.#own = processOf(seen.life);
  }

  /**
   * Takes what has come. `isOver`: the process is gone, so nothing follows, and its files are removed. `isLast`: nobody calls this again, though the process
   * may go on: what waits for more rows is taken as it is.
   */
  drain(isOver = false, isLast = isOver): void {
    const { place, life, ownPid } = this.#seen;
    const folder = place.ringFolder;
    // While nothing can be sent, rows wait in their rings, which are bounded and count what finds no room.
    if (folder === undefined || (this.#session.isBusy && !isLast)) return;
    if (this.#own.life !== life) {
      if (this.#hasRings(folder, this.#own)) this.#within ??= this.#own;
      this.#own = processOf(life);
    }
    const { numbers } = this.#own;
    if (!numbers.includes(ownPid)) this.#own = { life, numbers: [...numbers, ownPid] };
    this.#drainOf(folder, this.#own, isOver, isLast);
    if (this.#hasRings(folder, this.#own)) return;
    if (!isLast) this.#within ??= this.#find(folder);
    if (this.#within === undefined) {
      this.#sayMissing(folder);
      return;
    }
    const isGone = processLife(this.#within.life.pid)?.start !== this.#within.life.start;
    this.#drainOf(folder, this.#within, isGone, isGone || isLast);
    if (isGone) this.#within = undefined;
  }

  #drainOf(folder: string, process: RingProcess, isOver: boolean, isLast: boolean): void {
    for (const path of pathsOf(folder, process)) this.#drain(path, process.life, isOver, isLast);
  }

  #hasRings(folder: string, process: RingProcess): boolean {
    return pathsOf(folder, process).some((path) => this.#rings.has(path));
  }

  /** The oldest process with rings that the rank started, and that is no other rank. */
  #find(folder: string): RingProcess | undefined {
    // All processes are read for it.
    if (performance.now() < this.#nextLookMs) return undefined;
    this.#nextLookMs = performance.now() + limits.scanIntervalMs;
    const present = new Set(ringsIn(folder));
    if (present.size === 0) return undefined;
    const found = descendantsOf(this.#own.life.pid)
      .map(processOf)
      .filter((one) => namesOf(one).some((name) => present.has(name)) && !this.#isOtherRank(one.life.pid));
    if (found.length > 1)
      this.#say(`${found.length} processes that it started have rings: only those of process ${found[0]?.life.pid} are read`);
    return found[0];
  }

  #isOtherRank(pid: number): boolean {
    const environment = environmentOf(pid);
    const place = environment && placeOf(environment, {}, undefined);
    return place !== undefined && !('wrong' in place) && place.options.rank !== this.#seen.place.options.rank;
  }

  #sayMissing(folder: string): void {
    if (this.#isMissingSaid || this.#opened > 0 || performance.now() - this.#seen.seenAt < limits.silentRankMs) return;
    this.#isMissingSaid = true;
    const why = existsSync(folder)
      ? 'CUDA or NCCL has not begun in it, or does not load the library (CUDA_INJECTION64_PATH, NCCL_PROFILER_PLUGIN)'
      : 'this agent has no such folder';
    this.#say(`process ${this.#own.life.pid} has RANKTRACE_GPU_DIR, and no ring in "${folder}" so far: ${why}`);
  }

  #drain(path: string, life: ProcessLife, isOver: boolean, isLast: boolean): void {
    try {
      const ring = this.#rings.has(path) ? this.#rings.get(path) : this.#open(path, life);
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
      if (isLast) events.finish(reader);
      const { dropped, droppedRecords, unknownRecords } = reader.state;
      const lost = dropped + droppedRecords + unknownRecords + reader.malformed + reader.unpublished + events.lost;
      this.#session.addLost(Math.max(0, lost - ring.lost));
      ring.lost = lost;
      if (isLast) this.#close(path, ring, isOver);
    } catch (error) {
      this.#rings.get(path)?.reader.close();
      this.#rings.set(path, undefined);
      this.#say(reasonOf(error));
    }
  }

  #open(path: string, life: ProcessLife): OpenRing | undefined {
    let reader: RingReader;
    try {
      reader = new RingReader(path, this.#session.epochNs, this.#seen.uid);
    } catch (error) {
      // It may still be made.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
    if (reader.pidStart !== 0 && reader.pidStart !== life.start) {
      reader.close();
      this.#rings.set(path, undefined);
      this.#say(`the ring "${path}" is left alone: another process with the number ${reader.pid} made it`);
      return undefined;
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
    const ring = { reader, events: new GpuEvents(target, 1, this.#opened++), lost: 0 };
    this.#rings.set(path, ring);
    const { message } = reader.state;
    if (message !== '') this.#say(message);
    return ring;
  }

  #close(path: string, { reader }: OpenRing, isOver: boolean): void {
    reader.close();
    this.#rings.set(path, undefined);
    if (!isOver) return;
    try {
      unlinkSync(path);
      this.#rings.delete(path);
    } catch {
      // Somebody else removed it, or owns the folder.
    }
  }

  #say(what: string): void {
    const { run, rank } = this.#session.options;
    this.#notice(`rank ${rank} of run "${run}": ${what}`);
  }
}

const kinds = ['nccl', 'gpu'] as const;
const ringName = /^(?:nccl|gpu)-\d+(?:-\d+)?\.ring$/;

const processOf = (life: ProcessLife): RingProcess => ({ life, numbers: [...new Set([life.pid, ...numbersOf(life.pid)])] });

const namesOf = ({ life, numbers }: RingProcess): readonly string[] =>
  kinds.flatMap((kind) => numbers.flatMap((number) => [`${kind}-${number}-${life.start}.ring`, `${kind}-${number}.ring`]));

const pathsOf = (folder: string, process: RingProcess): readonly string[] => namesOf(process).map((name) => join(folder, name));

/** Empty where the folder cannot be read. */
function ringsIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => ringName.test(name));
  } catch {
    return [];
  }
}
