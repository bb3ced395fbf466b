// One rank's part of a path's graph: the begins and ends of its ops, calls and device work, and what each waits for.
//
//   host      linear ┬─ addmm ┬─ launch ┬──┴──┴─ …  synchronize ─────┬
//                    op       op        │launch                      │ sync
//   stream 7                            └──► gemm ──── gap ──► gemm ─┘
//
// critical-path.ts has what each edge is, as HTA defines it; for a path by last arrivals there are more.

import { hostKind, type PhaseSpan, type RankWork, type WorkStream } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { waitingCall } from './idle-time.ts';
import { kindOf } from './kernel-class.ts';
import { type BlockedLaunch, blockedLaunches } from './launch-queue.ts';
import {
  boundOfClass,
  type EdgeKind,
  edgeKindNumber,
  edgeKinds,
  overlappingSteps,
  type PathBound,
  type PathEdge,
  type PathEnd,
  type PathSpan,
  pathEnd,
} from './path-edges.ts';
import type { PathGraph } from './path-graph.ts';
import {
  copiesOfCalls,
  EventWaits,
  type Holders,
  holdersOf,
  lastUpTo,
  noHolders,
  type QueueLengths,
  queueLengths,
  shortestLaunch,
} from './path-reasons.ts';
import { launchingThreads, rowsInside } from './path-stretch.ts';
import { joinForwardAndBackward, threadTurns, walkNested } from './thread-turns.ts';

/** Calls whose own length is the device's in HTA's path, which knows those of CUDA alone. */
const htaBlockingCall = /^cuda(?:DeviceSynchronize|StreamSynchronize|EventQuery|EventSynchronize|Memcpy)$/;

/** Number of nodes that a rank may have: the last two are the begin and the end of the stretch. */
export const nodesOf = ({ host, work }: RankWork): number => 2 * (host.length + work.length) + 2;

export interface RankPathOptions {
  /** Node number of the rank's first node; default 0. */
  readonly base?: number;
  /** By row of work: when the last rank came into its collective; NaN for all other work. Default: kernels count with their length. */
  readonly lastIn?: Float64Array;
  /**
   * Adds edges that HTA leaves out, for a path by last arrivals: from every launch to its work, between work of a stream however long the gap, and for
   * the time before, between and after the outermost ops of threads that launch; where two of these take turns, as forward and backward do, one waits
   * for the other. Default false.
   */
  readonly isComplete?: boolean;
  /** Place in `work.steps` of the first of `overlappingSteps`, which the stretch is then: each ends with its work. Default: the stretch is one step. */
  readonly firstStep?: number | undefined;
}

/** The edges of one rank. Nodes: 2 × row for the begin, and the next for the end; rows of the host first, then rows of work. */
export class RankPath {
  readonly #graph: PathGraph;
  readonly #work: RankWork;
  readonly #hosts: number;
  readonly #works: number;
  readonly #hostStart: Float64Array;
  readonly #hostEnd: Float64Array;
  readonly #workStart: Float64Array;
  readonly #workEnd: Float64Array;
  readonly #base: number;
  readonly #lastIn: Float64Array | undefined;
  /** The threads whose pauses count. */
  readonly #pausing: ReadonlySet<number>;
  readonly #inside: Uint8Array;
  readonly #begin: number;
  readonly #end: number;
  readonly #isComplete: boolean;
  readonly #firstStep: number | undefined;
  readonly #holders: Holders;
  /** By row of a call: the row of the copy that it makes itself, as from memory that is not pinned: it lasts as long. */
  readonly #copiedBy: ReadonlyMap<number, number>;
  /** By row of its call: launches that waited for room in a queue. */
  readonly #blocked: ReadonlyMap<number, BlockedLaunch>;
  /** Whether the host waits for its devices in the stretch. */
  #isWaiting = false;
  /** Edges of waits: several waits may be one edge. */
  readonly #syncs = new Set<number>();

