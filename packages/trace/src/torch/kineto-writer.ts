// One rank's recording in torch.profiler's export format: Kineto's JSON, schema version 1 (libkineto/src/output_json.cpp), for everything
// that reads torch's files: HTA, the TensorBoard plugin, Perfetto, our own KinetoReader.
//
//   {"traceEvents":[            exactly these bytes first: Perfetto's reader finds no events after any other key
//   {"ph":"M",…},               names of the process (pid: the system's) and of its threads (tid: the system's)
//   {"ph":"X","cat":"cpu_op","name":"matMul","pid":4242,"tid":4242,"ts":4376996912525.316,"dur":51.958,"args":{"External id":7,…}},
//   …
//   ],"schemaVersion":1,…,"baseTimeNanoseconds":1790857026000000000,"traceName":"…"}
//
// rank-recording.ts decides how each event is recorded. Times are µs from `baseTimeNanoseconds`, printed from whole ns; that base is the
// wall clock's three-month period, as in torch, so that files of all ranks and of torch share one axis.
// Merging the ranks' files must give the same as merging the run, so the file adds what torch has no place for: the clock and its pings
// (`ranktrace`); the times of a step's phases, which may overlap (`args` of the step); group, number and bytes of a collective.
// Work of a device is on the device's own pid and the stream's tid. A collective that was found in torch's events comes as the event it was found in:
// a kernel with its arguments, so that it is found again.
// An arrow (`fwdbwd`) leads from the innermost forward op of a sequence number to the innermost of its backward ops, which is known when
// the next one of that number begins, or at the end; the last `arrowsMax` numbers are kept. Arrows that the events bring along (`ac2g in`) are written
// as they are.
// torch's `displayTimeUnit` is left out: `ms` is its default, and Perfetto (v20) takes it for the unit of `ts` (see chrome.ts).
// JSON has no NaN: non-finite numbers become their names; counters with such a value are left out and counted.

import { pairOf } from '@ranktrace/protocol';
import type { ClockSample } from '../align/clock-evidence.ts';
import { TraceError } from '../model/errors.ts';
import { JsonBuffer, wellFormedJson } from '../model/json-buffer.ts';
import { runtimeCategories } from '../model/kineto-categories.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceProcess, TraceSink, WriteBytes } from '../model/trace-sink.ts';
import { processNames } from '../write/process-names.ts';
import { RankRecording, type RecordedSpan, type RecordedTrack, type RecordingWindow } from './rank-recording.ts';

/** The clock of a rank's times. */
export interface RecordedClock {
  /** Ranks with the same host read one clock. */
  readonly host: string;
  /** ns on it at TraceTime 0, which is RankTime 0 of `samples`. */
  readonly epoch: bigint;
  readonly samples: readonly ClockSample[];
}

export interface KinetoWriterOptions extends RecordingWindow {
  /** Switches that were on, by torch's names (`profile_memory`, `record_shapes`, …). */
  readonly options: Readonly<Record<string, '1'>>;
  /** Extra members of the file, by key; values as for JSON.stringify. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Extra members of `distributedInfo` beside rank and world size, such as `backend` and `pg_config`. */
  readonly distributedInfo?: Readonly<Record<string, unknown>> | undefined;
  /** Unix time (ns) that times are counted from, at most 104 days from the recording; default: the period of torch's own files. */
  readonly baseTimeNanoseconds?: bigint | undefined;
  readonly clock?: RecordedClock | undefined;
  /** Whether the events came from torch.profiler's files: their arguments keep torch's keys, and ids are torch's alone. Default no. */
  readonly isTorch?: boolean | undefined;
  /** torch's trace id: 32 hex digits, upper case. */
  readonly traceId: string;
  /** The file's name. */
  readonly traceName: string;
}

/** A sink that writes one rank's Kineto JSON. Chunks of about 256 KiB; the last one at `end`. */
export function kinetoWriter(write: WriteBytes, options: KinetoWriterOptions): TraceSink {
  return new KinetoWriter(write, options);
}

/** libkineto's ChromeTraceBaseTime: three times a twelfth of the mean Gregorian year. */
const periodNanos = 7_889_238_000_000_000n;
const arrowsMax = 65_536;

