// Lanes of one track: lines on which spans nest properly, as every timeline viewer needs them.
//
//   track   A ────────────────────────
//             B ──────      C ────────────────     C outlives A: async work that nobody awaited
//
//   lane 0  A ────────────────────────
//             B ──────
//   lane 1                  C ────────────────
//
// A span goes to the lane whose innermost running span began last among those that contain it: that is its parent, where there is one.
// Perfetto drops spans that overlap partly on one line, so nothing else would keep them all.

import type { TraceLane } from '../trace-sink.ts';

interface OpenSpan {
  readonly start: number;
  /** Infinity while unknown. */
  end: number;
}

interface LaneLine {
  readonly lane: TraceLane;
  readonly open: OpenSpan[];
}

export class Lanes {
  readonly #lines: LaneLine[] = [];
  readonly #createLane: (overflow: number) => TraceLane;

  constructor(createLane: (overflow: number) => TraceLane) {
    this.#createLane = createLane;
  }

  /** The track's own line, for what has no length. */
  get first(): TraceLane {
    return (this.#lines[0] ?? this.#add()).lane;
  }

  /** The lane of a span from `start` to `end` (ns; Infinity while unknown); spans come in order of start. `alone`: it must not nest. */
  place(start: number, end: number, alone: boolean): { lane: TraceLane; span: OpenSpan } {
    let best: LaneLine | undefined;
    let bestStart = Number.NEGATIVE_INFINITY;
    for (const line of this.#lines) {
      const { open } = line;
      let top = open.at(-1);
      while (top !== undefined && top.end <= start) {
        open.pop();
        top = open.at(-1);
      }
      if (top === undefined) best ??= line;
      else if (!alone && top.end >= end && top.start > bestStart) {
        best = line;
        bestStart = top.start;
      }
    }
    best ??= this.#add();
    const span = { start, end };
    best.open.push(span);
    return { lane: best.lane, span };
  }

  #add(): LaneLine {
    const line = { lane: this.#createLane(this.#lines.length), open: [] };
    this.#lines.push(line);
    return line;
  }
}
