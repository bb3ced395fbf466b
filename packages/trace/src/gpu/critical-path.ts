// The critical path of one rank, as HTA defines it: the longest way through the begins and ends of ops, calls and device work in a stretch of time.
//
//   host      linear ┬─ addmm ┬─ launch ┬──┴──┴─ …  synchronize ─────┬
//                    op       op        │launch                      │ sync
//   stream 7                            └──► gemm ──── gap ──► gemm ─┘
//
//   edge            from → to                                                weight
//   op              next begin or end within the ops of a thread             time between them; 0 for the end of a call that waits
//   kernel          begin → end of device work                               its length
//   launch          call → work that found an empty queue                    time between them
//   gap             end of work → begin of the next on its stream            time between them; none where it is longer than 1.5 ms
//   dependency      end of a thread's outermost op → begin of its next one   0
//   sync            end of work → end of the call, or begin of the work, that waits for it   0
//
// Source: hta/analyzers/critical_path_analysis.py (facebookresearch/HolisticTraceAnalysis @f4d0062); ties are resolved as networkx's
// dag_longest_path resolves them.

import { hostKind, type RankWork, type WorkStream } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { classOf, kindOf } from './kernel-class.ts';

export const edgeKinds = ['op', 'kernel', 'launch', 'gap', 'dependency', 'sync'] as const;
export type EdgeKind = (typeof edgeKinds)[number];

/** What bounds an edge of the path. */
export const pathBounds = ['cpu', 'compute', 'communication', 'gap', 'launch', 'none'] as const;
export type PathBound = (typeof pathBounds)[number];

/** One edge of the path. */
export interface PathEdge {
  readonly kind: EdgeKind;
  readonly bound: PathBound;
  /** ns; below 0 where a clock error lets work begin before its call. */
  readonly weight: number;
  /** Name of the span or work in which it lies, or which it leads to. */
  readonly name: string;
}

export interface CriticalPath {
  readonly nodes: number;
  readonly edges: number;
  /** The longest path, in order. */
  readonly path: readonly PathEdge[];
  /** Time on the path by what bounds it, ns. */
  readonly byBound: Readonly<Record<PathBound, number>>;
}

/** Calls that wait for the device: their own length is the device's. */
const blockingCalls: ReadonlySet<string> = new Set([
  ...['cudaDeviceSynchronize', 'cudaStreamSynchronize', 'cudaEventQuery', 'cudaEventSynchronize', 'cudaMemcpy'],
]);

const launchCall = /^(?:cudaLaunchKernel(?:ExC)?|cuLaunchKernel|cudaMem(?:cpy|set)Async|hipLaunchKernel)$/;

/** The path through events of the host that begin between `from` and `until`, and the work that they launched; undefined without any. */
export function criticalPath(work: RankWork, from: number, until: number): CriticalPath | undefined {
  const graph = new PathGraph(work, from, until);
  return graph.edges === 0 ? undefined : graph.longest();
}

/** Nodes: 2 × row for the begin, and the next for the end; rows of the host first, then rows of work. */
class PathGraph {
  readonly #work: RankWork;
  readonly #hosts: number;
  readonly #inside: Uint8Array;
  /** By node: its place + 1 in `#nodes`, which has nodes in order of their first edge. */
  readonly #places: Uint32Array;
  readonly #nodes: number[] = [];
  /** Edges in order of addition: places of their nodes, kinds by number, ns. */
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  readonly #kinds: number[] = [];
  readonly #weights: number[] = [];
  /** Edges of waits by their nodes: several waits may be one edge. */
  readonly #syncs = new Map<number, number>();

  constructor(work: RankWork, from: number, until: number) {
    this.#work = work;
    this.#hosts = work.host.length;
    this.#places = new Uint32Array(2 * (this.#hosts + work.work.length));
    this.#inside = this.#clip(from, until);
    this.#addThreads();
    this.#addStreams();
  }

  get edges(): number {
    return this.#from.length;
  }