/** Lists that travel as JSON text. */
const lists: ReadonlySet<string> = new Set([
  'grid',
  'block',
  'Input Dims',
  'Input type',
  'Input Strides',
  'Concrete Inputs',
  'Output Dims',
  'Output type',
]);
/** Arguments that the writer sets; a program's argument with such a key becomes `argument.KEY`. */
const ownKeys: ReadonlySet<string> = new Set([
  'Record function id',
  'Ev Idx',
  'Async',
  'Collective name',
  'Process Group Name',
  'Seq',
  'In msg bytes',
  'Rank',
  'Src Rank',
  'Dst Rank',
  'Overhead (ns)',
  'Phases (ns)',
]);
/** Host calls that launch work. */
const launchCategories: ReadonlySet<string> = new Set(runtimeCategories);
const samplesMax = 4096;
/** torch sorts devices below the processes of the host. */
const deviceSortIndex = 5_000_000;
/** An event's end of an arrow: `ac2g in`, with the arrow's number. */
const arrowKey = /^(ac2g|fwdbwd|async_cpu_to_gpu|async_gpu|launch|async) (in|out)$/;

interface ArrowEnd {
  readonly track: RecordedTrack;
  readonly time: number;
}

/** Fields in the order that kineto-clock.ts reads. */
const sampleData = ({ remoteHost, remoteEpoch, sent, received, remoteReceived, remoteSent }: ClockSample): unknown => [
  ...[remoteHost, remoteEpoch.toString()],
  ...[sent, received, remoteReceived, remoteSent],
];

class KinetoWriter extends RankRecording {
  readonly #out: JsonBuffer;
  readonly #options: KinetoWriterOptions;
  #process: TraceProcess | undefined;
  #run: TraceHeader | undefined;
  /** ns from `baseTimeNanoseconds` to TraceTime 0. */
  #offset = 0;
  #base = 0n;
  #index = 0;
  #spans = 0;
  #arrows = 0;
  #countersNotFinite = 0;
  #isFirst = true;
  readonly #devices = new Set<number>();
  /** Calls of the driver whose work has not come yet, by correlation: the last `arrowsMax`. */
  readonly #launches = new Map<number, ArrowEnd>();
  /** Whether events bring arrows of their own between forward and backward ops. */
  #hasArrows = false;
  #isFirstArgument = true;
  readonly #open = new Map<number, { forward: ArrowEnd; backward: ArrowEnd | undefined }>();

  constructor(write: WriteBytes, options: KinetoWriterOptions) {
    super({ ...options, ...(options.isTorch === true && { countsIds: false }) });
    this.#out = new JsonBuffer(write);
    this.#options = options;
  }

  protected began(header: TraceHeader, process: TraceProcess | undefined): void {
    this.#run = header;
    this.#process = process;
    const { unixEpoch } = header;
    this.#base = this.#options.baseTimeNanoseconds ?? (unixEpoch === undefined ? 0n : unixEpoch - (unixEpoch % periodNanos));
    const offset = unixEpoch === undefined ? 0n : unixEpoch - this.#base;
    if (offset < -BigInt(Number.MAX_SAFE_INTEGER) || offset > BigInt(Number.MAX_SAFE_INTEGER)) {
      const wanted = `baseTimeNanoseconds must be at most 104 days (2^53 ns) from the recording`;
      throw new TraceError('bad_option', `Cannot write the trace: ${wanted}, got ${this.#base}`);
    }
    this.#offset = Number(offset);
    this.#out.ascii('{"traceEvents":[');
    if (process === undefined) return;
    const { pid } = process;
    this.#name('process_name', 0, { name: processNames(header).get(process) ?? '' });
    this.#name('process_labels', 0, { labels: 'CPU' });
    this.#name('process_sort_index', 0, { sort_index: pid });
  }

  protected track({ name, tid, device }: RecordedTrack): void {
    if (device !== undefined) {
      if (!this.#devices.has(device)) {
        this.#devices.add(device);
        const pid = device;
        this.#name('process_name', 0, { name: 'python' }, pid);
        this.#name('process_labels', 0, { labels: `GPU ${device}` }, pid);
        this.#name('process_sort_index', 0, { sort_index: deviceSortIndex + device }, pid);
      }
      this.#name('thread_name', tid, { name }, device);
      this.#name('thread_sort_index', tid, { sort_index: tid }, device);
      return;
    }
    this.#name('thread_name', tid, { name: tid < 2 ** 22 ? `thread ${tid} (${name})` : name });
    this.#name('thread_sort_index', tid, { sort_index: tid });
  }

