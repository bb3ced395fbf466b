// The worth of each part of the critical path, by what-if.ts: a kernel by its name on all ranks, a collective, the host's work in a phase, all launches.
//
//   rank 0   gemm ──► ┐                        every rank's begin ──► all are in ──► every rank's end
//   rank 1   gemm ────┴► all are in ──► ends   a faster gemm on rank 1 alone gains no more than rank 0 allows

import type { RankOfPath } from './cluster-path.ts';
import { edgeKinds, type PathBound, pathBounds, type RankPath } from './critical-path.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import type { PathGraph } from './path-graph.ts';
import { type LaggedGraph, WhatIf } from './what-if.ts';
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

export interface WorthOptions {
  readonly graph: PathGraph;
  readonly paths: readonly RankPath[];
  readonly ranks: readonly RankOfPath[];
  readonly matched: readonly (readonly Part[])[];
  /** Index of the rank of a node. */
  readonly rankOf: (node: number) => number;
  /** Edges on the critical path. */
  readonly path: readonly number[];
}

/** Numbers of parts of the work: the bound, and a name where parts of one bound differ. */
class Parts {
  readonly all: { readonly bound: PathBound; readonly name: string | undefined }[] = [];
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

/** The parts with most time on the path, and all of each bound, worth most first. Yields after each of them. */
export function* pathWorth(options: WorthOptions): Generator<void, readonly PathWorth[]> {
  const parts = new Parts();
  const { graph, path } = options;
  const { partOf, ...lagged } = yield* laggedGraph(options, parts);
  yield;
  const whatIf = new WhatIf(lagged);
  const onPath = new Float64Array(parts.all.length);
  for (const edge of path) {
    const part = partOf(edge);
    if (part >= 0) onPath[part] = (onPath[part] as number) + Math.max(0, graph.edge(edge).weight);
  }
  const heaviest = parts.all.flatMap(({ name }, part) => (name !== undefined && (onPath[part] as number) > 0 ? [part] : []));
  heaviest.sort((a, b) => (onPath[b] as number) - (onPath[a] as number));
  const wanted = heaviest
    .slice(0, limits.gpuPathWorthMax)
    .map((part) => ({ ...(parts.all[part] as PathWorth), has: (one: number) => one === part }));
  for (const bound of ['cpu', 'compute', 'communication', 'launch', 'gap'] as const) {
    wanted.push({ ...({ bound, name: undefined } as PathWorth), has: (one) => parts.all[one]?.bound === bound });
  }
  const worth: PathWorth[] = [];
  for (const { bound, name, has } of wanted) {
    const time = onPath.reduce((sum, of, part) => (has(part) ? sum + of : sum), 0);
    if (time > 0) {
      const [savesAtHalf, savesAtZero] = [whatIf.saving(has, 0.5), whatIf.saving(has, 0)];
      worth.push({ bound, name, onPath: time, savesAtHalf, savesAtZero });
    }
    yield;
  }
  return worth.sort((a, b) => b.savesAtHalf - a.savesAtHalf || b.onPath - a.onPath);
}

/** A thread that does nothing until some time in the stretch, as autograd's, begins with what another thread of its rank did last before. */
function addThreadStarts(
  graph: PathGraph,
  paths: readonly RankPath[],
  rankOf: (node: number) => number,
  times: readonly number[],
  to: readonly number[],
  add: (from: number, to: number, lag: number, part: number) => void,
): void {
  const hasEdge = new Uint8Array(times.length);
  for (const node of to) hasEdge[node] = 1;
  const hosts: number[][] = paths.map(() => []);
  for (let place = 0; place < graph.nodes; place++) {
    const node = graph.nodeAt(place);
    const rank = rankOf(node);
    if (paths[rank]?.isWork(node) === false) hosts[rank]?.push(place);
  }
  for (const [rank, places] of hosts.entries()) {
    places.sort((a, b) => (times[a] as number) - (times[b] as number));
    for (let at = 1; at < places.length; at++) {
      const place = places[at] as number;
      if (hasEdge[place] === 0 && paths[rank]?.isBegin(graph.nodeAt(place)) === false) add(places[at - 1] as number, place, 0, -1);
    }
  }
}

interface PartedGraph extends LaggedGraph {
  readonly partOf: (edge: number) => number;
}

/** Edges between two yields. */
const edgesPerYield = 8192;

function* laggedGraph({ graph, paths, ranks, matched, rankOf }: WorthOptions, parts: Parts): Generator<void, PartedGraph> {
  const [from, to, lags, ofPart]: [number[], number[], number[], number[]] = [[], [], [], []];
  const add = (a: number, b: number, lag: number, part: number): void => {
    from.push(a);
    to.push(b);
    lags.push(lag);
    ofPart.push(part);
  };
  const { names } = (ranks[0] as RankOfPath).work;
  const partOf = (edge: number): number => {
    const node = graph.edge(edge).from;
    const rank = rankOf(node);
    const path = paths[rank] as RankPath;
    const { bound, name } = path.edgeOf(edge);
    if (bound === 'compute' || bound === 'communication') return parts.of(bound, names, name);
    return bound === 'cpu' ? parts.of(bound, names, (ranks[rank] as RankOfPath).work.phaseAt(path.timeOf(node))) : parts.of(bound);
  };
  const times = Array.from({ length: graph.nodes }, (_, place) => {
    const node = graph.nodeAt(place);
    return (paths[rankOf(node)] as RankPath).timeOf(node);
  });
  const isEnd = times.map((_, place) => {
    const node = graph.nodeAt(place);
    return (paths[rankOf(node)] as RankPath).isWork(node) ? 1 : 0;
  });
  const together = new Set<number>();
  for (const group of matched) {
    const inside = group.filter(({ rank, row }) => paths[rank]?.has(row) === true);
    if (inside.length < 2) continue;
    const nodes = inside.map(({ rank, row }) => (paths[rank] as RankPath).nodeOf(row));
    const [first] = inside as [Part];
    const { work } = (ranks[first.rank] as RankOfPath).work;
    const part = parts.of('communication', names, work.columns.name[first.row] as number);
    const allIn = times.push(Math.max(...nodes.map((node) => times[graph.placeOf(node)] as number))) - 1;
    isEnd.push(0);
    for (const node of nodes) {
      const [begin, end] = [graph.placeOf(node), graph.placeOf(node + 1)];
      add(begin, allIn, 0, -1);
      add(allIn, end, (times[end] as number) - (times[allIn] as number), part);
      together.add(end);
    }
  }
  const kernel = edgeKinds.indexOf('kernel');
  const gap = edgeKinds.indexOf('gap');
  const launch = edgeKinds.indexOf('launch');
  for (let edge = 0; edge < graph.edges; edge++) {
    if (edge % edgesPerYield === 0) yield;
    const { kind, from: a, to: b, weight } = graph.edge(edge);
    const end = graph.placeOf(b);
    if (kind === kernel && together.has(end)) continue;
    add(graph.placeOf(a), end, kind === gap || kind === launch ? 0 : Math.max(0, weight), partOf(edge));
  }
  // Work that now waits for other work would still have to wait for its launch.
  const launching = parts.of('launch');
  for (const path of paths) {
    const launches = path.launches();
    const delays = launches.map(([call, begin]) => path.timeOf(begin) - path.timeOf(call)).filter((delay) => delay > 0);
    const shortest = delays.reduce((least, delay) => Math.min(least, delay), Number.POSITIVE_INFINITY);
    for (const [call, begin] of launches) {
      const [a, b] = [graph.placeOf(call), graph.placeOf(begin)];
      if (a >= 0 && b >= 0) add(a, b, Number.isFinite(shortest) ? shortest : 0, launching);
    }
  }
  addThreadStarts(graph, paths, rankOf, times, to, add);
  return {
    partOf,
    times: Float64Array.from(times),
    isEnd: Uint8Array.from(isEnd),
    from: Uint32Array.from(from),
    to: Uint32Array.from(to),
    lags: Float64Array.from(lags),
    parts: Int32Array.from(ofPart),
  };
}
