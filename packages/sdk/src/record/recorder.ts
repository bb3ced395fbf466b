// Records one thread's events into its ring. The hot path of the product: begin + end must cost little more than the two clock readings.
//
//   sync span     | begin | … nested … | end |                 ends on a stack, no id
//   async span    | asyncBegin id, parent | … | asyncEnd id |  may overlap others
//   undecided     | begin | … | becameAsync id | … | asyncEnd id |
//
// Whether a function is async is known only once it has returned, but its parts after an `await` need their parent then, so the context
// (AsyncLocalStorage) must be set before the call. That costs 30 ns a call and, once used, 130 ns per `await` of the whole thread; so only
// functions that may need it pay: `async` functions, and others whose name has not yet returned plain values, or has returned a promise.
// Where a name returns its first promise after plain values, that call's later parts lack their parent.
//
// A scope (`using`) is on the stack until something ends around it, or the turn does: only then is it known to be async.
//
// One file, because every kind of record is written from the same few fields, and an object in between would cost each of them.
// Invariants: after construction nothing here waits or throws of its own; an accepted begin's end always fits (ring.ts); errors of `fn` go
// to the caller, with the span ended. When recording is off, each method is one check.

import type { AsyncLocalStorage } from 'node:async_hooks';
import { types } from 'node:util';
import { collectiveKind, type PhaseRole, phaseRoleKey, phaseRoles } from '@ranktrace/protocol';
import { allDetail, detail } from '../model/detail.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { guarded } from '../process/guarded.ts';
import { type Args, type Argument, isValue, prepareArguments } from './arguments.ts';
import { NameTable } from './name-table.ts';
import { bufferPlace, fixedName, type RingWriter, recordKind, threadLine, undecided } from './ring.ts';
import { formatTraceparent, parseTraceparent, randomId, type TraceContext } from './trace-context.ts';

/** Ancestry of the running code, carried over `await` by AsyncLocalStorage. */
export interface SpanContext {
  /** Id of the innermost async span, 0 for none. Mutable: an undecided span gets its id after its function returned. */
  id: number;
  readonly trace: TraceContext | undefined;
}

export interface RecorderParts {
  readonly ring: RingWriter;
  /** Clock, ms: `performance.now`. */
  readonly now: () => number;
  readonly context: AsyncLocalStorage<SpanContext>;
  /** Ids of this thread's async spans lie above this; unique within the process. */
  readonly idBase: number;
  /** One word that all threads of the process share: bits of `detail`. Default: all bits, always. */
  readonly detail?: Int32Array;
  /** Number of the first step. Default 0. */
  readonly firstStep?: number;
}

/** A span between two calls of the program, `openScope` and `closeScope`. */
export interface OpenScope {
  readonly id: number;
  /** Spans on the stack below it, within its context. */
  readonly depth: number;
  isOnStack: boolean;
}

/** The profiler's action from a moment on. */
export interface ActionMark {
  /** Whether detail is sent; else only the flight recorder has it. */
  readonly sends: boolean;
  /** Whether results (`events()`, `keyAverages()`) begin here. */
  readonly begins: boolean;
  /** Whether they end here; default: where detail ceases to be sent. */
  readonly ends?: boolean;
}

export interface CollectiveAbout {
  /** `all_reduce`, `broadcast`, `send`, `recv`, … */
  readonly op: string;
  /** Name of the process group. Default `world`. */
  readonly group?: string;
  /** Number of this collective in its group; for a send or receive, among those from the one rank to the other. Default: counted from 0. */
  readonly sequence?: number;
  /** This rank's payload. Default 0. */
  readonly bytes?: number;
  /** The rank that a `send` goes to, or that a `recv` comes from. Unset for other collectives. */
  readonly peer?: number;
}

/** A span of other instrumentation, which has its own clock readings, ids and parents. */
export interface AsyncBegin {
  /** Sides of a remote call, or neither. */
  readonly kind: 'span' | 'client' | 'server';
  readonly name: string;
  /** For a span. */
  readonly category?: string;
  /** For a remote call: the other end, and the W3C ids of trace, span and parent span: 16, 8 and 8 bytes. */
  readonly peer?: string;
  readonly ids?: Uint8Array;
  /** Clock of this thread, ms. Default, and latest: now. */
  readonly time?: number;
  /** Id of the parent span. Default: the running one. */
  readonly parent?: number;
  readonly args?: Args;
}

const asyncKinds = { span: recordKind.spanBegin, client: recordKind.rpcClientBegin, server: recordKind.rpcServerBegin } as const;

const failed = 1;

const nothingWanted = new Int32Array(1);

// Kinds of return values of a name's functions so far, by name id.
const unknown = 0;
const values = 1;
const promises = 2;

/** One begin in this many is measured, from its first line to its last, and counts for all; so are ends. Measuring each would cost more. */
const measuredEvery = 63;

