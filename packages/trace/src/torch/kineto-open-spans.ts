// Spans of Chrome traces that come as two events, begin ("B") and end ("E"), as Horovod's timeline has them: the end closes the last begin of
// its name on its track, for spans may overlap by the rounding of their times; an end without such a begin closes the last one.
//
// Invariant: a span is complete or counted. Its length is never guessed.
// Invariant: a begin and an end take the same time whatever is open.

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

interface Entry {
  readonly span: OpenSpan;
  hasEnded: boolean;
}

/** The open spans of one track. */
class TrackSpans {
  /** In order of begin. The last one is open; of the others, at most about half have ended. */
  #entries: Entry[] = [];
  readonly #byName = new Map<number, Entry[]>();
  #ended = 0;

  get open(): OpenSpan[] {
    return this.#entries.filter(({ hasEnded }) => !hasEnded).map(({ span }) => span);
  }

  push(span: OpenSpan): void {
    const entry = { span, hasEnded: false };
    this.#entries.push(entry);
    const ofName = this.#byName.get(span.name);
    if (ofName === undefined) this.#byName.set(span.name, [entry]);
    else ofName.push(entry);
  }

  /** Takes out the last one of this name, or the last one where there is none. */
  pop(name: number): OpenSpan | undefined {
    const entry = this.#byName.get(name)?.at(-1) ?? this.#entries.at(-1);
    if (entry === undefined) return undefined;
    // It is the last one of its own name in either case.
    const ofName = this.#byName.get(entry.span.name);
    ofName?.pop();
    if (ofName?.length === 0) this.#byName.delete(entry.span.name);
    entry.hasEnded = true;
    this.#ended++;
    while (this.#entries.at(-1)?.hasEnded === true) {
      this.#entries.pop();
      this.#ended--;
    }
    if (2 * this.#ended > this.#entries.length) {
      this.#entries = this.#entries.filter(({ hasEnded }) => !hasEnded);
      this.#ended = 0;
    }
    return entry.span;
  }
}

/** The objects of a span with their numbers, and its place in a list. */
const spanBytes = 512;

export class OpenSpans {
  /** Spans begun and not ended. */
  count = 0;
  readonly #byTrack = new Map<number, TrackSpans>();
  readonly #budget: ReadBudget;

  constructor(budget: ReadBudget) {
    this.#budget = budget;
  }

  /** Runs `clear`, which clears `texts`, and puts back those of open spans. */
  keepArguments(texts: StringTable, clear: () => void): void {
    const kept = [...this.#byTrack.values()].flatMap(({ open }) => open.map((span) => [span, texts.get(span.others)] as const));
    clear();
    for (const [span, text] of kept) span.others = texts.index(text);
  }

  /** Throws TraceError `memory`. */
  begin(track: number, span: OpenSpan): void {
    this.#budget.take(spanBytes);
    const spans = this.#byTrack.get(track) ?? new TrackSpans();
    this.#byTrack.set(track, spans);
    spans.push(span);
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
    const span = this.#byTrack.get(track)?.pop(name);
    if (span === undefined) return undefined;
    this.#budget.give(spanBytes);
    this.count--;
    return span;
  }
}
