// Results of the last active steps of this rank, computed in its own process: the flight recorder's batches go through the same merge,
// averages and writers as a trace of the whole cluster.
//
//   held batches ──► mergeRun ──► KinetoTable ──► function events ──► averages, stacks
//                        └──────► Kineto JSON, Perfetto trace
//
// Everything here blocks the calling thread; none of it runs without a call.

import { hostname } from 'node:os';
import { basename } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import {
  type Batch,
  type BatchHeader,
  type Dropped,
  decodeBody,
  limits,
  noneDropped,
  rankTime,
  sumDropped,
  type TableName,
  tableNames,
} from '@ranktrace/protocol';
import { type BatchSource, type ClockSample, countBelow, mergeRun, type TraceSink } from '@ranktrace/trace';
import { perfettoWriter } from '@ranktrace/trace/perfetto';
import { type FunctionEvents, functionEvents, KinetoTableSink, kinetoWriter, type RecordingWindow } from '@ranktrace/trace/torch';
import type { HeldBatch, HeldResults } from '../collect/flight-recorder.ts';
import { SdkError } from '../model/errors.ts';
import { hostClock } from '../model/host-clock.ts';
import type { ResolvedOptions } from '../model/options.ts';
import { readWallClock, type WallClockReading } from '../process/wall-clock.ts';
import type { Session } from '../record/session.ts';
import { checkPath, writeResultBy } from './result-file.ts';

/** Facts about a recording beside its events. */
export interface RecordingAbout {
  readonly run: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly incarnation: string;
  readonly pid: number;
  /** Name of the host's monotonic clock in a merge, and its reading at RankTime 0, ns. */
  readonly host: string;
  readonly epochNs: bigint;
  /** The wall clock beside the host's: always the same reading, so that files of one process agree. The first call takes up to 3 ms. */
  readonly wallClock: () => WallClockReading;
  /** Whether steps are function events (`ProfilerStep*`): yes if there is a schedule. Files always have them, for comparison. */
  readonly steps: boolean;
  /** Switches that were on, by torch's names (`record_shapes`, `profile_memory`, …). */
  readonly switches: Readonly<Record<string, '1'>>;
  /** Facts from `addMetadata` and `addMetadataJson`, parsed. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly traceId: string;
  /** Most seconds that computing it may take; undefined for no limit. */
  readonly timeoutS: number | undefined;
  readonly warn: (text: string) => void;
}

/** `steps`: whether there is a schedule. */
export function recordingAbout(
  options: ResolvedOptions,
  session: Session,
  steps: boolean,
  warn: (text: string) => void,
): Omit<RecordingAbout, 'metadata' | 'traceId'> {
  const { run, rank, worldSize, recordShapes, profileMemory, withStack, withFlops, withModules, postProcessingTimeoutS } = options;
  const given = {
    record_shapes: recordShapes || withFlops,
    profile_memory: profileMemory,
    with_stack: withStack !== false,
    with_flops: withFlops,
    with_modules: withModules,
  };
  const switches = Object.fromEntries(Object.entries(given).flatMap(([name, on]) => (on ? [[name, '1' as const]] : [])));
  const { host, now, at } = hostClock(options.testClock);
  let reading: WallClockReading | undefined;
  const wallClock = (): WallClockReading => {
    reading ??= readWallClock(now, Date.now);
    return reading;
  };
  return {
    ...{ run, rank, worldSize, incarnation: session.id, pid: process.pid },
    ...{ host, epochNs: at(session.epochNs), wallClock },
    ...{ steps, switches, timeoutS: postProcessingTimeoutS, warn },
  };
}

const inflate = (bytes: Uint8Array, maxOutputLength: number): Uint8Array => inflateRawSync(bytes, { maxOutputLength });

export class Recording {
  readonly about: RecordingAbout;
  readonly #cycles: readonly HeldResults[];
  readonly #dropped: Dropped;
  #events: FunctionEvents | undefined;

  /** `cycles`: in order of time, at least one. `forgotten`: how many went before them, for lack of room. `missed`: how many the shipper did not hand over. */
  constructor(cycles: readonly HeldResults[], about: RecordingAbout, { forgotten = 0, missed = 0 } = {}) {
    this.#cycles = cycles;
    this.about = about;
    this.#dropped = cycles.reduce((sum, { dropped }) => sumDropped(sum, dropped), noneDropped);
    if (this.lossText !== undefined) about.warn(`results are not complete: ${this.lossText}`);
    if (missed > 0)
      about.warn(
        `results are not complete: ${missed === 1 ? 'one cycle is' : `${missed} cycles are`} missing: the shipper's thread, which had them, did not answer in time`,
      );
    if (forgotten > 0 || !cycles.every((cycle) => cycle.complete)) {
      const which = forgotten === 0 ? '' : `, all of the first ${forgotten === 1 ? 'cycle' : `${forgotten} cycles`}`;
      about.warn(
        `results are not complete: they passed flightRecorderBytes, so the oldest were forgotten${which}; record fewer steps or raise it`,
      );
    }
  }

  /** Losses in words; undefined if nothing was lost. */
  get lossText(): string | undefined {
    const { events } = this.#dropped;
    return events === 0
      ? undefined
      : `${events} events were dropped while these were recorded: raise ringBytes or record fewer, if no value was of the wrong type`;
  }

