// A stretch of a run: its steps from one number to another, and the events of each rank during them.
//
//   first pass    StepTimesSink     start and end of these steps on each rank
//   second pass   StepRangeSink     passes on the events that began in between
//
// Two passes, because a step event comes at the step's end, after all events inside it.

import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';

/** Finds the times of the steps from `first` to `last`, both included, on each rank. */
export class StepTimesSink implements TraceSink {
  readonly #first: number;
  readonly #last: number;
  /** By process index: start and end of its steps in the range, ns of the trace. */
  readonly times = new Map<number, { readonly from: number; readonly until: number }>();
  /** The first and the last step of the whole run; undefined when it has none. */
  steps: { readonly first: number; readonly last: number } | undefined;
  /** Begin of the first step of the whole run, on any rank; undefined when it has none. */
  firstStart: number | undefined;

  constructor(first: number, last: number) {
    this.#first = first;
    this.#last = last;
  }

  begin(): void {}
  lane(): void {}

  event({ kind, step, start, length, lane }: TraceEvent): void {
    if (kind !== 'step') return;
    const { first = step, last = step } = this.steps ?? {};
    this.steps = { first: Math.min(first, step), last: Math.max(last, step) };
    this.firstStart = Math.min(this.firstStart ?? start, start);
    if (step < this.#first || step > this.#last) return;
    const { index } = lane.process;
    const { from = start, until = start + length } = this.times.get(index) ?? {};
    this.times.set(index, { from: Math.min(from, start), until: Math.max(until, start + length) });
  }

  endStretch(): void {}

  end(): void {}
}

/** Passes on to `sink` the events that began within `times`; header, lanes and totals are those of the run. */
export class StepRangeSink implements TraceSink {
  readonly #times: StepTimesSink['times'];
  readonly #sink: TraceSink;
  /** Absent where `sink` has none. */
  readonly endStretch?: () => void;

  constructor(times: StepTimesSink['times'], sink: TraceSink) {
    this.#times = times;
    this.#sink = sink;
    if (sink.endStretch !== undefined) this.endStretch = () => sink.endStretch?.();
  }

  begin(header: TraceHeader): void {
    this.#sink.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#sink.lane(lane);
  }

  event(event: TraceEvent): void {
    const times = this.#times.get(event.lane.process.index);
    if (times !== undefined && event.start >= times.from && event.start < times.until) this.#sink.event(event);
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#sink.end(totals);
  }
}
