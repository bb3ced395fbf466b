// Reads the logs of NCCL's Inspector (plugins/profiler/inspector of NCCL, formats v4.0 to v4.3): lines of JSON, in a file a process.
//
//   until v4.2   {header, metadata, coll_perf}                     each line names its communicator and process
//   v4.3         {header, metadata, dump_stats}                    one line begins a dump of one communicator;
//                {coll_perf} … {p2p_perf} … {proxy_trace} …        as many lines as it says belong to it
//
// A line has times where NCCL_INSPECTOR_DUMP_VERBOSE=1 was set: `event_trace_ts`, µs of the host's wall clock, of the enqueueing call and of each channel
// of the kernel. Without them only lengths are known, and no place on a timeline: such lines are counted and left out. So are traces of proxies.
//
// Invariant: any bytes give records or counts; memory is bounded by the budget and by the limits of a line and of communicators.

import { limits as protocolLimits } from '@ranktrace/protocol';
import { decodeUtf8, withoutByteOrderMark } from '../model/decode-utf8.ts';
import { TraceError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import { ReadBudget, textBytes } from '../model/read-budget.ts';

/** A communicator as one of its ranks sees it. */
export interface InspectorCommunicator {
  /** NCCL's hash of it, the same on all ranks: `0x7f8c496ae9f661`. */
  readonly id: string;
  /** '' where the program gave it none. */
  readonly name: string;
  /** In the communicator. */
  readonly rank: number;
  readonly ranks: number;
  /** Records that Inspector counts as overwritten before they were written. */
  dropped: number;
}

/** A collective, send or receive of one process. */
export interface InspectorRecord {
  readonly communicator: InspectorCommunicator;
  /** `AllReduce`, `Send`. */
  readonly op: string;
  /** Of a collective: NCCL counts those of one function of a communicator. Of a send or receive: Inspector's own. */
  readonly sequence: number;
  readonly bytes: number;
  /** Rank in the communicator at the other side of a send or receive; −1 for a collective. */
  readonly peer: number;
  /** Of the work on the GPU, where the log has its channels, else from the call that enqueued it: µs since 1970. */
  readonly startMicros: number;
  readonly endMicros: number;
}

export interface InspectorProcess {
  readonly host: string;
  readonly pid: number;
  /** By id and rank. */
  readonly communicators: Map<string, InspectorCommunicator>;
  readonly records: InspectorRecord[];
  readonly counts: InspectorCounts;
}

export interface InspectorCounts {
  /** Lines that are no records of the format, or lack a member. */
  malformed: number;
  /** Records without times. */
  untimed: number;
  /** Records that a dump announces and the file lacks. */
  cut: number;
}

/** Memory of a record, in its process, its job and its batch. */
const recordBytes = 256;
const communicatorBytes = 1024;
const textCharsMax = 256;
/** Channels of one kernel: NCCL has 64. */
const channelsMax = 1024;
const newline = 0x0a;

/** Whether a file that begins with `text` may be a log of Inspector. */
export const looksLikeInspector = (text: string): boolean =>
  /^\s*\{/.test(text) && /"(?:inspector_output_format_version|coll_perf|dump_stats)"\s*:/.test(text) && !text.includes('"traceEvents"');

interface Context {
  readonly process: InspectorProcess;
  readonly communicator: InspectorCommunicator;
  /** Lines that are to come, of collectives and of sends. */
  readonly left: { coll_perf: number; p2p_perf: number };
}

export class InspectorReader {
  readonly #budget: ReadBudget;
  readonly #processes = new Map<string, InspectorProcess>();
  /** A line of which the end is to come. */
  #begun: Uint8Array[] = [];
  #begunBytes = 0;
  #isTooLong = false;
  /** The dump that lines of v4.3 belong to. */
  #context: Context | undefined;
  /** Of the file. */
  #records = 0;
  #malformed = 0;
  #cut = 0;
  #latest: InspectorProcess | undefined;
  #begunProcesses: string[] = [];

  constructor(budget = new ReadBudget()) {
    this.#budget = budget;
  }

  get processes(): readonly InspectorProcess[] {
    return [...this.#processes.values()];
  }

  /** Reads the next bytes of a file. @throws TraceError `memory` */
  push(bytes: Uint8Array): void {
    for (let from = 0; from < bytes.length; ) {
      const found = bytes.indexOf(newline, from);
      const to = found < 0 ? bytes.length : found;
      this.#keep(bytes.subarray(from, to), found < 0);
      if (found >= 0) this.#endLine();
      from = to + 1;
    }
  }

  /**
   * The file is over: lines of it that are no records, and records that its dumps announce and it lacks.
   * @throws TraceError `no_events` where none of its lines is a record, `memory`
   */
  endFile(): Omit<InspectorCounts, 'untimed'> {
    this.#endLine();
    this.#endDump();
    const [records, malformed, cut, latest] = [this.#records, this.#malformed, this.#cut, this.#latest];
    const begun = this.#begunProcesses;
    [this.#records, this.#malformed, this.#cut, this.#latest, this.#begunProcesses] = [0, 0, 0, undefined, []];
    if (records === 0 || latest === undefined) {
      for (const key of begun) this.#processes.delete(key);
      throw new TraceError('no_events', 'Cannot read the log: it must hold records of NCCL Inspector, one a line, got none');
    }
    latest.counts.malformed += malformed;
    return { malformed, cut };
  }

  #keep(bytes: Uint8Array, isCopied: boolean): void {
    this.#begunBytes += bytes.length;
    if (this.#begunBytes > limits.inspectorLineBytesMax) this.#isTooLong = true;
    if (this.#isTooLong) this.#begun = [];
    else if (bytes.length > 0) this.#begun.push(isCopied ? bytes.slice() : bytes);
  }

  #endLine(): void {
    const [begun, length, isTooLong] = [this.#begun, this.#begunBytes, this.#isTooLong];
    [this.#begun, this.#begunBytes, this.#isTooLong] = [[], 0, false];
    if (isTooLong) this.#malformed++;
    if (isTooLong || length === 0) return;
    const [first = new Uint8Array()] = begun;
    const line = begun.length === 1 ? first : joined(begun, length);
    const text = withoutByteOrderMark(decodeUtf8(line, 0, line.length));
    if (text.trim() !== '') this.#read(text);
  }

  #read(text: string): void {
    let line: unknown;
    try {
      line = JSON.parse(text);
    } catch {
      this.#malformed++;
      return;
    }
    const stats = field(line, 'dump_stats');
    const own = field(line, 'header') === undefined ? undefined : this.#contextOf(line);
    if (stats !== undefined) {
      this.#endDump();
      this.#begin(own, line, stats);
      return;
    }
    const isOwn = field(line, 'header') !== undefined;
    const context = isOwn ? own : this.#context;
    if (field(line, 'proxy_trace') !== undefined && context !== undefined) {
      this.#records++;
      return;
    }
    const kind = field(line, 'coll_perf') !== undefined ? 'coll_perf' : 'p2p_perf';
    const about = field(line, kind);
    // A line beyond those that its dump announced belongs to nobody.
    if (context === undefined || about === undefined || (!isOwn && context.left[kind] <= 0)) {
      this.#malformed++;
      return;
    }
    if (!isOwn) context.left[kind]--;
    this.#add(context, kind === 'coll_perf' ? 'coll' : 'p2p', about);
  }

  /** A line that begins the dump of a communicator. */
  #begin(context: Context | undefined, line: unknown, stats: unknown): void {
    if (context === undefined) {
      this.#malformed++;
      return;
    }
    this.#records++;
    const { communicator } = context;
    const dropped = (countOf(field(stats, 'coll_dropped_total')) ?? 0) + (countOf(field(stats, 'p2p_dropped_total')) ?? 0);
    communicator.dropped = Math.max(communicator.dropped, dropped);
    // Before v4.3 each record has a header of its own, too, and none belongs to the line.
    if (textOf(field(field(line, 'metadata'), 'inspector_output_format_version'))?.match(/^v4\.[0-2]$/)) return;
    this.#context = context;
    context.left.coll_perf = countOf(field(stats, 'coll_records')) ?? 0;
    context.left.p2p_perf = countOf(field(stats, 'p2p_records')) ?? 0;
  }

  #endDump(): void {
    const context = this.#context;
    this.#context = undefined;
    if (context === undefined) return;
    const { left, process } = context;
    const cut = Math.min(Number.MAX_SAFE_INTEGER, left.coll_perf + left.p2p_perf);
    this.#cut = Math.min(Number.MAX_SAFE_INTEGER, this.#cut + cut);
    process.counts.cut = Math.min(Number.MAX_SAFE_INTEGER, process.counts.cut + cut);
  }

  /** The process and the communicator that a line names; undefined where it does not. */
  #contextOf(line: unknown): Context | undefined {
    const [header, metadata] = [field(line, 'header'), field(line, 'metadata')];
    const id = textOf(field(header, 'id'));
    const rank = countOf(field(header, 'rank'));
    const ranks = countOf(field(header, 'n_ranks'));
    const host = textOf(field(metadata, 'hostname'));
    const pid = countOf(field(metadata, 'pid'));
    if (id === undefined || id === '' || rank === undefined || ranks === undefined || host === undefined || pid === undefined)
      return undefined;
    if (rank >= ranks || ranks > protocolLimits.rankMax + 1) return undefined;
    const process = this.#processOf(host, pid);
    if (process === undefined) return undefined;
    this.#latest = process;
    const key = `${rank} ${id}`;
    let communicator = process.communicators.get(key);
    if (communicator === undefined) {
      if (process.communicators.size === limits.inspectorCommunicatorsMax) return undefined;
      this.#budget.take(communicatorBytes);
      const name = textOf(field(header, 'comm_name')) ?? '';
      communicator = { id, name: name === 'unknown' ? '' : name, rank, ranks, dropped: 0 };
      process.communicators.set(key, communicator);
    }
    return { process, communicator, left: { coll_perf: 0, p2p_perf: 0 } };
  }

  #processOf(host: string, pid: number): InspectorProcess | undefined {
    const key = `${pid} ${host}`;
    const known = this.#processes.get(key);
    if (known !== undefined) return known;
    if (this.#processes.size > protocolLimits.rankMax) return undefined;
    this.#budget.take(communicatorBytes + textBytes);
    const process = { host, pid, communicators: new Map(), records: [], counts: { malformed: 0, untimed: 0, cut: 0 } };
    this.#processes.set(key, process);
    this.#begunProcesses.push(key);
    return process;
  }

  #add({ process, communicator }: Context, kind: 'coll' | 'p2p', about: unknown): void {
    const of = (name: string): unknown => field(about, `${kind}_${name}`);
    const op = textOf(field(about, kind));
    const sequence = countOf(of('sn'));
    const peer = kind === 'coll' ? -1 : countOf(of('peer'));
    if (op === undefined || op === '' || sequence === undefined || peer === undefined) {
      this.#malformed++;
      return;
    }
    this.#records++;
    const times = timesOf(field(about, 'event_trace_ts'), kind, countOf(of('exec_time_us')) ?? 0);
    if (times === undefined) {
      process.counts.untimed++;
      return;
    }
    this.#budget.take(recordBytes);
    const [startMicros, endMicros] = times;
    process.records.push({ communicator, op, sequence, bytes: countOf(of('msg_size_bytes')) ?? 0, peer, startMicros, endMicros });
  }
}

/** Of the kernel's channels, from the first to the last; else from the call that enqueued it, for `execMicros`. */
function timesOf(trace: unknown, kind: string, execMicros: number): readonly [start: number, end: number] | undefined {
  let [start, end] = [Number.POSITIVE_INFINITY, 0];
  const channels = field(trace, 'kernel_events');
  for (const channel of Array.isArray(channels) ? channels.slice(0, channelsMax) : []) {
    const from = countOf(field(channel, 'kernel_start_ts')) ?? 0;
    const to = countOf(field(channel, 'kernel_stop_ts')) ?? 0;
    // An event that did not come has time 0.
    if (from === 0 || to < from) continue;
    start = Math.min(start, from);
    end = Math.max(end, to);
  }
  if (end > 0) return [start, end];
  const called = countOf(field(trace, `${kind}_start_ts`)) ?? 0;
  return called === 0 ? undefined : [called, called + execMicros];
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function field(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null && Object.hasOwn(of, name) ? (of as Record<string, unknown>)[name] : undefined;
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value.slice(0, textCharsMax) : undefined);

const countOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
