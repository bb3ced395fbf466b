// The worth of each part of the critical path, by what-if.ts: a kernel by its name on all ranks, a collective, the host's work in a phase, all launches.
//
//   rank 0   gemm ──► ┐                        every rank's begin ──► all are in ──► every rank's end
//   rank 1   gemm ────┴► all are in ──► ends   a faster gemm on rank 1 alone gains no more than rank 0 allows

import type { RankOfPath } from './cluster-path.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { boundOfClass, edgeKindNumber, type PathBound, pathBounds } from './path-edges.ts';
import type { PathGraph } from './path-graph.ts';
import type { RankPath } from './rank-path.ts';
import { StepPaces } from './step-paces.ts';
import { type Change, type LaggedGraph, WhatIf } from './what-if.ts';
import type { WorkNames } from './work-names.ts';

/** Times in ns. */
export interface PathWorth {
  readonly bound: PathBound;
  /** A kernel's or a collective's name, or the host's phase; undefined: all that is bound so. */
  readonly name: string | undefined;
  /** Time on the path. */
  readonly onPath: number;
  /** ns that the step would save if it took half of its time, and none. */
  readonly savesAtHalf: number;
  readonly savesAtZero: number;
}

/** One rank's part of a collective: index of the rank, and row of its work. */
interface Part {
  readonly rank: number;
  readonly row: number;
}

/** The nodes of a path's graph, by place. */
export interface PathPlaces {
  /** Index of the rank. */
  readonly ranks: Uint32Array;
  /** ns. */
  readonly times: Float64Array;
  /** 1 for the begin or the end of device work. */
  readonly isWork: Uint8Array;
  /** The `pathEnd` that it may be. */
  readonly isEnd: Uint8Array;
  /** When the path's step ends: ∞ for one that ends with the graph. */
  readonly until: number;
}

export interface WorthOptions {
  readonly graph: PathGraph;
  readonly paths: readonly RankPath[];
  readonly ranks: readonly RankOfPath[];
  readonly matched: readonly (readonly Part[])[];
  readonly places: PathPlaces;
  /** Edges on the critical path. */
  readonly path: readonly number[];
  /** By rank and row of work: when the last rank came into its collective; NaN for all other work. */
  readonly lastIn: readonly Float64Array[];
  /** Mean length of a step on its slowest rank, ns. */
  readonly mean: number;
}

interface NamedPart {
  readonly bound: PathBound;
  readonly name: string | undefined;
}

/** Numbers of parts of the work: the bound, and a name where parts of one bound differ. */
class Parts {
  readonly all: NamedPart[] = [];
  readonly #known = new Map<number, number>();

  /** Number of a part, -1 for what bounds nothing. Ranks share their names. */
  of(bound: PathBound, names?: WorkNames, name = 0): number {
    if (bound === 'none') return -1;
    const key = name * pathBounds.length + pathBounds.indexOf(bound);
    let part = this.#known.get(key);
    if (part === undefined) {
      part = this.all.push({ bound, name: names?.text(name) }) - 1;
      this.#known.set(key, part);
    }
    return part;
  }
}

/** The parts with most time on the path, and all of each bound, worth most first. Yields after each pass over the graph. */
export function* pathWorth(options: WorthOptions): Generator<void, readonly PathWorth[]> {
  const parts = new Parts();
  const lagged = new PartedGraph(options, parts);
  yield* lagged.filling();
  yield;
  const whatIf = new WhatIf(lagged.graph);
  const onPath = timesOnPath(options, lagged, parts.all.length);
  const heaviest = parts.all.flatMap(({ name }, part) => (name !== undefined && (onPath[part] as number) > 0 ? [part] : []));
  heaviest.sort((a, b) => (onPath[b] as number) - (onPath[a] as number));
  const wanted = heaviest
    .slice(0, limits.gpuPathWorthMax)
    .map((part) => ({ ...(parts.all[part] as NamedPart), isChanged: Uint8Array.from(parts.all, (_, one) => (one === part ? 1 : 0)) }));
  for (const bound of ['cpu', 'compute', 'communication', 'copy', 'launch', 'gap'] as const) {
    wanted.push({ bound, name: undefined, isChanged: Uint8Array.from(parts.all, (part) => (part.bound === bound ? 1 : 0)) });
  }
  const timed = wanted
    .map((part) => ({ ...part, onPath: onPath.reduce((sum, of, one) => (part.isChanged[one] === 1 ? sum + of : sum), 0) }))
    .filter((part) => part.onPath > 0);
  const changes = timed.flatMap(({ isChanged }) => [0.5, 0].map((factor) => ({ isChanged, factor })));
  const savings = yield* whatIf.savings(changes);
  const saved = savings.map((ns, at) => Math.min(ns, Math.max(0, options.mean - lagged.paces.with(changes[at] as Change))));
  return timed
    .map(({ bound, name, onPath: time }, at): PathWorth => {
      return { bound, name, onPath: time, savesAtHalf: saved[2 * at] as number, savesAtZero: saved[2 * at + 1] as number };
    })
    .sort((a, b) => b.savesAtHalf - a.savesAtHalf || b.onPath - a.onPath);
}

