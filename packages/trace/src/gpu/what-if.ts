// The worth of a part of the critical path: how much earlier the step would end if all work of one kind took no time, or half of it.
//
//   stream 7   gemm ██████████│ gemm at half saves less than half of its length: then the all-reduce
//   stream 23  all_reduce ████████│ holds the step back
//
// The graph is run again, forward: each node comes when the last of the nodes before it allows it. The lag of an edge is the length of what it stands
// for. The edge that held a node back in the recording takes all of the time between its two nodes, so a replay without a change gives the recorded
// times. An edge that held nothing back has at least the shortest lag of its kind.
//
// Invariant: nodes that nothing before them holds back keep their times, so a saving is what is certain to follow from the recording.

/** Edges as columns. Nodes are 0 … `times.length` − 1. */
export interface LaggedGraph {
  /** By node: its recorded time, ns. */
  readonly times: Float64Array;
  /** By node: 1 where the step may end with it. */
  readonly isEnd: Uint8Array;
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  /** By edge: the least time between its nodes, ns. */
  readonly lags: Float64Array;
  /** By edge: the part of the work that it belongs to, -1 for none. */
  readonly parts: Int32Array;
}

export class WhatIf {
  readonly #graph: LaggedGraph;
  readonly #lags: Float64Array;
  /** Edges in an order in which every edge comes after all edges into its first node. */
  readonly #order: Uint32Array;
  readonly #hasEdge: Uint8Array;
  readonly #end: number;

  constructor(graph: LaggedGraph) {
    const { times, from, to, lags } = graph;
    this.#graph = graph;
    this.#lags = lags.slice();
    this.#hasEdge = new Uint8Array(times.length);
    this.#order = edgeOrder(times.length, from, to);
    for (const edge of this.#order) this.#hasEdge[to[edge] as number] = 1;
    const holder = new Int32Array(times.length).fill(-1);
    for (const edge of this.#order) {
      const [gap, at] = [this.#gapOf(edge), to[edge] as number];
      // Clocks and rounding may let a node come too early for an edge.
      if ((this.#lags[edge] as number) > gap) this.#lags[edge] = gap;
      const known = holder[at] as number;
      if (known < 0 || gap - (this.#lags[edge] as number) < this.#gapOf(known) - (this.#lags[known] as number)) holder[at] = edge;
    }
    for (const edge of holder) if (edge >= 0) this.#lags[edge] = this.#gapOf(edge);
    this.#end = this.#run(() => false, 1);
  }

  /** ns by which the step ends earlier when the edges of these parts take `factor` of their time. */
  saving(isChanged: (part: number) => boolean, factor: number): number {
    return Math.max(0, this.#end - this.#run(isChanged, factor));
  }

  #gapOf(edge: number): number {
    const { times, from, to } = this.#graph;
    return (times[to[edge] as number] as number) - (times[from[edge] as number] as number);
  }

  /** Time of the step's end. */
  #run(isChanged: (part: number) => boolean, factor: number): number {
    const { times, isEnd, from, to, parts } = this.#graph;
    const come = Float64Array.from(times, (time, node) => (this.#hasEdge[node] === 1 ? Number.NEGATIVE_INFINITY : time));
    for (const edge of this.#order) {
      const lag = this.#lags[edge] as number;
      const part = parts[edge] as number;
      const takes = part >= 0 && lag > 0 && isChanged(part) ? factor * lag : lag;
      const time = (come[from[edge] as number] as number) + takes;
      if (time > (come[to[edge] as number] as number)) come[to[edge] as number] = time;
    }
    let end = Number.NEGATIVE_INFINITY;
    for (let node = 0; node < come.length; node++) if (isEnd[node] === 1) end = Math.max(end, come[node] as number);
    return end;
  }
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
