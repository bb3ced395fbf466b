// Pings of one host → knots of its model and the bound to publish.
//
// A ping's proof weakens away from it by the drift ρ a clock may have, so every ping is a cone, and the offset lies in all of them:
//
//   U ╲    ╱╲    ╱     U(t) = least of upper + ρ·|t − at|
//      ╲__╱  ╲__╱
//   m  ─•───────•─     m = the model: the middle of U and L at the knots, linear between them
//      ╱‾‾╲  ╱‾‾╲
//   L ╱    ╲╱    ╲     L(t) = greatest of lower − ρ·|t − at|
//
// U, L and so their middle are nowhere steeper than ρ: the model cannot run backwards, whatever the pings say. The bound is the largest
// distance from m to U or L over the whole time the host's ranks ran, not over the knots.
//
// Pings with L > U contradict each other at that ρ: then the next larger one is tried (a clock that NTP slews runs up to 500 ppm off). Where
// none fits, a clock stepped or a ping lied: the bound then covers every ping's own proof.

import { type Nanos, nanos } from '@ranktrace/protocol';
import type { ClockKnots } from './clock-model.ts';
import { type HostPing, windowNs } from './host-pings.ts';

/** ρ against the reference: oscillators are specified to ±20–50 ppm, adjtime(2) slews by 500 ppm. */
const driftsMax = [50e-6, 100e-6, 200e-6, 400e-6, 800e-6] as const;
/** Whole ns for knots, offsets and results: none of these roundings is more than half of one. */
const roundingNs = 2;

interface Envelope {
  readonly drift: number;
  readonly upper: Float64Array;
  readonly lower: Float64Array;
  readonly contradictory: boolean;
}

export interface FittedOffset {
  readonly knots: ClockKnots;
  /** |model − truth| for every host time in the given range, ns. */
  readonly bound: Nanos;
}

/** Fits at least one ping, in order of time; the bound holds for host times in [from, until] ns. */
export function fitOffset(pings: readonly HostPing[], from: number, until: number): FittedOffset {
  let envelope = envelopeOf(pings, driftsMax[0]);
  for (const drift of driftsMax) {
    if (!envelope.contradictory) break;
    envelope = envelopeOf(pings, drift);
  }
  const indexes = knotIndexes(pings, envelope);
  const knots = {
    at: Float64Array.from(indexes, (index) => (pings[index] as HostPing).at),
    offset: Float64Array.from(indexes, (index) => Math.round(middle(envelope, index))),
  };
  const model = offsetsAt(pings, knots);
  const within = envelope.contradictory ? worstOverProofs(pings, envelope.drift, model) : worstOverEnvelope(pings, envelope, model);
  const first = (pings[0] as HostPing).at;
  const last = (pings.at(-1) as HostPing).at;
  const beyond = (index: number, distance: number): number => distanceAt(envelope, model, index) + envelope.drift * Math.max(0, distance);
  const ends = Math.max(beyond(0, first - from), beyond(pings.length - 1, until - last));
  // Contradictory pings prove nothing between each other: there the way to the ends counts in full, on top.
  const worst = envelope.contradictory ? within + ends : Math.max(within, ends);
  return { knots, bound: nanos(Math.ceil(worst) + roundingNs) };
}

function envelopeOf(pings: readonly HostPing[], drift: number): Envelope {
  const upper = Float64Array.from(pings, ({ upper, way }) => upper + (drift * way) / 2);
  const lower = Float64Array.from(pings, ({ lower, way }) => lower - (drift * way) / 2);
  const tighten = (index: number, other: number): void => {
    const grown = drift * Math.abs((pings[index] as HostPing).at - (pings[other] as HostPing).at);
    upper[index] = Math.min(upper[index] as number, (upper[other] as number) + grown);
    lower[index] = Math.max(lower[index] as number, (lower[other] as number) - grown);
  };
  for (let index = 1; index < pings.length; index++) tighten(index, index - 1);
  for (let index = pings.length - 2; index >= 0; index--) tighten(index, index + 1);
  return { drift, upper, lower, contradictory: upper.some((value, index) => value < (lower[index] as number)) };
}

const middle = ({ upper, lower }: Envelope, index: number): number => ((upper[index] as number) + (lower[index] as number)) / 2;

/** The best-known ping of each window, and the first and last of all. */
function knotIndexes(pings: readonly HostPing[], { upper, lower }: Envelope): number[] {
  const width = (index: number): number => (upper[index] as number) - (lower[index] as number);
  const best = new Map<number, number>();
  for (const [index, ping] of pings.entries()) {
    const window = Math.floor(ping.at / windowNs);
    const held = best.get(window);
    if (held === undefined || width(index) < width(held)) best.set(window, index);
  }
  const at = (index: number): number => (pings[index] as HostPing).at;
  const indexes = [...new Set([0, ...best.values(), pings.length - 1])];
  return indexes.filter((index, place) => place === 0 || at(index) > at(indexes[place - 1] as number));
}

/** The model's offset at each ping. */
function offsetsAt(pings: readonly HostPing[], { at, offset }: ClockKnots): Float64Array {
  let right = 0;
  return Float64Array.from(pings, (ping) => {
    while (right < at.length - 1 && (at[right] as number) < ping.at) right++;
    if (right === 0 || (at[right] as number) <= ping.at) return offset[right] as number;
    const share = (ping.at - (at[right - 1] as number)) / ((at[right] as number) - (at[right - 1] as number));
    return (offset[right - 1] as number) + share * ((offset[right] as number) - (offset[right - 1] as number));
  });
}

/** How far from the model the offset may be at a ping. */
function distanceAt({ upper, lower }: Envelope, model: Float64Array, index: number): number {
  const offset = model[index] as number;
  return Math.max(Math.abs((upper[index] as number) - offset), Math.abs(offset - (lower[index] as number)));
}

/** Worst distance from first to last ping. Between two, U − m and m − L are largest where the cones of the two meet. */
function worstOverEnvelope(pings: readonly HostPing[], envelope: Envelope, model: Float64Array): number {
  const { upper, lower, drift } = envelope;
  let worst = distanceAt(envelope, model, 0);
  for (let index = 1; index < pings.length; index++) {
    worst = Math.max(worst, distanceAt(envelope, model, index));
    const gap = (pings[index] as HostPing).at - (pings[index - 1] as HostPing).at;
    if (gap === 0) continue;
    const [u0, u1] = [upper[index - 1] as number, upper[index] as number];
    const [l0, l1] = [lower[index - 1] as number, lower[index] as number];
    const [m0, m1] = [model[index - 1] as number, model[index] as number];
    const shareOfUpper = (1 + (u1 - u0) / (drift * gap)) / 2;
    const shareOfLower = (1 - (l1 - l0) / (drift * gap)) / 2;
    const above = (u0 + u1 + drift * gap) / 2 - (m0 + shareOfUpper * (m1 - m0));
    const below = m0 + shareOfLower * (m1 - m0) - (l0 + l1 - drift * gap) / 2;
    worst = Math.max(worst, above, below);
  }
  return worst;
}

/** Worst distance to what any ping says by itself, and what clock and model may drift apart on half the way to the next. */
function worstOverProofs(pings: readonly HostPing[], drift: number, model: Float64Array): number {
  let [worst, gap] = [0, 0];
  for (const [index, { at, upper, lower, way }] of pings.entries()) {
    const offset = model[index] as number;
    worst = Math.max(worst, upper - offset + drift * way, offset - lower + drift * way);
    if (index > 0) gap = Math.max(gap, at - (pings[index - 1] as HostPing).at);
  }
  return worst + drift * gap;
}
