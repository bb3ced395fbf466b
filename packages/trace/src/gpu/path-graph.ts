// A graph of begins and ends with the longest path through it: edges in columns, nodes numbered in the order of their first edge.
//
// Ties are resolved as networkx's dag_longest_path resolves them: by the order in which edges and nodes were added.

/** Edges are numbers, in order of addition. */
export class PathGraph {
  /** By node: its place + 1 in `#nodes`. */
  readonly #places: Uint32Array;
  readonly #nodes: number[] = [];
  /** Places of each edge's nodes, its kind, and its weight. */
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  readonly #kinds: number[] = [];
  readonly #weights: number[] = [];

  /** For nodes 0 … `nodesMax` − 1. */
  constructor(nodesMax: number) {
    this.#places = new Uint32Array(nodesMax);
  }

  /** Nodes that have an edge. */
  get nodes(): number {
    return this.#nodes.length;
  }

  get edges(): number {
    return this.#from.length;
  }

  add(kind: number, from: number, to: number, weight: number): void {
    this.#from.push(this.#placeOf(from));
    this.#to.push(this.#placeOf(to));
    this.#kinds.push(kind);
    this.#weights.push(weight);
  }

  edge(edge: number): { readonly kind: number; readonly from: number; readonly to: number; readonly weight: number } {
    const [from, to] = [this.#nodes[this.#from[edge] as number] as number, this.#nodes[this.#to[edge] as number] as number];
    return { kind: this.#kinds[edge] as number, from, to, weight: this.#weights[edge] as number };
  }

  /** Number of an edge's kind. */
  kindOf(edge: number): number {
    return this.#kinds[edge] as number;
  }

  weightOf(edge: number): number {
    return this.#weights[edge] as number;
  }

  /** Places of the nodes that an edge leads from and to. */
  fromOf(edge: number): number {
    return this.#from[edge] as number;
  }

  toOf(edge: number): number {
    return this.#to[edge] as number;
  }

  /** Edges of the longest path, in order; a weight below 0 counts as 0. */
  longest(): readonly number[] {
    const { length } = this.#nodes;
    const into = edgesBy(this.#to, length);
    const distance = new Float64Array(length);
    const through = new Int32Array(length).fill(-1);
    let [end, most] = [-1, Number.NEGATIVE_INFINITY];
    for (const node of this.#sorted(into)) {
      let best = 0;
      let by = -1;
      for (let at = into.firsts[node] as number; at < (into.firsts[node + 1] as number); at++) {
        const edge = into.edges[at] as number;
        const far = (distance[this.#from[edge] as number] as number) + Math.max(0, this.#weights[edge] as number);
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
    for (let by = through[end] ?? -1; by >= 0; by = through[this.#from[by] as number] as number) path.push(by);
    return path.reverse();
  }

  /** Nodes so that edges lead forward; those of a cycle, which only broken clocks make, are left out. */
  #sorted(into: EdgesBy): Uint32Array {
    const { length } = this.#nodes;
    const outOf = edgesBy(this.#from, length);
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
        const to = this.#to[outOf.edges[out] as number] as number;
        left[to] = (left[to] as number) - 1;
        if (left[to] === 0) sorted[count++] = to;
      }
    }
    return sorted.subarray(0, count);
  }

  /**
   * Edges of the path back from the latest node that `isEnd`, in order: at each node the way comes from what held it back, the node before it with
   * the latest time. `timeOf`: a node's time.
   */
  lastArrivals(timeOf: (node: number) => number, isEnd: (node: number) => boolean): readonly number[] {
    const into = edgesBy(this.#to, this.#nodes.length);
    const times = new Float64Array(this.#nodes.length);
    let end = -1;
    for (let node = 0; node < times.length; node++) {
      times[node] = timeOf(this.#nodes[node] as number);
      if (isEnd(this.#nodes[node] as number) && (end < 0 || (times[node] as number) > (times[end] as number))) end = node;
    }
    const path: number[] = [];
    if (end < 0) return path;
    const seen = new Uint8Array(times.length);
    for (let node = end; seen[node] === 0; ) {
      seen[node] = 1;
      let by = -1;
      for (let at = into.firsts[node] as number; at < (into.firsts[node + 1] as number); at++) {
        const edge = into.edges[at] as number;
        if (by < 0 || (times[this.#from[edge] as number] as number) > (times[this.#from[by] as number] as number)) by = edge;
      }
      if (by < 0) break;
      path.push(by);
      node = this.#from[by] as number;
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
    if (this.#places[node] === 0) this.#places[node] = this.#nodes.push(node);
    return (this.#places[node] as number) - 1;
  }
}

/** Edges by one of their nodes: those of node n are `edges[firsts[n]]` to `edges[firsts[n + 1] - 1]`, in order of addition. */
interface EdgesBy {
  readonly firsts: Uint32Array;
  readonly edges: Uint32Array;
}

function edgesBy(ends: readonly number[], nodes: number): EdgesBy {
  const firsts = new Uint32Array(nodes + 1);
  for (let edge = 0; edge < ends.length; edge++) {
    const next = (ends[edge] as number) + 1;
    firsts[next] = (firsts[next] as number) + 1;
  }
  for (let node = 0; node < nodes; node++) firsts[node + 1] = (firsts[node + 1] as number) + (firsts[node] as number);
  const next = firsts.slice();
  const edges = new Uint32Array(ends.length);
  for (let edge = 0; edge < ends.length; edge++) {
    const node = ends[edge] as number;
    const place = next[node] as number;
    edges[place] = edge;
    next[node] = place + 1;
  }
  return { firsts, edges };
}
