// From one host's monotonic clock to the run's time axis: a continuous, increasing, piecewise linear function.
//
//   trace = host + offset(host),   offset linear between knots, constant before the first and after the last
//
// One host = one clock: all ranks of a host use the same model, so times within a host keep their order, and their distances to
// within the drift between two knots.
// Invariant: offsets and the knots' times are whole ns and no offset falls faster than time passes, so no two times change places.

import { type Nanos, nanos, type RankTime, type TraceTime, traceTime } from '@ranktrace/protocol';
import { countBelow } from '../model/count-below.ts';
import type { Alignment } from '../model/trace-sink.ts';
import type { HostLimits } from './host-offset.ts';
import { driftUsual } from './offset-envelope.ts';

/** Knots of a clock model: at host time `at[i]` (whole ns) the trace axis is `offset[i]` whole ns ahead. */
export interface ClockKnots {
  readonly at: Float64Array;
  readonly offset: Float64Array;
}

/** ns of the axis around an edge in which host times may be far apart. */
const edgeNs = 1e6;

/** Proven limits of a model's error. */
export interface ClockProof {
  readonly limits: HostLimits;
  /** Host times between which the bound must hold. */
  readonly from: number;
  readonly until: number;
  /** ± of the clock that the limits are relative to, ns. Default 0. */
  readonly referenceBound?: number;
  /** Host times at which the clock stepped, and ns by which it was set ahead (below 0: back). */
  readonly steps?: readonly { readonly at: number; readonly jump: number }[];
  /** Drift ρ that the limits assume, ns per ns; absent: the usual one. */
  readonly drift?: number;
  /** Stretches of the axis in which events are shifted, see `Alignment`. */
  readonly shifted?: readonly { readonly from: number; readonly until: number; readonly most: number }[];
}

export class ClockModel {
  readonly alignment: Alignment;
  readonly knots: ClockKnots;
  #segment = 0;

  /** At least one knot, `at` strictly increasing. `bound`: see `Alignment`. */
  constructor(method: Alignment['method'], knots: ClockKnots, bound: Nanos | undefined, more: Partial<Alignment> = {}) {
    this.knots = knots;
    this.alignment = { method, bound, ...more };
  }

  /** A clock that runs with the axis, `offset` whole ns behind it. */
  static shifted(method: Alignment['method'], offset: number, bound: Nanos | undefined): ClockModel {
    return new ClockModel(method, { at: Float64Array.of(0), offset: Float64Array.of(offset) }, bound);
  }

  /** A clock with a bounded error at every time. */
  static proven(method: Alignment['method'], knots: ClockKnots, proof: ClockProof): ClockModel {
    const { limits, from, until, referenceBound = 0, steps = [], drift = driftUsual, shifted = [] } = proof;
    const bare = new ClockModel(method, knots, undefined);
    const worst = nanos(limits.worst(from, until, knots.at, (time) => bare.offsetAt(time)) + referenceBound);
    // Where a clock was set ahead, many of its times map near one axis time: those at the edges are the furthest off.
    const edges = limits.edges.map((own) => ({ own, time: bare.toTrace(own) }));
    const boundAt = (time: TraceTime): Nanos => {
      let distance = 0;
      const look = (own: number): void => {
        distance = Math.max(distance, limits.distance(own, bare.offsetAt(own)));
      };
      look(bare.toHost(time));
      for (const edge of edges) {
        if (Math.abs(edge.time - time) > edgeNs) continue;
        look(bare.toHost(time - 1));
        look(bare.toHost(time + 1));
        if (Math.abs(edge.time - time) <= 1) look(edge.own);
      }
      return nanos(Math.min(worst, Math.ceil(distance) + referenceBound));
    };
    const boundWithin = (from: TraceTime, until: TraceTime): Nanos => {
      const [begin, end] = [bare.toHost(from - edgeNs), bare.toHost(until + edgeNs)];
      if (limits.edges.some((edge) => edge >= begin && edge <= end)) return worst;
      const within = limits.worstBetweenEdges(begin, end, knots.at, (time) => bare.offsetAt(time));
      return nanos(Math.min(worst, within + referenceBound));
    };
    const clockSteps = steps.map(({ at }) => bare.toTrace(at));
    const clockJumps = steps.map(({ jump }) => nanos(Math.round(jump)));
    const stretches = shifted.map((stretch) => ({
      from: traceTime(stretch.from),
      until: traceTime(stretch.until),
      most: nanos(stretch.most),
    }));
    return new ClockModel(method, knots, worst, {
      boundAt,
      boundWithin,
      ...(clockSteps.length === 0 ? {} : { clockSteps, clockJumps }),
      ...(drift > driftUsual ? { driftPpm: Math.round(drift * 1e6) } : {}),
      ...(stretches.length === 0 ? {} : { shifted: stretches }),
    });
  }