/** Time on the path by part. */
function timesOnPath({ graph, path, places }: WorthOptions, lagged: PartedGraph, parts: number): Float64Array {
  const onPath = new Float64Array(parts);
  for (const edge of path) {
    const part = lagged.partOf(edge);
    if (part >= 0) onPath[part] = (onPath[part] as number) + Math.max(0, weightOnPath(graph, places, edge));
  }
  return onPath;
}

/** An edge's weight, without what lies behind the path's end. */
export const weightOnPath = (graph: PathGraph, { times, until }: PathPlaces, edge: number): number =>
  Math.min(graph.weightOf(edge), until - (times[graph.fromOf(edge)] as number));

/** Edges of a graph with room for `edgesMax` of them. */
class LaggedEdges {
  readonly #from: Uint32Array;
  readonly #to: Uint32Array;
  readonly #lags: Float64Array;
  readonly #parts: Int32Array;
  #length = 0;

  constructor(edgesMax: number) {
    this.#from = new Uint32Array(edgesMax);
    this.#to = new Uint32Array(edgesMax);
    this.#lags = new Float64Array(edgesMax);
    this.#parts = new Int32Array(edgesMax);
  }

  add(from: number, to: number, lag: number, part: number): void {
    const edge = this.#length++;
    this.#from[edge] = from;
    this.#to[edge] = to;
    this.#lags[edge] = lag;
    this.#parts[edge] = part;
  }

  get columns(): Pick<LaggedGraph, 'from' | 'to' | 'lags' | 'parts'> {
    const length = this.#length;
    return {
      from: this.#from.subarray(0, length),
      to: this.#to.subarray(0, length),
      lags: this.#lags.subarray(0, length),
      parts: this.#parts.subarray(0, length),
    };
  }
}

/**
 * A thread that does nothing until some time in the stretch, as autograd's, begins with what another thread of its rank did last before.
 */
function addThreadStarts({ graph, paths, places }: WorthOptions, times: Float64Array, edges: LaggedEdges): void {
  const hasEdge = new Uint8Array(times.length);
  const { to } = edges.columns;
  for (let edge = 0; edge < to.length; edge++) hasEdge[to[edge] as number] = 1;
  const hosts: number[][] = paths.map(() => []);
  const first: number[][] = paths.map(() => []);
  for (let place = 0; place < graph.nodes; place++) {
    if (places.isWork[place] === 1) continue;
    const rank = places.ranks[place] as number;
    hosts[rank]?.push(place);
    if (hasEdge[place] === 0 && paths[rank]?.isBegin(graph.nodeAt(place)) === false) first[rank]?.push(place);
  }
  for (const [rank, places] of first.entries()) {
    places.sort((a, b) => (times[a] as number) - (times[b] as number));
    const before = lastBefore(hosts[rank] as number[], places, times);
    for (const [at, place] of places.entries()) if (before[at] !== undefined) edges.add(before[at], place, 0, -1);
  }
}

/** With more places than this, sorting all of them is faster than a scan for each. */
const scannedMax = 16;

/** For each of `places`, in order, the last one of `all` before it. */
function lastBefore(all: number[], places: readonly number[], times: Float64Array): (number | undefined)[] {
  if (places.length <= scannedMax) return places.map((place) => scanBefore(all, place, times));
  const sorted = all.sort((a, b) => (times[a] as number) - (times[b] as number) || a - b);
  let at = 0;
  return places.map((place) => {
    while (at < sorted.length && isBefore(sorted[at] as number, place, times)) at++;
    return sorted[at - 1];
  });
}

function scanBefore(all: readonly number[], place: number, times: Float64Array): number | undefined {
  let last: number | undefined;
  for (const one of all) if (isBefore(one, place, times) && (last === undefined || isBefore(last, one, times))) last = one;
  return last;
}

function isBefore(a: number, b: number, times: Float64Array): boolean {
  const timeA = times[a] as number;
  const timeB = times[b] as number;
  return timeA < timeB || (timeA === timeB && a < b);
}

/** Edges between two yields. */
const edgesPerYield = 8192;

/** A path's graph with the lag and the part of each edge, and the paces of what its work runs on. Its loops are in methods: closures would be compiled anew for every path. */
class PartedGraph {
  readonly paces: StepPaces;
  readonly #options: WorthOptions;
  readonly #parts: Parts;
  readonly #launches: readonly (readonly (readonly [number, number])[])[];
  /** Parts of the collectives that several ranks are in. */
  readonly #together: readonly (readonly Part[])[];
  readonly #edges: LaggedEdges;
  readonly #times: Float64Array;
  readonly #isEnd: Uint8Array;
  /** By node: 1 for the end of such a part. */
  readonly #isTogether: Uint8Array;

