// The critical path of a step across ranks: the ranks' own paths, joined at the collectives that they enter together.
//
//   rank 0   ██ gemm ██│░░ all_reduce waits ░░░░░│███│             weight of its kernel: from the last rank's begin on
//   rank 1   ████████ gemm ██████████████████████│███│──►          the path leads through the last rank
//                                                begin of the last rank's kernel ──► end of every rank's: an edge
//
// A kernel that waits for others does no work: so the path leads through the rank that came last, and further back to what made it late. It is
// followed backward from the step's last moment: at each place the way comes from whatever held it back last.
//
// Where hosts run ahead of their devices, steps overlap, and the end of one says little of what holds the steps up:
//
//   host     step 4 ███████████│ step 5 ███████████│ …          the path: host, host, and devices only at its end
//   device          ░░░ 4 ░░░░░       ░░░ 5 ░░░░░
//
// The graph is then of several steps, and the path's step is its first stretch of the length of a step.
//
// Invariant: only the times of matched collectives are compared between ranks; all else is measured by one rank's clock.

import { pairOf } from '@ranktrace/protocol';
import { countBelow } from '../model/count-below.ts';
import type { RankWork, WorkStep } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { classOf, kindOf } from './kernel-class.ts';
import { edgeKindNumber, noBounds, overlappingSteps, type PathBound, type PathEdge, type PathSpan } from './path-edges.ts';
import { PathGraph } from './path-graph.ts';
import { joinedSegments, type PathPiece, type PathSegments } from './path-segments.ts';
import { type PathPlaces, type PathWorth, pathWorth, weightOnPath } from './path-worth.ts';
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
  const { step, length, mean, isOverlapping } = median;
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
    const at = work.steps.findIndex(({ number }) => number === step);
    const last = isOverlapping ? at + overlappingSteps - 1 : at;
    const { start } = work.steps[at] as WorkStep;
    const { end } = work.steps[last] as WorkStep;
    const several = isOverlapping ? { firstStep: at } : {};
    const path = new RankPath(graph, work, start, end, { base, lastIn: lastIn[rank] as Float64Array, isComplete: true, ...several });
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
  const whole = graph.lastArrivals(places.times, places.isEnd);
  if (isOverlapping) places.until = (places.times[graph.fromOf(whole[0] ?? 0)] as number) + length;
  const path = whole.filter((edge) => (places.times[graph.fromOf(edge)] as number) < places.until);
  const sums = new PathSums(graph, places, paths, ranks);
  for (const edge of path) sums.add(edge);
  const drawn = sums.drawn(step);
  yield;
  const worth =
    graph.edges > limits.gpuPathWorthEdgesMax ? [] : yield* pathWorth({ graph, paths, ranks, matched, places, path, lastIn, mean });
  return { ...drawn, worth };
}

/** `bases`: the first node of each rank. */
function placesOf(graph: PathGraph, paths: readonly RankPath[], bases: readonly number[]): PathPlaces & { until: number } {
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
    places.isEnd[place] = path.endingWith(node);
  }
  return { ...places, until: Number.POSITIVE_INFINITY };
}

