// Pings of one host → the offset of its clock at every time, and limits that are proven.
//
//   pings ─► steps cut it into segments ─► each: windows of 2 s ─► filter ─► curve        offset-windows.ts, offset-filter.ts
//                                      └─► envelope, about that curve                     offset-envelope.ts
//
//   offset   ──•──────•───╮         knots: one per window, in its middle, and one at each end of a segment, by the drift found there
//                         ╰──•──    at a step the offset changes at once, half way between the pings beside it; nearer (step-places.ts)
//                                   where the host did something together with others meanwhile
//
// A clock that is set back shows times twice, and one that was set ahead left some out. So each side of a step says between which host times it may
// have been read; where both may, the limits are those of both.
//
// Invariant: the offset falls no faster than time passes (trace time never runs backwards), and lies within the limits where pings agree.

import { type Nanos, nanos, nanosPerSecond } from '@ranktrace/protocol';
import type { ClockKnots } from './clock-model.ts';
import { clockBreaks } from './clock-steps.ts';
import type { HostPing } from './host-pings.ts';
import { driftMax, driftUsual, type FittedCurve, OffsetEnvelope, type OffsetLimits } from './offset-envelope.ts';
import { type SmoothOffset, smoothOffsets } from './offset-filter.ts';
import { type WindowOffset, windowOffsets } from './offset-windows.ts';
import { type BesideStep, placeStep } from './step-places.ts';

/** Windows of the filter, and the best pings of each whose mean is taken. */
const filterWindowNs = 2 * nanosPerSecond;
const bestPings = 2;
/** Whole ns for knots, offsets and results: none of these roundings is more than half of one. */
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

/** What a ping says that fits none of those about it: limits that the clock may have had between the pings beside it. */
interface Stray extends OffsetLimits {
  readonly from: number;
  readonly until: number;
}

/** Limits of a host's offset at every time. */
export class HostLimits {
  readonly #segments: readonly Segment[];
  readonly #strays: readonly Stray[];

  /** At least one segment, in the order in which the clock had them. */
  constructor(segments: readonly Segment[], strays: readonly Stray[]) {
    this.#segments = segments;
    this.#strays = strays;
  }

