// Turns one thread's ring cells into rows: begin and end records into spans, raw clock readings into RankTime.
//
//   stack   [ step loop > forward > matmul ]      spans of this turn, innermost last; an `end` ends the last one
//   async   { 17: allreduce, 19: fetch }          spans that outlive their turn, by id
//   scopes  { 23: augment }                       spans of `using`, on the stack as long as nothing shows that they outlive what lies around them
//
// The drain makes a span row when it reads the begin, so the rows of a thread lie in order of start, outer before inner (open-span.ts).
// Invariant: draining stops before a batch could become too large, and at each action: events before and after an action never share a
// batch.

import { limits, type RankTime, type Running, rankTime, spanState } from '@ranktrace/protocol';
import { memoryCategories } from '../model/memory-category.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { bufferAddress, bufferDevice, fixedName, fixedNames, type RingDrops, RingReader, recordKind, undecided } from '../record/ring.ts';
import type { BatchBuilder, RecordedCounts } from './batch-builder.ts';
import { appendArgument, OpenSpan, type SpanBegin, type SpanTable } from './open-span.ts';
import { placeOf } from './running-place.ts';
import { StepPhases } from './step-phases.ts';

export interface RecordedThread {
  readonly ring: SharedArrayBuffer;
  /** The thread's `performance.now()`, ms, at RankTime 0. */
  readonly origin: number;
  readonly track: number;
  /** RankTime ns in a ms of the thread's clock. Default 1e6. */
  readonly nsPerMs?: number;
}

/** Targets of rows: steps, phases, counters and facts go to `summary`, the timeline to `detail`. The same builder while all is sent. */
export interface Builders {
  readonly summary: BatchBuilder;
  readonly detail: BatchBuilder;
}

/** An action takes effect here. */
export interface ReadAction {
  /** Whether detail after this is sent; else it is held. */
  readonly sends: boolean;
  /** Whether results begin here. */
  readonly begins: boolean;
  /** Whether they end here. */
  readonly ends: boolean;
  readonly time: RankTime;
}

const kinds = { spans: 'span', collectives: 'collective', rpcs: 'rpc' } as const satisfies Record<SpanTable, keyof RecordedCounts>;

const tables: Record<number, SpanTable> = {
  [recordKind.spanBegin]: 'spans',
  [recordKind.collectiveBegin]: 'collectives',
  [recordKind.rpcClientBegin]: 'rpcs',
  [recordKind.rpcServerBegin]: 'rpcs',
};
/** Phases are spans that the program names; those with a category (ops, epochs, spans of OpenTelemetry) lie inside phases or around steps. */
const isNamed = ({ table, extra }: SpanBegin): boolean => (table === 'spans' ? extra === '' : table === 'collectives');
const isOp = ({ begin }: OpenSpan): boolean =>
  begin.table === 'spans' && (begin.extra === fixedNames[fixedName.op] || begin.extra === fixedNames[fixedName.dataCopy]);
const isArgument = (kind: number) =>
  kind === recordKind.numberArgument || kind === recordKind.stringArgument || kind === recordKind.nameArgument;
const decoder = new TextDecoder();

export class RingDrain {
  readonly #ring: SharedArrayBuffer;
  readonly #reader: RingReader;
  readonly #origin: number;
  readonly #track: number;
  readonly #nsPerMs: number;
  readonly #names: string[] = [...fixedNames];
  readonly #stack: OpenSpan[] = [];
  readonly #async = new Map<number, OpenSpan>();
  readonly #scopes = new Map<number, OpenSpan>();
  readonly #phases = new StepPhases();
  /** Start and number of the running step; `undefined` on threads that count no steps. */
  #step: { start: number; number: number } | undefined;
  #newest: number;
  /** Owner of the `*Argument` records that follow. */
  #owner: OpenSpan | { row: number; serial: number } | undefined;
  /** Steps that are missing, because their begin mark was lost. */
  #unplaced = 0;
  #invalid = 0;
  /** Bytes freed by the op that ends next. */
  #freed = 0;
  #action: ReadAction | undefined;
  #hasPauses = false;
  #closedAt = Number.POSITIVE_INFINITY;
  #fullest = 0;
  /** The last finished steps, oldest first, with their numbers. */
  readonly recentSteps: { readonly step: number; readonly start: number; readonly end: number }[] = [];
  readonly #recentStepsMax: number;
  /** By group, the last collective entered. */
  readonly entered = new Map<string, number>();

  /** `recentStepsMax`: length of `recentSteps`. */
  constructor(thread: RecordedThread, recentStepsMax = 0) {
    this.#ring = thread.ring;
    this.#reader = new RingReader(thread.ring);
    this.#origin = thread.origin;
    this.#track = thread.track;
    this.#nsPerMs = thread.nsPerMs ?? 1e6;
    this.#newest = 0;
    this.#recentStepsMax = recentStepsMax;
  }

