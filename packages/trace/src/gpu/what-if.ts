// The worth of a part of the critical path: how much earlier the step would end if all work of one kind took no time, or half of it.
//
//   stream 7   gemm ██████████│ gemm at half saves less than half of its length: then the all-reduce
//   stream 23  all_reduce ████████│ holds the step back
//
// The graph is run again, forward: each node comes when the last of the nodes before it allows it. The lag of an edge is the length of what it stands
// for. The edge that held a node back in the recording takes all of the time between its two nodes, so a replay without a change gives the recorded
// times. An edge that held nothing back has at least the shortest lag of its kind.
//
// With steps that overlap, the graph has several: a saving counts by how much sooner they follow each other, not by how much sooner the first ends.
//
// Invariant: nodes that nothing before them holds back keep their times, so a saving is what is certain to follow from the recording.

import { overlappingSteps, pathEnd } from './path-edges.ts';

/** Edges as columns. Nodes are 0 … `times.length` − 1. */
export interface LaggedGraph {
  /** By node: its recorded time, ns. */
  readonly times: Float64Array;
  /** By node: the `pathEnd` that it may be. */
  readonly isEnd: Uint8Array;
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  /** By edge: the least time between its nodes, ns. */
  readonly lags: Float64Array;
  /** By edge: the part of the work that it belongs to, -1 for none. */
  readonly parts: Int32Array;
}

/** A change of the work: edges of the parts with 1 in `isChanged` take `factor` of their time. */
export interface Change {
  readonly isChanged: Uint8Array;
  readonly factor: number;
}

/** Most changes that one pass over the edges replays: then the times of a node fill one line of the processor's cache. */
const changesPerPassMax = 8;
/** Most times of one pass. */
const timesMax = 1 << 22;
/** Nodes or edges of a call: many short calls are compiled once, where one long loop runs uncompiled, up to 30 times slower, for most of its time. */
const perCall = 256;

export class WhatIf {
  /**
   * Edges in the order of their first nodes. Nodes have the numbers of their order: every edge into a node comes before all edges out of it, and what
   * follows a node mostly comes next, as memory is read fastest.
   */
  readonly #from: Uint32Array;
  readonly #to: Uint32Array;
  readonly #lags: Float64Array;
  /** By edge: its part + 1; 0 where no change applies. */
  readonly #parts: Uint32Array;
  readonly #partsMax: number;
  /** By node: its time where nothing holds it back, else −∞. */
  readonly #begins: Float64Array;
  /** Nodes with which the step may end; of several steps, the last and the first. */
  readonly #ends: Uint32Array;
  readonly #firstEnds: Uint32Array;
  #length: number | undefined;

  constructor({ times, from, to, isEnd, parts, lags }: LaggedGraph) {
    const { numbers, edges } = forwardOrder(times.length, from, to);
    // Plain loops: with a callback for each of a million edges, this took longer than all replays.
    const froms = new Uint32Array(edges.length);
    const tos = new Uint32Array(edges.length);
    const gaps = new Float64Array(edges.length);
    const least = new Float64Array(edges.length);
    /** By node: the edge into it that leaves it the least time to spare, the first one that was given. */
    const holder = new Int32Array(times.length).fill(-1);
    for (let at = 0; at < edges.length; at++) {
      const edge = edges[at] as number;
      const node = numbers[to[edge] as number] as number;
      const gap = (times[to[edge] as number] as number) - (times[from[edge] as number] as number);
      froms[at] = numbers[from[edge] as number] as number;
      tos[at] = node;
      gaps[at] = gap;
      // Clocks and rounding may let a node come too early for an edge.
      const lag = Math.min(lags[edge] as number, gap);
      least[at] = lag;
      const known = holder[node] as number;
      const spare = known < 0 ? Number.POSITIVE_INFINITY : (gaps[known] as number) - (least[known] as number);
      if (gap - lag < spare || (gap - lag === spare && edge < (edges[known] as number))) holder[node] = at;
    }
    const begins = new Float64Array(times.length);
    const [ends, firstEnds]: [number[], number[]] = [[], []];
    for (let given = 0; given < times.length; given++) {
      const node = numbers[given] as number;
      const at = holder[node] as number;
      begins[node] = at < 0 ? (times[given] as number) : Number.NEGATIVE_INFINITY;
      if (at >= 0) least[at] = gaps[at] as number;
      if (isEnd[given] === pathEnd.step) ends.push(node);
      else if (isEnd[given] === pathEnd.firstStep) firstEnds.push(node);
    }
    const ofPart = new Uint32Array(edges.length);
    let partsMax = 0;
    for (let at = 0; at < edges.length; at++) {
      const part = (parts[edges[at] as number] as number) + 1;
      if (part > partsMax) partsMax = part;
      if ((least[at] as number) > 0) ofPart[at] = part;
    }
    this.#from = froms;
    this.#to = tos;
    this.#lags = least;
    this.#parts = ofPart;
    this.#partsMax = partsMax;
    this.#begins = begins;
    this.#ends = Uint32Array.from(ends);
    this.#firstEnds = Uint32Array.from(firstEnds);
  }