  get events(): FunctionEvents {
    if (this.#events === undefined) {
      const sink = new KinetoTableSink({ ...this.#window, options: this.about.switches });
      this.#merge(sink);
      this.#events = functionEvents(sink.table);
    }
    return this.#events;
  }

  /**
   * Writes the trace: `.json` (Kineto's, as torch.profiler has it) or `.pftrace` (Perfetto), each also `.gz`. Throws SdkError
   * `bad_option` for other names, `file_unwritable`.
   */
  writeTrace(path: string): void {
    checkPath(path);
    const format = /\.(json|pftrace)(?:\.gz)?$/.exec(path)?.[1];
    if (format === undefined) {
      throw new SdkError('bad_option', `Cannot export the trace to "${path}": it must end in .json or .pftrace, or one of them and .gz`);
    }
    const { switches: options, metadata, traceId } = this.about;
    const clock = { host: this.about.host, epoch: this.about.epochNs, samples: this.#clockSamples() };
    const kineto = { ...this.#window, steps: true, options, metadata, clock, traceId, traceName: basename(path) };
    writeResultBy(path, (write) => this.#merge(format === 'json' ? kinetoWriter(write, kineto) : perfettoWriter(write)));
  }

  get #window(): RecordingWindow {
    const cycles = this.#cycles;
    const [first, last] = [cycles[0] as HeldResults, cycles.at(-1) as HeldResults];
    const isWanted = (time: number): boolean => {
      const begun = countBelow(cycles.length, (at) => (cycles[at] as HeldResults).since <= time);
      return time < (cycles[begun - 1]?.until ?? Number.NEGATIVE_INFINITY);
    };
    return { since: first.since, until: last.until, steps: this.about.steps, ...(cycles.length > 1 ? { isWanted } : {}) };
  }

  #merge(sink: TraceSink): void {
    const { timeoutS, warn } = this.about;
    const end = timeoutS === undefined ? Number.POSITIVE_INFINITY : performance.now() + 1000 * timeoutS;
    const merge = mergeRun([this.#source()], sink);
    let wasLate = false;
    for (let step = merge.next(); step.done !== true; step = merge.next()) {
      if (performance.now() <= end || wasLate) continue;
      // Leave out the remaining batches, but finish what is read so far: a file must be complete.
      wasLate = true;
      this.#isLate = true;
      warn(`results are not complete: working them out took longer than postProcessingTimeoutS, ${timeoutS} s`);
    }
    this.#isLate = false;
  }

  #isLate = false;

  /** Batches of all cycles, each once: close cycles share batches. */
  get #batches(): readonly HeldBatch[] {
    return [...new Map(this.#cycles.flatMap((cycle) => cycle.batches.map((batch) => [batch.serial, batch]))).values()];
  }

  #clockSamples(): ClockSample[] {
    return this.#batches.flatMap(({ body }) => {
      const { strings, tables } = decodeBody(body, inflate, ['clockSamples']);
      const { columns, length } = tables.clockSamples;
      return Array.from({ length }, (_, row): ClockSample => {
        const remoteEpoch = BigInt(strings[columns.hostEpoch[row] as number] as string);
        const remoteHost = strings[columns.host[row] as number] as string;
        const [sent, received] = [columns.sent[row] as number, columns.received[row] as number];
        const [remoteReceived, remoteSent] = [columns.remoteReceived[row] as number, columns.remoteSent[row] as number];
        return { remoteHost, remoteEpoch, sent, received, remoteReceived, remoteSent };
      });
    });
  }

  #source(): BatchSource {
    const batches = this.#batches;
    const { rank, incarnation } = this.about;
    const batch = (index: number, only?: readonly TableName[]): Batch | undefined =>
      this.#isLate ? undefined : this.#decoded(batches[index] as HeldBatch, index, only);
    return { rank, incarnation, count: batches.length, missing: 0, batch };
  }

  #decoded({ body, since }: HeldBatch, sequence: number, only: readonly TableName[] | undefined): Batch {
    const { run, rank, worldSize, incarnation, pid, host, epochNs } = this.about;
    const header: BatchHeader = {
      run,
      rank,
      worldSize,
      incarnation,
      sequence,
      host,
      hostName: hostname().slice(0, limits.hostCharsMax),
      pid,
      epoch: String(epochNs),
      watermark: rankTime(0),
      since: rankTime(since),
      last: true,
      dropped: this.#dropped,
    };
    // Without clock pings: they would put this rank on the aggregator's clock, some µs off the window of the results. Without the batches' wall
    // clock readings: not all batches have one, and files of one process must agree.
    const wanted = (only ?? tableNames).filter((name) => name !== 'clockSamples' && name !== 'wallClocks');
    const decoded = decodeBody(body, inflate, wanted);
    const { time, widthNs: width, unixMs } = this.about.wallClock();
    const seconds = Math.floor(unixMs / 1000);
    decoded.tables.wallClocks.append({ time: Number(time - epochNs), width, seconds, nanos: (unixMs - seconds * 1000) * 1e6 });
    return { header, ...decoded };
  }
}