  /** Time of the newest record read, ns: no later record is older. */
  get newest(): RankTime {
    return rankTime(this.#newest);
  }

  /** When recording ended, as far as it is read, RankTime, ns; infinite while it goes on. */
  get closedAt(): number {
    return this.#closedAt;
  }

  /** Cumulative; events mod 2^32. */
  get dropped(): RingDrops {
    const dropped = this.#reader.dropped;
    return { events: dropped.events + this.#unplaced, arguments: dropped.arguments + this.#invalid, names: dropped.names };
  }

  /** The time of the first record that is not read yet, RankTime, ns; infinite where there is none. */
  get nextTime(): number {
    const reader = new RingReader(this.#ring);
    reader.refresh();
    while (!reader.done && reader.kind === recordKind.defineName) {
      const bytes = reader.a;
      reader.next();
      reader.takeBytes(bytes);
    }
    return reader.done ? Number.POSITIVE_INFINITY : this.#time(reader.time);
  }

  /** Whether the thread has ended and its ring is read to the end. */
  get finished(): boolean {
    return this.#reader.closed && !this.#reader.refresh();
  }

  /** Highest fill of the ring since the last call, 0 … 1. */
  takeFullest(): number {
    const fullest = this.#fullest;
    this.#fullest = 0;
    return fullest;
  }

  /** Whether this ring has never had a drain; claims it. */
  claim(): boolean {
    return this.#reader.claim();
  }

  /** The current place of the thread, as far as it is read; undefined on a thread that counts no steps. */
  get running(): Running | undefined {
    return this.#step === undefined ? undefined : placeOf(this.#step.number, this.#openSpans(), this.#phases.ended);
  }

  /** Number and start of the running step, as far as it is read. */
  get runningStep(): { readonly number: number; readonly start: number } | undefined {
    return this.#step;
  }

  /** Whether the thread has a track for its interruptions. */
  get hasPauses(): boolean {
    return this.#hasPauses;
  }

  /** Counts events that have begun and not ended, and that readers will see. */
  countOpen(into: RecordedCounts): void {
    for (const span of this.#openSpans()) if (span.isKnown) into[kinds[span.begin.table]]++;
  }

  /** Shows open spans in a batch that will be sent, where the batches that showed them may not be. */
  announceOpen(builder: BatchBuilder): void {
    for (const span of this.#openSpans()) {
      if (span.isKnown) continue;
      builder.reachBack(span.begin.start);
      span.announce(builder);
    }
  }

  /** The action that the last `drain` stopped at, once. */
  takeAction(): ReadAction | undefined {
    const action = this.#action;
    this.#action = undefined;
    return action;
  }

  /**
   * Reads all that is published; false when it stopped early: a batch is full, or an action takes effect (`takeAction`). `promised`: the
   * watermark of the last batch, ns.
   */
  drain(builders: Builders, promised: number): boolean {
    const reader = this.#reader;
    reader.refresh();
    this.#fullest = Math.max(this.#fullest, reader.fill);
    const { summary, detail } = builders;
    // An event's arguments go into its batch: an instant has one row only, so in a later batch they would have no owner.
    while (!reader.done && this.#action === undefined && ((!summary.full && !detail.full) || isArgument(reader.kind))) {
      this.#read(builders, promised);
    }
    reader.release();
    return reader.done && this.#action === undefined;
  }

  *#openSpans(): Generator<OpenSpan> {
    yield* this.#stack;
    yield* this.#async.values();
  }

  #read({ summary, detail: builder }: Builders, promised: number): void {
    const reader = this.#reader;
    const { kind, extra, name, time: raw, a, b } = reader;
    reader.next();
    switch (kind) {
      case recordKind.spanBegin:
      case recordKind.collectiveBegin:
      case recordKind.rpcClientBegin:
      case recordKind.rpcServerBegin:
        this.#begin(builder, kind, extra, name, this.#placed(builder, raw, promised), a, b);
        return;
      case recordKind.end:
        this.#end(builder, this.#stack.pop(), this.#placed(builder, raw, promised), extra);
        return;
      case recordKind.becameAsync: {
        if (this.#leave(builder, a)) return;
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
        const scope = this.#scopes.get(a);
        if (scope !== undefined && scope === this.#stack.at(-1)) {
          this.#scopes.delete(a);
          this.#end(builder, this.#stack.pop(), this.#placed(builder, raw, promised), extra);
          return;
        }
        this.#leave(builder, a);
        const span = this.#async.get(a);
        this.#async.delete(a);
        // Other instrumentation may pass an end time that is long past.
        this.#end(builder, span, this.#placed(builder, raw, promised), extra);
        return;
      }
      case recordKind.renamed:
        this.#async.get(a)?.rename(builder, this.#names[name] ?? '');
        return;
      case recordKind.asyncOwner:
        this.#owner = this.#async.get(a);
        return;
      case recordKind.instant: {
        const time = this.#placed(builder, raw, promised);
        builder.recorded.instant++;
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
        const time = this.#placed(summary, raw, promised);
        summary.recorded.counter++;
        summary.append('counters', {
          time,
          track: this.#track,
          name: this.#name(summary, name),
          unit: this.#name(summary, extra),
          value: a,
        });
        return;
      }
      case recordKind.step:
        this.#endStep(summary, this.#placed(summary, raw, promised), a, b);
        return;
      case recordKind.action:
        this.#action = { sends: a === 1, begins: b === 1, ends: b === 2, time: rankTime(this.#time(raw)) };
        return;
      case recordKind.closed:
        this.#closedAt = this.#time(raw);
        return;
      case recordKind.opEnd:
        this.#endOp(builder, this.#stack.pop(), this.#placed(builder, raw, promised), extra, name, a, b);
        return;
      case recordKind.endArgument:
        if (name === fixedName.bytesFreed) this.#freed = a;
        else this.#stack.at(-1)?.addArgument(builder, { key: this.#names[name] ?? '', value: a });
        return;
      case recordKind.memory:
        builder.recorded.instant++;
        builder.appendMemory(this.#placed(builder, raw, promised), this.#track, a, b, bufferAddress(extra, name), bufferDevice(extra), 0);
        return;
      case recordKind.engineMemory: {
        const time = this.#placed(summary, raw, promised);
        // `extra` is read as unsigned.
        const counters = [
          ['tf tensors', '', name],
          ['tf data buffers', '', extra],
          ['tf bytes', 'bytes', a],
        ] as const;
        for (const [counter, unit, value] of counters) {
          summary.recorded.counter++;
          summary.append('counters', { time, track: this.#track, name: summary.string(counter), unit: summary.string(unit), value });
        }
        return;
      }
      case recordKind.memoryCategory: {
        builder.recorded.instant++;
        const category = builder.string(memoryCategories[extra - 1] ?? '');
        builder.appendMemory(this.#placed(builder, raw, promised), this.#track, a, 0, bufferAddress(b, name), bufferDevice(b), category);
        return;
      }
      case recordKind.pastSpan:
        this.#addPause(builder, this.#placed(builder, raw, promised), extra, name, a * this.#nsPerMs);
        return;
      case recordKind.numberArgument:
        this.#addArgument(builder, name, a);
        return;
      case recordKind.stringArgument:
        this.#addArgument(builder, name, decoder.decode(reader.takeBytes(a)));
        return;
      case recordKind.nameArgument:
        this.#addArgument(builder, name, this.#names[a] ?? '');
        return;
      case recordKind.defineName:
        this.#names[name] = decoder.decode(reader.takeBytes(a));
        return;
      case recordKind.metadata:
        summary.append('metadata', { key: this.#name(summary, name), value: summary.string(decoder.decode(reader.takeBytes(a))) });
        return;
      default:
        throw new Error(`Bug: cannot drain the ring of track ${this.#track}: its record has kind ${kind}`);
    }
  }

  #begin(builder: BatchBuilder, kind: number, extra: number, name: number, start: number, id: number, parent: number): void {
    const reader = this.#reader;
    let [sequence, bytes, peer] = [0, 0, 0];
    let ids: Uint8Array | undefined;
    if (kind === recordKind.collectiveBegin) {
      sequence = this.#count(reader.first);
      bytes = this.#count(reader.second);
      const given = reader.a;
      peer = this.#count(given, 1 + limits.rankMax);
      reader.next();
      // One whose peer is lost is no collective of the group.
      if (given === 0) this.#enter(this.#names[extra] ?? '', sequence);
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
      peer,
      ids,
      side: kind === recordKind.rpcClientBegin ? 'client' : kind === recordKind.rpcServerBegin ? 'server' : '',
    };
    const below = this.#stack.at(-1);
    const span = new OpenSpan(begin, Math.max(0, id), parent, below, id < 0);
    below?.remember(span);
    if (this.#step !== undefined && below === undefined && parent === 0 && isNamed(begin)) {
      span.phase = this.#phases.begin(begin.name, start);
    }
    span.announce(builder);
    if (id > 0) this.#async.set(id, span);
    else this.#stack.push(span);
    if (id < undecided) this.#scopes.set(undecided - id, span);
    this.#owner = span;
  }

  /**
   * The scope with this id, if it is on the stack, turns out to be async. Ops directly inside of it are its own. Other spans lie beside it: its function may
   * have returned before they began, at an `await`.
   */
  #leave(builder: BatchBuilder, id: number): boolean {
    const scope = this.#scopes.get(id);
    if (scope === undefined) return false;
    this.#scopes.delete(id);
    this.#stack.splice(this.#stack.lastIndexOf(scope), 1);
    this.#async.set(id, scope);
    scope.becomeAsync(builder, id, isOp);
    for (const span of scope.children ?? []) {
      if (isOp(span)) continue;
      span.moveTo(builder, scope);
      if (scope.phase === undefined || span.phase !== undefined || span.parent !== 0 || !isNamed(span.begin)) continue;
      const { name, start } = span.begin;
      if (span.ended === undefined) span.phase = this.#phases.beginLate(name, start);
      else this.#phases.addLate(name, start, span.ended);
    }
    return true;
  }

  #enter(group: string, sequence: number): void {
    if (this.entered.has(group) || this.entered.size < limits.runningGroupsMax) this.entered.set(group, sequence);
  }

  #end(builder: BatchBuilder, span: OpenSpan | undefined, time: number, status: number): void {
    if (span === undefined) return;
    builder.recorded[kinds[span.begin.table]]++;
    span.end(builder, time, status === 0 ? 'ok' : 'error');
    if (span.phase !== undefined) this.#phases.end(span.phase, time);
    if (this.#owner === span) this.#owner = undefined;
  }

  #endOp(
    builder: BatchBuilder,
    span: OpenSpan | undefined,
    time: number,
    signature: number,
    stackAndModule: number,
    sequence: number,
    allocated: number,
  ): void {
    const freed = this.#freed;
    this.#freed = 0;
    if (span === undefined) return;
    builder.recorded.span++;
    const stack = this.#names[stackAndModule & 0xffff] ?? '';
    const module = this.#names[stackAndModule >>> 16] ?? '';
    const step = this.#step === undefined ? 0 : 1 + this.#step.number;
    // One that found the name table full has no text of its own.
    const text = signature === fixedName.tooMany ? '' : (this.#names[signature] ?? '');
    span.endOp(builder, time, { signature: text, sequence, allocated, freed, step, module, stack });
    if (this.#owner === span) this.#owner = undefined;
  }

  /** Adds a pause; the runtime reports it only once it is over. */
  #addPause(builder: BatchBuilder, start: number, category: number, name: number, length: number): void {
    this.#hasPauses = true;
    builder.recorded.span++;
    const [nameIndex, categoryIndex] = [this.#name(builder, name), this.#name(builder, category)];
    const track = recordingLimits.extraLineBase + this.#track;
    builder.appendSpan(start, Math.round(length), track, nameIndex, categoryIndex, 0, 0, spanState.whole);
  }

  /** A missing mark (the ring was full) leaves a stretch of two steps: neither is reported. */
  #endStep(builder: BatchBuilder, time: number, number: number, overheadMs: number): void {
    const step = this.#step;
    this.#step = { start: time, number: number < 0 ? -1 - number : number + 1 };
    const phases = this.#phases.endStep(time);
    if (number < 0) return;
    if (step?.number !== number) {
      if (step !== undefined) this.#unplaced++; // Missing marks are counted by the ring, this one here.
      return;
    }
    builder.recorded.step++;
    const length = time - step.start;
    // An estimate from samples: for a single step it may exceed the step.
    const overhead = Math.min(length, Math.round(overheadMs * 1e6));
    builder.append('steps', { start: step.start, length, track: this.#track, step: number, overhead });
    this.recentSteps.push({ step: number, start: step.start, end: time });
    if (this.recentSteps.length > this.#recentStepsMax) this.recentSteps.shift();
    for (const { name, length, calls } of phases) builder.append('phases', { step: number, name: builder.string(name), length, calls });
  }

  #addArgument(builder: BatchBuilder, key: number, value: string | number): void {
    const owner = this.#owner;
    const argument = { key: this.#names[key] ?? '', value };
    if (owner instanceof OpenSpan) owner.addArgument(builder, argument);
    else if (owner?.serial === builder.serial) appendArgument(builder, 'instants', owner.row, argument);
    else this.#invalid++;
  }

  /** Sequence numbers, sizes and ranks come from the caller: any value that is no count up to `max` becomes 0, and is counted. */
  #count(value: number, max = Number.MAX_SAFE_INTEGER): number {
    if (Number.isSafeInteger(value) && value >= 0 && value <= max) return value;
    this.#invalid++;
    return 0;
  }

  #name(builder: BatchBuilder, id: number): number {
    return builder.string(this.#names[id] ?? '');
  }

  /** The time of an event that goes into `builder`: if it lies before the watermark, the batch will state how far back it reaches. */
  #placed(builder: BatchBuilder, raw: number, promised: number): number {
    const time = this.#time(raw);
    if (time < promised) builder.reachBack(time);
    return time;
  }

  #time(raw: number): number {
    const time = Math.round((raw - this.#origin) * this.#nsPerMs);
    if (time > this.#newest) this.#newest = time;
    return time;
  }
}
