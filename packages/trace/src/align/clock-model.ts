// From one host's monotonic clock to the run's time axis: a continuous, increasing, piecewise linear function.
//
//   trace = host + offset(host),   offset linear between knots, constant before the first and after the last
//
// One host = one clock: every rank of a host goes through the same model, so times within a host keep their order, and their distances to
// within the drift between two knots.
// Invariant: offsets and the knots' times are whole ns and no offset falls faster than time passes, so no two times change places.

import { type Nanos, type RankTime, type TraceTime, traceTime } from '@ranktrace/protocol';
import type { Alignment } from '../trace-sink.ts';

/** Knots of a clock model: at host time `at[i]` (whole ns) the trace axis is `offset[i]` whole ns ahead. */
export interface ClockKnots {
  readonly at: Float64Array;
  readonly offset: Float64Array;
}

export class ClockModel {
  readonly alignment: Alignment;
  readonly #knots: ClockKnots;
  #segment = 0;

  /** At least one knot, `at` strictly increasing. `bound`: see `Alignment`. */
  constructor(method: Alignment['method'], knots: ClockKnots, bound: Nanos | undefined) {
    this.#knots = knots;
    this.alignment = { method, bound };
  }

  /** A clock that runs with the axis, `offset` whole ns behind it. */
  static shifted(method: Alignment['method'], offset: number, bound: Nanos | undefined): ClockModel {
    return new ClockModel(method, { at: Float64Array.of(0), offset: Float64Array.of(offset) }, bound);
  }

  /** ns on the trace axis of `time` ns on the host's clock; whole ns, so that equal inputs stay equal. */
  toTrace(time: number): TraceTime {
    return traceTime(Math.round(time + this.#offsetAt(time)));
  }

  /** The same clock read by a rank whose RankTime 0 is `epoch` ns on the host's clock. */
  forRank(epoch: number): RankClock {
    const exact = this.#knots.at.length === 1 ? epoch + (this.#knots.offset[0] as number) : undefined;
    return { exact, toTrace: (time) => (exact === undefined ? this.toTrace(time + epoch) : traceTime(time + exact)) };
  }

  #offsetAt(time: number): number {
    const { at, offset } = this.#knots;
    const last = at.length - 1;
    if (time <= (at[0] as number)) return offset[0] as number;
    if (time >= (at[last] as number)) return offset[last] as number;
    // Times come nearly in order: the segment of the last call is right or its neighbour is.
    let segment = this.#segment;
    while (time < (at[segment] as number)) segment--;
    while (time >= (at[segment + 1] as number)) segment++;
    this.#segment = segment;
    const left = at[segment] as number;
    const share = (time - left) / ((at[segment + 1] as number) - left);
    return (offset[segment] as number) + share * ((offset[segment + 1] as number) - (offset[segment] as number));
  }
}

export interface RankClock {
  /** ns to add to a RankTime, when that is all there is to it. */
  readonly exact: number | undefined;
  toTrace(time: RankTime | number): TraceTime;
}