  constructor(graph: PathGraph, work: RankWork, from: number, until: number, options: RankPathOptions = {}) {
    const { base = 0, lastIn, isComplete = false, firstStep } = options;
    this.#graph = graph;
    this.#work = work;
    this.#hosts = work.host.length;
    this.#works = work.work.length;
    this.#hostStart = work.host.columns.start;
    this.#hostEnd = work.host.columns.end;
    this.#workStart = work.work.columns.start;
    this.#workEnd = work.work.columns.end;
    this.#base = base;
    this.#lastIn = lastIn;
    this.#begin = from;
    this.#end = until;
    this.#inside = rowsInside(work, from, until);
    this.#pausing = isComplete ? launchingThreads(work, this.#inside) : new Set();
    this.#isComplete = isComplete;
    this.#firstStep = firstStep;
    this.#holders = isComplete ? holdersOf(work) : noHolders;
    this.#copiedBy = isComplete ? copiesOfCalls(work, (row) => this.has(row)) : new Map();
    this.#blocked = new Map(isComplete ? blockedLaunches(work).map((launch) => [launch.call, launch]) : []);
    this.#addThreads();
    this.#addStreams();
    if (isComplete) this.#addWaits();
  }

  /** Time of a node of the graph. */
  timeOf(node: number): number {
    return this.#time(node - this.#base);
  }

