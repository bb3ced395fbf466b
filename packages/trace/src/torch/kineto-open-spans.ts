// Spans of Chrome traces that come as two events, begin ("B") and end ("E"), as Horovod's timeline has them: the end closes the last begin of
// its track.
//
// Invariant: a span is complete or counted. Its length is never guessed.

import type { ReadBudget } from '../model/read-budget.ts';

export interface OpenSpan {
  /** Time as in the file: whole µs, and ns below that. */
  readonly micros: number;
  readonly nanos: number;
  /** String indexes; `others` 0 for none. */
  readonly name: number;
  readonly category: number;
  readonly others: number;
}

/** An object and its place in a list. */
const spanBytes = 96;

export class OpenSpans {
  /** Spans begun and not ended. */
  count = 0;
  readonly #byTrack = new Map<number, OpenSpan[]>();
  readonly #budget: ReadBudget;

  constructor(budget: ReadBudget) {
    this.#budget = budget;
  }

  /** Throws TraceError `memory`. */
  begin(track: number, span: OpenSpan): void {
    this.#budget.take(spanBytes);
    const open = this.#byTrack.get(track);
    if (open === undefined) this.#byTrack.set(track, [span]);
    else open.push(span);
    this.count++;
  }

  /** The span that ends now; undefined if none is open. */
  end(track: number): OpenSpan | undefined {
    const span = this.#byTrack.get(track)?.pop();
    if (span === undefined) return undefined;
    this.#budget.give(spanBytes);
    this.count--;
    return span;
  }
}