  constructor(options: WorthOptions, parts: Parts) {
    const { graph, paths, ranks, matched, places, lastIn } = options;
    this.paces = new StepPaces({
      ranks,
      lastIn,
      partOf: ({ work, names }, row) => parts.of(boundOfClass(work.columns.class[row] as number), names, work.columns.name[row]),
    });
    this.#options = options;
    this.#parts = parts;
    this.#launches = paths.map((path) => path.launches());
    this.#together = matched
      .map((group) => group.filter(({ rank, row }) => paths[rank]?.has(row) === true))
      .filter((inside) => inside.length > 1);
    // Each place begins at most one thread.
    const edgesMax =
      graph.edges + graph.nodes + sumOf(this.#launches, ({ length }) => length) + sumOf(this.#together, ({ length }) => 2 * length);
    this.#edges = new LaggedEdges(edgesMax);
    this.#times = new Float64Array(graph.nodes + this.#together.length);
    this.#times.set(places.times);
    this.#isEnd = new Uint8Array(this.#times.length);
    this.#isEnd.set(places.isEnd);
    this.#isTogether = new Uint8Array(graph.nodes);
  }

  get graph(): LaggedGraph {
    return { times: this.#times, isEnd: this.#isEnd, ...this.#edges.columns };
  }

  /** Yields after every few thousand edges. */
  *filling(): Generator<void, void> {
    const { graph, paths } = this.#options;
    for (const [index, inside] of this.#together.entries()) this.#addTogether(inside, graph.nodes + index);
    for (let edge = 0; edge < graph.edges; edge += edgesPerYield) {
      yield;
      this.#addEdges(edge, Math.min(graph.edges, edge + edgesPerYield));
    }
    for (const [rank, path] of paths.entries()) this.#addLaunches(path, this.#launches[rank] ?? []);
    addThreadStarts(this.#options, this.#times, this.#edges);
  }

  /** The part that an edge of the path's graph belongs to. */
  partOf(edge: number): number {
    const { graph, paths, ranks, places } = this.#options;
    const from = graph.fromOf(edge);
    const rank = places.ranks[from] as number;
    const path = paths[rank] as RankPath;
    const { work } = ranks[rank] as RankOfPath;
    const bound = path.boundOf(edge);
    if (bound === 'compute' || bound === 'communication' || bound === 'copy') return this.#parts.of(bound, work.names, path.nameOf(edge));
    if (bound !== 'cpu') return this.#parts.of(bound);
    return this.#parts.of(bound, work.names, path.phaseOf(edge)?.name ?? work.phaseAt(this.#times[from] as number));
  }

  /** Joins the parts of a collective at the node `allIn`, when the last rank is in. */
  #addTogether(inside: readonly Part[], allIn: number): void {
    const { graph, paths, ranks } = this.#options;
    const [first] = inside as [Part];
    const { work, names } = (ranks[first.rank] as RankOfPath).work;
    const part = this.#parts.of('communication', names, work.columns.name[first.row] as number);
    const begins = inside.map(({ rank, row }) => graph.placeOf((paths[rank] as RankPath).nodeOf(row)));
    const ends = inside.map(({ rank, row }) => graph.placeOf((paths[rank] as RankPath).nodeOf(row) + 1));
    const times = this.#times;
    times[allIn] = Math.max(...begins.map((begin) => times[begin] as number));
    for (const [at, begin] of begins.entries()) {
      const end = ends[at] as number;
      this.#edges.add(begin, allIn, 0, -1);
      this.#edges.add(allIn, end, (times[end] as number) - (times[allIn] as number), part);
      this.#isTogether[end] = 1;
    }
  }

  #addEdges(first: number, end: number): void {
    const { graph, places } = this.#options;
    const { kernel, gap, launch, op, dependency } = edgeKindNumber;
    for (let edge = first; edge < end; edge++) {
      const kind = graph.kindOf(edge);
      const to = graph.toOf(edge);
      if (kind === kernel && this.#isTogether[to] === 1) continue;
      const lag = kind === gap || kind === launch ? 0 : Math.max(0, graph.weightOf(edge));
      const from = graph.fromOf(edge);
      const part = this.partOf(edge);
      this.#edges.add(from, to, lag, part);
      if (part >= 0 && (kind === op || kind === dependency)) this.paces.addHost(places.ranks[from] as number, part, lag);
    }
  }

  /** Work that now waits for other work would still have to wait for its launch. */
  #addLaunches(path: RankPath, launches: readonly (readonly [number, number])[]): void {
    const { graph } = this.#options;
    const launching = this.#parts.of('launch');
    const shortest = path.shortestLaunch();
    for (const [call, begin] of launches) {
      const [a, b] = [graph.placeOf(call), graph.placeOf(begin)];
      if (a >= 0 && b >= 0) this.#edges.add(a, b, shortest, launching);
    }
  }
}

const sumOf = <Of>(all: readonly Of[], size: (of: Of) => number): number => all.reduce((sum, of) => sum + size(of), 0);
