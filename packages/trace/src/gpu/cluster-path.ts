// The critical path of a step across ranks: the ranks' own paths, joined at the collectives that they enter together.
//
//   rank 0   ██ gemm ██│░░ all_reduce waits ░░░░░│███│             weight of its kernel: from the last rank's begin on
//   rank 1   ████████ gemm ██████████████████████│███│──►          the path leads through the last rank
//                                                begin of the last rank's kernel ──► end of every rank's: an edge
//
// A kernel that waits for others does no work: so the path leads through the rank that came last, and further back to what made it late. It is
// followed backward from the step's last moment: at each place the way comes from whatever held it back last.
//
// Invariant: only the times of matched collectives are compared between ranks; all else is measured by one rank's clock.

import { pairOf } from '@ranktrace/protocol';
import { countBelow } from '../model/count-below.ts';
import type { RankWork, WorkStep } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { classOf } from './kernel-class.ts';
import { edgeKindNumber, noBounds, type PathBound, type PathEdge, type PathSpan, pathBounds } from './path-edges.ts';
import { PathGraph } from './path-graph.ts';
import { joinedSegments, type PathPiece, type PathSegments } from './path-segments.ts';
import { type PathPlaces, type PathWorth, pathWorth } from './path-worth.ts';
import { nodesOf, RankPath } from './rank-path.ts';
import { afterFirst } from './step-paces.ts';
import type { WorkNames } from './work-names.ts';

export interface ClusterPathLine {
  readonly rank: number;
  readonly bound: PathBound;
  readonly name: string;
  readonly total: number;
  readonly count: number;
}

/** Times in ns. */
export interface ClusterPath {
  readonly step: number;
  readonly total: number;
  readonly byBound: Readonly<Record<PathBound, number>>;
  /** Ranks on the path, most time first. */
  readonly byRank: readonly { readonly rank: number; readonly total: number; readonly byBound: Readonly<Record<PathBound, number>> }[];
  readonly lines: readonly ClusterPathLine[];
}

/** The path of one rank or of several, summed up and in pieces. */
export interface DrawnPath {
  readonly path: ClusterPath;
  readonly segments: PathSegments;
  readonly worth: readonly PathWorth[];
}

export interface RankOfPath {
  readonly rank: number;
  readonly work: RankWork;
}

/** One rank's part of a collective. */
interface Part {
  readonly rank: number;
  readonly row: number;
}

/** The path through the step of median length; undefined without a step that all ranks have, or with too many events. Yields after each rank. */
export function* clusterPath(ranks: readonly RankOfPath[]): Generator<void, DrawnPath | undefined> {
  const events = ranks.reduce((sum, { work }) => sum + work.host.length + work.work.length, 0);
  const median = ranks.length === 0 || events > limits.gpuPathEventsMax ? undefined : medianStep(ranks);
  if (median === undefined) return undefined;
  const { step, mean } = median;
  const matched = matchedParts(ranks);
  const graph = new PathGraph(ranks.reduce((sum, { work }) => sum + nodesOf(work), 0));
  const lastIn = ranks.map(({ work }) => new Float64Array(work.work.length).fill(Number.NaN));
  const startOf = ({ rank, row }: Part): number => ranks[rank]?.work.work.columns.start[row] as number;
  const endOf = ({ rank, row }: Part): number => ranks[rank]?.work.work.columns.end[row] as number;
  for (const parts of matched) {
    const last = Math.max(...parts.map(startOf));
    for (const { rank, row } of parts) (lastIn[rank] as Float64Array)[row] = last;
  }
  let base = 0;
  const bases: number[] = [];
  const paths: RankPath[] = [];
  for (const [rank, { work }] of ranks.entries()) {
    const { start, end } = work.steps.find(({ number }) => number === step) as WorkStep;
    const path = new RankPath(graph, work, start, end, { base, lastIn: lastIn[rank] as Float64Array, isComplete: true });
    bases.push(base);
    base += nodesOf(work);
    paths.push(path);
    yield;
  }
  for (const parts of matched) {
    const last = parts.reduce((of, part) => (startOf(part) > startOf(of) ? part : of));
    const from = paths[last.rank] as RankPath;
    if (!from.has(last.row)) continue;
    for (const part of parts) {
      const to = paths[part.rank] as RankPath;
      if (part === last || !to.has(part.row)) continue;
      graph.add(edgeKindNumber.kernel, from.nodeOf(last.row), to.nodeOf(part.row) + 1, endOf(part) - startOf(last));
    }
  }
  if (graph.edges === 0) return undefined;
  const places = placesOf(graph, paths, bases);
  const path = graph.lastArrivals(places.times, places.isEnd);
  const sums = new PathSums(graph, places, paths, ranks);
  for (const edge of path) sums.add(edge);
  const drawn = sums.drawn(step);
  yield;
  const worth =
    graph.edges > limits.gpuPathWorthEdgesMax ? [] : yield* pathWorth({ graph, paths, ranks, matched, places, path, lastIn, mean });
  return { ...drawn, worth };
}

