// Turns one thread's ring cells into rows: begin and end records into spans, raw clock readings into RankTime.
//
//   stack   [ step loop > forward > matmul ]      spans of this turn, innermost last; an `end` ends the last one
//   async   { 17: allreduce, 19: fetch }          spans that outlive their turn, by id
//
// A span row is made when its begin is read, so the rows of a thread lie in order of start, outer before inner (open-span.ts).
// Invariants: draining stops before a batch could become too large; a row that would start before a watermark already promised is shown
// as `close` when it has a length, and counted as dropped when it has none.

import { type RankTime, rankTime } from '@ranktrace/protocol';
import type { BatchBuilder } from './batch-builder.ts';
import { appendArgument, OpenSpan, type SpanBegin, type SpanTable } from './open-span.ts';
import { recordingLimits } from './recording-limits.ts';
import { fixedNames, type RingDrops, RingReader, recordKind } from './ring.ts';
import { StepPhases } from './step-phases.ts';

export interface RecordedThread {
  readonly ring: SharedArrayBuffer;
  /** The thread's `performance.now()`, ms, at RankTime 0. */
  readonly origin: number;
  readonly track: number;
}

/** Events by kind, as `recordedKey` (protocol) carries them. */
export type RecordedCounts = Record<'span' | 'instant' | 'counter' | 'step' | 'collective' | 'rpc', number>;

const kinds = { spans: 'span', collectives: 'collective', rpcs: 'rpc' } as const satisfies Record<SpanTable, keyof RecordedCounts>;

const tables: Record<number, SpanTable> = {
  [recordKind.spanBegin]: 'spans',
  [recordKind.collectiveBegin]: 'collectives',
  [recordKind.rpcClientBegin]: 'rpcs',
  [recordKind.rpcServerBegin]: 'rpcs',
};
const isArgument = (kind: number) => kind === recordKind.numberArgument || kind === recordKind.stringArgument;
const decoder = new TextDecoder();

