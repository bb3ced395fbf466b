// Spans of Chrome traces that come as two events, begin ("B") and end ("E"), as Horovod's timeline has them: the end closes the last begin of
// its name on its track, for spans may overlap by the rounding of their times; an end without such a begin closes the last one.
//
// Rows of equal times nest in their order in the table. Spans end innermost first, so one that began together with the span around it waits for that:
//
//   B a   B b   B c   E c   E b   E a       all at one time, as sampling profilers write them: rows a, b, c
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
  /** Begins of the file before this one. */
  number?: number;
  /** Spans inside of it that began with it and have ended. */
  inner?: EndedSpan[];
}

export interface EndedSpan extends OpenSpan {
  /** ns. */
  readonly duration: number;
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

  /** The last one that is open. */
  get last(): OpenSpan | undefined {
    return this.#entries.at(-1)?.span;
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
  #waiting = 0;
  #begun = 0;
  readonly #byTrack = new Map<number, TrackSpans>();
  readonly #budget: ReadBudget;

  constructor(budget: ReadBudget) {
    this.#budget = budget;
  }

  /** Runs `clear`, which clears `texts`, and puts back those of open spans. */
  keepArguments(texts: StringTable, clear: () => void): void {
    const kept = [...this.#byTrack.values()].flatMap(({ open }) =>
      open.flatMap((span) => [span, ...(span.inner ?? [])]).map((span) => [span, texts.get(span.others)] as const),
    );
    clear();
    for (const [span, text] of kept) span.others = texts.index(text);
  }

  /** Throws TraceError `memory`. */
  begin(track: number, span: OpenSpan): void {
    this.#budget.take(spanBytes);
    const spans = this.#byTrack.get(track) ?? new TrackSpans();
    this.#byTrack.set(track, spans);
    span.number = this.#begun++;
    spans.push(span);
    this.count++;
  }

  /** Whether a span that has ended waits for the one around it, because they began together. If not, `rowsOf` has it. Throws TraceError `memory`. */
  waits(track: number, span: EndedSpan): boolean {
    const around = this.#byTrack.get(track)?.last;
    if (around === undefined || around.micros !== span.micros || around.nanos !== span.nanos) return false;
    this.#budget.take(spanBytes);
    this.#waiting++;
    // The shorter list joins the longer one, for `rowsOf` sorts them: else each of many levels would move all that lie deeper.
    const [one = [], other = []] = [around.inner, span.inner];
    const [longer, shorter] = one.length < other.length ? [other, one] : [one, other];
    for (const inner of shorter) longer.push(inner);
    longer.push(span);
    around.inner = longer;
    return true;
  }

  /** The span and those that waited for it, in order of begin. */
  rowsOf(span: EndedSpan): readonly EndedSpan[] {
    return span.inner === undefined ? [span] : this.#ordered([...span.inner, span], span.inner.length);
  }

  /** Spans that wait for one that does not end, each with its track. */
  *takeWaiting(): Generator<readonly [track: number, span: EndedSpan]> {
    for (const [track, { open }] of this.#byTrack) {
      for (const around of open) {
        const { inner = [] } = around;
        delete around.inner;
        for (const span of this.#ordered(inner, inner.length)) yield [track, span];
      }
    }
  }

  #ordered(spans: EndedSpan[], waited: number): readonly EndedSpan[] {
    this.#waiting -= waited;
    this.#budget.give(waited * spanBytes);
    return spans.sort((a, b) => (a.number ?? 0) - (b.number ?? 0));
  }

  /** Forgets all open spans and those that wait for them; returns how many there were. */
  clear(): number {
    const count = this.count + this.#waiting;
    this.#byTrack.clear();
    this.#budget.give(count * spanBytes);
    this.count = 0;
    this.#waiting = 0;
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
