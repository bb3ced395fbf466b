// First pass over a Perfetto trace: finds its processes and the origin of its axis. Skips events, except the two facts per process that our
// own writer leaves (perfetto-own.ts): a trace that has them is one of ours.

import { nanos } from '@ranktrace/protocol';
import { TraceError } from '../model/errors.ts';
import { isDeviceKind } from '../model/lanes.ts';
import type { ReadBudget } from '../model/read-budget.ts';
import type { ProcessTotals, TraceHeader, TraceProcess } from '../model/trace-sink.ts';
import { isOfSequence, snapshotTimes } from './perfetto-clocks.ts';
import { clockId } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import { perfettoOrigin } from './perfetto-origin.ts';
import { conflictsOfFacts, factsCategory, laneKindOf, processOfFacts, runFacts, totalsFacts, totalsOfFacts } from './perfetto-own.ts';
import { type InflateBundle, PerfettoPackets } from './perfetto-packets.ts';
import { PerfettoSequence } from './perfetto-sequence.ts';
import { type Arguments, PerfettoTrackEvent } from './perfetto-track-event.ts';
import { PerfettoTracks, type TrackKey } from './perfetto-tracks.ts';
import { cannotRead } from './perfetto-wire.ts';

export interface PerfettoSurvey {
  readonly header: TraceHeader;
  readonly tracks: PerfettoTracks;
  /** Whether our writer made it. */
  readonly isOurs: boolean;
  /** By pid as in the trace (in ours, the process's index); 0 is the one of tracks that name none. */
  readonly processes: ReadonlyMap<number, TraceProcess>;
  /** In ours: the totals at its end, in order of process. */
  readonly totals: readonly ProcessTotals[];
  /** BOOTTIME at 0 of the axis. */
  readonly origin: bigint;
  readonly bytes: number;
  /** Where and why the trace stops before its end; undefined if it is whole. */
  readonly stopped: string | undefined;
  /** Packets with no content that is read, such as ftrace's. */
  readonly otherPackets: number;
  /** Bundles of compressed packets that cannot be read, or not to their end. */
  readonly lostBundles: number;
}

/** Sequence of the facts. */
const factsSequence = 1;

/** Every reader of the trace counts up to these numbers. Throws TraceError. */
function checkFacts(index: number, facts: Arguments): void {
  const most = limits.perfettoTracksMax;
  const [rank = 0, worldSize = 0] = [facts.get('rank'), facts.get('worldSize')];
  for (const [what, value, least] of [
    ['number', index, 1],
    ['rank', rank, 0],
    ['world size', worldSize, 0],
  ] as const) {
    if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) continue;
    throw new TraceError('not_perfetto', `${cannotRead}the ${what} of one of its processes must be from ${least} to ${most}, got ${value}`);
  }
}

/** Surveys a trace. Throws TraceError. */
export function surveyPerfetto(chunks: Iterable<Uint8Array>, budget: ReadBudget, inflate?: InflateBundle): PerfettoSurvey {
  const packets = new PerfettoPackets(chunks, inflate);
  try {
    return new Survey(packets, budget).result();
  } finally {
    packets.close();
  }
}

class Survey {
  readonly #packets: PerfettoPackets;
  readonly #tracks: PerfettoTracks;
  readonly #event = new PerfettoTrackEvent();
  /** The sequence of the facts: empty, as they refer to nothing. */
  readonly #nothing = new PerfettoSequence({ bytes: 0 });
  readonly #run = new Map<TrackKey, Arguments>();
  readonly #totals = new Map<TrackKey, Arguments>();
  #firstTime: bigint | undefined;
  #firstOther: bigint | undefined;
  #boottime: bigint | undefined;
  #unix: bigint | undefined;
  #otherPackets = 0;
  #lostBundles = 0;

  constructor(packets: PerfettoPackets, budget: ReadBudget) {
    this.#packets = packets;
    this.#tracks = new PerfettoTracks(budget);
  }

  result(): PerfettoSurvey {
    let hasPackets = false;
    while (this.#packets.next()) {
      hasPackets = true;
      this.#packet();
    }
    if (!hasPackets) throw this.#packets.wire.broken('it must hold packets, got none', 'no_events');
    const processes = this.#ourProcesses();
    return processes === undefined ? this.#foreign() : this.#ours(processes);
  }