  protected span(span: RecordedSpan): void {
    const { event, track, start } = span;
    this.#spans++;
    // torch's own event of a collective.
    const found = event.kind === 'collective' ? event.arguments?.get('event') : undefined;
    const isFound = this.#options.isTorch === true && typeof found === 'string';
    const foundCategory = track.device === undefined ? 'user_annotation' : 'kernel';
    this.#event('X', isFound ? foundCategory : span.category, isFound ? found : span.name, track, start);
    const out = this.#out;
    out.ascii(',"dur":');
    out.micros(span.duration);
    this.#openArguments();
    if (span.externalId > 0) this.#number('External id', span.externalId);
    if (this.#options.isTorch !== true) this.#number('Record function id', 0);
    if (isFound) {
      // Its arguments are torch's.
    } else if (event.kind === 'collective') {
      this.#text('Collective name', event.name);
      this.#text('Process Group Name', event.group);
      this.#number('Seq', event.sequence);
      this.#number('In msg bytes', event.bytes);
      this.#number('Rank', event.lane.process.rank);
      const pair = pairOf(event.lane.process.rank, event.peerRank, event.name);
      if (pair !== undefined) {
        this.#number('Src Rank', pair[0]);
        this.#number('Dst Rank', pair[1]);
      }
    } else if (event.kind === 'step') {
      this.#number('Overhead (ns)', event.overhead);
      this.#key('Phases (ns)');
      this.#out.utf8(wellFormedJson(Object.fromEntries(event.phases ?? [])));
    } else if (event.kind === 'rpc') {
      this.#text('method', event.name);
      this.#text('side', event.side);
      this.#text('peer', event.peer);
      this.#text('status', event.status);
      this.#text('traceId', event.traceId);
      this.#text('spanId', event.spanId);
      if (event.parentSpanId !== '') this.#text('parentSpanId', event.parentSpanId);
    }
    this.#given(event);
    if (span.isAsync) this.#number('Async', 1);
    this.#closeArguments();
    this.#givenArrows(event, track, start);
    if (this.#options.isTorch === true) this.#launched(event, span.category, track, start);
    const sequence = event.arguments?.get('Sequence number');
    if (typeof sequence === 'number' && sequence >= 0 && !this.#hasArrows) {
      const forwardThread = event.arguments?.get('Fwd thread id');
      this.#link(sequence, typeof forwardThread === 'number' && forwardThread > 0, { track, time: start });
    }
  }

  protected instant(event: TraceEvent, track: RecordedTrack, time: number): void {
    const isMemory = event.name === '[memory]' || event.name === '[OutOfMemory]';
    this.#separate();
    const out = this.#out;
    out.ascii('{"ph":"i","cat":"cpu_instant_event","s":"t","name":');
    out.json(event.name);
    this.#place(track, time);
    this.#openArguments();
    if (isMemory) {
      const number = (key: string): number => {
        const value = event.arguments?.get(key);
        return typeof value === 'number' ? value : 0;
      };
      const deviceType = number('Device Type');
      for (const key of ['Total Reserved', 'Total Allocated', 'Bytes']) this.#number(key, number(key));
      this.#number('Device Id', deviceType === 0 ? -1 : number('Device Id'));
      this.#number('Device Type', deviceType);
      this.#number('Addr', number('Addr'));
      out.ascii(',"finished":false');
    } else this.#given(event);
    this.#closeArguments();
  }

  protected counter(event: TraceEvent, time: number): void {
    if (!Number.isFinite(event.value)) {
      this.#countersNotFinite++;
      return;
    }
    this.#separate();
    const out = this.#out;
    out.ascii('{"ph":"C","name":');
    out.json(event.name);
    this.#place(undefined, time);
    out.ascii(',"args":{');
    out.json(event.lane.unit === '' ? 'value' : event.lane.unit);
    out.byte(0x3a);
    out.ascii(String(event.value));
    out.ascii('}}');
  }

  protected ended(totals: readonly ProcessTotals[]): void {
    for (const arrow of this.#open.values()) this.#arrow(arrow.forward, arrow.backward);
    this.#open.clear();
    const start = this.origin ?? 0;
    const end = Math.max(start, this.last);
    // torch's marks of its window: tools look for them by these names.
    const window = { ts: this.#micros(start), dur: (end - start) / 1000 };
    this.#whole({
      ...{ ph: 'X', cat: 'Trace', ...window, pid: 'Spans', tid: 'PyTorch Profiler', name: 'PyTorch Profiler (0)' },
      args: { 'Op count': this.#spans },
    });
    // Sorted below all processes.
    this.#whole({ name: 'process_sort_index', ph: 'M', ts: window.ts, pid: 'Spans', tid: 0, args: { sort_index: 0x20000000 } });
    const about = { ph: 'i', s: 'g' };
    this.#whole({
      ...{ name: 'Iteration Start: PyTorch Profiler', ...about, pid: 'Traces', tid: 'Trace PyTorch Profiler' },
      ts: window.ts,
    });
    this.#whole({ name: 'Record Window End', ...about, pid: '', tid: '', ts: this.#micros(end) });
    this.#out.ascii('\n]');
    this.#writeMetadata(totals);
    this.#out.byte(0x7d);
    this.#out.flush();
  }

  #writeMetadata(totals: readonly ProcessTotals[]): void {
    const { options, metadata, traceId, traceName } = this.#options;
    const { clock } = this.#options;
    const { backend, ...info } = this.#options.distributedInfo ?? {};
    const process = this.#process;
    const own = totals.find((total) => total.process.index === process?.index);
    const members: Record<string, unknown> = {
      schemaVersion: 1,
      deviceProperties: [],
      trace_id: traceId,
      ...Object.fromEntries(Object.keys(options).map((name) => [name, 1])),
      ...metadata,
      distributedInfo: { ...(backend === undefined ? {} : { backend }), rank: process?.rank, world_size: this.#run?.worldSize, ...info },
      host_name: process?.hostName,
      // Facts without a member in torch's format: the run, and what is missing from it.
      ranktrace: {
        run: this.#run?.run,
        incarnation: process?.incarnation,
        host: clock?.host,
        clockEpoch: clock?.epoch.toString(),
        unixEpoch: this.#run?.unixEpoch?.toString(),
        clockSamples: clock?.samples.slice(-samplesMax).map(sampleData),
        clock: process?.alignment,
        countersNotFinite: this.#countersNotFinite,
        outOfRange: this.outOfRange,
        missingBatches: own?.missing,
        late: own?.late,
        dropped: own?.dropped,
        ended: own?.ended,
      },
    };
    for (const [key, value] of Object.entries(members)) {
      if (value === undefined) continue;
      this.#out.utf8(`,${wellFormedJson(key)}:${wellFormedJson(value)}`);
    }
    // 1790857026000000000 does not fit a double.
    this.#out.utf8(`,"baseTimeNanoseconds":${this.#base},"traceName":${wellFormedJson(traceName)}`);
  }

  /** Notes the forward or the backward end of an arrow; the last of each counts. */
  #link(sequence: number, isBackward: boolean, end: ArrowEnd): void {
    const open = this.#open.get(sequence);
    if (isBackward) {
      if (open !== undefined) open.backward = end;
      return;
    }
    if (open?.backward !== undefined) this.#arrow(open.forward, open.backward);
    // Re-adding it moves it to the young end of the map.
    this.#open.delete(sequence);
    this.#open.set(sequence, { forward: end, backward: undefined });
    if (this.#open.size <= arrowsMax) return;
    const [oldest, arrow] = this.#open.entries().next().value as [number, { forward: ArrowEnd; backward: ArrowEnd | undefined }];
    this.#open.delete(oldest);
    this.#arrow(arrow.forward, arrow.backward);
  }

  #arrow(forward: ArrowEnd, backward: ArrowEnd | undefined): void {
    if (backward === undefined) return;
    const id = ++this.#arrows;
    for (const [phase, { track, time }] of [['s', forward] as const, ['f', backward] as const]) {
      this.#separate();
      const out = this.#out;
      out.ascii(`{"ph":"${phase}","id":${id}`);
      this.#place(track, time);
      out.ascii(',"cat":"fwdbwd","name":"fwdbwd"');
      out.ascii(phase === 'f' ? ',"bp":"e"}' : '}');
    }
  }

