// A graph of begins and ends with the longest path through it: edges in columns, nodes numbered in the order of their first edge.
//
// Ties are resolved as networkx's dag_longest_path resolves them: by the order in which edges and nodes were added.

import { ColumnTable } from '../model/column-table.ts';
import { pathEnd } from './path-edges.ts';

/** Places of an edge's nodes, its kind, and its weight. */
const pathEdgeColumns = { from: 'u32', to: 'u32', kind: 'u8', weight: 'f64' } as const;

/** Edges are numbers, in order of addition. */
export class PathGraph {
  /** By node: its place + 1 in `#nodes`. */
  readonly #places: Uint32Array;
  readonly #nodes: Uint32Array;
  #nodeCount = 0;
  readonly #edges = new ColumnTable(pathEdgeColumns);

  /** For nodes 0 … `nodesMax` − 1. */
  constructor(nodesMax: number) {
    this.#places = new Uint32Array(nodesMax);
    this.#nodes = new Uint32Array(nodesMax);
  }

  /** Nodes that have an edge. */
  get nodes(): number {
    return this.#nodeCount;
  }

  get edges(): number {
    return this.#edges.length;
  }

  add(kind: number, from: number, to: number, weight: number): void {
    const edge = this.#edges.add();
    const { columns } = this.#edges;
    columns.from[edge] = this.#placeOf(from);
    columns.to[edge] = this.#placeOf(to);
    columns.kind[edge] = kind;
    columns.weight[edge] = weight;
  }

  edge(edge: number): { readonly kind: number; readonly from: number; readonly to: number; readonly weight: number } {
    const { from, to, kind, weight } = this.#edges.columns;
    const [begin, end] = [this.#nodes[from[edge] as number] as number, this.#nodes[to[edge] as number] as number];
    return { kind: kind[edge] as number, from: begin, to: end, weight: weight[edge] as number };
  }

  /** Number of an edge's kind. */
  kindOf(edge: number): number {
    return this.#edges.columns.kind[edge] as number;
  }

  weightOf(edge: number): number {
    return this.#edges.columns.weight[edge] as number;
  }

  /** Places of the nodes that an edge leads from and to. */
  fromOf(edge: number): number {
    return this.#edges.columns.from[edge] as number;
  }

  toOf(edge: number): number {
    return this.#edges.columns.to[edge] as number;
  }

  /** Edges of the longest path, in order; a weight below 0 counts as 0. */
  longest(): readonly number[] {
    const { from, to, weight } = this.#edges.columns;
    const length = this.#nodeCount;
    const into = edgesBy(to, this.edges, length);
    const distance = new Float64Array(length);
    const through = new Int32Array(length).fill(-1);
    let [end, most] = [-1, Number.NEGATIVE_INFINITY];
    for (const node of this.#sorted(into)) {
      let best = 0;
      let by = -1;
      for (let at = into.firsts[node] as number; at < (into.firsts[node + 1] as number); at++) {
        const edge = into.edges[at] as number;
        const far = (distance[from[edge] as number] as number) + Math.max(0, weight[edge] as number);
        if (by >= 0 && !(far > best)) continue;
        best = far;
        by = edge;
      }
      distance[node] = best;
      through[node] = by;
      if (!(best > most)) continue;
      end = node;
      most = best;
    }
    const path: number[] = [];
    for (let by = through[end] ?? -1; by >= 0; by = through[from[by] as number] as number) path.push(by);
    return path.reverse();
  }

  /** Nodes so that edges lead forward; those of a cycle, which only broken clocks make, are left out. */
  #sorted(into: EdgesBy): Uint32Array {
    const { from, to } = this.#edges.columns;
    const length = this.#nodeCount;
    const outOf = edgesBy(from, this.edges, length);
    const left = new Uint32Array(length);
    const sorted = new Uint32Array(length);
    let count = 0;
    for (let node = 0; node < length; node++) {
      left[node] = (into.firsts[node + 1] as number) - (into.firsts[node] as number);
      if (left[node] === 0) sorted[count++] = node;
    }
    for (let at = 0; at < count; at++) {
      const node = sorted[at] as number;
      for (let out = outOf.firsts[node] as number; out < (outOf.firsts[node + 1] as number); out++) {
        const next = to[outOf.edges[out] as number] as number;
        left[next] = (left[next] as number) - 1;
        if (left[next] === 0) sorted[count++] = next;
      }
    }
    return sorted.subarray(0, count);
  }

  /**
   * Edges of the path back from the latest node that may end it, in order: at each node the way comes from what held it back, the node before it
   * with the latest time. By place of the node: its time, and the `pathEnd` that it may be.
   */
  lastArrivals(times: Float64Array, isEnd: Uint8Array): readonly number[] {
    const { from, to } = this.#edges.columns;
    const into = edgesBy(to, this.edges, this.#nodeCount);
    let end = -1;
    for (let node = 0; node < times.length; node++) {
      if (isEnd[node] === pathEnd.step && (end < 0 || (times[node] as number) > (times[end] as number))) end = node;
    }
    const path: number[] = [];
    if (end < 0) return path;
    const seen = new Uint8Array(times.length);
    for (let node = end; seen[node] === 0; ) {
      seen[node] = 1;
      let by = -1;
      for (let at = into.firsts[node] as number; at < (into.firsts[node + 1] as number); at++) {
        const edge = into.edges[at] as number;
        if (by < 0 || (times[from[edge] as number] as number) > (times[from[by] as number] as number)) by = edge;
      }
      if (by < 0) break;
      path.push(by);
      node = from[by] as number;
    }
    return path.reverse();
  }

  /** Place of a node among those that have an edge, in the order of their first edge; -1 for a node without one. */
  placeOf(node: number): number {
    return (this.#places[node] ?? 0) - 1;
  }

  /** The node at a place. */
  nodeAt(place: number): number {
    return this.#nodes[place] as number;
  }

  #placeOf(node: number): number {
    if (this.#places[node] === 0) {
      this.#nodes[this.#nodeCount++] = node;
      this.#places[node] = this.#nodeCount;
    }
    return (this.#places[node] as number) - 1;
  }
}

/** Edges by one of their nodes: those of node n are `edges[firsts[n]]` to `edges[firsts[n + 1] - 1]`, in order of addition. */
interface EdgesBy {
  readonly firsts: Uint32Array;
  readonly edges: Uint32Array;
}

function edgesBy(ends: Uint32Array, count: number, nodes: number): EdgesBy {
  const firsts = new Uint32Array(nodes + 1);
  for (let edge = 0; edge < count; edge++) {
    const next = (ends[edge] as number) + 1;
    firsts[next] = (firsts[next] as number) + 1;
  }
  for (let node = 0; node < nodes; node++) firsts[node + 1] = (firsts[node + 1] as number) + (firsts[node] as number);
  const next = firsts.slice();
  const edges = new Uint32Array(count);
  for (let edge = 0; edge < count; edge++) {
    const node = ends[edge] as number;
    const place = next[node] as number;
    edges[place] = edge;
    next[node] = place + 1;
  }
  return { firsts, edges };
}
