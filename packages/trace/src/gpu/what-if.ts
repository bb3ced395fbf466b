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

export class WhatIf {
  /** Edges in an order in which every edge comes after all edges into its first node. */
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

  constructor(graph: LaggedGraph) {
    const { times, from, to, isEnd, parts } = graph;
    const order = edgeOrder(times.length, from, to);
    // Plain loops: with a callback for each of a million edges, this took longer than all replays.
    const froms = new Uint32Array(order.length);
    const tos = new Uint32Array(order.length);
    const lags = new Float64Array(order.length);
    const ofPart = new Uint32Array(order.length);
    for (let at = 0; at < order.length; at++) {
      const edge = order[at] as number;
      froms[at] = from[edge] as number;
      tos[at] = to[edge] as number;
      lags[at] = graph.lags[edge] as number;
    }
    const gapOf = (at: number): number => (times[tos[at] as number] as number) - (times[froms[at] as number] as number);
    const holder = new Int32Array(times.length).fill(-1);
    const begins = times.slice();
    for (let at = 0; at < order.length; at++) {
      const gap = gapOf(at);
      const node = tos[at] as number;
      begins[node] = Number.NEGATIVE_INFINITY;
      // Clocks and rounding may let a node come too early for an edge.
      if ((lags[at] as number) > gap) lags[at] = gap;
      const known = holder[node] as number;
      if (known < 0 || gap - (lags[at] as number) < gapOf(known) - (lags[known] as number)) holder[node] = at;
    }
    const [ends, firstEnds]: [number[], number[]] = [[], []];
    for (let node = 0; node < times.length; node++) {
      const at = holder[node] as number;
      if (at >= 0) lags[at] = gapOf(at);
      if (isEnd[node] === pathEnd.step) ends.push(node);
      else if (isEnd[node] === pathEnd.firstStep) firstEnds.push(node);
    }
    let partsMax = 0;
    for (let at = 0; at < order.length; at++) {
      const part = (parts[order[at] as number] as number) + 1;
      if (part > partsMax) partsMax = part;
      if ((lags[at] as number) > 0) ofPart[at] = part;
    }
    this.#from = froms;
    this.#to = tos;
    this.#lags = lags;
    this.#parts = ofPart;
    this.#partsMax = partsMax;
    this.#begins = begins;
    this.#ends = Uint32Array.from(ends);
    this.#firstEnds = Uint32Array.from(firstEnds);
  }

  /** For each change, ns by which the step is shorter. Yields after each pass over the graph. */
  *savings(changes: readonly Change[]): Generator<void, number[]> {
    const saved: number[] = [];
    this.#length ??= this.#run([])[0] as number;
    const changesPerPass = Math.max(1, Math.min(changesPerPassMax, Math.floor(timesMax / this.#begins.length)));
    for (let first = 0; first < changes.length; first += changesPerPass) {
      yield;
      for (const length of this.#run(changes.slice(first, first + changesPerPass))) saved.push(Math.max(0, this.#length - length));
    }
    return saved;
  }

  /** The step's end by change, without any that of the recording; of several steps, the mean length of those after the first. */
  #run(changes: readonly Change[]): readonly number[] {
    const count = Math.max(1, changes.length);
    const [from, to, lags, parts] = [this.#from, this.#to, this.#lags, this.#parts];
    // By part + 1, then change.
    const factors = new Float64Array((this.#partsMax + 1) * count).fill(1);
    for (const [change, { isChanged, factor }] of changes.entries()) {
      for (let part = 0; part < this.#partsMax; part++) if (isChanged[part] === 1) factors[(part + 1) * count + change] = factor;
    }
    const come = new Float64Array(this.#begins.length * count);
    for (let node = 0, at = 0; node < this.#begins.length; node++) {
      const begin = this.#begins[node] as number;
      for (let change = 0; change < count; change++) come[at++] = begin;
    }
    for (let edge = 0; edge < from.length; edge++) {
      const lag = lags[edge] as number;
      const before = (from[edge] as number) * count;
      const after = (to[edge] as number) * count;
      const factor = (parts[edge] as number) * count;
      for (let change = 0; change < count; change++) {
        const time = (come[before + change] as number) + (factors[factor + change] as number) * lag;
        if (time > (come[after + change] as number)) come[after + change] = time;
      }
    }
    const last = lastOf(this.#ends, come, count);
    if (this.#firstEnds.length === 0) return last;
    const first = lastOf(this.#firstEnds, come, count);
    return last.map((end, change) => (end - (first[change] as number)) / (overlappingSteps - 1));
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

/** Edges of a cycle, which only broken clocks make, are left out. */
function edgeOrder(nodes: number, from: Uint32Array, to: Uint32Array): Uint32Array {
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
  const order = new Uint32Array(from.length);
  const ready: number[] = [];
  for (let node = 0; node < nodes; node++) if (left[node] === 0) ready.push(node);
  let count = 0;
  for (let at = 0; at < ready.length; at++) {
    const node = ready[at] as number;
    for (let out = firsts[node] as number; out < (firsts[node + 1] as number); out++) {
      const edge = outOf[out] as number;
      order[count++] = edge;
      const after = to[edge] as number;
      left[after] = (left[after] as number) - 1;
      if (left[after] === 0) ready.push(after);
    }
  }
  return order.subarray(0, count);
}