  #packet(): void {
    const packets = this.#packets;
    const { wire, event, descriptor, snapshot, sequence } = packets;
    if (descriptor.at >= 0) this.#tracks.add(wire, descriptor);
    if (snapshot.at >= 0 && (this.#boottime === undefined || this.#unix === undefined)) {
      const { boottime, unix } = snapshotTimes(wire, snapshot);
      if (boottime !== undefined && (this.#boottime === undefined || unix !== undefined)) {
        this.#boottime = boottime;
        this.#unix = unix;
      }
    }
    if (packets.isLostBundle) this.#lostBundles++;
    if (event.at < 0) {
      if (packets.isLostBundle) return;
      if (
        descriptor.at < 0 &&
        snapshot.at < 0 &&
        packets.interned.at < 0 &&
        packets.defaults.at < 0 &&
        packets.flags === 0 &&
        !packets.isAfterLoss
      )
        this.#otherPackets++;
      return;
    }
    if (packets.hasTime) this.#noteTime();
    if (sequence === factsSequence) this.#facts();
  }

  /** Notes the first time: of BOOTTIME, and of any clock of the whole trace, for a clock that no snapshot pairs with BOOTTIME is taken to equal it. */
  #noteTime(): void {
    const { clock, timeHigh, timeLow } = this.#packets;
    const isBoottime = clock === 0 || clock === clockId.boottime;
    if ((isBoottime ? this.#firstTime : this.#firstOther) !== undefined || isOfSequence(clock)) return;
    const time = (BigInt(timeHigh) << 32n) | BigInt(timeLow);
    if (isBoottime) this.#firstTime = time;
    else this.#firstOther = time;
  }

  #facts(): void {
    const { wire, event } = this.#packets;
    const about = this.#event;
    about.read(wire, event);
    if (about.track === undefined || about.category(this.#nothing) !== factsCategory) return;
    const facts = { [runFacts]: this.#run, [totalsFacts]: this.#totals }[about.name(this.#nothing)];
    const given = about.readArguments(wire, this.#nothing);
    if (facts !== undefined && given !== undefined && this.#tracks.get(about.track)?.isProcess === true) facts.set(about.track, given);
  }

  /** The processes named by facts, by index; undefined when the trace is not ours. */
  #ourProcesses(): Map<number, TraceProcess> | undefined {
    if (this.#run.size === 0) return undefined;
    const none: Arguments = new Map();
    const processes = [...this.#run].map(([track, facts]) => {
      const index = this.#tracks.pidOf(track);
      checkFacts(index, facts);
      return processOfFacts(index, facts, this.#totals.get(track) ?? none);
    });
    const withDevices = new Set<number>();
    for (const [key, about] of this.#tracks.entries()) if (isDeviceKind(laneKindOf(about))) withDevices.add(this.#tracks.pidOf(key));
    const sorted = processes.sort((a, b) => a.index - b.index);
    return new Map(sorted.map((process) => [process.index, { ...process, hasDevices: withDevices.has(process.index) }]));
  }

  #ours(processes: ReadonlyMap<number, TraceProcess>): PerfettoSurvey {
    const [facts] = this.#run.values();
    const worldSize = facts?.get('worldSize');
    const totals = [...this.#totals].map(([track, reported]) => {
      const process = processes.get(this.#tracks.pidOf(track));
      return process === undefined ? undefined : totalsOfFacts(process, reported);
    });
    const clockConflicts = facts === undefined ? [] : conflictsOfFacts(facts);
    const header = {
      run: String(facts?.get('run') ?? ''),
      worldSize: typeof worldSize === 'number' ? worldSize : processes.size,
      processes: [...processes.values()],
      ...(clockConflicts.length > 0 && { clockConflicts }),
    };
    const origin = facts?.get('origin');
    return this.#surveyed(BigInt(Number.isSafeInteger(origin) ? (origin as number) : perfettoOrigin), header, processes, {
      isOurs: true,
      totals: totals.filter((total) => total !== undefined).sort((a, b) => a.process.index - b.process.index),
    });
  }

  /** A trace of another writer: each of its processes is a rank, in order of pid, all on the one clock of the one machine. */
  #foreign(): PerfettoSurvey {
    const names = new Map<number, string>();
    for (const [key, { pid, processName }] of this.#tracks.entries()) {
      const own = pid ?? this.#tracks.pidOf(key);
      names.set(own, processName ?? names.get(own) ?? '');
    }
    if (names.size === 0) names.set(0, '');
    const processes = new Map<number, TraceProcess>();
    for (const [rank, [pid, name]] of [...names].sort(([a], [b]) => a - b).entries()) {
      const about = { index: rank + 1, rank, pid, incarnation: '', host: 'perfetto', hostName: name === '' ? `pid ${pid}` : name };
      processes.set(pid, { ...about, alignment: { method: 'exact', bound: nanos(0) }, metadata: new Map() });
    }
    const header = { run: '', worldSize: processes.size, processes: [...processes.values()] };
    return this.#surveyed(this.#boottime ?? this.#firstTime ?? this.#firstOther ?? 0n, header, processes, { isOurs: false, totals: [] });
  }

  #surveyed(
    origin: bigint,
    header: Omit<TraceHeader, 'unixEpoch'>,
    processes: ReadonlyMap<number, TraceProcess>,
    about: Pick<PerfettoSurvey, 'isOurs' | 'totals'>,
  ): PerfettoSurvey {
    const unixEpoch = this.#unix === undefined || this.#boottime === undefined ? undefined : this.#unix - this.#boottime + origin;
    const { done: bytes } = this.#packets;
    // Our writer ends with the totals of each process.
    const isCut = about.isOurs && about.totals.length < processes.size;
    const stopped = this.#packets.stopped ?? (isCut ? `at byte ${bytes} the file ends before the totals of its processes` : undefined);
    return {
      ...about,
      header: { ...header, unixEpoch },
      tracks: this.#tracks,
      processes,
      origin,
      bytes,
      otherPackets: this.#otherPackets,
      lostBundles: this.#lostBundles,
      stopped,
    };
  }
}
