// The line of a span below its parents: spans come in order of start, so a stack of ends determines it.
//
//   depth 0   A ─────────────────
//   depth 1     B ────  C ───────
//   depth 2               D ──
//
// Invariant: while spans come in order of start, no two of one depth overlap, except those deeper than `timelineDepthMax`.

import { timelineLimits } from './timeline-limits.ts';

export class Nesting {
  /** Ends of the spans around the last start, outermost first; Infinity while unknown. */
  readonly #ends: number[] = [];

  /** Number of spans around `start`; forgets those that ended before. */
  at(start: number): number {
    const ends = this.#ends;
    let depth = ends.length;
    while (depth > 0 && (ends[depth - 1] as number) <= start) {
      ends.pop();
      depth--;
    }
    return depth;
  }

  /** Puts a span on line `depth`, at or below the innermost one; returns false if there are too many to remember. */
  push(depth: number, end: number): boolean {
    const ends = this.#ends;
    if (depth >= timelineLimits.timelineNestingMax) return false;
    while (ends.length < depth) ends.push(end);
    ends.push(end);
    return true;
  }

  /** The end of the span that was pushed on line `depth` with an end of Infinity. */
  setEnd(depth: number, end: number): void {
    if (depth < this.#ends.length) this.#ends[depth] = end;
  }
}