/** A longer call was interrupted; counted in full it would stand for many that were not. */
const tookMsMax = 0.01;

const AsyncFunction = (async () => {}).constructor;

export class Recorder {
  readonly #ring: RingWriter;
  readonly #now: () => number;
  readonly #context: AsyncLocalStorage<SpanContext>;
  readonly #names: NameTable;
  #detail: Int32Array;
  readonly #returned = new Uint8Array(recordingLimits.namesMax + 1);
  readonly #sequences = new Map<string, number>();
  /** Phases whose role is stated. */
  readonly #roles = new Set<string>();
  /** Scopes opened in this turn, outermost first; those of the innermost context from this index on. */
  readonly #scopes: OpenScope[] = [];
  #scopesFrom = 0;
  /** `depth` of the last scope that is on the stack above the innermost context; −1: none is. */
  #scopeDepth = -1;
  /** Clock of this thread, ms: what began before is not recorded. */
  readonly opened: number;
  #on = true;
  #isEnded = false;
  #lastId: number;
  #contextUsed = false;
  /** Open spans of this turn that lie on the stack above the innermost context, other than scopes. */
  #depth = 0;
  /** Spans on the stack that an error ended, and whose ends are not written yet. */
  #owed = 0;
  readonly #firstStep: number;
  #step: number;
  /** Begins, and ends, until the next one is measured. */
  #beginsUnmeasured = measuredEvery;
  #endsUnmeasured = measuredEvery;
  /** Time that recording took of this thread in this step, ms. */
  #overhead = 0;
  #stepBegan = 0;
  /** Time of all steps so far, and of recording in them, ms. */
  stepsMs = 0;
  overheadMs = 0;
  /** Finds the program's callers of its own spans, too, while stacks are wanted. */
  stacks: { captureAt(event: string, module: string): { readonly text: string; id: number } } | undefined;
  /** Begin of the last begun span. */
  #began = 0;
  /** Position in the ring where the last memory record, or an op's begin, ended, and the time of its burst. */
  #burstEnd = -1;
  #burstTime = 0;

  constructor({ ring, now, context, idBase, detail: word = new Int32Array([allDetail]), firstStep = 0 }: RecorderParts) {
    this.#detail = word;
    this.#ring = ring;
    this.#now = now;
    this.opened = now();
    this.#context = context;
    this.#names = new NameTable(ring);
    this.#lastId = idBase;
    this.#firstStep = firstStep;
    this.#step = firstStep;
  }

  get on(): boolean {
    return this.#on;
  }

  /** Number of the running step. */
  get stepNum(): number {
    return this.#step;
  }

  /** How many steps have ended. */
  get stepsEnded(): number {
    return this.#step - this.#firstStep;
  }

  /** Detail wanted right now: bits of `detail`. */
  get detail(): number {
    return this.#on ? (this.#detail[0] as number) : 0;
  }

