// Chrome trace event JSON, for chrome://tracing, Perfetto and everything else that reads it:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//
//   {"traceEvents":[                          exactly these bytes first: Perfetto's reader finds no events after any other key
//   {"ph":"M",…},                             names and order of processes (pid = TraceProcess.index) and lanes (tid = TraceLane.index)
//   {"ph":"X","pid":1,"tid":2,"ts":0.125,"dur":1.500,"name":"forward"},
//   …
//   ],"otherData":{…}}                        the run and its totals
//
// Whole spans are X, open ones B and their close E; instants i, counters C. A flow is a chain of s (first) and t (further), each bound to the slice it
// follows in the file; none ends (f), as a call may have many servers. Launches of device work are flows, too. Times are µs of TraceTime, printed from whole ns.
// The ids of the last `flowsMax` flows are kept; an older one would begin a new chain.
// There is no `displayTimeUnit`: ms is its default, and Perfetto (v20) would take it for the unit of `ts`, making everything 1000 × too long.
// TraceTime may begin below 0, `ts` does not: Perfetto drops events below 0, and v20 the sign of those in the first µs. So `ts` counts from the first
// event where that is below 0; `zeroNs` of `otherData` is its TraceTime, as all times there are TraceTime, ns after `unixEpochNs`.
// JSON cannot hold counter values that are no finite number: they are left out and counted as `countersNotFinite`;
// events with a time that is no number are counted as `outOfRange`.

import { type ArgumentVisitor, hasArguments, visitArguments } from '../model/event-arguments.ts';
import { JsonBuffer, wellFormedJson } from '../model/json-buffer.ts';
import { launchEnd, launchFlow } from '../model/launch-flow.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink, WriteBytes } from '../model/trace-sink.ts';
import { alignmentText, LaneOrder, laneName, processNames } from './process-names.ts';

const flowsMax = 65_536;
/** Times further than this (ns) from 0 are no longer whole numbers. */
const lastWhole = Number.MAX_SAFE_INTEGER;
/** The furthest first event (ns) from which `ts` counts: of a host whose date is further off, others would no longer have whole ns. */
const zeroMin = -(2 ** 51);

/** A sink that writes Chrome trace event JSON. Chunks of about 256 KiB; the last one at `end`. */
export function chromeWriter(write: WriteBytes): TraceSink {
  return new ChromeWriter(write);
}

/**
 * Whether a file that begins with `text` was written by this writer, of several processes. It holds what other programs show; what comparisons of ranks need
 * it does not.
 */
export function looksLikeMergedChrome(text: string): boolean {
  return text.startsWith(mergedBegin) && text.includes('{"ph":"M","pid":2,"tid":0,"ts":0,"name":"process_name"', mergedBegin.length);
}
const mergedBegin = '{"traceEvents":[\n{"ph":"M","pid":1,"tid":0,"ts":0,"name":"process_name","args":{"name":"rank ';

class ChromeWriter implements TraceSink {
  readonly #out: JsonBuffer;
  readonly #arguments: JsonArguments;
  readonly #order = new LaneOrder();
  readonly #flows = new Set<bigint>();
  /** One for all: a new iterator steps over every id deleted before the oldest one. */
  readonly #oldestFlow = this.#flows.values();
  #header: TraceHeader = { run: '', worldSize: 0, unixEpoch: undefined, processes: [] };
  #countersNotFinite = 0;
  #outOfRange = 0;
  /** TraceTime at `ts` 0; undefined before the first event. */
  #zero: number | undefined;
  #first = true;

  constructor(write: WriteBytes) {
    this.#out = new JsonBuffer(write);
    this.#arguments = new JsonArguments(this.#out);
  }

  begin(header: TraceHeader): void {
    this.#header = header;
    this.#out.ascii('{"traceEvents":[');
    const names = processNames(header);
    for (const process of header.processes) {
      const about = { ph: 'M', pid: process.index, tid: 0, ts: 0 };
      this.#writeWhole({ ...about, name: 'process_name', args: { name: names.get(process) ?? '' } });
      this.#writeWhole({ ...about, name: 'process_labels', args: { labels: alignmentText(process.alignment) } });
      this.#writeWhole({ ...about, name: 'process_sort_index', args: { sort_index: process.index } });
    }
  }

  lane(lane: TraceLane): void {
    if (lane.kind === 'counter') return;
    const about = { ph: 'M', pid: lane.process.index, tid: lane.index, ts: 0 };
    this.#writeWhole({ ...about, name: 'thread_name', args: { name: laneName(lane) } });
    this.#writeWhole({ ...about, name: 'thread_sort_index', args: { sort_index: this.#order.rank(lane) } });
  }