  /** By row: whether a host span or the work begins, or was launched, inside; without events of no length. */
  #clip(from: number, until: number): Uint8Array {
    const { host, work, names } = this.#work;
    const inside = new Uint8Array(this.#hosts + work.length);
    for (let row = 0; row < host.length; row++) {
      const start = host.columns.start[row] as number;
      if (start >= from && start <= until && (host.columns.end[row] as number) > start) inside[row] = 1;
    }
    const wait = names.index('Stream Wait Event');
    // HTA links a call to one piece of work alone: the last of a graph's.
    const taken = new Uint8Array(this.#work.htaCompatible ? host.length : 0);
    for (let row = work.length - 1; row >= 0; row--) {
      const call = this.#work.callOf(row);
      const isLaunched = call >= 0 && inside[call] === 1 && taken[call] !== 1;
      if (isLaunched || work.columns.name[row] === wait) inside[this.#hosts + row] = 1;
      if (call >= 0) taken[call] = 1;
    }
    return inside;
  }

  #time(node: number): number {
    const row = node >> 1;
    const { host, work } = this.#work;
    const [{ columns }, at] = row < this.#hosts ? [host, row] : [work, row - this.#hosts];
    return ((node & 1) === 0 ? columns.start[at] : columns.end[at]) as number;
  }

  #add(kind: EdgeKind, from: number, to: number, isFree = kind === 'dependency' || kind === 'sync'): void {
    const [begin, end] = [this.#placeOf(from), this.#placeOf(to)];
    if (kind === 'sync') {
      const key = begin * 2 ** 26 + end;
      if (this.#syncs.has(key)) return;
      this.#syncs.set(key, this.#from.length);
    }
    this.#from.push(begin);
    this.#to.push(end);
    this.#kinds.push(edgeKinds.indexOf(kind));
    this.#weights.push(isFree ? 0 : this.#time(to) - this.#time(from));
  }

  #placeOf(node: number): number {
    if (this.#places[node] === 0) this.#places[node] = this.#nodes.push(node);
    return (this.#places[node] as number) - 1;
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
    const [forward, backward] = [this.#onlyThread('forward'), this.#onlyThread('autograd')];
    if (forward >= 0 && backward >= 0 && forward !== backward) {
      const both = [...(threads.get(forward) ?? []), ...(threads.get(backward) ?? [])];
      threads.delete(backward);
      threads.set(
        forward,
        both.sort((a, b) => a - b),
      );
    }
    for (const rows of threads.values()) this.#addThread(rows);
  }

  /** The only thread with ops or annotations of such a name: forward and backward take turns, so they count as one. -1 for none. */
  #onlyThread(part: string): number {
    const { host, names } = this.#work;
    const isNamed = names.texts.map((text) => text.includes(part));
    let only = -1;
    for (let row = 0; row < host.length; row++) {
      const { name, kind, thread } = host.columns;
      if (this.#inside[row] !== 1 || kind[row] === hostKind.call || kind[row] === hostKind.module) continue;
      if (isNamed[name[row] as number] !== true || thread[row] === only) continue;
      if (only >= 0) return -1;
      only = thread[row] as number;
    }
    return only;
  }

  /** Edges along the begins and ends of a thread's ops and calls, in the order of their nesting. */
  #addThread(rows: readonly number[]): void {
    const { host, names } = this.#work;
    let last = -1;
    let lastTop = -1;
    let depth = 0;
    const isNode = (row: number): boolean => host.columns.kind[row] === hostKind.op || host.columns.kind[row] === hostKind.call;
    const enter = (row: number): void => {
      if (!isNode(row)) return;
      if (depth === 0 && lastTop >= 0) this.#add('dependency', lastTop, 2 * row);
      depth++;
      if (last >= 0) this.#add('op', last, 2 * row);
      last = 2 * row;
    };
    const leave = (row: number): void => {
      if (!isNode(row)) return;
      depth--;
      const end = 2 * row + 1;
      if (last >= 0) this.#add('op', last, end, blockingCalls.has(names.text(host.columns.name[row] as number)));
      if (depth === 0) [last, lastTop] = [-1, end];
      else last = end;
    };
    walkNested(rows, host.columns, enter, leave);
  }

  #addStreams(): void {
    const { work, names, streams } = this.#work;
    const { columns } = work;
    const queue = queueLengths(this.#work);
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

  #addSync(row: number, last: ReadonlyMap<number, number>, waitsFor: Map<number, number>, events: EventWaits): void {
    const { work, names } = this.#work;
    const call = this.#work.callOf(row);
    if (call < 0 || this.#inside[call] !== 1) return;
    const name = names.text(work.columns.name[row] as number);
    if (name === 'Stream Sync' || name === 'Context Sync') {
      const stream = work.columns.stream[row] as number;
      const ended = name === 'Context Sync' ? [...last.values()] : [last.get(stream)];
      for (const before of ended) if (before !== undefined) this.#add('sync', this.#nodeOf(before) + 1, 2 * call + 1);
      return;
    }
    const source = events.sourceOf(row);
    if (source < 0) return;
    if (name === 'Stream Wait Event') {
      const next = events.nextAfter(call, work.columns.stream[row] as number);
      if (next >= 0) waitsFor.set(next, source);
    } else if (this.#inside[this.#hosts + source] === 1) this.#add('sync', this.#nodeOf(source) + 1, 2 * call + 1);
  }

  #addKernel(row: number, last: Map<number, number>, waitsFor: ReadonlyMap<number, number>, queue: QueueLengths): void {
    const { work, host } = this.#work;
    const node = this.#nodeOf(row);
    const stream = work.columns.stream[row] as number;
    this.#add('kernel', node, node + 1);
    const source = waitsFor.get(row);
    const isWaiting = source !== undefined && this.#inside[this.#hosts + source] === 1;
    const sourceEnd = isWaiting ? (work.columns.end[source] as number) : Number.NEGATIVE_INFINITY;
    if (isWaiting) this.#add('sync', this.#nodeOf(source) + 1, node);
    const call = this.#work.callOf(row);
    const called = host.columns.start[call] as number;
    const before = last.get(stream);
    const lastEnd = before === undefined ? Number.NEGATIVE_INFINITY : (work.columns.end[before] as number);
    const foundEmpty = queue.atCall[row] === 1 && queue.atStart[row] === 0;
    if (foundEmpty && lastEnd < called && sourceEnd < called) {
      if (this.#inside[call] === 1) this.#add('launch', 2 * call, node);
    } else if (before !== undefined && sourceEnd < lastEnd && (work.columns.start[row] as number) - lastEnd <= limits.gpuPathGapNsMax) {
      this.#add('gap', this.#nodeOf(before) + 1, node);
    }
    last.set(stream, row);
  }

  longest(): CriticalPath {
    const byBound: Record<PathBound, number> = { cpu: 0, compute: 0, communication: 0, gap: 0, launch: 0, none: 0 };
    const path = this.#path().map((edge): PathEdge => {
      const kind = edgeKinds[this.#kinds[edge] as number] as EdgeKind;
      const weight = this.#weights[edge] as number;
      const [from, to] = [this.#nodes[this.#from[edge] as number] as number, this.#nodes[this.#to[edge] as number] as number];
      const bound = this.#boundOf(kind, from);
      byBound[bound] += weight;
      return { kind, bound, weight, name: this.#nameOf(kind, from, to) };
    });
    return { nodes: this.#nodes.length, edges: this.edges, path, byBound };
  }

  /** Edges of the longest path. */
  #path(): readonly number[] {
    const { length } = this.#nodes;
    const into = edgesBy(this.#to, length);
    const distance = new Float64Array(length);
    const through = new Int32Array(length).fill(-1);
    let [end, most] = [-1, Number.NEGATIVE_INFINITY];
    for (const node of this.#sorted(into)) {
      let [best, by] = [0, -1];
      for (let at = into.firsts[node] as number; at < (into.firsts[node + 1] as number); at++) {
        const edge = into.edges[at] as number;
        const far = (distance[this.#from[edge] as number] as number) + Math.max(0, this.#weights[edge] as number);
        if (by < 0 || far > best) [best, by] = [far, edge];
      }
      distance[node] = best;
      through[node] = by;
      if (best > most) [end, most] = [node, best];
    }
    const path: number[] = [];
    for (let by = through[end] ?? -1; by >= 0; by = through[this.#from[by] as number] as number) path.push(by);
    return path.reverse();
  }

  /** Nodes so that edges lead forward; those of a cycle, which only broken clocks make, are left out. */
  #sorted(into: EdgesBy): Uint32Array {
    const { length } = this.#nodes;
    const outOf = edgesBy(this.#from, length);
    const left = Uint32Array.from({ length }, (_, node) => (into.firsts[node + 1] as number) - (into.firsts[node] as number));
    const sorted = new Uint32Array(length);
    let count = 0;
    for (let node = 0; node < length; node++) if (left[node] === 0) sorted[count++] = node;
    for (let at = 0; at < count; at++) {
      const node = sorted[at] as number;
      for (let out = outOf.firsts[node] as number; out < (outOf.firsts[node + 1] as number); out++) {
        const to = this.#to[outOf.edges[out] as number] as number;
        left[to] = (left[to] as number) - 1;
        if (left[to] === 0) sorted[count++] = to;
      }
    }
    return sorted.subarray(0, count);
  }

  #boundOf(kind: EdgeKind, from: number): PathBound {
    if (kind === 'gap' || kind === 'launch') return kind;
    if (kind === 'dependency' || kind === 'sync') return 'none';
    if (kind === 'op') return 'cpu';
    return this.#work.work.columns.class[(from >> 1) - this.#hosts] === classOf.communication ? 'communication' : 'compute';
  }

  /** An op's edge lies in the span that it begins in or ends with; any other is named after where it leads. */
  #nameOf(kind: EdgeKind, from: number, to: number): string {
    const row = (kind === 'op' && (from & 1) === 0 ? from : to) >> 1;
    const { host, work, names } = this.#work;
    return names.text((row < this.#hosts ? host.columns.name[row] : work.columns.name[row - this.#hosts]) as number);
  }
}

/** Edges by one of their nodes: those of node n are `edges[firsts[n]]` to `edges[firsts[n + 1] - 1]`, in order of addition. */
interface EdgesBy {
  readonly firsts: Uint32Array;
  readonly edges: Uint32Array;
}

function edgesBy(ends: readonly number[], nodes: number): EdgesBy {
  const firsts = new Uint32Array(nodes + 1);
  for (const node of ends) firsts[node + 1] = (firsts[node + 1] as number) + 1;
  for (let node = 0; node < nodes; node++) firsts[node + 1] = (firsts[node + 1] as number) + (firsts[node] as number);
  const next = firsts.slice();
  const edges = new Uint32Array(ends.length);
  for (const [edge, node] of ends.entries()) {
    const place = next[node] as number;
    edges[place] = edge;
    next[node] = place + 1;
  }
  return { firsts, edges };
}

/**
 * Calls back for the begin and the end of each row, in order of time. An end closes what began last: spans that overlap by an error of rounding change
 * places. Rows have a length.
 */
function walkNested(
  rows: readonly number[],
  { start, end }: { readonly start: Float64Array; readonly end: Float64Array },
  enter: (row: number) => void,
  leave: (row: number) => void,
): void {
  // Rows are in order of start, longest first: begins are sorted.
  const ends = rows.toSorted((a, b) => {
    const [lengthA, lengthB] = [(end[a] as number) - (start[a] as number), (end[b] as number) - (start[b] as number)];
    return (end[a] as number) - (end[b] as number) || lengthA - lengthB || b - a;
  });
  const stack: number[] = [];
  let ended = 0;
  for (const row of rows) {
    for (; ended < ends.length && (end[ends[ended] as number] as number) <= (start[row] as number); ended++) leave(stack.pop() as number);
    stack.push(row);
    enter(row);
  }
  while (stack.length > 0) leave(stack.pop() as number);
}

interface QueueLengths {
  /** By row of work: length of its stream's queue after its call, and after its start; -1: not known. */
  readonly atCall: Int32Array;
  readonly atStart: Int32Array;
}

/** Queues of all streams, counted as HTA counts them. */
function queueLengths(of: RankWork): QueueLengths {
  const { work, host, names } = of;
  const isLaunch = names.texts.map((text) => launchCall.test(text));
  const [atCall, atStart] = [new Int32Array(work.length).fill(-1), new Int32Array(work.length).fill(-1)];
  const streams = new Map<number, number[]>();
  for (let row = 0; row < work.length; row++) {
    const call = of.callOf(row);
    if (call < 0 || isLaunch[host.columns.name[call] as number] !== true) continue;
    const stream = work.columns.stream[row] as number;
    const rows = streams.get(stream);
    if (rows === undefined) streams.set(stream, [row]);
    else rows.push(row);
  }
  const called = (row: number): number => host.columns.start[of.callOf(row)] as number;
  for (const started of streams.values()) {
    // A stream is a queue: work mostly begins in the order of its calls.
    const isInOrder = started.every((row, at) => at === 0 || called(started[at - 1] as number) <= called(row));
    const calls = isInOrder ? started : started.toSorted((a, b) => called(a) - called(b) || a - b);
    let [held, at] = [0, 0];
    for (const row of started) {
      for (; at < calls.length && called(calls[at] as number) <= (work.columns.start[row] as number); at++)
        atCall[calls[at] as number] = ++held;
      atStart[row] = --held;
    }
    for (; at < calls.length; at++) atCall[calls[at] as number] = ++held;
  }
  return { atCall, atStart };
}

/** Waits for CUDA events: what was last launched before an event was recorded, and first launched after a wait for it. */
class EventWaits {
  readonly #work: RankWork;
  /** Calls that launched something, in order, by stream: `host` rows and the work of each. */
  readonly #launches = new Map<number, { readonly call: number; readonly row: number }[]>();
  /** Rows of calls that recorded an event, by correlation. */
  readonly #records = new Map<number, number>();
  readonly #streams = new Map<string, number>();

  constructor(of: RankWork) {
    this.#work = of;
    const { host, work, names, streams } = of;
    for (const [index, { device, stream }] of streams.entries()) this.#streams.set(`${device} ${stream}`, index);
    const isLaunch = names.texts.map((text) => launchCall.test(text));
    for (let row = 0; row < work.length; row++) {
      const call = of.callOf(row);
      if (call < 0 || isLaunch[host.columns.name[call] as number] !== true) continue;
      const stream = work.columns.stream[row] as number;
      const launches = this.#launches.get(stream) ?? [];
      this.#launches.set(stream, launches);
      launches.push({ call, row });
    }
    for (const launches of this.#launches.values()) launches.sort((a, b) => a.call - b.call);
    const record = names.index('cudaEventRecord');
    for (let row = 0; row < host.length; row++) {
      if (host.columns.name[row] === record) this.#records.set(host.columns.correlation[row] as number, row);
    }
  }

  /** Row of the work that a sync waits for, -1 if it is not known. */
  sourceOf(sync: number): number {
    const { work, transfers, streams } = this.#work;
    const transfer = (work.columns.transfer[sync] as number) - 1;
    if (transfer < 0) return -1;
    const record = this.#records.get(transfers.columns.waitsFor[transfer] as number);
    const { device } = streams[work.columns.stream[sync] as number] as WorkStream;
    const stream = this.#streams.get(`${device} ${transfers.columns.waitsOn[transfer] as number}`);
    if (record === undefined || stream === undefined) return -1;
    return this.#launches.get(stream)?.findLast(({ call }) => call < record)?.row ?? -1;
  }

  /** Row of the work that the thread of a call launches next on a stream, -1 for none. */
  nextAfter(wait: number, stream: number): number {
    const { thread } = this.#work.host.columns;
    return this.#launches.get(stream)?.find(({ call }) => call > wait && thread[call] === thread[wait])?.row ?? -1;
  }
}