  /** The program's part ends here: what it left open lasts until now. What follows only completes the recording. */
  markEnd(): void {
    if (!this.#on || this.#isEnded || !this.#ring.hasRoomForStep()) return;
    this.#isEnded = true;
    this.#ring.put(recordKind.closed, 0, this.#now(), 0, 0);
    this.#ring.publish();
  }

  /** Turns recording off for good, with all that it costs: a context that was once used costs each later `await` of the thread 130 ns. */
  close(): void {
    this.markEnd();
    this.#on = false;
    this.#detail = nothingWanted;
    this.#context.disable();
    this.#ring.close();
  }

  /** The id of `name` for `begin`; keep it. −1 (records nothing) when the ring is full: ask again later. */
  name(name: string): number {
    return this.#names.id(name);
  }

  /** Begins a span on the stack; if true, the span was accepted and `end` must follow in the same turn of the event loop. */
  begin(name: number, category = 0): boolean {
    // When recording is off, nothing is wanted: one check.
    if (((this.#detail[0] as number) & (this.#depth + this.#scopeDepth < 0 ? detail.spans : detail.nestedSpans)) === 0) return false;
    const from = --this.#beginsUnmeasured > 0 ? 0 : this.#beginMeasured();
    const accepted = this.#begin(name, category, true);
    if (from > 0) this.#measured(from);
    return accepted;
  }

  /** Ends the innermost span that `begin` accepted. */
  end(): void {
    const time = this.#now();
    if (--this.#depth < this.#scopeDepth) this.#leaveScopes();
    this.#ring.endSpan(time);
    if (--this.#endsUnmeasured === 0) this.#endMeasured(time);
  }

  /** Begins an op; as `begin`, and `endOp` must follow. The caller checks first whether ops are wanted (`detail`). */
  beginOp(name: number): boolean {
    // Published with its end: publishing waits for the cell's cache line, and the span around an unfinished op shows it.
    if (!this.#on || !this.#begin(name, fixedName.op, false)) return false;
    this.#burstEnd = this.#ring.staged;
    this.#burstTime = this.#began;
    return true;
  }

  /**
   * Ends the op begun last. Ids are from `name`, 0 for none. `signature`: text of a JSON object whose members become arguments. `stack`,
   * `module`: text of the arguments `Call stack` and `Module Hierarchy`. `sequence`: > 0 the op's own, < 0 that of the forward op whose
   * backward op it is. `allocated`, `freed`: bytes while it ran.
   */
  endOp(signature: number, stack: number, module: number, sequence: number, allocated: number, freed: number): void {
    const ring = this.#ring;
    if (--this.#depth < this.#scopeDepth) this.#leaveScopes();
    if (freed > 0) {
      if (ring.hasRoom(1)) ring.put(recordKind.endArgument, fixedName.bytesFreed, 0, freed, 0);
      else ring.dropArgument();
    }
    ring.endOp(this.#now(), signature, stack | (module << 16), sequence, allocated);
  }

  /**
   * A buffer of `bytes` was allocated, or freed when `bytes` is below 0; `total` bytes are live then. `deviceType`: 0 host memory, 1 a device's.
   * Such records come in bursts (the end of a `tf.tidy` frees dozens): those with nothing else between them share one reading of the clock, and
   * the shipper sees them with the next record of another kind. The first of an op has the time of its begin: a backend makes an output's
   * buffer before it computes the output, though the engine reports it after.
   */
  memory(bytes: number, total: number, address: number, deviceType: 0 | 1): void {
    const ring = this.#ring;
    if (!this.#on) return;
    if (!ring.hasRoom(1)) {
      ring.dropEvent();
      return;
    }
    if (ring.staged !== this.#burstEnd) this.#burstTime = this.#now();
    ring.put(recordKind.memory | (bufferPlace(address, deviceType) << 8), address, this.#burstTime, bytes, total);
    this.#burstEnd = ring.staged;
  }

  /** Tensors, buffers and bytes that an engine holds now. */
  engineMemory(tensors: number, buffers: number, bytes: number): void {
    if (!this.#on) return;
    if (!this.#ring.hasRoom(1)) {
      this.#ring.dropEvent();
      return;
    }
    this.#ring.put(recordKind.engineMemory | (Math.min(buffers, 0xff_ffff) << 8), tensors, this.#now(), bytes, 0);
    this.#ring.publish();
  }

  /** The role of the buffer at `address`: a number of `memoryCategory`. */
  memoryCategory(address: number, category: number, bytes: number, deviceType: 0 | 1): void {
    if (!this.#on) return;
    if (!this.#ring.hasRoom(1)) {
      this.#ring.dropEvent();
      return;
    }
    if (this.#ring.staged !== this.#burstEnd) this.#burstTime = this.#now();
    this.#ring.put(recordKind.memoryCategory | (category << 8), address, this.#burstTime, bytes, bufferPlace(address, deviceType));
    this.#burstEnd = this.#ring.staged;
  }

  /** Begins a copy of data to or from a device, or between memories; as `begin`, and `endCopy` must follow. */
  beginCopy(name: number): boolean {
    return this.#on && this.#begin(name, fixedName.dataCopy, true);
  }

  /** Ends the copy. `stack`: id of the text of `Call stack`, 0 for none. */
  endCopy(bytes: number, stack = 0): void {
    if (--this.#depth < this.#scopeDepth) this.#leaveScopes();
    if (this.#ring.hasRoom(1)) this.#ring.put(recordKind.endArgument, fixedName.bytes, 0, bytes, 0);
    else this.#ring.dropArgument();
    if (stack === 0) this.#ring.endSpan(this.#now());
    else this.#ring.endOp(this.#now(), 0, stack, 0, 0);
  }

  /** A copy that began now and ends when `promise` settles; returns a promise that settles alike. `stack`: the text, '' for none. */
  copied<T>(name: number, bytes: number, promise: Promise<T>, stack = ''): Promise<T> {
    if (!this.#on) return promise;
    const id = ++this.#lastId;
    const prepared: Argument[] = [{ key: fixedName.bytes, value: bytes }];
    if (stack !== '') prepared.push({ key: fixedName.callStack, value: stack });
    const accepted = this.#putBegin(
      recordKind.spanBegin,
      fixedName.dataCopy,
      name,
      id,
      this.#isBare ? this.#parent() : 0,
      undefined,
      prepared,
    );
    return accepted ? this.#endWhenSettled(id, promise) : promise;
  }

  /** A finished pause of the thread, such as a garbage collection: `start` on the clock of this thread, both in ms. */
  pause(name: string, start: number, length: number): void {
    if (!this.#on) return;
    const id = this.#names.id(name);
    if (id < 0 || !this.#ring.hasRoom(1)) {
      this.#ring.dropEvent();
      return;
    }
    this.#ring.put(recordKind.pastSpan | (fixedName.gc << 8), id, start, length, threadLine.gc);
    this.#ring.publish();
  }

  /** Counts a part of an event that could not be recorded. */
  dropArgument(): void {
    this.#ring.dropArgument();
  }

  /** Counts an event that could not be recorded, or a name that was replaced. */
  drop(what: 'event' | 'name'): void {
    if (what === 'event') this.#ring.dropEvent();
    else this.#ring.dropName();
  }

  /** Counts all the time since the step ended as recording, in the running step. */
  countSinceStep(): void {
    if (this.#on) this.#overhead += this.#now() - this.#stepBegan;
  }

  /** Adds time that this thread spent on recording elsewhere, ms. */
  addOverhead(ms: number): void {
    this.#overhead += ms;
  }

  /** Runs `fn` as a span called `name`, sync or async. Returns what `fn` returns; for a promise, one that settles alike. */
  record<T>(name: string, args: Args | undefined, fn: () => T): T {
    if (!this.#on) return fn();
    const wanted = this.#isBare ? detail.spans : detail.nestedSpans;
    if (((this.#detail[0] as number) & wanted) === 0) return fn();
    const from = --this.#beginsUnmeasured > 0 ? 0 : this.#beginMeasured();
    const id = this.#names.id(name);
    const stack = this.stacks === undefined || ((this.#detail[0] as number) & detail.stacks) === 0 ? 0 : this.#stackAt(name);
    if (args === undefined && this.#returned[id] === values && fn?.constructor !== AsyncFunction)
      return this.#recordSync(id, stack, fn, from);
    return this.#recordInContext(id, stack, args, fn, from);
  }

  /**
   * Begins a span that `closeScope` ends; undefined when nothing is recorded. If it is still open where the turn ends, or the span or function
   * around it, it is async: of what was recorded meanwhile, only ops directly inside of it are its own.
   */
  openScope(name: string): OpenScope | undefined {
    if (!this.#on) return undefined;
    const wanted = this.#isBare ? detail.spans : detail.nestedSpans;
    if (((this.#detail[0] as number) & wanted) === 0) return undefined;
    const from = --this.#beginsUnmeasured > 0 ? 0 : this.#beginMeasured();
    const parent = this.#contextUsed && this.#isBare ? this.#parent() : 0;
    const id = ++this.#lastId;
    if (!this.#putBegin(recordKind.spanBegin, 0, this.#names.id(name), undecided - id, parent, undefined, undefined)) return undefined;
    const scope = { id, depth: this.#depth, isOnStack: true };
    if (this.#scopes.push(scope) === 1) queueMicrotask(this.#leaveTurn);
    this.#scopeDepth = scope.depth;
    if (from > 0) this.#measured(from);
    return scope;
  }

  closeScope(scope: OpenScope): void {
    if (scope.isOnStack) {
      // A scope may close before those that opened inside of it: they go on as async spans.
      const at = this.#scopes.lastIndexOf(scope);
      if (at >= this.#scopesFrom && scope.depth === this.#depth) this.#leaveScopes(at + 1);
      scope.isOnStack = false;
      this.#trimScopes();
    }
    this.#putEnd(recordKind.asyncEnd, scope.id, 0);
  }

  /** Begins a span that `endAsync` may end, in any turn. Returns its id; 0 when it is not recorded, also for one from before this recorder. */
  beginAsync({ kind, name, category = '', peer = '', ids = new Uint8Array(32), time, parent = 0, args }: AsyncBegin): number {
    if (!this.#on) return 0;
    const now = this.#now();
    const begin = time !== undefined && time <= now ? time : now;
    const inside = parent === 0 && this.#isBare ? this.#parent() : parent;
    const wanted = inside === 0 && this.#isBare ? detail.spans : detail.nestedSpans;
    if (begin < this.opened || (kind === 'span' && ((this.#detail[0] as number) & wanted) === 0)) return 0;
    const prepared = args === undefined ? undefined : prepareArguments(args, this.#names, this.#ring);
    const extra = this.#names.id(kind === 'span' ? category : peer);
    const nameId = extra < 0 ? -1 : this.#names.id(name);
    const id = ++this.#lastId;
    const accepted = this.#putBegin(asyncKinds[kind], extra, nameId, id, inside, kind === 'span' ? undefined : ids, prepared, begin);
    this.#overhead += this.#now() - now;
    return accepted ? id : 0;
  }

  /** Ends a span of `beginAsync`, at most once. `time` must not lie before its begin. `name`: where it has another name by now. */
  endAsync(
    id: number,
    { time, isError = false, args, name }: { time?: number; isError?: boolean; args?: Args; name?: string | undefined } = {},
  ): void {
    if (!this.#on || id === 0) return;
    const now = this.#now();
    if (name !== undefined) this.#rename(id, this.#names.id(name));
    const prepared = args === undefined ? [] : prepareArguments(args, this.#names, this.#ring);
    if (prepared.length > 0 && this.#ring.hasRoom(1)) {
      this.#ring.put(recordKind.asyncOwner, 0, 0, id, 0);
      this.#putArguments(prepared);
    } else {
      for (const _ of prepared) this.#ring.dropArgument();
    }
    this.#ring.useKept();
    this.#ring.put(recordKind.asyncEnd | ((isError ? failed : 0) << 8), 0, time !== undefined && time <= now ? time : now, id, 0);
    this.#ring.publish();
    this.#overhead += this.#now() - now;
  }

  #rename(id: number, name: number): void {
    if (name >= 0 && this.#ring.hasRoom(1)) this.#ring.put(recordKind.renamed, name, 0, id, 0);
    else this.#ring.dropName();
  }

  /** The trace of the running code. */
  get traceContext(): TraceContext | undefined {
    return this.#context.getStore()?.trace;
  }

  /** Runs `fn`, sync or async, as a part of `trace`. */
  inTrace<T>(trace: TraceContext, fn: () => T): T {
    if (!this.#on) return fn();
    const outer = this.#context.getStore();
    this.#contextUsed = true;
    // An enclosing span may get its id only later.
    const context = {
      get id() {
        return outer?.id ?? 0;
      },
      trace,
    };
    return this.#context.run(context, fn);
  }

  /** Runs `fn` as this rank's part of a collective. */
  collective<T>(about: CollectiveAbout, fn: () => T): T {
    if (!this.#on) return fn();
    const part = this.#attempt(() => this.#partOf(about), 'event');
    if (part === undefined) return fn();
    const { group, op, numbers } = part;
    return this.#call(op, undefined, fn, (id, parent) =>
      this.#putBegin(recordKind.collectiveBegin, group, op, id, parent, numbers, undefined),
    );
  }

  /** Runs `fn` as the client side of a remote call; send `carrier` with the call. */
  rpcClient<T>(method: string, about: { peer?: string }, fn: (carrier: Record<string, string>) => T): T {
    if (!this.#on) return fn({});
    const outer = this.#context.getStore()?.trace;
    const trace: TraceContext = { trace: outer?.trace ?? randomId(16), span: randomId(8) };
    const carrier = { traceparent: formatTraceparent(trace) };
    const peer = this.#attempt(() => about?.peer, 'argument');
    return this.#rpc(recordKind.rpcClientBegin, method, peer, trace, outer?.span, () => fn(carrier));
  }

  /** Runs `fn` as the server side of a remote call. An unreadable carrier begins a trace of its own. */
  rpcServer<T>(method: string, about: { carrier?: Record<string, string>; peer?: string }, fn: () => T): T {
    if (!this.#on) return fn();
    const caller = this.#attempt(() => parseTraceparent(about?.carrier), 'argument');
    const trace: TraceContext = { trace: caller?.trace ?? randomId(16), span: randomId(8) };
    const peer = this.#attempt(() => about?.peer, 'argument');
    return this.#rpc(recordKind.rpcServerBegin, method, peer, trace, caller?.span, fn);
  }

  instant(name: string, args?: Args): void {
    if (!this.#on) return;
    const id = this.#names.id(name);
    const prepared = args === undefined ? undefined : prepareArguments(args, this.#names, this.#ring);
    if (id < 0 || !this.#ring.hasRoom(1)) {
      this.#ring.dropEvent();
      return;
    }
    this.#ring.put(recordKind.instant, id, this.#now(), 0, 0);
    this.#putArguments(prepared);
    this.#ring.publish();
  }

  /** `unit` is text for people: `bytes`, `W`, `samples/s`. */
  counter(name: string, value: number, unit = ''): void {
    if (!this.#on) return;
    const id = this.#names.id(name);
    const unitId = this.#names.id(unit);
    // JavaScript callers may pass anything: storing a BigInt would throw.
    if (id < 0 || unitId < 0 || typeof value !== 'number' || !this.#ring.hasRoom(1)) {
      this.#ring.dropEvent();
      return;
    }
    this.#ring.put(recordKind.counter | (unitId << 8), id, this.#now(), value, 0);
    this.#ring.publish();
  }

  /** Begins a step without ending one: the first step, or one after time that is no part of a step. */
  beginStep(): void {
    this.#putStep(-1 - this.#step);
  }

  /** A step ends here and the next one begins. */
  step(): void {
    if (this.#on) this.#putStep(this.#step++);
  }

  /** The profiler's action changes here. Published like a step: it may use the room that events leave free for steps. */
  mark({ sends, begins, ends = !sends }: ActionMark): void {
    if (!this.#on) return;
    if (!this.#ring.hasRoomForStep()) {
      this.#ring.dropEvent();
      return;
    }
    this.#ring.put(recordKind.action, 0, this.#now(), sends ? 1 : 0, begins ? 1 : ends ? 2 : 0);
    this.#ring.publish();
  }

  addMetadata(key: string, value: string): void {
    if (!this.#on) return;
    const id = this.#names.id(key);
    // JavaScript callers may pass anything: making text of an object may throw.
    if (id < 0 || typeof key !== 'string' || !isValue(value) || !this.#names.putText(recordKind.metadata, id, String(value))) {
      this.#ring.dropEvent();
      return;
    }
    this.#ring.publish();
  }

  /** States the role of the phases called `name`; later ones for the same name have no effect. */
  phaseRole(name: string, role: PhaseRole): void {
    if (!this.#on || this.#roles.has(name)) return;
    // JavaScript callers may pass anything.
    if (
      typeof name !== 'string' ||
      !phaseRoles.includes(role) ||
      name.length > recordingLimits.phaseRoleNameCharsMax ||
      this.#roles.size >= recordingLimits.phaseRolesMax
    ) {
      this.#ring.dropArgument();
      return;
    }
    this.#roles.add(name);
    this.addMetadata(`${phaseRoleKey}${name}`, role);
  }

  /** Reads an object of the program, which may be anything; undefined where that throws: `lost` is counted, and training goes on. */
  #attempt<T>(read: () => T, lost: 'event' | 'argument'): T | undefined {
    try {
      return read();
    } catch {
      if (lost === 'event') this.#ring.dropEvent();
      else this.#ring.dropArgument();
      return undefined;
    }
  }

  #partOf(about: CollectiveAbout): { readonly group: number; readonly op: number; readonly numbers: Uint8Array } {
    const { op, group = 'world', bytes = 0, peer } = about;
    // Sends to a rank and receives from it have separate counts.
    const counter = peer === undefined ? group : `${group} ${collectiveKind(op) ?? ''} ${peer}`;
    const next = this.#sequences.get(counter) ?? 0;
    const sequence = about.sequence ?? next;
    const counted = this.#sequences.size < recordingLimits.groupsMax || this.#sequences.has(counter);
    // The drain counts an invalid sequence; the numbers after it go on.
    if (counted) this.#sequences.set(counter, (Number.isSafeInteger(sequence) ? sequence : next) + 1);
    const groupId = counted ? this.#names.id(group) : -1;
    const opId = groupId < 0 ? -1 : this.#names.id(op);
    const numbers = new Float64Array([numberOf(sequence), numberOf(bytes), peer === undefined ? 0 : peerWord(peer), 0]);
    return { group: groupId, op: opId, numbers: new Uint8Array(numbers.buffer) };
  }

  #putStep(number: number): void {
    if (this.#owed > 0) this.#endOwed();
    const time = this.#now();
    if (this.#ring.hasRoomForStep()) {
      this.#ring.put(recordKind.step, 0, time, number, this.#overhead);
      this.#ring.publish();
    } else this.#ring.dropEvent();
    if (number >= 0) {
      this.stepsMs += time - this.#stepBegan;
      this.overheadMs += this.#overhead;
    }
    this.#stepBegan = time;
    this.#overhead = 0;
  }

  /** Begins a span whose detail is wanted. */
  #begin(name: number, category: number, publishes: boolean): boolean {
    if (name < 0) {
      this.#ring.dropEvent();
      return false;
    }
    const parent = this.#contextUsed && this.#depth + this.#scopeDepth < 0 ? this.#parent() : 0;
    const time = this.#now();
    if (!this.#ring.beginSpan(recordKind.spanBegin | (category << 8), name, time, parent, publishes)) return false;
    this.#began = time;
    this.#depth++;
    return true;
  }

  #beginMeasured(): number {
    this.#beginsUnmeasured = measuredEvery;
    return this.#now();
  }

  /** Counts the begin from `from` until now, less the clock reading that only measured begins need. */
  #measured(from: number): void {
    const until = this.#now();
    const reading = this.#now() - until;
    this.#count(until - from - reading);
  }

  /** Counts the end that read the clock at `time`, a reading that it needs anyway. */
  #endMeasured(time: number): void {
    this.#endsUnmeasured = measuredEvery;
    this.#count(this.#now() - time);
  }

  /** Counts a call that took this many ms, for itself and the unmeasured ones. */
  #count(took: number): void {
    if (took > 0) this.#overhead += Math.min(took, tookMsMax) * measuredEvery;
  }

  #rpc<T>(kind: number, method: string, peer: string | undefined, trace: TraceContext, parentSpan: Uint8Array | undefined, fn: () => T): T {
    const ids = new Uint8Array(32);
    ids.set(trace.trace, 0);
    ids.set(trace.span, 16);
    if (parentSpan !== undefined) ids.set(parentSpan, 24);
    const peerId = this.#names.id(peer ?? '');
    const methodId = peerId < 0 ? -1 : this.#names.id(method);
    return this.#call(methodId, trace, fn, (id, parent) => this.#putBegin(kind, peerId, methodId, id, parent, ids, undefined));
  }

  /** Separate from `record`, where every call would pay for the captures of this closure. */
  #recordInContext<T>(name: number, stack: number, args: Args | undefined, fn: () => T, from: number): T {
    const prepared = args === undefined ? undefined : prepareArguments(args, this.#names, this.#ring);
    const begin = (id: number, parent: number) => {
      const accepted = this.#putBegin(recordKind.spanBegin, 0, name, id, parent, undefined, prepared);
      if (accepted && stack !== 0) this.#putStack(stack);
      return accepted;
    };
    return this.#call(name, undefined, fn, begin, from);
  }

  /** The id of the stack at the span `name` that begins now; 0 for none. */
  #stackAt(name: string): number {
    const stack = this.stacks?.captureAt(name, '');
    if (stack === undefined) return 0;
    if (stack.id < 0) stack.id = this.#names.id(stack.text);
    if (stack.id >= 0) return stack.id;
    this.#ring.dropArgument();
    return 0;
  }

  /** Writes the stack of the last begun span. */
  #putStack(stack: number): void {
    if (this.#ring.hasRoom(1)) this.#ring.put(recordKind.nameArgument, fixedName.callStack, 0, stack, 0);
    else this.#ring.dropArgument();
    this.#ring.publish();
  }

  #recordSync<T>(name: number, stack: number, fn: () => T, from: number): T {
    const accepted = this.#begin(name, 0, stack === 0);
    if (accepted && stack !== 0) this.#putStack(stack);
    if (from > 0) this.#measured(from);
    let result: T;
    try {
      result = fn();
    } catch (error) {
      if (accepted) {
        this.#depth--;
        this.#owed++;
        this.#endOwed();
      }
      throw error;
    }
    if (isPromise(result)) return this.#becomeAsync(name, accepted, undefined, result);
    if (accepted) this.end();
    return result;
  }

  /** Runs `fn` inside a context of its own. `begin` writes the begin record and returns whether it was accepted. */
  #call<T>(name: number, trace: TraceContext | undefined, fn: () => T, begin: (id: number, parent: number) => boolean, from = 0): T {
    const outer = this.#context.getStore();
    const outerId = outer?.id ?? 0;
    const decided = name >= 0 && fn?.constructor === AsyncFunction;
    const id = decided ? ++this.#lastId : undecided;
    const accepted = begin(id, this.#isBare ? outerId : 0);
    // Spans inside an undecided function lie inside of it on the stack: they need no id yet, and none is known.
    const context: SpanContext = { id: !accepted ? outerId : decided ? id : 0, trace: trace ?? outer?.trace };
    const depth = this.#depth;
    const scopesFrom = this.#scopesFrom;
    const scopes = this.#scopes.length;
    if (accepted) {
      this.#depth = 0;
      this.#scopesFrom = scopes;
      this.#scopeDepth = -1;
    }
    this.#contextUsed = true;
    if (from > 0) this.#measured(from);
    let result: T;
    try {
      result = this.#context.run(context, fn);
    } catch (error) {
      this.#depth = depth;
      this.#scopesFrom = scopesFrom;
      if (this.#scopes.length > 0) this.#leaveScopes(scopes);
      if (!decided) context.id = outerId;
      if (accepted && decided) this.#finish(id, failed);
      else if (accepted) {
        this.#owed++;
        this.#endOwed();
      }
      throw error;
    }
    this.#depth = depth;
    this.#scopesFrom = scopesFrom;
    if (this.#scopes.length > 0) this.#leaveScopes(scopes);
    if (!decided) context.id = outerId;
    if (isPromise(result)) {
      return decided ? this.#endWhenSettled(accepted ? id : 0, result) : this.#becomeAsync(name, accepted, context, result);
    }
    if (name >= 0 && this.#returned[name] === unknown) this.#returned[name] = values;
    if (accepted) this.#finish(id, 0);
    return result;
  }

  /** Whether nothing of this turn is on the stack above the innermost context. */
  get #isBare(): boolean {
    return this.#depth + this.#scopeDepth < 0;
  }

  readonly #leaveTurn = guarded('leaving a turn', () => this.#leaveScopes(0));

  /** Scopes leave the stack, innermost first: those from this index on, by default those above the innermost span. */
  #leaveScopes(from = this.#scopes.findIndex(({ depth }, at) => at >= this.#scopesFrom && depth > this.#depth)): void {
    while (this.#scopes.length > from) {
      const scope = this.#scopes.pop();
      if (scope?.isOnStack === true) this.#leaveStack(scope);
    }
    this.#trimScopes();
  }

  /** Forgets the last scopes that are no more on the stack. */
  #trimScopes(): void {
    while (this.#scopes.length > this.#scopesFrom && this.#scopes.at(-1)?.isOnStack !== true) this.#scopes.pop();
    this.#scopeDepth = this.#scopes.length > this.#scopesFrom ? (this.#scopes.at(-1)?.depth ?? -1) : -1;
  }

  /** An open scope becomes an async span. */
  #leaveStack(scope: OpenScope): void {
    scope.isOnStack = false;
    // Without room the span seems to end here; its own end will find no span, but the cell kept for it.
    if (!this.#ring.hasRoom(1)) {
      this.#ring.dropArgument();
      this.#putEnd(recordKind.asyncEnd, scope.id, 0);
      this.#ring.keep();
      return;
    }
    this.#ring.put(recordKind.becameAsync, 0, 0, scope.id, 0);
    this.#ring.publish();
  }

  /** The innermost span on the stack returned a promise: it leaves the stack and ends when the promise does. */
  #becomeAsync<T>(name: number, accepted: boolean, context: SpanContext | undefined, result: T & Promise<unknown>): T {
    if (name >= 0) this.#returned[name] = promises;
    if (!accepted) return result;
    const id = ++this.#lastId;
    if (context === undefined && --this.#depth < this.#scopeDepth) this.#leaveScopes();
    // The kept cell stays for the end; this record needs one of its own. Without room the span seems to end here.
    if (this.#ring.isHalfKept || !this.#ring.hasRoom(1)) {
      this.#ring.dropArgument();
      this.#putEnd(recordKind.end, 0, 0);
      return result;
    }
    if (context !== undefined) context.id = id;
    this.#ring.put(recordKind.becameAsync, 0, 0, id, 0);
    this.#ring.publish();
    return this.#endWhenSettled(id, result);
  }

  /**
   * A promise that settles like `result`, after the span ended. Not `result` itself: a side handler on it would mark its rejection as
   * handled.
   */
  #endWhenSettled<T>(id: number, result: T & Promise<unknown>): T {
    if (id === 0) return result;
    return result.then(
      (value: unknown) => {
        this.#putEnd(recordKind.asyncEnd, id, 0);
        return value;
      },
      (error: unknown) => {
        this.#putEnd(recordKind.asyncEnd, id, failed);
        throw error;
      },
    ) as T;
  }

  /**
   * Ends the innermost spans that an error has left. Where the stack overflowed there may be no room for this call either: then a caller further
   * out ends them, or the next step.
   */
  #endOwed(): void {
    if (this.#depth < this.#scopeDepth) this.#leaveScopes();
    while (this.#owed > 0) {
      this.#ring.endFailed(this.#now());
      this.#owed--;
    }
  }

  #finish(id: number, status: number): void {
    if (id === undecided) this.#putEnd(recordKind.end, 0, status);
    else this.#putEnd(recordKind.asyncEnd, id, status);
  }

  #putBegin(
    kind: number,
    extra: number,
    name: number,
    id: number,
    parent: number,
    more: Uint8Array | undefined,
    args: readonly Argument[] | undefined,
    time?: number,
  ): boolean {
    const ring = this.#ring;
    // No cell is kept for becameAsync, see #becomeAsync.
    if (name < 0 || (id > 0 && ring.isHalfKept) || !ring.hasRoom(more === undefined ? 2 : 3)) {
      ring.dropEvent();
      return false;
    }
    ring.keep();
    ring.put(kind | (extra << 8), name, time ?? this.#now(), id, parent);
    if (more !== undefined) ring.putBytes(more, more.length);
    if (args !== undefined) this.#putArguments(args);
    ring.publish();
    return true;
  }

  #putEnd(kind: number, id: number, status: number): void {
    const time = this.#now();
    this.#ring.useKept();
    this.#ring.put(kind | (status << 8), 0, time, id, 0);
    this.#ring.publish();
    if (--this.#endsUnmeasured === 0) this.#endMeasured(time);
  }

  #putArguments(args: readonly Argument[] | undefined): void {
    if (args === undefined) return;
    for (const { key, value } of args) {
      if (typeof value === 'string') {
        if (!this.#names.putText(recordKind.stringArgument, key, value)) this.#ring.dropArgument();
      } else if (this.#ring.hasRoom(1)) {
        this.#ring.put(recordKind.numberArgument, key, 0, value, 0);
      } else {
        this.#ring.dropArgument();
      }
    }
  }

  #parent(): number {
    return this.#context.getStore()?.id ?? 0;
  }
}

/** NaN for any value that is not a number: storing a BigInt would throw. */
const numberOf = (value: unknown) => (typeof value === 'number' ? value : Number.NaN);

/** 1 + peer; for -1, which would be none, what the drain counts as lost, as it does other values that are no rank. */
const peerWord = (peer: unknown) => (peer === -1 ? Number.NaN : 1 + numberOf(peer));

/** Other objects with a `then` (a query builder, a lazy job) stay what they are: the program may call their methods, and has not started them yet. */
const isPromise = (value: unknown): value is Promise<unknown> => typeof value === 'object' && value !== null && types.isPromise(value);
