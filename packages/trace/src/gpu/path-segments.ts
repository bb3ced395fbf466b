// The critical path as pieces of time, for a picture: which span on which rank it leads through, from when to when.
//
//   host   op│op│call                       one piece: all within one outermost op
//   rank 1      launch ──► gemm ── gap ── gemm
//   rank 0                                  all_reduce (last in ──► end)
//
// Invariant: lengths are those of the path's edges: together with what is left out they add up to the path.

import { gpuLimits as limits } from './gpu-limits.ts';
import type { PathBound } from './path-edges.ts';

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
  /** By piece: its end, with what was joined to it. */
  const ends: number[] = [];
  for (const piece of pieces) {
    if (!(piece.end > piece.start)) continue;
    const last = joined.at(-1);
    if (last !== undefined && piece.row >= 0 && last.row === piece.row && last.rank === piece.rank && last.bound === piece.bound) {
      ends[ends.length - 1] = piece.end;
    } else {
      joined.push(piece);
      ends.push(piece.end);
    }
  }
  const lengths = Float64Array.from(joined, ({ start }, at) => (ends[at] as number) - start);
  const isKept = keptOf(lengths);
  const segments: PathSegment[] = [];
  let [leftOut, leftOutTime] = [0, 0];
  for (const [at, { rank, bound, name, start, span }] of joined.entries()) {
    const end = ends[at] as number;
    if (isKept(at)) segments.push({ rank, bound, name, start, end, span });
    else {
      leftOut++;
      leftOutTime += end - start;
    }
  }
  return { segments, leftOut, leftOutTime };
}

/** Whether the piece at a place is one of the longest. */
function keptOf(lengths: Float64Array): (at: number) => boolean {
  if (lengths.length <= limits.gpuPathSegmentsMax) return () => true;
  const longest = Uint32Array.from(lengths.keys()).sort((a, b) => (lengths[b] as number) - (lengths[a] as number) || a - b);
  const kept = new Set(longest.subarray(0, limits.gpuPathSegmentsMax));
  return (at) => kept.has(at);
}