/** `bases`: the first node of each rank. */
function placesOf(graph: PathGraph, paths: readonly RankPath[], bases: readonly number[]): PathPlaces {
  const { nodes } = graph;
  const places = {
    ranks: new Uint32Array(nodes),
    times: new Float64Array(nodes),
    isWork: new Uint8Array(nodes),
    isEnd: new Uint8Array(nodes),
  };
  // Nodes of one rank mostly follow each other.
  let [rank, first, end] = [0, 0, 0];
  for (let place = 0; place < nodes; place++) {
    const node = graph.nodeAt(place);
    if (node < first || node >= end) {
      rank = countBelow(bases.length, (at) => (bases[at] as number) <= node) - 1;
      first = bases[rank] as number;
      end = bases[rank + 1] ?? Number.POSITIVE_INFINITY;
    }
    const path = paths[rank] as RankPath;
    places.ranks[place] = rank;
    places.times[place] = path.timeOf(node);
    if (path.isWork(node)) places.isWork[place] = 1;
    if (path.isEnd(node)) places.isEnd[place] = 1;
  }
  return places;
}

/** Sums and pieces of a path's edges. Each edge is a call, which is compiled once; a long loop would be compiled anew for every path. */
class PathSums {
  readonly #graph: PathGraph;
  readonly #places: PathPlaces;
  readonly #paths: readonly RankPath[];
  readonly #ranks: readonly RankOfPath[];
  readonly #byBound = noBounds();
  readonly #byRank = new Map<number, Record<PathBound, number>>();
  /** By rank, name and bound. */
  readonly #lines = new Map<number, { rank: number; bound: PathBound; name: string; total: number; count: number }>();
  readonly #pieces: PathPiece[] = [];

  constructor(graph: PathGraph, places: PathPlaces, paths: readonly RankPath[], ranks: readonly RankOfPath[]) {
    this.#graph = graph;
    this.#places = places;
    this.#paths = paths;
    this.#ranks = ranks;
  }

