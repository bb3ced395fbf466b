// Pings of one host → the offset of its clock at every time, with proven limits.
//
//   pings ─► steps cut it into segments ─► each: windows of 2 s ─► filter ─► curve        offset-windows.ts, offset-filter.ts
//                                      └─► envelope, about that curve                     offset-envelope.ts
//
//   offset   ──•──────•───╮         knots: one per window, in its middle, and one at each end of a segment, by the drift found there
//                         ╰──•──    at a step the offset changes at once, half way between the pings beside it; more precisely
//                                   (step-places.ts) where the host shared events with others in between
//
// A clock that is set back shows some times twice, and one that is set ahead skips some. So each side of a step states the host times at which it
// may have been read; where both may, the limits are those of both.
//
// Invariant: the offset falls no faster than time passes (trace time never runs backwards), and lies within the limits where pings agree.

import { type Nanos, nanos, nanosPerSecond } from '@ranktrace/protocol';
import { countBelow } from '../model/count-below.ts';
import type { ClockKnots } from './clock-model.ts';
import { clockBreaks } from './clock-steps.ts';
import { type HostPing, inOrder } from './host-pings.ts';
import { driftMax, driftUsual, type FittedCurve, OffsetEnvelope, type OffsetLimits } from './offset-envelope.ts';
import { type SmoothOffset, scatterOf, smoothOffsets } from './offset-filter.ts';
import { OffsetSpread, type WindowOffset, windowOffsets } from './offset-windows.ts';
import { type BesideStep, placeStep, type SharedPing } from './step-places.ts';

/** Windows of the filter, and the best pings of each that are averaged. */
const filterWindowNs = 2 * nanosPerSecond;
const bestPings = 2;
/** Knots, offsets and results are whole ns: each of these roundings is at most half of one. */
const roundingNs = 2;

interface Segment {
  readonly envelope: OffsetEnvelope;
  /** Host times between which it is the model. */
  readonly from: number;
  readonly until: number;
  /** Host times between which the clock may have been read on this side of its steps. */
  readonly readFrom: number;
  readonly readUntil: number;
}

/** Limits by a ping that fits none of its neighbours, and host times between which the clock may have had them. */
interface Stray extends OffsetLimits {
  readonly readFrom: number;
  readonly readUntil: number;
}

/** Limits of a host's offset at every time. */
export class HostLimits {
  readonly #segments: readonly Segment[];
  readonly #strays: readonly Stray[];
  /** Host times beyond which another side of a step may or may not have been read. */
  readonly edges: readonly number[];

  /** At least one segment, in the order in which the clock went through them. */
  constructor(segments: readonly Segment[], strays: readonly Stray[]) {
    this.#segments = segments;
    this.#strays = strays;
    this.edges = [...segments, ...strays].flatMap(({ readFrom, readUntil }) => [readFrom, readUntil].filter(Number.isFinite));
  }

