// One rank's recording as torch.profiler would have it: a merged run's events of one process and one window of time, under torch's names
// and categories, each on its thread's own track. It is a base for sinks, so that a table in memory and a file of the same recording
// cannot disagree.
//
//   run      rank 0  … ────────[ since ─────────── until )──── …       an event belongs to it by its start
//   track    main, main (2), main (3)  →  main                        a track's lanes become one again: torch knows only threads
//            main garbage collection   →  main                        inside the span it interrupted, like torch's `Python GC`
//
// Asynchronous, in torch's sense, are the events that the recorder marks so (`TraceEvent.isAsync`): they began and ended in different turns
// of the program, so their place proves no nesting. Other spans that overlap partly are left to torch's rule for them.
//
// Invariant: spans come out whole, each once; one announced as open comes at its end, or at the end of the window.
// Invariant: times are whole ns; a non-number is counted (`outOfRange`), never written.

import { collectionsSuffix } from '@ranktrace/protocol';
import { wellFormedJson } from '../model/json-buffer.ts';
import { KeyedStacks } from '../model/keyed-stacks.ts';
import { isCollectionsOf, isOverflowOf } from '../model/lanes.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';

/** The part of a run to record. */
export interface RecordingWindow {
  /** Trace time (ns) of the first start that is kept; default: the beginning. */
  readonly since?: number | undefined;
  /** Trace time (ns) before which the last kept event starts; unended spans last until then. Default: the end of the recording. */
  readonly until?: number | undefined;
  /** Whether to keep an event with this start (trace time, ns), for windows with gaps. */
  readonly isWanted?: ((start: number) => boolean) | undefined;
  /** Whether to keep steps, as `ProfilerStep#N`; default no: torch marks them only under a schedule. */
  readonly steps?: boolean | undefined;
  /** The rank to record, in its last life; default: the first process of the run. */
  readonly rank?: number | undefined;
  /** Whether events without an id of an op get one, counted up; default yes. Ids that came from torch must not meet counted ones. */
  readonly countsIds?: boolean | undefined;
}

/** A track of torch's timeline. */
export interface RecordedTrack {
  /** 0, 1, 2, … */
  readonly index: number;
  readonly name: string;
  /** The system's thread number; above all of those (2^22) if unknown. Of a stream: its number. */
  readonly tid: number;
  /** For a stream: the number of its device. */
  readonly device?: number | undefined;
}

/** A span as torch has it. The object is reused for every span. */
export interface RecordedSpan {
  readonly event: TraceEvent;
  readonly track: RecordedTrack;
  /** Trace time, whole ns. */
  readonly start: number;
  /** ns. */
  readonly duration: number;
  readonly name: string;
  readonly category: string;
  readonly isAsync: boolean;
  /** torch's id of an op, also on work done for it; 0 for none. */
  readonly externalId: number;
}

interface Track extends RecordedTrack {
  /** The track's own lane; until that has come, the one beside it. */
  lane: TraceLane;
}

interface PendingSpan {
  readonly event: TraceEvent;
  readonly track: Track;
  readonly start: number;
}

/** Linux counts threads up to 2^22. */
const noThread = 2 ** 22;
/** Lanes of streams, as `SourceTracks` names them. */
const streamName = /^GPU (\d{1,9}) · (.*)$/;
/** Most checked JSON texts to cache. */
const listsMax = 16_384;

const userAnnotation = 'user_annotation';

export abstract class RankRecording implements TraceSink {
  /** Events without a usable time, left out. */
  protected outOfRange = 0;
  /** The trace time (ns) that torch would call its start: `since`, or the time of the first event. */
  protected origin: number | undefined;
  /** Latest end of all kept events; at least `origin`. */
  protected last = Number.NEGATIVE_INFINITY;