  /** A path's edge is time on the rank where it begins; from one rank to another it is the collective of the rank that came last. */
  add(edge: number): void {
    const { ranks, times } = this.#places;
    const [from, until] = [this.#graph.fromOf(edge), this.#graph.toOf(edge)];
    const at = ranks[from] as number;
    const { rank, work } = this.#ranks[at] as RankOfPath;
    const path = this.#paths[at] as RankPath;
    const part = path.edgeOf(edge);
    const [start, end] = [times[from] as number, times[until] as number];
    const span = at === ranks[until] ? path.spanOf(edge) : { isWork: true, row: -1, name: part.name, start, end };
    const phase = part.bound === 'cpu' ? path.phaseOf(edge) : undefined;
    const name = phase === undefined ? nameOf(part, span, path.isLast(edge), work.names) : work.names.text(phase.name);
    const about = { rank, bound: part.bound, name, start, end, row: part.bound === 'cpu' ? span.row : -1 };
    this.#pieces.push({ ...about, span: phase === undefined ? span : { isWork: false, start: phase.start, end: phase.end } });
    this.#sum(rank, phase === undefined ? part : { ...part, name: phase.name }, work.names);
  }

  drawn(step: number): Omit<DrawnPath, 'worth'> {
    const sumOf = (parts: Readonly<Record<PathBound, number>>): number => Object.values(parts).reduce((sum, part) => sum + part, 0);
    const byBound = this.#byBound;
    const path: ClusterPath = {
      step,
      total: sumOf(byBound),
      byBound,
      byRank: [...this.#byRank].map(([rank, parts]) => ({ rank, total: sumOf(parts), byBound: parts })).sort((a, b) => b.total - a.total),
      lines: [...this.#lines.values()].sort((a, b) => b.total - a.total).slice(0, limits.gpuPathLinesMax),
    };
    return { path, segments: { step, total: path.total, byBound, ...joinedSegments(this.#pieces) } };
  }

  #sum(rank: number, { bound, name, weight }: PathEdge, names: WorkNames): void {
    this.#byBound[bound] += weight;
    let ofRank = this.#byRank.get(rank);
    if (ofRank === undefined) {
      ofRank = noBounds();
      this.#byRank.set(rank, ofRank);
    }
    ofRank[bound] += weight;
    const key = (rank * limits.gpuNamesMax + name) * pathBounds.length + pathBounds.indexOf(bound);
    let line = this.#lines.get(key);
    if (line === undefined) {
      line = { rank, bound, name: names.text(name), total: 0, count: 0 };
      this.#lines.set(key, line);
    }
    line.total += weight;
    line.count++;
  }
}

/** An edge's name: of the span or the work in which it lies, or between two ops of the host, of the one that it leads to. */
function nameOf({ bound }: PathEdge, span: PathSpan, isLast: boolean, names: WorkNames): string {
  const text = names.text(span.name);
  if (bound !== 'cpu' || span.row >= 0) return text;
  return isLast ? `after ${text}` : `before ${text}`;
}

/** The step of median length on the devices, as its slowest rank takes it, of those that all ranks have; and the mean of the ones after the first, ns. */
function medianStep(ranks: readonly RankOfPath[]): { readonly step: number; readonly mean: number } | undefined {
  const longest = new Map<number, { length: number; ranks: number }>();
  for (const { work } of ranks) {
    const numbers = new Set<number>();
    // The first step of a part waits for work that is not there: its path would be longer than the step.
    const [first] = work.steps;
    const uncut = first !== undefined && work.busyBefore > first.start ? work.windows.slice(1) : work.windows;
    for (const { number, start, end } of uncut) {
      // A program that counts from 0 again has several steps of one number: the first one is taken.
      if (numbers.has(number)) continue;
      numbers.add(number);
      const step = longest.get(number) ?? { length: 0, ranks: 0 };
      longest.set(number, step);
      step.length = Math.max(step.length, end - start);
      step.ranks++;
    }
  }
  const common = [...longest].filter(([, step]) => step.ranks === ranks.length).map(([number, { length }]) => ({ number, length }));
  const later = afterFirst(common.toSorted((a, b) => a.number - b.number));
  const median = common.sort((a, b) => a.length - b.length)[(common.length - 1) >> 1];
  if (median === undefined) return undefined;
  return { step: median.number, mean: later.reduce((sum, { length }) => sum + length, 0) / later.length };
}

/** Collectives with parts of two ranks or more, and sends with their receives, which are numbered by pair. */
function matchedParts(ranks: readonly RankOfPath[]): readonly (readonly Part[])[] {
  const collectives = new Map<string, Part[]>();
  for (const [rank, { rank: number, work }] of ranks.entries()) {
    const { columns, length } = work.work;
    const { transfers, names } = work;
    for (let row = 0; row < length; row++) {
      const transfer = (columns.transfer[row] as number) - 1;
      if (columns.class[row] !== classOf.communication || transfer < 0) continue;
      const op = names.text(transfers.columns.op[transfer] as number);
      const pair = pairOf(number, (transfers.columns.peer[transfer] as number) - 1, op);
      const key = `${transfers.columns.group[transfer]} ${transfers.columns.sequence[transfer]} ${pair?.join('>') ?? op}`;
      const parts = collectives.get(key);
      if (parts === undefined) collectives.set(key, [{ rank, row }]);
      else if (parts.at(-1)?.rank !== rank) parts.push({ rank, row });
    }
  }
  return [...collectives.values()].filter((parts) => parts.length > 1);
}