  /** Begins an event, up to its time. */
  #event(phase: string, category: string, name: string, track: RecordedTrack, time: number): void {
    this.#separate();
    const out = this.#out;
    out.ascii(`{"ph":"${phase}","cat":`);
    out.json(category);
    out.ascii(',"name":');
    out.json(name);
    this.#place(track, time);
  }

  /** Without a track: on the process as a whole. */
  #place(track: RecordedTrack | undefined, time: number): void {
    const out = this.#out;
    out.ascii(',"pid":');
    out.integer(track?.device ?? this.#process?.pid ?? 0);
    out.ascii(',"tid":');
    out.integer(track?.tid ?? 0);
    out.ascii(',"ts":');
    out.micros(time + this.#offset);
  }

  /** torch's arrow from a call of the driver to the work that it launched, which have one correlation. */
  #launched(event: TraceEvent, category: string, track: RecordedTrack, time: number): void {
    const correlation = event.arguments?.get('correlation');
    if (typeof correlation !== 'number' || correlation <= 0) return;
    if (track.device === undefined) {
      if (!launchCategories.has(category)) return;
      this.#launches.set(correlation, { track, time });
      if (this.#launches.size > arrowsMax) this.#launches.delete(this.#launches.keys().next().value as number);
      return;
    }
    const call = this.#launches.get(correlation);
    if (call === undefined) return;
    this.#launches.delete(correlation);
    for (const [phase, end] of [['s', call] as const, ['f', { track, time }] as const]) {
      this.#separate();
      this.#out.ascii(`{"ph":"${phase}","id":${correlation}`);
      this.#place(end.track, end.time);
      this.#out.ascii(`,"cat":"ac2g","name":"ac2g"${phase === 'f' ? ',"bp":"e"}' : '}'}`);
    }
  }

  /** Arrows that came with the event. */
  #givenArrows(event: TraceEvent, track: RecordedTrack, time: number): void {
    if (event.arguments === undefined) return;
    for (const [key, id] of event.arguments) {
      const [, name, end] = typeof id === 'number' ? (arrowKey.exec(key) ?? []) : [];
      if (name === undefined) continue;
      if (name === 'fwdbwd') this.#hasArrows = true;
      this.#separate();
      const out = this.#out;
      out.ascii(`{"ph":"${end === 'in' ? 'f' : 's'}","id":${id}`);
      this.#place(track, time);
      out.ascii(`,"cat":"${name}","name":"${name}"${end === 'in' ? ',"bp":"e"}' : '}'}`);
    }
  }

  #given(event: TraceEvent): void {
    const given = event.arguments;
    if (given === undefined) return;
    const { isTorch = false } = this.#options;
    for (const [key, value] of given) {
      if (key === 'External id' || (event.kind === 'collective' && key === 'event') || arrowKey.test(key)) continue;
      if (lists.has(key) && typeof value === 'string') {
        const list = this.list(value);
        if (list === undefined) continue;
        this.#key(key);
        this.#out.utf8(list);
        continue;
      }
      const shown = ownKeys.has(key) && (!isTorch || key === 'Ev Idx') ? `argument.${key}` : key;
      if (typeof value === 'string') this.#text(shown, value);
      else this.#number(shown, value);
    }
    // torch writes both or neither.
    if (given.has('Sequence number') && !given.has('Fwd thread id')) this.#number('Fwd thread id', 0);
  }

  #openArguments(): void {
    this.#out.ascii(',"args":{');
    this.#isFirstArgument = true;
  }

  #closeArguments(): void {
    this.#number('Ev Idx', this.#index++);
    this.#out.ascii('}}');
  }

  #number(key: string, value: number): void {
    this.#key(key);
    if (Number.isFinite(value)) this.#out.ascii(String(value));
    else this.#out.json(String(value));
  }

  #text(key: string, value: string): void {
    this.#key(key);
    this.#out.json(value);
  }

  #key(key: string): void {
    this.#out.reserve(0);
    if (!this.#isFirstArgument) this.#out.byte(0x2c);
    this.#isFirstArgument = false;
    this.#out.json(key);
    this.#out.byte(0x3a);
  }

  #name(what: string, tid: number, args: object, pid = this.#process?.pid): void {
    this.#whole({ ph: 'M', name: what, ts: this.#micros(this.origin ?? 0), pid, tid, args });
  }

  /** A trace time in µs; for a mark, off by less than 1 ns at most. */
  #micros(time: number): number {
    return (time + this.#offset) / 1000;
  }

  #whole(event: object): void {
    this.#separate();
    this.#out.utf8(wellFormedJson(event));
  }

  #separate(): void {
    this.#out.next();
    this.#out.reserve(0);
    this.#out.ascii(this.#isFirst ? '\n' : ',\n');
    this.#isFirst = false;
  }
}