  /** The same clock, with a proof of how far it is from others. */
  knownApart(apart: Required<Pick<Alignment, 'apartAt' | 'apartWithin'>>): ClockModel {
    const { method, bound } = this.alignment;
    return new ClockModel(method, this.knots, bound, { ...this.alignment, ...apart });
  }

  /** ns on the trace axis of `time` ns on the host's clock; whole ns, so that equal inputs stay equal. */
  toTrace(time: number): TraceTime {
    return traceTime(Math.round(time + this.offsetAt(time)));
  }

  /** The host's clock at a time of the trace, ns: the inverse of `toTrace`, to within rounding where the offset is smooth. */
  toHost(time: number): number {
    const { at, offset } = this.knots;
    let [low, high] = [0, at.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((at[middle] as number) + (offset[middle] as number) <= time) low = middle;
      else high = middle - 1;
    }
    const [left, before] = [at[low] as number, offset[low] as number];
    if (low === at.length - 1 || time <= left + before) return time - before;
    const [right, after] = [at[low + 1] as number, offset[low + 1] as number];
    const span = right + after - left - before;
    return span === 0 ? left : left + ((time - left - before) / span) * (right - left);
  }

  /** The same clock read by a rank with RankTime 0 at `epoch` ns on the host's clock. */
  forRank(epoch: number): RankClock {
    const exact = this.knots.at.length === 1 ? epoch + (this.knots.offset[0] as number) : undefined;
    return { exact, toTrace: (time) => (exact === undefined ? this.toTrace(time + epoch) : traceTime(time + exact)) };
  }

  /** The largest difference between offsets from host time `from` to `until`, ns. */
  wiggle(from: number, until: number): number {
    const { at, offset } = this.knots;
    let [least, most] = [this.offsetAt(from), this.offsetAt(from)];
    const see = (value: number): void => {
      least = Math.min(least, value);
      most = Math.max(most, value);
    };
    for (let place = countBelow(at.length, (knot) => (at[knot] as number) <= from); (at[place] ?? until) < until; place++) {
      see(offset[place] as number);
    }
    see(this.offsetAt(until));
    return most - least;
  }

  /** The offset to add to `time` on the host's clock, ns. */
  offsetAt(time: number): number {
    const { at, offset } = this.knots;
    const last = at.length - 1;
    if (time <= (at[0] as number)) return offset[0] as number;
    if (time >= (at[last] as number)) return offset[last] as number;
    // Times come nearly in order: the right segment is that of the last call or its neighbour.
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
  /** ns to add to a RankTime, when the mapping is constant. */
  readonly exact: number | undefined;
  toTrace(time: RankTime | number): TraceTime;
}

/** The clock of a rank whose own time is the axis. */
export const ownClock: RankClock = { exact: 0, toTrace: (time) => traceTime(time) };

/** A rank's time on the axis; where the mapping is constant, without the call to `toTrace`. */
export const onAxis = (clock: RankClock, time: number): TraceTime =>
  clock.exact === undefined ? clock.toTrace(time) : traceTime(time + clock.exact);