/** Sums and pieces of a path's edges. Each edge is a call, which is compiled once; a long loop would be compiled anew for every path. */
class PathSums {
  readonly #graph: PathGraph;
  readonly #places: PathPlaces;
  readonly #paths: readonly RankPath[];
  readonly #ranks: readonly RankOfPath[];
  readonly #byBound = noBounds();
  readonly #byRank = new Map<number, Record<PathBound, number>>();
  /** By rank, bound and name. */
  readonly #lines = new Map<string, { rank: number; bound: PathBound; name: string; total: number; count: number }>();
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
    const weight = weightOnPath(this.#graph, this.#places, edge);
    const [start, end] = [times[from] as number, Math.min(times[until] as number, this.#places.until)];
    const span = at === ranks[until] ? path.spanOf(edge) : { isWork: true, row: -1, name: part.name, start, end };
    const phase = part.bound === 'cpu' ? path.phaseOf(edge) : undefined;
    const name = phase === undefined ? nameOf(part, span, path.isLast(edge), work.names) : work.names.text(phase.name);
    const about = { rank, bound: part.bound, name, start, end, row: part.bound === 'cpu' ? span.row : -1 };
    this.#pieces.push({ ...about, span: phase === undefined ? span : { isWork: false, start: phase.start, end: phase.end } });
    // Time between two ops of the host is none of theirs.
    const isPause = part.bound === 'cpu' && (phase !== undefined || span.row < 0);
    this.#sum(rank, part.bound, isPause ? name : work.names.text(part.name), weight);
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

  #sum(rank: number, bound: PathBound, name: string, weight: number): void {
    this.#byBound[bound] += weight;
    let ofRank = this.#byRank.get(rank);
    if (ofRank === undefined) {
      ofRank = noBounds();
      this.#byRank.set(rank, ofRank);
    }
    ofRank[bound] += weight;
    const key = `${rank} ${bound} ${name}`;
    let line = this.#lines.get(key);
    if (line === undefined) {
      line = { rank, bound, name, total: 0, count: 0 };
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

interface MedianStep {
  readonly step: number;
  /** ns. */
  readonly length: number;
  /** Mean length of the steps after the first, ns. */
  readonly mean: number;
  /** Whether devices go on with a step after its host: then the next steps are on all ranks, too. */
  readonly isOverlapping: boolean;
}

const nextNumbers = Array.from({ length: overlappingSteps - 1 }, (_, at) => at + 1);

/** A step as its slowest rank takes it, on its devices. */
interface LongestStep {
  length: number;
  /** Ranks that have it. */
  ranks: number;
  /** Ranks on which the other steps of a graph follow it. */
  followed: number;
  /** Whether a rank launched work in it and in the last step of its graph: the path ends with that. */
  isWorked: boolean;
  goesOn: boolean;
}

/** The step of median length of those that all ranks have; of overlapping ones, the first of as many as a graph has. */
function medianStep(ranks: readonly RankOfPath[]): MedianStep | undefined {
  const longest = new Map<number, LongestStep>();
  for (const { work } of ranks) {
    const numbers = new Set<number>();
    const { steps, windows, busyBefore } = work;
    const launching = stepsWithWork(work);
    // The first step of a part waits for work that is not there: its path would be longer than the step.
    const [first] = steps;
    for (let at = first !== undefined && busyBefore > first.start ? 1 : 0; at < windows.length; at++) {
      const { number, start, end } = windows[at] as WorkStep;
      // A program that counts from 0 again has several steps of one number: the first one is taken.
      if (numbers.has(number)) continue;
      numbers.add(number);
      const step = longest.get(number) ?? { length: 0, ranks: 0, followed: 0, isWorked: false, goesOn: false };
      longest.set(number, step);
      step.length = Math.max(step.length, end - start);
      step.ranks++;
      if (nextNumbers.every((next) => windows[at + next]?.number === number + next)) step.followed++;
      if (launching.has(at) && launching.has(at + overlappingSteps - 1)) step.isWorked = true;
      if (end > (steps[at] as WorkStep).end) step.goesOn = true;
    }
  }
  const common = [...longest].filter(([, step]) => step.ranks === ranks.length).map(([number, step]) => ({ number, ...step }));
  const inOrder = common.toSorted((a, b) => a.number - b.number);
  const later = afterFirst(inOrder);
  const mean = later.reduce((sum, { length }) => sum + length, 0) / later.length;
  const meanFrom = (step: number): number => {
    const lengths = [0, ...nextNumbers].map((next) => longest.get(step + next)?.length ?? 0);
    return lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  };
  const followed = inOrder.filter(({ followed: on, isWorked }) => isWorked && on === ranks.length);
  // The first step of a recording is none of the usual ones.
  const starts = afterFirst(followed).map(({ number }) => ({ number, length: meanFrom(number) }));
  const isOverlapping = starts.length > 0 && 2 * common.filter(({ goesOn }) => goesOn).length > common.length;
  const of = (isOverlapping ? starts : common).sort((a, b) => a.length - b.length);
  const median = of[(of.length - 1) >> 1];
  return median && { step: median.number, length: median.length, mean, isOverlapping };
}

/** Indexes of the steps that launched work. */
function stepsWithWork({ work, links }: RankWork): ReadonlySet<number> {
  const found = new Set<number>();
  for (let row = 0; row < work.length; row++) if (work.columns.kind[row] !== kindOf.sync) found.add(links.step[row] as number);
  return found;
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
      // A kernel with a group alone is matched to none.
      if (Number.isNaN(transfers.columns.sequence[transfer])) continue;
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