  /** Limits at host time `time`: of every side of a step that it may be on, and of strays. */
  at(time: number): OffsetLimits {
    let [lower, upper] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const cover = (limits: OffsetLimits): void => {
      lower = Math.min(lower, limits.lower);
      upper = Math.max(upper, limits.upper);
    };
    let model = this.#segments[0] as Segment;
    for (const segment of this.#segments) {
      if (time >= segment.from) model = segment;
      if (time >= segment.readFrom && time <= segment.readUntil) cover(segment.envelope.at(time));
    }
    // A time that the clock never showed.
    if (lower > upper) cover(model.envelope.at(time));
    for (const stray of this.#strays) if (time > stray.from && time < stray.until) cover(stray);
    return { lower, upper };
  }

  /** How far from `offset` the truth may be at host time `time`, ns. */
  distance(time: number, offset: number): number {
    const { lower, upper } = this.at(time);
    return Math.max(upper - offset, offset - lower) + roundingNs;
  }

  /** The largest distance from the offset that `offsetAt` gives, which is linear between `knots`, over [from, until]. */
  worst(from: number, until: number, knots: Float64Array, offsetAt: (time: number) => number): Nanos {
    let worst = 0;
    const look = (time: number): void => {
      if (time >= from && time <= until) worst = Math.max(worst, this.distance(time, offsetAt(time)));
    };
    look(from);
    for (const segment of this.#segments) {
      for (const time of segment.envelope.bends(Math.max(from, segment.readFrom), Math.min(until, segment.readUntil))) look(time);
      for (const time of [segment.from, segment.readFrom]) {
        look(time - 1);
        look(time);
      }
      look(segment.readUntil);
    }
    for (const stray of this.#strays) {
      look(stray.from + 1);
      look(stray.until - 1);
    }
    for (const time of knots) look(time);
    look(until);
    return nanos(Math.ceil(worst));
  }
}

export interface HostOffset {
  readonly knots: ClockKnots;
  readonly limits: HostLimits;
  /** Where the clock stepped: the host times, and what came last before each and first after it. */
  readonly steps: readonly BesideStep[];
  /** ρ, ns per ns, that the limits reckon with: more than `driftUsual` where the pings show that the clock runs faster or slower than that. */
  readonly drift: number;
}

export interface OffsetHints {
  /** Offsets where they are known better than by the middle of what the pings allow, in order of time: the model is then made of them. */
  readonly known?: readonly WindowOffset[];
  /** What the host did together with others while its clock stepped, as if it were pings: says where between two pings that was. */
  readonly together?: readonly HostPing[];
}

/** Fits at least one ping, in the order in which they were made, for host times in [from, until] ns. */
export function fitHostOffset(
  pings: readonly HostPing[],
  from: number,
  until: number,
  { known = [], together = [] }: OffsetHints = {},
): HostOffset {
  // Where offsets are known from elsewhere the pings are what hosts did together: too few and too uneven to tell a step.
  const breaks = known.length > 0 ? { steps: [], strays: [] } : clockBreaks(pings);
  const strayPings = new Set(breaks.strays.map((index) => pings[index] as HostPing));
  const parts = [0, ...breaks.steps].map((first, place) => pings.slice(first, breaks.steps[place]).filter((ping) => !strayPings.has(ping)));
  const steps = parts.slice(1).map((part, place) => placeStep(parts[place] as HostPing[], part, together));
  const segments: Segment[] = [];
  const at: number[] = [];
  const offset: number[] = [];
  for (const [place, own] of parts.entries()) {
    const [before, after] = [steps[place - 1], steps[place]];
    const [begin, end] = [before?.at ?? Number.NEGATIVE_INFINITY, after?.at ?? Number.POSITIVE_INFINITY];
    const [first, last] = [own[0] as HostPing, own.at(-1) as HostPing];
    const span = {
      from: Math.max(begin, Math.min(from, first.upperAt, first.lowerAt)),
      until: Math.min(end - 1, Math.max(until, last.upperAt, last.lowerAt)),
    };
    const windows = known.length > 0 ? known : windowOffsets(own, filterWindowNs, bestPings);
    const smooth = smoothOffsets(windows);
    const curve = known.length > 0 ? undefined : curveOf(windows, smooth);
    const envelope = new OffsetEnvelope(own, { driftSeen: curve?.driftSeen ?? 0, ...(curve && { curve }) });
    segments.push({
      envelope,
      ...span,
      // What came last before a step came before what came first after it on the reference's clock, whatever the host's own clock showed.
      readFrom: before === undefined ? Number.NEGATIVE_INFINITY : before.last.at + before.last.lower - first.upper,
      readUntil: after === undefined ? Number.POSITIVE_INFINITY : after.first.at + after.first.upper - last.lower,
    });
    for (const knot of knotsOf(smooth, segments[place] as Segment)) {
      at.push(knot.at);
      offset.push(knot.offset);
    }
  }
  const strays = breaks.strays.map((index) => strayAt(pings, index, strayPings));
  const drift = Math.max(...segments.map(({ envelope }) => envelope.drift));
  return { knots: increasing(at, offset), limits: new HostLimits(segments, strays), steps, drift };
}

/** Between the pings that are none. */
function strayAt(pings: readonly HostPing[], index: number, strays: ReadonlySet<HostPing>): Stray {
  const { upper, lower, upperAt, lowerAt } = pings[index] as HostPing;
  const isNone = (ping: HostPing): boolean => !strays.has(ping);
  const before = pings.slice(0, index).findLast(isNone);
  const after = pings.slice(index + 1).find(isNone);
  const [from, until] = [before?.at ?? Number.NEGATIVE_INFINITY, after?.at ?? Number.POSITIVE_INFINITY];
  return { upper, lower, from: Math.min(from, upperAt, lowerAt), until: Math.max(until, upperAt, lowerAt) };
}

/** Windows over which a drift is looked at: nearer ones are too uncertain. */
const driftReach = 5;
/** Times the drift that windows were seen to have off the curve; at least `offMin`, ns per ns. */
const offFactor = 2;
const offMin = 0.5e-6;
/** A drift that is seen goes on for a while, somewhat faster or slower. */
const driftMargin = 1.2;
/** ns that a window's offset is uncertain by anyhow. */
const windowNoise = 3000;

/** The curve through smoothed windows, how fast the clock may leave it, and the largest drift that the windows show for sure. */
function curveOf(
  windows: readonly WindowOffset[],
  smooth: readonly SmoothOffset[],
): (FittedCurve & { readonly driftSeen: number }) | undefined {
  // A few windows follow any clock.
  if (windows.length <= 2 * driftReach) return undefined;
  const shortest = Math.min(...windows.map(({ width }) => width));
  const openOf = ({ width }: WindowOffset): number => (width - shortest) / 2 + windowNoise;
  let [off, driftSeen] = [0, 0];
  for (let place = driftReach; place < windows.length; place++) {
    const [one, other] = [windows[place - driftReach], windows[place]] as [WindowOffset, WindowOffset];
    const [curveOne, curveOther] = [smooth[place - driftReach], smooth[place]] as [SmoothOffset, SmoothOffset];
    const time = other.at - one.at;
    const sure = (change: number): number => Math.max(0, Math.abs(change) - openOf(one) - openOf(other)) / time;
    driftSeen = Math.max(driftSeen, sure(other.offset - one.offset));
    off = Math.max(off, sure(other.offset - curveOther.offset - (one.offset - curveOne.offset)));
  }
  let near = 0;
  const offsetAt = (time: number): number => {
    const last = smooth.length - 1;
    while (near > 0 && (smooth[near] as SmoothOffset).at > time) near--;
    while (near < last && (smooth[near + 1] as SmoothOffset).at <= time) near++;
    const { at, offset, drift } = smooth[near] as SmoothOffset;
    const next = smooth[near + 1];
    if (time < at || next === undefined) return offset + clamp(drift, -driftMax, driftMax) * (time - at);
    return offset + ((time - at) / (next.at - at)) * (next.offset - offset);
  };
  return { offsetAt, drift: offMin + offFactor * off, driftSeen: driftSeen > driftUsual / 2 ? driftSeen * driftMargin : 0 };
}

/** Knots of a segment, in order of time: the smoothed windows inside of it, and its ends. */
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
 * Whole ns, times strictly increasing, and no offset falling faster than time passes: where a clock stepped ahead, its readings left out the
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
  // A clock that only stands apart is one number.
  if (offsets.every((value) => value === offsets[0])) times.length = offsets.length = 1;
  return { at: Float64Array.from(times), offset: Float64Array.from(offsets) };
}

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);