export class RingDrain {
  readonly #reader: RingReader;
  readonly #origin: number;
  readonly #track: number;
  readonly #names: string[] = [...fixedNames];
  readonly #stack: OpenSpan[] = [];
  readonly #async = new Map<number, OpenSpan>();
  readonly #phases = new StepPhases();
  /** Start of the step that is running and its number; `undefined` on threads that count no steps. */
  #step: { start: number; number: number } | undefined;
  #newest: number;
  /** What `*Argument` records belong to. */
  #owner: OpenSpan | { row: number; serial: number } | undefined;
  /** Events that could not be shown: too late for a watermark, or a step without its begin. */
  #unplaced = 0;
  #invalid = 0;
  /** Events read so far, by kind: what must arrive at the other end. */
  readonly recorded: RecordedCounts = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };

  /** `since`: no record of the thread is older; RankTime, ns. */
  constructor(thread: RecordedThread, since = 0) {
    this.#reader = new RingReader(thread.ring);
    this.#origin = thread.origin;
    this.#track = thread.track;
    this.#newest = since;
  }

  /** Time of the newest record read, ns: no later record is older. */
  get newest(): RankTime {
    return rankTime(this.#newest);
  }

  /** Cumulative; events mod 2^32. */
  get dropped(): RingDrops {
    const dropped = this.#reader.dropped;
    return { events: dropped.events + this.#unplaced, arguments: dropped.arguments + this.#invalid, names: dropped.names };
  }

  /** Whether the thread has ended and everything of it was read. */
  get finished(): boolean {
    return this.#reader.closed && !this.#reader.refresh();
  }

  /** Whether nobody drains this ring or has drained it; from here on somebody does. */
  claim(): boolean {
    return this.#reader.claim();
  }

  /** Reads what there is; false when it stopped early because the batch is full. `promised`: the watermark of the last batch, ns. */
  drain(builder: BatchBuilder, promised: number): boolean {
    const reader = this.#reader;
    reader.refresh();
    // An event's arguments go into its batch: an instant is not told again, so later they would have no owner.
    while (!reader.done && (!builder.full || isArgument(reader.kind))) this.#read(builder, promised);
    reader.release();
    return reader.done;
  }

  #read(builder: BatchBuilder, promised: number): void {
    const reader = this.#reader;
    const { kind, extra, name, time: raw, a, b } = reader;
    reader.next();
    switch (kind) {
      case recordKind.spanBegin:
      case recordKind.collectiveBegin:
      case recordKind.rpcClientBegin:
      case recordKind.rpcServerBegin:
        this.#begin(builder, promised, kind, extra, name, this.#time(raw), a, b);
        return;
      case recordKind.end:
        this.#end(builder, this.#stack.pop(), this.#time(raw), extra);
        return;
      case recordKind.becameAsync: {
        const span = this.#stack.pop();
        if (span === undefined) return;
        this.#async.set(a, span);
        for (const other of this.#async.values()) {
          if (other.below === span) other.adopt(builder, a);
        }
        span.becomeAsync(builder, a);
        return;
      }
      case recordKind.asyncEnd: {
        const span = this.#async.get(a);
        this.#async.delete(a);
        this.#end(builder, span, this.#time(raw), extra);
        return;
      }
      case recordKind.instant: {
        const time = this.#time(raw);
        if (this.#isLate(time, promised)) return;
        this.recorded.instant++;
        const row = builder.append('instants', {
          time,
          track: this.#track,
          name: this.#name(builder, name),
          category: this.#name(builder, extra),
        });
        this.#owner = { row, serial: builder.serial };
        return;
      }
      case recordKind.counter: {
        const time = this.#time(raw);
        if (this.#isLate(time, promised)) return;
        this.recorded.counter++;
        builder.append('counters', {
          time,
          track: this.#track,
          name: this.#name(builder, name),
          unit: this.#name(builder, extra),
          value: a,
        });
        return;
      }
      case recordKind.step:
        this.#endStep(builder, this.#time(raw), a);
        return;
      case recordKind.numberArgument:
        this.#addArgument(builder, name, a);
        return;
      case recordKind.stringArgument:
        this.#addArgument(builder, name, decoder.decode(reader.takeBytes(a)));
        return;
      case recordKind.defineName:
        this.#names[name] = decoder.decode(reader.takeBytes(a));
        return;
      case recordKind.metadata:
        builder.append('metadata', { key: this.#name(builder, name), value: builder.string(decoder.decode(reader.takeBytes(a))) });
        return;
      default:
        throw new Error(`Bug: cannot drain the ring of track ${this.#track}: its record has kind ${kind}`);
    }
  }

  #begin(
    builder: BatchBuilder,
    promised: number,
    kind: number,
    extra: number,
    name: number,
    start: number,
    id: number,
    parent: number,
  ): void {
    const reader = this.#reader;
    let [sequence, bytes] = [0, 0];
    let ids: Uint8Array | undefined;
    if (kind === recordKind.collectiveBegin) {
      sequence = this.#count(reader.first);
      bytes = this.#count(reader.second);
      reader.next();
    } else if (kind !== recordKind.spanBegin) {
      ids = reader.takeBytes(32);
    }
    const begin: SpanBegin = {
      table: tables[kind] as SpanTable,
      start,
      track: this.#track,
      name: this.#names[name] ?? '',
      extra: this.#names[extra] ?? '',
      sequence,
      bytes,
      ids,
      side: kind === recordKind.rpcClientBegin ? 'client' : kind === recordKind.rpcServerBegin ? 'server' : '',
    };
    const below = this.#stack.at(-1);
    const span = new OpenSpan(begin, Math.max(0, id), parent, below, id < 0);
    if (below?.children !== undefined && below.children.length < recordingLimits.childrenRememberedMax) below.children.push(span);
    if (this.#step !== undefined && below === undefined && parent === 0 && begin.table !== 'rpcs') {
      span.phase = this.#phases.begin(begin.name, start);
    }
    this.recorded[kinds[begin.table]]++;
    if (start >= promised) span.announce(builder);
    if (id > 0) this.#async.set(id, span);
    else this.#stack.push(span);
    this.#owner = span;
  }

  #end(builder: BatchBuilder, span: OpenSpan | undefined, time: number, status: number): void {
    if (span === undefined) return;
    span.end(builder, time, status === 0 ? 'ok' : 'error');
    if (span.phase !== undefined) this.#phases.end(span.phase, time);
    if (this.#owner === span) this.#owner = undefined;
  }

  /** A missing mark (the ring was full) leaves a stretch that is two steps long: neither is reported. */
  #endStep(builder: BatchBuilder, time: number, number: number): void {
    const step = this.#step;
    this.#step = { start: time, number: number + 1 };
    const phases = this.#phases.endStep(time);
    if (step?.number !== number) {
      if (step !== undefined) this.#unplaced++; // The marks that are missing are counted by the ring, this one here.
      return;
    }
    this.recorded.step++;
    builder.append('steps', { start: step.start, length: time - step.start, track: this.#track, step: number });
    for (const { name, length, calls } of phases) builder.append('phases', { step: number, name: builder.string(name), length, calls });
  }

  #addArgument(builder: BatchBuilder, key: number, value: string | number): void {
    const owner = this.#owner;
    const argument = { key: this.#names[key] ?? '', value };
    if (owner instanceof OpenSpan) owner.addArgument(builder, argument);
    else if (owner?.serial === builder.serial) appendArgument(builder, 'instants', owner.row, argument);
    else this.#invalid++;
  }

  #isLate(time: number, promised: number): boolean {
    if (time >= promised) return false;
    this.#unplaced++;
    this.#owner = undefined;
    return true;
  }

  /** Sequence numbers and sizes come from the caller: what is no count is 0, and counted. */
  #count(value: number): number {
    if (Number.isSafeInteger(value) && value >= 0) return value;
    this.#invalid++;
    return 0;
  }

  #name(builder: BatchBuilder, id: number): number {
    return builder.string(this.#names[id] ?? '');
  }

  #time(raw: number): number {
    const time = Math.round((raw - this.#origin) * 1e6);
    if (time > this.#newest) this.#newest = time;
    return time;
  }
}
