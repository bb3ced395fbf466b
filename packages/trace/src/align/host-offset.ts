// Pings of one host → the offset of its clock at every time, and limits that are proven.
//
//   pings ─► steps cut it into segments ─► each: windows of 2 s ─► filter ─► knots        offset-windows.ts, offset-filter.ts
//                                      └─► envelope                                       offset-envelope.ts
//
//   offset   ──•──────•───╮         knots: one per window, in its middle, and one at each end of a segment, by the drift found there
//                         ╰──•──    at a step the offset changes at once; the limits there are those of both sides
//
// Invariant: the offset falls no faster than time passes (trace time never runs backwards), and lies within the limits where pings agree.

import { type Nanos, nanos, nanosPerSecond } from '@ranktrace/protocol';
import type { ClockKnots } from './clock-model.ts';
import { clockSteps } from './clock-steps.ts';
import type { HostPing } from './host-pings.ts';
import { driftMax, OffsetEnvelope, type OffsetLimits } from './offset-envelope.ts';
import { type SmoothOffset, smoothOffsets } from './offset-filter.ts';
import { type WindowOffset, windowOffsets } from './offset-windows.ts';

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
}

/** Limits of a host's offset at every time. */
export class HostLimits {
  readonly #segments: readonly Segment[];
  #near = 0;

  /** At least one segment, in order of time. */
  constructor(segments: readonly Segment[]) {
    this.#segments = segments;
  }

  /** Limits at host time `time`. Between the last ping before a step and the first after it nobody knows which side holds: both do. */
  at(time: number): OffsetLimits {
    const segments = this.#segments;
    let near = this.#near;
    while (near > 0 && time < (segments[near] as Segment).from) near--;
    while (near + 1 < segments.length && time >= (segments[near + 1] as Segment).from) near++;
    this.#near = near;
    const own = (segments[near] as Segment).envelope;
    const limits = own.at(time);
    const other = time > own.last ? segments[near + 1] : time < own.first ? segments[near - 1] : undefined;
    if (other === undefined) return limits;
    const beyond = other.envelope.at(time);
    return { lower: Math.min(limits.lower, beyond.lower), upper: Math.max(limits.upper, beyond.upper) };
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
    for (const { envelope, from: begin, until: end } of this.#segments) {
      for (const time of envelope.bends(Math.max(from, begin), Math.min(until, end))) look(time);
      look(begin);
      if (begin - 1 >= from) look(begin - 1);
    }
    for (const time of knots) look(time);
    look(until);
    return nanos(Math.ceil(worst));
  }
}

export interface HostOffset {
  readonly knots: ClockKnots;
  readonly limits: HostLimits;
  /** Host times at which the clock stepped. */
  readonly steps: readonly number[];
}

/**
 * Fits at least one ping, in order of time, for host times in [from, until] ns. `known`: offsets where they are known better than by the
 * middle of what the pings allow, in order of time; the model is then made of them.
 */
export function fitHostOffset(pings: readonly HostPing[], from: number, until: number, known: readonly WindowOffset[] = []): HostOffset {
  // Where offsets are known from elsewhere the pings are what hosts did together: too few and too uneven to tell a step.
  const firsts = [0, ...(known.length > 0 ? [] : clockSteps(pings))];
  const segments: Segment[] = [];
  const at: number[] = [];
  const offset: number[] = [];
  for (const [place, first] of firsts.entries()) {
    const next = firsts[place + 1];
    const own = pings.slice(first, next);
    const begin = place === 0 ? Number.NEGATIVE_INFINITY : (own[0] as HostPing).at;
    const end = next === undefined ? Number.POSITIVE_INFINITY : (pings[next] as HostPing).at;
    const envelope = new OffsetEnvelope(own);
    const segment = {
      envelope,
      from: Math.max(begin, Math.min(from, envelope.first)),
      until: Math.min(end - 1, Math.max(until, envelope.last)),
    };
    segments.push(segment);
    const windows = known.filter((window) => window.at >= begin && window.at < end);
    for (const knot of knotsOf(windows.length > 0 ? windows : windowOffsets(own, filterWindowNs, bestPings), segment)) {
      at.push(knot.at);
      offset.push(knot.offset);
    }
  }
  const steps = segments.slice(1).map((segment) => segment.from);
  return { knots: increasing(at, offset), limits: new HostLimits(segments), steps };
}

/** Knots of a segment, in order of time: the smoothed windows inside of it, and its ends. */
function knotsOf(windows: readonly WindowOffset[], { envelope, from, until }: Segment): { at: number; offset: number }[] {
  const smooth = smoothOffsets(windows);
  const [first, last] = [smooth[0] as SmoothOffset, smooth.at(-1) as SmoothOffset];
  const beyond = ({ at, offset, drift }: SmoothOffset, time: number) => ({
    at: time,
    offset: offset + clamp(drift, -driftMax, driftMax) * (time - at),
  });
  const inside = smooth.filter(({ at }) => at > from && at < until);
  const nearest = inside.length === 0 ? [beyond(first, from), beyond(first, until)] : [beyond(first, from), ...inside, beyond(last, until)];
  // Between its pings the limits bind; beyond them they only widen.
  return nearest.map(({ at, offset }) => {
    const { lower, upper } = envelope.at(at);
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