  /** Whether a node of the graph is the begin or the end of device work. */
  isWork(node: number): boolean {
    const row = (node - this.#base) >> 1;
    return row >= this.#hosts && row < this.#hosts + this.#works;
  }

  /** Whether a node of the graph is the begin of the stretch. */
  isBegin(node: number): boolean {
    return node - this.#base === 2 * (this.#hosts + this.#works);
  }

  /** The end that a node of the graph may be: a step ends with device work or with its host, each of several steps with its work. */
  endingWith(node: number): PathEnd {
    const isWork = this.isWork(node);
    if (this.#firstStep === undefined)
      return isWork || node - this.#base === 2 * (this.#hosts + this.#works) + 1 ? pathEnd.step : pathEnd.none;
    const step = isWork ? (this.#work.links.step[((node - this.#base) >> 1) - this.#hosts] as number) : -1;
    if (step === this.#firstStep + overlappingSteps - 1) return pathEnd.step;
    return step === this.#firstStep ? pathEnd.firstStep : pathEnd.none;
  }

  /** Whether the work in `row` is in the graph. */
  has(row: number): boolean {
    return this.#inside[this.#hosts + row] === 1;
  }

  /** The node at which the work in `row` begins; the next one is its end. */
  nodeOf(row: number): number {
    return this.#base + 2 * (this.#hosts + row);
  }

  /**
   * The begin of each call and of the work that it launched, as nodes of the graph; without work for which an earlier stretch's held the stream. None
   * where the host never waits: the faster its devices are, the less it runs ahead of them, so no launch holds work back before its pace does.
   */
  launches(): (readonly [number, number])[] {
    const pairs: (readonly [number, number])[] = [];
    if (!this.#isWaiting) return pairs;
    for (let row = 0; row < this.#work.work.length; row++) {
      const call = this.#work.callOf(row);
      if (call < 0 || this.#inside[call] !== 1 || !this.has(row) || this.#work.work.columns.kind[row] === kindOf.sync) continue;
      if (this.#heldUntil(row, call) > Number.NEGATIVE_INFINITY) continue;
      pairs.push([this.#base + 2 * call, this.nodeOf(row)]);
    }
    return pairs;
  }

  /** ns from a call to its work at least. */
  shortestLaunch(): number {
    return shortestLaunch(this.#work, this.#holders);
  }

  /** An edge of the graph that begins in this rank. */
  edgeOf(edge: number): PathEdge {
    const { kind: number, from, to, weight } = this.#graph.edge(edge);
    const kind = edgeKinds[number] as EdgeKind;
    return {
      kind,
      bound: this.#boundOf(kind, from - this.#base, weight),
      weight,
      name: this.#nameOf(kind, from - this.#base, to - this.#base),
    };
  }

  /** The bound of an edge of the graph that begins in this rank. */
  boundOf(edge: number): PathBound {
    const graph = this.#graph;
    const kind = edgeKinds[graph.kindOf(edge)] as EdgeKind;
    return this.#boundOf(kind, graph.nodeAt(graph.fromOf(edge)) - this.#base, graph.weightOf(edge));
  }

  /** The name of an edge of the graph that begins in this rank. */
  nameOf(edge: number): number {
    const graph = this.#graph;
    const [from, to] = [graph.nodeAt(graph.fromOf(edge)), graph.nodeAt(graph.toOf(edge))];
    return this.#nameOf(edgeKinds[graph.kindOf(edge)] as EdgeKind, from - this.#base, to - this.#base);
  }

  /** The phase in which the host was for most of a pause between its outermost ops; undefined for any other edge, too. */
  phaseOf(edge: number): PhaseSpan | undefined {
    if (this.#graph.kindOf(edge) !== edgeKindNumber.dependency) return undefined;
    const { from, to } = this.#graph.edge(edge);
    return this.#work.phaseDuring(this.timeOf(from), this.timeOf(to));
  }

  /** Whether an edge is the pause behind the last op of a thread. */
  isLast(edge: number): boolean {
    return this.#graph.edge(edge).to - this.#base === 2 * (this.#hosts + this.#works) + 1;
  }

  /** The work of a device in which an edge lies, or which it leads to; on the host, the outermost op or annotation around the edge. */
  spanOf(edge: number): PathSpan {
    const { kind: number, from, to } = this.#graph.edge(edge);
    const kind = edgeKinds[number] as EdgeKind;
    const inner = this.#rowOf(kind, from - this.#base, to - this.#base);
    const { host, work, links } = this.#work;
    const isWork = inner >= this.#hosts;
    const { columns } = isWork ? work : host;
    const row = isWork ? inner - this.#hosts : (links.topOp[inner] || links.topAnnotation[inner] || inner + 1) - 1;
    return {
      isWork,
      row: isWork || kind === 'dependency' ? -1 : row,
      name: columns.name[row] as number,
      start: columns.start[row] as number,
      end: columns.end[row] as number,
    };
  }

  #time(node: number): number {
    const row = node >> 1;
    const isEnd = (node & 1) === 1;
    if (row < this.#hosts) return (isEnd ? this.#hostEnd[row] : this.#hostStart[row]) as number;
    const at = row - this.#hosts;
    if (at === this.#works) return isEnd ? this.#end : this.#begin;
    return (isEnd ? this.#workEnd[at] : this.#workStart[at]) as number;
  }

  /** Nodes are this rank's own, without the base. */
  #add(kind: EdgeKind, from: number, to: number, weight = this.#time(to) - this.#time(from)): void {
    if (kind === 'sync') {
      const key = from * 2 ** 26 + to;
      if (this.#syncs.has(key)) return;
      this.#syncs.add(key);
    }
    this.#graph.add(edgeKindNumber[kind], this.#base + from, this.#base + to, weight);
  }

  #addThreads(): void {
    const { host } = this.#work;
    const threads = new Map<number, number[]>();
    for (let row = 0; row < host.length; row++) {
      if (this.#inside[row] !== 1) continue;
      const thread = host.columns.thread[row] as number;
      const rows = threads.get(thread) ?? [];
      threads.set(thread, rows);
      rows.push(row);
    }
    if (!this.#isComplete) joinForwardAndBackward(threads, this.#work, this.#inside);
    const launching = [...threads].filter(([thread]) => this.#pausing.has(thread)).map(([, rows]) => rows);
    const turns = threadTurns(host, launching, this.#begin);
    let last: readonly number[] = [];
    for (const [thread, rows] of threads) {
      const ends = this.#addThread(rows, this.#pausing.has(thread), turns);
      if (this.#pausing.has(thread) && this.#timeOfFirst(ends) > this.#timeOfFirst(last)) last = ends;
    }
    // The thread that goes on longest makes the step's end.
    if (this.#timeOfFirst(last) <= this.#end && last.length > 0) this.#addPause([...last, 2 * (this.#hosts + this.#works) + 1]);
  }

  #timeOfFirst([node]: readonly number[]): number {
    return node === undefined ? Number.NEGATIVE_INFINITY : this.#time(node);
  }

  /** The time between a thread's outermost ops, by the begins and ends of annotations in it. */
  #addPause(nodes: readonly number[]): void {
    for (let at = 1; at < nodes.length; at++) this.#add('dependency', nodes[at - 1] as number, nodes[at] as number);
  }

  /**
   * Edges along the begins and ends of a thread's ops and calls, in the order of their nesting. Returns the end of its last outermost one, and the begins and
   * ends of annotations behind it within the stretch; nothing without an op.
   */
  #addThread(rows: readonly number[], hasPauses: boolean, turns: ReadonlyMap<number, number>): readonly number[] {
    const { host, names } = this.#work;
    let last = -1;
    const begin = 2 * (this.#hosts + this.#works);
    /** The end of the last outermost op, and the begins and ends of annotations since then. */
    let pause = hasPauses ? [begin] : [];
    let depth = 0;
    const { kind, name } = host.columns;
    const isBlocking = names.matching(this.#isComplete ? waitingCall : htaBlockingCall);
    const isNode = (row: number): boolean => kind[row] === hostKind.op || kind[row] === hostKind.call;
    const splits = (row: number): boolean => hasPauses && depth === 0 && kind[row] === hostKind.annotation;
    const enter = (row: number): void => {
      if (!isNode(row)) {
        if (splits(row)) pause.push(2 * row);
        return;
      }
      const other = depth === 0 ? turns.get(row) : undefined;
      if (depth === 0 && pause[0] !== undefined) {
        if (hasPauses && other === undefined) this.#addPause([...pause, 2 * row]);
        else this.#add('dependency', pause[0], 2 * row, 0);
      }
      if (other !== undefined) this.#add('dependency', 2 * other + 1, 2 * row);
      depth++;
      if (last >= 0) this.#add('op', last, 2 * row);
      last = 2 * row;
    };
    const leave = (row: number): void => {
      if (!isNode(row)) {
        if (splits(row) && (this.#hostEnd[row] as number) <= this.#end) pause.push(2 * row + 1);
        return;
      }
      depth--;
      const end = 2 * row + 1;
      if (last >= 0) this.#addEnd(row, last, isBlocking[name[row] as number] === 1);
      last = depth === 0 ? -1 : end;
      if (depth === 0) pause = [end];
    };
    walkNested(rows, host.columns, enter, leave);
    return pause[0] === begin ? [] : pause;
  }

  /** The edge to the end of an op or call: its own time, or none of it where it waited for a device. */
  #addEnd(row: number, from: number, isBlocking: boolean): void {
    const blocked = this.#blocked.get(row);
    // Work of an earlier stretch has no node: the time for which it held the call is its own.
    if (blocked !== undefined && !this.has(blocked.room)) this.#add('kernel', from, 2 * row + 1);
    else this.#add('op', from, 2 * row + 1, isBlocking || this.#copiedBy.has(row) || blocked !== undefined ? 0 : undefined);
  }

  #addStreams(): void {
    const { work, names, streams } = this.#work;
    const { columns } = work;
    const queue = this.#isComplete ? undefined : queueLengths(this.#work);
    const rows: number[] = [];
    for (let row = 0; row < work.length; row++) {
      const onHost = (streams[columns.stream[row] as number] as WorkStream).stream < 0;
      const text = columns.kind[row] === kindOf.sync ? names.text(columns.name[row] as number) : '';
      if (this.#inside[this.#hosts + row] === 1 && (!onHost || text === 'Event Sync' || text === 'Context Sync')) rows.push(row);
    }
    // A wait counts when it ends: the work that it waits for may begin after it.
    const placeOf = (row: number): number => (columns.kind[row] === kindOf.sync ? columns.end[row] : columns.start[row]) as number;
    rows.sort((a, b) => placeOf(a) - placeOf(b) || a - b);
    let events: EventWaits | undefined;
    /** Row of the last work on each stream. */
    const last = new Map<number, number>();
    /** By row of work: the row of the work that it waits for. */
    const waitsFor = new Map<number, number>();
    for (const row of rows) {
      if (columns.kind[row] === kindOf.sync) {
        events ??= new EventWaits(this.#work);
        this.#addSync(row, last, waitsFor, events);
      } else this.#addKernel(row, last, waitsFor, queue);
    }
  }

  #nodeOf(row: number): number {
    return 2 * (this.#hosts + row);
  }

  /** Time of a kernel's own work: in a collective, from the moment on at which the last rank came in. */
  #lengthOf(row: number): number {
    const { start, end } = this.#work.work.columns;
    const lastIn = this.#lastIn?.[row] ?? Number.NaN;
    return (end[row] as number) - (lastIn > (start[row] as number) ? Math.min(lastIn, end[row] as number) : (start[row] as number));
  }

  #addSync(row: number, last: ReadonlyMap<number, number>, waitsFor: Map<number, number>, events: EventWaits): void {
    const { work, names } = this.#work;
    const call = this.#work.callOf(row);
    if (call < 0 || this.#inside[call] !== 1) return;
    const name = names.text(work.columns.name[row] as number);
    if (name === 'Stream Sync' || name === 'Context Sync') {
      const stream = work.columns.stream[row] as number;
      const ended = name === 'Context Sync' ? [...last.values()] : [last.get(stream)];
      for (const before of ended) if (before !== undefined) this.#add('sync', this.#nodeOf(before) + 1, 2 * call + 1, 0);
      return;
    }
    const source = events.sourceOf(row);
    if (source < 0) return;
    if (name === 'Stream Wait Event') {
      const next = events.nextAfter(call, work.columns.stream[row] as number);
      if (next >= 0) waitsFor.set(next, source);
    } else if (this.#inside[this.#hosts + source] === 1) this.#add('sync', this.#nodeOf(source) + 1, 2 * call + 1, 0);
  }

  #addKernel(row: number, last: Map<number, number>, waitsFor: ReadonlyMap<number, number>, queue: QueueLengths | undefined): void {
    const { work } = this.#work;
    const node = this.#nodeOf(row);
    const stream = work.columns.stream[row] as number;
    this.#add('kernel', node, node + 1, this.#lengthOf(row));
    const source = waitsFor.get(row);
    const isWaiting = source !== undefined && this.#inside[this.#hosts + source] === 1;
    const sourceEnd = isWaiting ? (work.columns.end[source] as number) : Number.NEGATIVE_INFINITY;
    if (isWaiting) this.#add('sync', this.#nodeOf(source) + 1, node, 0);
    const call = this.#work.callOf(row);
    const before = last.get(stream);
    if (queue === undefined) this.#addHolders(row, call, before);
    else this.#addHtaHolder(row, call, before, sourceEnd, queue);
    last.set(stream, row);
  }

  /** Calls that wait for a device end with the work that ended last during them, those that copy as their copy goes on, and launches with room. */
  #addWaits(): void {
    this.#isWaiting = this.#copiedBy.size > 0 || [...this.#blocked.keys()].some((call) => this.#inside[call] === 1);
    for (const [call, row] of this.#copiedBy) this.#add('kernel', this.#nodeOf(row), 2 * call + 1);
    for (const { call, room } of this.#blocked.values())
      if (this.#inside[call] === 1 && this.has(room)) this.#add('sync', this.#nodeOf(room), 2 * call + 1, 0);
    const { host, work, names } = this.#work;
    const { byEnd } = this.#holders;
    const ends = Float64Array.from(byEnd, (row) => work.columns.end[row] as number);
    const isWaiting = names.matching(waitingCall);
    for (let call = 0; call < host.length; call++) {
      if (this.#inside[call] !== 1 || isWaiting[host.columns.name[call] as number] !== 1) continue;
      this.#isWaiting = true;
      const at = lastUpTo(ends, host.columns.end[call] as number);
      const row = byEnd[at];
      if (row === undefined || !this.has(row) || (ends[at] as number) <= (host.columns.start[call] as number)) continue;
      // From the end of the work on, the call is the host's.
      this.#add('sync', this.#nodeOf(row) + 1, 2 * call + 1);
    }
  }

  /** HTA's reason why work begins when it does: its launch, or the work before it. */
  #addHtaHolder(row: number, call: number, before: number | undefined, sourceEnd: number, { atCall, atStart }: QueueLengths): void {
    const { work, host } = this.#work;
    const called = host.columns.start[call] as number;
    const lastEnd = before === undefined ? Number.NEGATIVE_INFINITY : (work.columns.end[before] as number);
    if (atCall[row] === 1 && atStart[row] === 0 && lastEnd < called && sourceEnd < called) {
      if (this.#inside[call] === 1) this.#add('launch', 2 * call, this.#nodeOf(row));
    } else if (before !== undefined && sourceEnd < lastEnd && (work.columns.start[row] as number) - lastEnd <= limits.gpuPathGapNsMax) {
      this.#add('gap', this.#nodeOf(before) + 1, this.#nodeOf(row));
    }
  }

  /** All that may have held back work: its launch, the work before it on its stream, its data, and the work that ended just before it began. */
  #addHolders(row: number, call: number, before: number | undefined): void {
    const { work, host } = this.#work;
    const { start, end } = work.columns;
    const called = host.columns.start[call] as number;
    const isAfterCall = (of: number): boolean => of >= 0 && (end[of] as number) > called;
    const node = this.#nodeOf(row);
    if (before !== undefined) this.#add('gap', this.#nodeOf(before) + 1, node);
    const until = this.#heldUntil(row, call);
    const isLaunched = this.#inside[call] === 1 && !isAfterCall(this.#holders.before[row] as number) && until === Number.NEGATIVE_INFINITY;
    if (isLaunched) this.#add('launch', 2 * call, node);
    const holds = (of: number): boolean => isAfterCall(of) && this.has(of) && (end[of] as number) >= until;
    const awaited = (this.#holders.awaited.get(row) ?? []).filter(holds);
    for (const source of awaited) if (source !== before) this.#add('gap', this.#nodeOf(source) + 1, node);
    const ended = this.#holders.ended[row] as number;
    if (ended === before || awaited.includes(ended) || !holds(ended)) return;
    // Traces may lack waits for events of other streams; what ended within some µs before tells them, or whenever, if nothing else held it back.
    const isNext = (start[row] as number) - (end[ended] as number) <= limits.gpuKernelGapNsMax;
    if (isNext || (before === undefined && !isLaunched && awaited.length === 0)) this.#add('gap', this.#nodeOf(ended) + 1, node);
  }

  /** Until when work of an earlier stretch held back the work in `row`: work of its stream, or what ended just before it; else −∞. The path begins there. */
  #heldUntil(row: number, call: number): number {
    const { start, end } = this.#work.work.columns;
    const [before, ended] = [this.#holders.before[row] ?? -1, this.#holders.ended[row] ?? -1];
    const isEarlier = (of: number): boolean => of >= 0 && !this.has(of) && (end[of] as number) > (this.#hostStart[call] as number);
    if (isEarlier(before)) return end[before] as number;
    const isNext = isEarlier(ended) && (start[row] as number) - (end[ended] as number) <= limits.gpuKernelGapNsMax;
    return isNext ? (end[ended] as number) : Number.NEGATIVE_INFINITY;
  }

  #boundOf(kind: EdgeKind, from: number, weight: number): PathBound {
    if (kind === 'gap' || kind === 'launch') return kind;
    if (weight === 0 && (kind === 'sync' || kind === 'dependency')) return 'none';
    if (kind !== 'kernel') return 'cpu';
    const bound = boundOfClass(this.#work.work.columns.class[this.#workOf(from >> 1)] as number);
    return bound === 'copy' && !this.#isComplete ? 'compute' : bound;
  }

  /** An op's edge lies in the span that it begins in or ends with, a kernel's in that kernel; any other is named after where it leads. */
  #nameOf(kind: EdgeKind, from: number, to: number): number {
    const row = this.#rowOf(kind, from, to);
    const { host, work } = this.#work;
    return (row < this.#hosts ? host.columns.name[row] : work.columns.name[row - this.#hosts]) as number;
  }

  #rowOf(kind: EdgeKind, from: number, to: number): number {
    const isWithin = kind === 'kernel' || (kind === 'op' && (from & 1) === 0) || to >> 1 === this.#hosts + this.#works;
    const row = (isWithin ? from : to) >> 1;
    return kind === 'kernel' ? this.#hosts + this.#workOf(row) : row;
  }

  /** Row of the work of a kernel's edge, which begins with it, or with the launch that waited for it. */
  #workOf(row: number): number {
    return row < this.#hosts ? (this.#blocked.get(row) as BlockedLaunch).running : row - this.#hosts;
  }
}
