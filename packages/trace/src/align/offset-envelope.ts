// Tier 0: what pings prove. A ping's proof weakens away from it by the drift ρ a clock may have, so every ping is a cone, and the offset lies
// in all of them:
//
//   U ╲    ╱╲    ╱     U(t) = least of upper + ρ·|t − at|
//      ╲__╱  ╲__╱
//      ╱‾‾╲  ╱‾‾╲
//   L ╱    ╲╱    ╲     L(t) = greatest of lower − ρ·|t − at|
//
// Pings with L > U contradict each other at that ρ: then the next larger one is tried (a clock that NTP slews runs up to 500 ppm off). Where
// none fits, a ping lied, or the clock stepped and nobody saw it: then U and L cover what the two pings next to a time say by themselves.

import type { HostPing } from './host-pings.ts';

/** ρ against the reference: oscillators are specified to ±20–50 ppm, adjtime(2) slews by 500 ppm. */
const driftsMax = [50e-6, 100e-6, 200e-6, 400e-6, 800e-6] as const;
/** The largest ρ that is believed. */
export const driftMax: number = driftsMax[driftsMax.length - 1] as number;

/** Limits of an offset, ns. */
export interface OffsetLimits {
  readonly lower: number;
  readonly upper: number;
}

export class OffsetEnvelope {
  /** ρ that the pings were found to agree at. */
  readonly drift: number;
  /** Whether they agree at none. */
  readonly contradictory: boolean;
  readonly #at: Float64Array;
  readonly #upper: Float64Array;
  readonly #lower: Float64Array;
  #near = 0;

  /** At least one ping, in order of time. */
  constructor(pings: readonly HostPing[]) {
    let found = tightened(pings, driftsMax[0]);
    for (const drift of driftsMax) {
      if (!found.contradictory) break;
      found = tightened(pings, drift);
    }
    this.drift = found.drift;
    this.contradictory = found.contradictory;
    this.#at = Float64Array.from(pings, ({ at }) => at);
    this.#upper = found.contradictory ? Float64Array.from(pings, ({ upper, way }) => upper + found.drift * way) : found.upper;
    this.#lower = found.contradictory ? Float64Array.from(pings, ({ lower, way }) => lower - found.drift * way) : found.lower;
  }

  get first(): number {
    return this.#at[0] as number;
  }

  get last(): number {
    return this.#at[this.#at.length - 1] as number;
  }

  /** Limits at host time `time`, ns. */
  at(time: number): OffsetLimits {
    const at = this.#at;
    const last = at.length - 1;
    // Asked mostly in order of time.
    let near = Math.min(this.#near, last);
    while (near > 0 && (at[near] as number) > time) near--;
    while (near < last && (at[near + 1] as number) <= time) near++;
    this.#near = near;
    const before = this.#from(near, time);
    if (time < (at[0] as number) || near === last) return before;
    const after = this.#from(near + 1, time);
    if (!this.contradictory) return { lower: Math.max(before.lower, after.lower), upper: Math.min(before.upper, after.upper) };
    return { lower: Math.min(before.lower, after.lower), upper: Math.max(before.upper, after.upper) };
  }

  /** Host times at which limits bend, in order, within [from, until]. */
  *bends(from: number, until: number): Generator<number> {
    const at = this.#at;
    for (let index = 0; index < at.length; index++) {
      const time = at[index] as number;
      if (time >= from && time <= until) yield time;
      if (index + 1 === at.length) return;
      const next = at[index + 1] as number;
      for (const meeting of this.#meetings(index))
        if (meeting > time && meeting < next && meeting >= from && meeting <= until) yield meeting;
    }
  }

  /** Where the cones of a ping and the next meet. */
  #meetings(index: number): number[] {
    const middle = ((this.#at[index] as number) + (this.#at[index + 1] as number)) / 2;
    const apart = (limits: Float64Array) => ((limits[index + 1] as number) - (limits[index] as number)) / (2 * this.drift);
    return [middle + apart(this.#upper), middle - apart(this.#lower)].sort((a, b) => a - b);
  }

  #from(index: number, time: number): OffsetLimits {
    const grown = this.drift * Math.abs(time - (this.#at[index] as number));
    return { lower: (this.#lower[index] as number) - grown, upper: (this.#upper[index] as number) + grown };
  }
}

/** What each ping says with all others. */
function tightened(pings: readonly HostPing[], drift: number) {
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
