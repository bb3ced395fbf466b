// Spans of Chrome traces that come as two events, begin ("B") and end ("E"), as Horovod's timeline has them: the end closes the last begin of
// its name on its track, for spans may overlap by the rounding of their times; an end without such a begin closes the last one.
//
// Invariant: a span is complete or counted. Its length is never guessed.

import type { ReadBudget } from '../model/read-budget.ts';
import type { StringTable } from '../model/string-table.ts';
import type { EventArguments } from './kineto-event-arguments.ts';

export interface OpenSpan {
  /** Time as in the file: whole µs, and ns below that. */
  readonly micros: number;
  readonly nanos: number;
  /** String indexes. */
  readonly name: number;
  readonly category: number;
  readonly arguments: EventArguments;
  /** As in `events`; 0 for none. */
  others: number;
}

/** The objects of a span with their numbers, and its place in a list. */
const spanBytes = 512;

export class OpenSpans {
  /** Spans begun and not ended. */
  count = 0;
  readonly #byTrack = new Map<number, OpenSpan[]>();
  readonly #budget: ReadBudget;

  constructor(budget: ReadBudget) {
    this.#budget = budget;
  }

  /** Runs `clear`, which clears `texts`, and puts back those of open spans. */
  keepArguments(texts: StringTable, clear: () => void): void {
    const kept = [...this.#byTrack.values()].flatMap((open) => open.map((span) => [span, texts.get(span.others)] as const));
    clear();
    for (const [span, text] of kept) span.others = texts.index(text);
  }

  /** Throws TraceError `memory`. */
  begin(track: number, span: OpenSpan): void {
    this.#budget.take(spanBytes);
    const open = this.#byTrack.get(track);
    if (open === undefined) this.#byTrack.set(track, [span]);
    else open.push(span);
    this.count++;
  }

  /** Forgets all open spans; returns how many there were. */
  clear(): number {
    const { count } = this;
    this.#byTrack.clear();
    this.#budget.give(count * spanBytes);
    this.count = 0;
    return count;
  }

  /** The span that ends now: the last one of this name, or the last one where the end has another name or none (below 0). Undefined if none is open. */
  end(track: number, name: number): OpenSpan | undefined {
    const open = this.#byTrack.get(track) ?? [];
    const [span] = open.splice(name < 0 ? -1 : open.findLastIndex((one) => one.name === name), 1);
    if (span === undefined) return undefined;
    this.#budget.give(spanBytes);
    this.count--;
    return span;
  }
}
