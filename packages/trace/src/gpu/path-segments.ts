// The critical path as pieces of time, for a picture: which span on which rank it leads through, from when to when.
//
//   host   op│op│call                       one piece: all within one outermost op
//   rank 1      launch ──► gemm ── gap ── gemm
//   rank 0                                  all_reduce (last in ──► end)
//
// Invariant: lengths are those of the path's edges: together with what is left out they add up to the path.

import type { PathBound } from './critical-path.ts';
import { gpuLimits as limits } from './gpu-limits.ts';

/** Times: trace, ns. */
export interface PathSegment {
  readonly rank: number;
  readonly bound: PathBound;
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** The span that it leads through, or for a pause, the one that it leads to. */
  readonly span: { readonly isWork: boolean; readonly start: number; readonly end: number };
}

export interface PathSegments {
  readonly step: number;
  /** ns. */
  readonly total: number;
  readonly byBound: Readonly<Record<PathBound, number>>;
  /** In order of the path. */
  readonly segments: readonly PathSegment[];
  /** Pieces over the limit, the shortest ones, and their time. */
  readonly leftOut: number;
  readonly leftOutTime: number;
}

/** One edge of the path as a piece; `row` is that of the outermost span of the host around it, −1 for anything else. */
export interface PathPiece extends PathSegment {
  readonly row: number;
}

/** Joins what the host does within one outermost span, drops pieces of no length, and keeps the longest ones. */
export function joinedSegments(pieces: Iterable<PathPiece>): Pick<PathSegments, 'segments' | 'leftOut' | 'leftOutTime'> {
  const joined: PathPiece[] = [];
  for (const piece of pieces) {
    if (!(piece.end > piece.start)) continue;
    const last = joined.at(-1);
    if (last !== undefined && piece.row >= 0 && last.row === piece.row && last.rank === piece.rank && last.bound === piece.bound) {
      joined[joined.length - 1] = { ...last, end: piece.end };
    } else joined.push(piece);
  }
  const isKept = keptOf(joined);
  const segments = joined
    .filter((_, at) => isKept(at))
    .map(({ rank, bound, name, start, end, span }): PathSegment => ({ rank, bound, name, start, end, span }));
  const leftOut = joined.filter((_, at) => !isKept(at));
  return { segments, leftOut: leftOut.length, leftOutTime: leftOut.reduce((sum, { start, end }) => sum + end - start, 0) };
}

function keptOf(all: readonly PathSegment[]): (at: number) => boolean {
  if (all.length <= limits.gpuPathSegmentsMax) return () => true;
  const longest = all.map((_, at) => at).sort((a, b) => lengthAt(all, b) - lengthAt(all, a) || a - b);
  const kept = new Set(longest.slice(0, limits.gpuPathSegmentsMax));
  return (at) => kept.has(at);
}

const lengthAt = (all: readonly PathSegment[], at: number): number => (all[at]?.end ?? 0) - (all[at]?.start ?? 0);