  /** For each change, ns by which the step is shorter. Yields after each pass over the graph. */
  *savings(changes: readonly Change[]): Generator<void, number[]> {
    const saved: number[] = [];
    const changesPerPass = Math.max(1, Math.min(changesPerPassMax, changes.length, Math.floor(timesMax / this.#begins.length)));
    // Used by all passes: memory that is new costs more than what is computed in it.
    const come = new Float64Array(this.#begins.length * changesPerPass);
    this.#length ??= this.#run([], come)[0] as number;
    for (let first = 0; first < changes.length; first += changesPerPass) {
      yield;
      for (const length of this.#run(changes.slice(first, first + changesPerPass), come)) saved.push(Math.max(0, this.#length - length));
    }
    return saved;
  }

  /**
   * The step's end by change, without any that of the recording; of several steps, the mean length of those after the first. `come` has room for the
   * times of all nodes, by node, then change.
   */
  #run(changes: readonly Change[], come: Float64Array): readonly number[] {
    const count = Math.max(1, changes.length);
    // By part + 1, then change.
    const factors = new Float64Array((this.#partsMax + 1) * count).fill(1);
    for (const [change, { isChanged, factor }] of changes.entries()) {
      for (let part = 0; part < this.#partsMax; part++) if (isChanged[part] === 1) factors[(part + 1) * count + change] = factor;
    }
    for (let node = 0; node < this.#begins.length; node += perCall) this.#begin(come, count, node);
    for (let edge = 0; edge < this.#from.length; edge += perCall) this.#replay(come, factors, count, edge);
    const last = lastOf(this.#ends, come, count);
    if (this.#firstEnds.length === 0) return last;
    const first = lastOf(this.#firstEnds, come, count);
    return last.map((end, change) => (end - (first[change] as number)) / (overlappingSteps - 1));
  }

  /** Sets the times of `perCall` nodes to those without an edge. */
  #begin(come: Float64Array, count: number, first: number): void {
    const end = Math.min(this.#begins.length, first + perCall);
    for (let node = first; node < end; node++) {
      const begin = this.#begins[node] as number;
      for (let change = 0; change < count; change++) come[node * count + change] = begin;
    }
  }

  /** Follows `perCall` edges. */
  #replay(come: Float64Array, factors: Float64Array, count: number, first: number): void {
    const [from, to, lags, parts] = [this.#from, this.#to, this.#lags, this.#parts];
    const end = Math.min(from.length, first + perCall);
    for (let edge = first; edge < end; edge++) {
      const lag = lags[edge] as number;
      const before = (from[edge] as number) * count;
      const after = (to[edge] as number) * count;
      const factor = (parts[edge] as number) * count;
      for (let change = 0; change < count; change++) {
        const time = (come[before + change] as number) + (factors[factor + change] as number) * lag;
        if (time > (come[after + change] as number)) come[after + change] = time;
      }
    }
  }
}

/** The last time of these nodes, by change. */
function lastOf(nodes: Uint32Array, come: Float64Array, changes: number): number[] {
  const last = new Array<number>(changes).fill(Number.NEGATIVE_INFINITY);
  for (let at = 0; at < nodes.length; at++) {
    const node = (nodes[at] as number) * changes;
    for (let change = 0; change < changes; change++) last[change] = Math.max(last[change] as number, come[node + change] as number);
  }
  return last;
}

/**
 * `numbers`: by node, its place in an order in which edges lead forward, from a node to the one that it lets come wherever that is possible. `edges`: in
 * the order of the nodes that they lead from. Nodes of a cycle, which only broken clocks make, and those behind it are last, without the edges out of them.
 */
function forwardOrder(nodes: number, from: Uint32Array, to: Uint32Array): { readonly numbers: Uint32Array; readonly edges: Uint32Array } {
  const left = new Uint32Array(nodes);
  const firsts = new Uint32Array(nodes + 1);
  for (let edge = 0; edge < from.length; edge++) {
    left[to[edge] as number] = (left[to[edge] as number] as number) + 1;
    firsts[(from[edge] as number) + 1] = (firsts[(from[edge] as number) + 1] as number) + 1;
  }
  for (let node = 0; node < nodes; node++) firsts[node + 1] = (firsts[node + 1] as number) + (firsts[node] as number);
  const next = firsts.slice();
  const outOf = new Uint32Array(from.length);
  for (let edge = 0; edge < from.length; edge++) {
    const place = next[from[edge] as number] as number;
    outOf[place] = edge;
    next[from[edge] as number] = place + 1;
  }
  const ready: number[] = [];
  for (let node = nodes - 1; node >= 0; node--) if (left[node] === 0) ready.push(node);
  const numbers = new Uint32Array(nodes);
  const edges = new Uint32Array(from.length);
  let [number, count] = [0, 0];
  for (let node = ready.pop(); node !== undefined; node = ready.pop()) {
    numbers[node] = number++;
    for (let out = firsts[node] as number; out < (firsts[node + 1] as number); out++) {
      const edge = outOf[out] as number;
      edges[count++] = edge;
      const after = to[edge] as number;
      left[after] = (left[after] as number) - 1;
      if (left[after] === 0) ready.push(after);
    }
  }
  for (let node = 0; node < nodes; node++) if (left[node] !== 0) numbers[node] = number++;
  return { numbers, edges: edges.subarray(0, count) };
}