  event(event: TraceEvent): void {
    const zero = this.#zeroFrom(event);
    const start = Math.round(event.start) - zero;
    const end = Math.round(event.start + event.length) - zero;
    if (!(Math.abs(start) <= lastWhole && Math.abs(end) <= lastWhole)) {
      this.#outOfRange++;
      return;
    }
    if (event.kind === 'counter') {
      this.#writeCounter(event, start);
      return;
    }
    const phase = event.kind === 'instant' ? 'i' : event.state === 'whole' ? 'X' : event.state === 'open' ? 'B' : 'E';
    this.#open(phase, event.lane, phase === 'E' ? end : start);
    const out = this.#out;
    if (phase === 'X') {
      out.ascii(',"dur":');
      out.micros(end - start);
    } else if (phase === 'i') out.ascii(',"s":"t"');
    out.ascii(',"name":');
    out.json(event.name);
    if (event.category !== '') {
      out.ascii(',"cat":');
      out.json(event.category);
    }
    if (hasArguments(event)) {
      out.ascii(',"args":{');
      this.#arguments.first = true;
      visitArguments(event, this.#arguments);
      out.byte(0x7d);
    }
    out.byte(0x7d);
    if (phase === 'E') return;
    if (event.flow !== undefined) this.#writeFlow(event, event.flow, start);
    else this.#writeLaunch(event, start);
  }

  end(totals: readonly ProcessTotals[]): void {
    const { run, worldSize, unixEpoch, processes } = this.#header;
    const otherData = {
      run,
      worldSize,
      unixEpochNs: unixEpoch?.toString(),
      // Few traces have another one.
      zeroNs: this.#zero === 0 ? undefined : this.#zero,
      countersNotFinite: this.#countersNotFinite,
      outOfRange: this.#outOfRange,
      processes: processes.map(({ index: pid, pid: systemPid, metadata, ...process }) => ({
        pid,
        systemPid,
        ...process,
        metadata: Object.fromEntries(metadata),
      })),
      totals: totals.map(({ process, place, ...counts }) => ({
        pid: process.index,
        ...counts,
        ...(place && { place: { ...place, entered: Object.fromEntries(place.entered) } }),
      })),
    };
    this.#out.ascii('\n],"otherData":');
    this.#out.utf8(wellFormedJson(otherData));
    this.#out.byte(0x7d);
    this.#out.flush();
  }

  #zeroFrom({ start }: TraceEvent): number {
    if (this.#zero === undefined && Math.abs(start) <= lastWhole) this.#zero = start < 0 && start >= zeroMin ? Math.round(start) : 0;
    return this.#zero ?? 0;
  }

  #writeCounter(event: TraceEvent, time: number): void {
    if (!Number.isFinite(event.value)) {
      this.#countersNotFinite++;
      return;
    }
    this.#open('C', event.lane, time);
    const out = this.#out;
    out.ascii(',"name":');
    out.json(event.name);
    out.ascii(',"args":{');
    out.json(event.lane.unit === '' ? 'value' : event.lane.unit);
    out.byte(0x3a);
    out.ascii(String(event.value));
    out.ascii('}}');
  }

  #writeFlow(event: TraceEvent, flow: bigint, time: number): void {
    const phase = this.#flows.delete(flow) ? 't' : 's';
    // Adding it again moves it to the newest end of the set.
    this.#flows.add(flow);
    if (this.#flows.size > flowsMax) {
      const { value: oldest } = this.#oldestFlow.next();
      if (oldest !== undefined) this.#flows.delete(oldest);
    }
    this.#writeArrow(phase, event.kind === 'rpc' ? 'rpc' : 'collective', event.lane, time, flow);
  }

  /** Its end needs no memory of its beginning; of a call that launched nothing, there is none. */
  #writeLaunch(event: TraceEvent, time: number): void {
    const flow = launchFlow(event);
    if (flow !== undefined) this.#writeArrow(launchEnd(event) === 'call' ? 's' : 't', 'launch', event.lane, time, flow);
  }

  #writeArrow(phase: string, name: 'collective' | 'rpc' | 'launch', lane: TraceLane, time: number, flow: bigint): void {
    this.#open(phase, lane, time);
    const out = this.#out;
    out.ascii(`,"name":"${name}","cat":"flow"`);
    // Binds to the slice around this time; without it, t and f would bind to the next slice of the line.
    if (phase !== 's') out.ascii(',"bp":"e"');
    out.ascii(`,"id":"0x${flow.toString(16)}"}`);
  }

  /** Begins an event: writes the part before the fields of its phase. */
  #open(phase: string, lane: TraceLane, time: number): void {
    const out = this.#out;
    this.#separate();
    out.ascii('{"ph":"');
    out.ascii(phase);
    out.ascii('","pid":');
    out.integer(lane.process.index);
    out.ascii(',"tid":');
    out.integer(lane.index);
    out.ascii(',"ts":');
    out.micros(time);
  }

  #writeWhole(event: object): void {
    this.#separate();
    this.#out.utf8(wellFormedJson(event));
  }

  #separate(): void {
    this.#out.next();
    this.#out.reserve(0);
    this.#out.ascii(this.#first ? '\n' : ',\n');
    this.#first = false;
  }
}

/** Writes arguments as the members of an object. */
class JsonArguments implements ArgumentVisitor {
  first = true;
  readonly #out: JsonBuffer;

  constructor(out: JsonBuffer) {
    this.#out = out;
  }

  number(key: string, value: number): void {
    this.#key(key);
    // JSON has no NaN or Infinity, so their names are written.
    if (Number.isFinite(value)) this.#out.ascii(String(value));
    else this.#out.json(String(value));
  }

  text(key: string, value: string): void {
    this.#key(key);
    this.#out.json(value);
  }

  #key(key: string): void {
    this.#out.reserve(0);
    if (!this.first) this.#out.byte(0x2c);
    this.first = false;
    this.#out.json(key);
    this.#out.byte(0x3a);
  }
}