  readonly #window: RecordingWindow;
  readonly #since: number;
  readonly #until: number;
  #process: TraceProcess | undefined;
  readonly #tracks: Track[] = [];
  readonly #trackOf: (Track | undefined)[] = [];
  readonly #open = new KeyedStacks<PendingSpan>();
  readonly #lists = new Map<string, string | undefined>();
  #lastId = 0;
  #hasIds = false;
  readonly #span: { -readonly [Field in keyof RecordedSpan]: RecordedSpan[Field] } = {
    event: undefined as unknown as TraceEvent,
    track: undefined as unknown as RecordedTrack,
    start: 0,
    duration: 0,
    name: '',
    category: '',
    isAsync: false,
    externalId: 0,
  };

  constructor(window: RecordingWindow) {
    this.#window = window;
    this.#since = window.since ?? Number.NEGATIVE_INFINITY;
    this.#until = window.until ?? Number.POSITIVE_INFINITY;
    if (window.since !== undefined) this.origin = Math.round(window.since);
  }

  /** Called first; without a process of that rank only `ended` follows. */
  protected abstract began(header: TraceHeader, process: TraceProcess | undefined): void;
  protected abstract track(track: RecordedTrack): void;
  protected abstract span(span: RecordedSpan): void;
  /** `time`: trace time, whole ns. */
  protected abstract instant(event: TraceEvent, track: RecordedTrack, time: number): void;
  protected abstract counter(event: TraceEvent, time: number): void;
  protected abstract ended(totals: readonly ProcessTotals[]): void;

  begin(header: TraceHeader): void {
    const { rank } = this.#window;
    const { processes } = header;
    this.#process = rank === undefined ? processes[0] : processes.findLast((process) => process.rank === rank);
    this.began(header, this.#process);
  }

  lane(lane: TraceLane): void {
    if (lane.process.index !== this.#process?.index || lane.kind === 'counter' || lane.kind === 'steps') return;
    const own = this.#tracks.findLast((track) => isOverflowOf(lane, track.lane) || isCollectionsOf(lane, track.lane));
    const beside = own ?? this.#tracks.find((track) => isCollectionsOf(track.lane, lane));
    if (own === undefined && beside !== undefined) beside.lane = lane;
    this.#trackOf[lane.index] = beside ?? this.#addTrack(lane);
  }

  event(event: TraceEvent): void {
    if (event.lane.process.index !== this.#process?.index) return;
    const start = Math.round(event.start);
    const end = Math.round(event.start + event.length);
    if (!(Math.abs(start) <= Number.MAX_SAFE_INTEGER && Math.abs(end) <= Number.MAX_SAFE_INTEGER)) {
      this.outOfRange++;
      return;
    }
    if (start < this.#since || start >= this.#until || this.#window.isWanted?.(start) === false) return;
    if (event.kind === 'step') {
      if (this.#window.steps === true) this.#emit(event, this.#stepTrack(event.lane), start, end);
    } else if (event.kind === 'counter') {
      this.#reach(start, start);
      this.counter(event, start);
    } else {
      const track = this.#trackOf[event.lane.index] ?? this.#addTrack(event.lane);
      if (event.kind === 'instant') {
        this.#reach(start, start);
        this.instant(event, track, start);
      } else if (event.state === 'whole') this.#emit(event, track, start, end);
      else if (event.state === 'open') this.#announce(event, track, start);
      else this.#close(event, start, end);
    }
  }

  end(totals: readonly ProcessTotals[]): void {
    const { ended = false, until = this.last } = totals.find(({ process }) => process.index === this.#process?.index) ?? {};
    // Counters and devices may be heard of after the recording ended.
    const end = Math.round(this.#window.until ?? (ended ? until : this.last));
    for (const { event, track, start } of this.#open.values()) this.#emit(event, track, start, Math.max(start, end));
    this.ended(totals);
  }

  /** A list that came as JSON text, in JSON without spaces; undefined if it is not a list. */
  protected list(text: string): string | undefined {
    const known = this.#lists.get(text);
    if (known !== undefined || this.#lists.has(text)) return known;
    const list = jsonList(text);
    if (this.#lists.size >= listsMax) this.#lists.clear();
    this.#lists.set(text, list);
    return list;
  }

  #addTrack(lane: TraceLane): Track {
    const stream = lane.kind === 'thread' ? undefined : streamName.exec(lane.name);
    const number = stream === undefined || stream === null ? undefined : /(\d{1,9})\D*$/.exec(stream[2] as string)?.[1];
    if (stream && number !== undefined) return this.#announceTrack(lane, stream[2] as string, Number(number), Number(stream[1]));
    const tid = lane.tid > 0 ? lane.tid : noThread + lane.index;
    const name = lane.name.endsWith(collectionsSuffix) ? lane.name.slice(0, -collectionsSuffix.length) : lane.name;
    return this.#announceTrack(lane, name, tid, undefined);
  }

  #announceTrack(lane: TraceLane, name: string, tid: number, device: number | undefined): Track {
    const track = { index: this.#tracks.length, name, tid, lane, device };
    this.#tracks.push(track);
    this.#trackOf[lane.index] = track;
    this.track(track);
    return track;
  }

  /** Steps are on the main thread. Until that has events, it is unknown which one it is. */
  #stepTrack(steps: TraceLane): Track {
    const threads = this.#tracks.filter(({ lane }) => lane.kind === 'thread');
    const main =
      threads.find(({ lane }) => lane.name === 'main') ?? threads.find(({ lane }) => lane.tid === lane.process.pid) ?? threads[0];
    return main ?? this.#trackOf[steps.index] ?? this.#addTrack({ ...steps, kind: 'thread', tid: steps.process.pid });
  }

  #reach(start: number, end: number): void {
    this.origin ??= start;
    if (end > this.last) this.last = end;
  }

  #announce(event: TraceEvent, track: Track, start: number): void {
    this.#reach(start, start);
    this.#open.push(openKey(event, start), { event: { ...event }, track, start });
  }

  #close(event: TraceEvent, start: number, end: number): void {
    const open = this.#open.pop(openKey(event, start));
    if (open === undefined) return;
    const given = event.arguments ?? open.event.arguments;
    this.#emit(given === event.arguments ? event : { ...event, arguments: given }, open.track, start, end);
  }

  #emit(event: TraceEvent, track: Track, start: number, end: number): void {
    this.#reach(start, end);
    const span = this.#span;
    span.event = event;
    span.track = track;
    span.start = start;
    span.duration = end - start;
    span.name = event.kind === 'rpc' ? rpcName(event) : event.name;
    span.category =
      event.kind === 'collective' ? 'collective_comm' : event.kind === 'step' || event.category === '' ? userAnnotation : event.category;
    span.isAsync = event.isAsync;
    span.externalId = this.#externalId(event);
    this.span(span);
  }

  /**
   * The recorded id; counted up for a program that gives none. Launched work and its call have their correlation as that, as in files of before 2023: it
   * says that they belong to the op around the call.
   */
  #externalId(event: TraceEvent): number {
    const given = event.arguments?.get('External id');
    if (typeof given === 'number' && given > 0) {
      this.#hasIds = true;
      return given;
    }
    const correlation = event.arguments?.get('correlation');
    if (!this.#hasIds && typeof correlation === 'number' && correlation > 0) return correlation;
    return this.#hasIds || this.#window.countsIds === false ? 0 : ++this.#lastId;
  }
}

const openKey = (event: TraceEvent, start: number): string => `${event.lane.index} ${start} ${event.name}`;

/** torch's key of a call, `rpc_async#method(caller -> callee)`; an unnamed side appears as its rank. */
function rpcName({ name, peer, side, lane }: TraceEvent): string {
  if (peer === '') return name;
  const self = `rank ${lane.process.rank}`;
  return side === 'server' ? `rpc_async#${name}(${peer} -> ${self})` : `rpc_async#${name}(${self} -> ${peer})`;
}

function jsonList(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? wellFormedJson(value) : undefined;
  } catch {
    return undefined;
  }
}