  /** Limits at host time `time`: those of every side of a step that it may be on, and of strays. */
  at(time: number): OffsetLimits {
    let [lower, upper] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const cover = (limits: OffsetLimits): void => {
      lower = Math.min(lower, limits.lower);
      upper = Math.max(upper, limits.upper);
    };
    for (const segment of this.#segments) if (mayRead(segment, time)) cover(segment.envelope.at(time));
    // The clock never showed this time.
    if (lower > upper) cover(this.#modelAt(time).envelope.at(time));
    for (const stray of this.#strays) if (mayRead(stray, time)) cover(stray);
    return { lower, upper };
  }

  /** How far from `offset` the truth may be at host time `time`, ns. */
  distance(time: number, offset: number): number {
    const { lower, upper } = this.at(time);
    return Math.max(upper - offset, offset - lower) + roundingNs;
  }

  /** An upper bound of the distance to the offset that `offsetAt` gives, which is linear between `knots`, over [from, until]. */
  worst(from: number, until: number, knots: Float64Array, offsetAt: (time: number) => number): Nanos {
    let worst = 0;
    for (const time of [from, until, ...this.edges])
      if (time >= from && time <= until) worst = Math.max(worst, this.distance(time, offsetAt(time)));
    for (const { envelope, readFrom, readUntil } of this.#segments) {
      // A clock that was set back shows times from before its segment began.
      const [begin, end] = [Number.isFinite(readFrom) ? readFrom : from, Number.isFinite(readUntil) ? readUntil : until];
      worst = Math.max(worst, worstOf(envelope, begin, end, knots, offsetAt));
    }
    for (const stray of this.#strays) {
      for (const time of [from, until, ...knots]) if (mayRead(stray, time)) worst = Math.max(worst, this.distance(time, offsetAt(time)));
    }
    return nanos(Math.ceil(worst));
  }

  /** The same, over [from, until] in which there is none of `edges`. */
  worstBetweenEdges(from: number, until: number, knots: Float64Array, offsetAt: (time: number) => number): Nanos {
    const segments = this.#segments.filter((segment) => mayRead(segment, from));
    // The clock never showed these times.
    if (segments.length === 0) segments.push(this.#modelAt(from));
    let worst = 0;
    for (const { envelope } of segments) worst = Math.max(worst, worstOf(envelope, from, until, knots, offsetAt));
    const isUnderStray = this.#strays.some((stray) => mayRead(stray, from));
    const times = isUnderStray ? [from, until, ...knotsWithin(knots, from, until)] : [];
    for (const time of times) worst = Math.max(worst, this.distance(time, offsetAt(time)));
    return nanos(Math.ceil(worst));
  }

  /** The segment that is the model at host time `time`. */
  #modelAt(time: number): Segment {
    return this.#segments.findLast(({ from }) => time >= from) ?? (this.#segments[0] as Segment);
  }
}

/** An upper bound of the distance to `offsetAt` by one segment's proofs, over [from, until] (none if `until` is before); ns. */
function worstOf(envelope: OffsetEnvelope, from: number, until: number, knots: Float64Array, offsetAt: (time: number) => number): number {
  if (from > until) return 0;
  let worst = 0;
  const times = Float64Array.from([from, until, ...envelope.bends(from, until), ...knotsWithin(knots, from, until)]).sort();
  // Between two of these times every proof is linear, so the lesser of two is at most the lesser of their larger ends.
  const before = new Float64Array(4).fill(Number.NEGATIVE_INFINITY);
  const most = before.slice();
  for (const time of times) {
    const offset = offsetAt(time);
    const [far, near = far] = envelope.proofs(time);
    const set = (side: number, off: number): void => {
      most[side] = Math.max(off, before[side] as number);
      before[side] = off;
    };
    set(0, far.upper - offset);
    set(1, near.upper - offset);
    set(2, offset - far.lower);
    set(3, offset - near.lower);
    const [overFar, overNear, underFar, underNear] = most as unknown as [number, number, number, number];
    worst = Math.max(worst, Math.min(overFar, overNear) + roundingNs, Math.min(underFar, underNear) + roundingNs);
  }
  return worst;
}

/** `knots` of [from, until]. */
const knotsWithin = (knots: Float64Array, from: number, until: number): Float64Array =>
  knots.subarray(
    countBelow(knots.length, (place) => (knots[place] as number) < from),
    countBelow(knots.length, (place) => (knots[place] as number) <= until),
  );

const mayRead = ({ readFrom, readUntil }: { readonly readFrom: number; readonly readUntil: number }, time: number): boolean =>
  time >= readFrom && time <= readUntil;

export interface HostOffset {
  readonly knots: ClockKnots;
  readonly limits: HostLimits;
  readonly spread: OffsetSpread;
  /** The clock's steps: host times, and the pings on either side of each. */
  readonly steps: readonly BesideStep[];
  /** Drift ρ that the limits assume, ns per ns: above `driftUsual` where the pings show that the clock runs faster or slower than that. */
  readonly drift: number;
}

export interface OffsetHints {
  /** Offsets that pings show better than by the middle of their limits, in order of time: where there are any, the model is made of them. */
  readonly known?: (pings: readonly HostPing[]) => readonly WindowOffset[];
  /** Collectives and calls with other hosts while the clock stepped, as pings: they locate the step between two pings. */
  readonly together?: readonly SharedPing[];
  /** The clock is one that others read too, and is not known to have stepped. */
  readonly isSteady?: boolean;
}

/** Fits at least one ping, in the order in which they were made, for host times in [from, until] ns. */
export function fitHostOffset(
  pings: readonly HostPing[],
  from: number,
  until: number,
  { known = () => [], together = [], isSteady = false }: OffsetHints = {},
): HostOffset {
  const breaks = isSteady ? { steps: [], strays: [] } : clockBreaks(pings, known(pings).length > 0);
  const strayPings = new Set(breaks.strays.map((index) => pings[index] as HostPing));
  const parts = [0, ...breaks.steps].map((first, place) => pings.slice(first, breaks.steps[place]).filter((ping) => !strayPings.has(ping)));
  const steps = parts.slice(1).map((part, place) => placeStep(parts[place] as HostPing[], part, together));
  const segments: Segment[] = [];
  const measured: WindowOffset[] = [];
  const at: number[] = [];
  const offset: number[] = [];
  for (const [place, part] of parts.entries()) {
    const own = part.toSorted(inOrder);
    const [before, after] = [steps[place - 1], steps[place]];
    const [begin, end] = [before?.at ?? Number.NEGATIVE_INFINITY, after?.until ?? Number.POSITIVE_INFINITY];
    const [first, last] = [own[0] as HostPing, own.at(-1) as HostPing];
    const span = {
      from: Math.max(begin, Math.min(from, first.upperAt, first.lowerAt)),
      until: Math.min(end, Math.max(until, last.upperAt, last.lowerAt)),
    };
    const better = known(own);
    const windows = better.length > 0 ? better : windowOffsets(own, filterWindowNs, bestPings);
    for (const window of windows) measured.push(window);
    const smooth = smoothOffsets(windows);
    const curve = better.length > 0 ? undefined : curveOf(windows, smooth);
    const envelope = new OffsetEnvelope(own, { driftSeen: curve?.driftSeen ?? 0, isSteady, ...(curve && { curve }) });
    segments.push({
      envelope,
      ...span,
      // The last ping before a step preceded the first after it on the reference's clock, whatever the host's own clock showed.
      readFrom: before === undefined ? Number.NEGATIVE_INFINITY : before.last.at + before.last.lower - first.upper,
      readUntil: after === undefined ? Number.POSITIVE_INFINITY : after.first.at + after.first.upper - last.lower,
    });
    for (const knot of knotsOf(smooth, segments[place] as Segment)) {
      at.push(knot.at);
      offset.push(knot.offset);
    }
  }
  const strays = breaks.strays.flatMap((index) => strayAt(pings, index, strayPings));
  const drift = Math.max(...segments.map(({ envelope }) => envelope.drift));
  const spread = new OffsetSpread(measured.sort((a, b) => a.at - b.at));
  return { knots: increasing(at, offset), limits: new HostLimits(segments, strays), spread, steps, drift };
}

/** Limits of a stray between the nearest pings that are no strays: by the host's clock, and by the reference's if the stray is right. */
function strayAt(pings: readonly HostPing[], index: number, strays: ReadonlySet<HostPing>): Stray[] {
  const { upper, lower } = pings[index] as HostPing;
  const isNone = (ping: HostPing): boolean => !strays.has(ping);
  const before = pings.slice(0, index).findLast(isNone);
  const after = pings.slice(index + 1).find(isNone);
  const [from, until] = [before?.at ?? Number.NEGATIVE_INFINITY, after?.at ?? Number.POSITIVE_INFINITY];
  const beside = { upper, lower, readFrom: from, readUntil: until };
  const [earlier, later] = [(before?.lower ?? upper) - upper, (after?.upper ?? lower) - lower];
  return Math.max(Math.abs(earlier), Math.abs(later)) > strayStepMax
    ? [beside]
    : [beside, { upper, lower, readFrom: from + earlier, readUntil: until + later }];
}

/** A stray that implies a clock change of more than this, ns, is not believed that far: it counts only beside itself. */
const strayStepMax = 3600 * nanosPerSecond;

/** Fewest windows that make a curve: any curve would fit fewer. */
const curveWindowsMin = 11;
/** Distances, in windows, of the pairs that are compared: near pairs show sudden changes, far ones slow changes. */
const reaches = [1, 2, 5] as const;
/** Factor on the speed at which windows left the curve; its least, ns per ns; and the time within which windows' openness counts, ns. */
const leftFactor = 2;
const leftMin = 0.2e-6;
const leftOpenNs = 10 * nanosPerSecond;
/** Where windows leave more than this open, ns, the curve itself may be off by that, from one window to the next. */
const calmNs = 50_000;
const restlessNs = nanosPerSecond;
/** A drift that was seen goes on for a while, somewhat faster or slower. */
const driftMargin = 1.2;
/** Least uncertainty of a window's offset, ns; and the factor on the scatter of the windows. */
const windowNoise = 3000;
const scatterFactor = 2;

interface Curve extends FittedCurve {
  /** The largest drift that the windows prove, ns per ns; 0 where it is a usual one. */
  readonly driftSeen: number;
}

/** The curve through smoothed windows, and how fast the clock leaves it. */
function curveOf(windows: readonly WindowOffset[], smooth: readonly SmoothOffset[]): Curve | undefined {
  if (windows.length < curveWindowsMin) return undefined;
  // A run of weeks has too many windows for the arguments of one call.
  const shortest = windows.reduce((least, { width }) => Math.min(least, width), Number.POSITIVE_INFINITY);
  const noise = Math.max(windowNoise, scatterFactor * scatterOf(windows));
  const openOf = ({ width }: WindowOffset): number => (width - shortest) / 2 + noise;
  const off = windows.map(({ offset }, place) => offset - (smooth[place] as SmoothOffset).offset);
  // By place: how fast the clock leaves the curve from the previous window to this one.
  const left = new Float64Array(windows.length).fill(leftMin);
  let driftSeen = 0;
  for (const reach of reaches) {
    for (let place = reach; place < windows.length; place++) {
      const [one, other] = [windows[place - reach], windows[place]] as [WindowOffset, WindowOffset];
      const sure = (change: number): number => Math.max(0, Math.abs(change) - openOf(one) - openOf(other)) / (other.at - one.at);
      driftSeen = Math.max(driftSeen, sure(other.offset - one.offset));
      const open = Math.max(openOf(one), openOf(other));
      const openRate = open / (open <= calmNs ? leftOpenNs : restlessNs);
      const seen = leftMin + openRate + leftFactor * sure((off[place] as number) - (off[place - reach] as number));
      // A sudden change moves the curve from one window before it to one window after.
      const [from, to] = [Math.max(0, place - reach), Math.min(windows.length - 1, place + 1)];
      for (let between = from; between <= to; between++) left[between] = Math.max(left[between] as number, seen);
    }
  }
  const bends = smooth.map(({ at }) => at);
  const leftBy = new Float64Array(windows.length);
  for (let place = 1; place < windows.length; place++) {
    leftBy[place] = (leftBy[place - 1] as number) + (left[place] as number) * ((bends[place] as number) - (bends[place - 1] as number));
  }
  const between = throughPoints(bends);
  return {
    offsetAt: (time) =>
      between(
        time,
        (place) => (smooth[place] as SmoothOffset).offset,
        (place) => clamp((smooth[place] as SmoothOffset).drift, -driftMax, driftMax),
      ),
    leftBy: (time) =>
      between(
        time,
        (place) => leftBy[place] as number,
        (place) => left[place] as number,
      ),
    bends,
    driftSeen: driftSeen > driftUsual / 2 ? driftSeen * driftMargin : 0,
  };
}

/** Interpolates linearly between values at times; beyond the ends it follows a slope. Fast when asked in order of time. */
function throughPoints(at: readonly number[]) {
  const last = at.length - 1;
  let near = 0;
  return (time: number, value: (place: number) => number, slope: (place: number) => number): number => {
    while (near > 0 && (at[near] as number) > time) near--;
    while (near < last && (at[near + 1] as number) <= time) near++;
    const from = at[near] as number;
    if (time < from || near === last) return value(near) + slope(near) * (time - from);
    return value(near) + ((time - from) / ((at[near + 1] as number) - from)) * (value(near + 1) - value(near));
  };
}

/** Knots of a segment, in order of time: the smoothed windows inside it, and its ends. */
function knotsOf(smooth: readonly SmoothOffset[], { envelope, from, until }: Segment): { at: number; offset: number }[] {
  const [first, last] = [smooth[0] as SmoothOffset, smooth.at(-1) as SmoothOffset];
  const beyond = ({ at, offset, drift }: SmoothOffset, time: number) => ({
    at: time,
    offset: offset + clamp(drift, -driftMax, driftMax) * (time - at),
  });
  const inside = smooth.filter(({ at }) => at > from && at < until);
  const nearest = inside.length === 0 ? [beyond(first, from), beyond(first, until)] : [beyond(first, from), ...inside, beyond(last, until)];
  // Between its pings the limits bind; beyond them they only widen.
  return nearest.map(({ at, offset }) => {
    const near = envelope.withoutStep(at);
    const { lower, upper } = near.lower <= near.upper ? near : envelope.at(at);
    return { at: Math.round(at), offset: clamp(offset, lower, upper) };
  });
}

/**
 * Whole ns, times strictly increasing, and no offset falling faster than time passes: where a clock stepped ahead, its readings skipped the
 * times in between, so the offset falls over those.
 */
export function increasing(at: readonly number[], offset: readonly number[]): ClockKnots {
  const times: number[] = [];
  const offsets: number[] = [];
  for (const [index, time] of at.entries()) {
    const last = times.length - 1;
    if (last >= 0 && time <= (times[last] as number)) continue;
    let value = Math.round(offset[index] as number);
    const fall = last < 0 ? 0 : (offsets[last] as number) - value;
    if (fall > 0 && fall > time - (times[last] as number)) {
      const room = last === 0 ? 0 : time - fall - (times[last - 1] as number);
      if (last === 0 || (room > 0 && (offsets[last - 1] as number) - (offsets[last] as number) <= room)) times[last] = time - fall;
      else value = (offsets[last] as number) - (time - (times[last] as number));
    }
    times.push(time);
    offsets.push(value);
  }
  // A constant offset needs only one knot.
  if (offsets.every((value) => value === offsets[0])) times.length = offsets.length = 1;
  return { at: Float64Array.from(times), offset: Float64Array.from(offsets) };
}

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);
