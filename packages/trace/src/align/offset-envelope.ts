// Tier 0: the proof by pings. Each ping proves two limits, each at its own time: the offset was at most `upper` when it was sent, and at least
// `lower` when its answer came. A proof weakens away from its time by the drift ρ that a clock may have, so it is a cone. The proofs before a
// time and those after it give separate limits:
//
//   before  ╲_  ╲__ t            U(t) = the larger of  least of upper + ρ·(t − at) before t,  and the same after t
//             ╲___╲ ┊            L(t) = the smaller of greatest of lower − ρ·(t − at) before t,  and the same after t
//   after           ┊ __╱        An unnoticed step is on one side of t: the other side alone still holds, and so do the limits.
//
// Two ρ: one against a clock that stands still, 50 ppm or more where the evidence shows more (`driftsMax`); and a small one against the fitted
// curve, as far as its windows follow it, for at most `memoryNs` without a ping. Both hold, so the tighter limits count.
//
// Pings with L > U over all of them contradict each other at that ρ: then the next larger one is tried (a clock that NTP slews runs up to 500 ppm
// off). Where none fits, no believable clock does, and U and L cover the limits of the pings next to a time alone.

import { countBelow } from '../model/count-below.ts';
import type { HostPing } from './host-pings.ts';

/** ρ against the reference: oscillators are specified to ±20–50 ppm, adjtime(2) slews by 500 ppm. */
const driftsMax = [50e-6, 100e-6, 200e-6, 400e-6, 800e-6] as const;
/** Drift ρ assumed where no evidence shows more. */
export const driftUsual: number = driftsMax[0];
/** The largest believable drift ρ. */
export const driftMax: number = driftsMax[driftsMax.length - 1] as number;
/** Host time, ns, for which a drift that was seen surely goes on. */
const memoryNs = 10e9;

/**
 * Before the first proof and after the last there is only one side, and a step near either shows in a few pings at most: only pings this near to
 * the end count, ns.
 */
const endNs = 1e9;

/** Limits of an offset, ns. */
export interface OffsetLimits {
  readonly lower: number;
  readonly upper: number;
}

/** The offset as fitted, and how fast the clock may leave it. */
export interface FittedCurve {
  offsetAt(time: number): number;
  /** Between two host times the clock leaves the curve by at most the growth of this, ns. */
  leftBy(time: number): number;
  /** Host times between which both are linear. */
  readonly bends: readonly number[];
}

export class OffsetEnvelope {
  /** Drift ρ at which the pings agree. */
  readonly drift: number;
  /** Whether they agree at none. */
  readonly contradictory: boolean;
  /** Host times between which both sides have proofs, ns. */
  readonly first: number;
  readonly last: number;
  readonly #either: typeof Math.max;
  readonly #upper: Cones;
  readonly #lower: Cones;
  readonly #near: { readonly upper: Cones; readonly lower: Cones; readonly curve: FittedCurve } | undefined;

  /**
   * At least one ping, in order of time. `driftSeen`: the largest drift that the pings show, ns per ns. `isSteady`: the clock is known not to have
   * stepped, so that both sides of a time count.
   */
  constructor(
    pings: readonly HostPing[],
    {
      driftSeen = 0,
      curve,
      isSteady = false,
    }: { readonly driftSeen?: number; readonly curve?: FittedCurve; readonly isSteady?: boolean } = {},
  ) {
    this.#either = isSteady ? Math.min : Math.max;
    const uppers = sorted(pings.map(({ upperAt, upper }) => ({ at: upperAt, limit: upper })));
    const lowers = sorted(pings.map(({ lowerAt, lower }) => ({ at: lowerAt, limit: -lower })));
    const drift = driftsMax.find((one) => one >= driftSeen && agree(uppers, lowers, (time) => one * time));
    this.drift = drift ?? driftMax;
    this.contradictory = drift === undefined;
    const memory = this.contradictory ? 0 : Number.POSITIVE_INFINITY;
    const drifted = (time: number): number => this.drift * time;
    this.#upper = new Cones(uppers, drifted, memory);
    this.#lower = new Cones(lowers, drifted, memory);
    this.first = Math.max(this.#upper.first, this.#lower.first);
    this.last = Math.min(this.#upper.last, this.#lower.last);
    this.#near = curve === undefined || this.contradictory ? undefined : near(uppers, lowers, curve);
  }

  /** Limits at host time `time`, ns, that hold even if the clock stepped once near it. */
  at(time: number): OffsetLimits {
    const [far, near = far] = this.proofs(time);
    return { lower: Math.max(far.lower, near.lower), upper: Math.min(far.upper, near.upper) };
  }

  /** The two proofs behind `at`: by the drift that a clock may have, and by how far it leaves the curve (absent: unknown). */
  proofs(time: number): readonly [OffsetLimits, OffsetLimits?] {
    const either = this.#either;
    const far = { lower: -this.#lower.at(time, either), upper: this.#upper.at(time, either) };
    if (this.#near === undefined) return [far];
    const offset = this.#near.curve.offsetAt(time);
    return [far, { lower: offset - this.#near.lower.at(time, either), upper: offset + this.#near.upper.at(time, either) }];
  }

  /** Limits at host time `time` for a clock that stands still and does not step: meaningless (lower > upper) where it does. */
  withoutStep(time: number): OffsetLimits {
    return { lower: -this.#lower.at(time, Math.min), upper: this.#upper.at(time, Math.min) };
  }

  /** Host times within [from, until] between which proofs are linear. */
  bends(from: number, until: number): number[] {
    const bends: number[] = [];
    const add = (time: number): void => {
      if (time >= from && time <= until) bends.push(time);
    };
    this.#upper.eachBend(from, until, add);
    this.#lower.eachBend(from, until, add);
    const ofCurve = this.#near?.curve.bends ?? [];
    for (
      let at = countBelow(ofCurve.length, (place) => (ofCurve[place] as number) < from);
      (ofCurve[at] ?? Number.POSITIVE_INFINITY) <= until;
      at++
    ) {
      bends.push(ofCurve[at] as number);
    }
    return bends;
  }
}

/** One side of a proof: at host time `at`, the offset (for lower limits, its negative) was at most `limit`. */
interface Proof {
  readonly at: number;
  readonly limit: number;
}

const sorted = (proofs: Proof[]): Proof[] => proofs.sort((a, b) => a.at - b.at);

/** A function of host time that grows by as much as a limit weakens, ns. */
type Weakening = (time: number) => number;

/** Whether some clock satisfies all proofs: no lower limit above an upper one. */
function agree(uppers: readonly Proof[], lowers: readonly Proof[], weakening: Weakening): boolean {
  let [upper, negativeLower] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let [u, l, last] = [0, 0, 0]; u < uppers.length || l < lowers.length; ) {
    const isUpper = l === lowers.length || (u < uppers.length && (uppers[u] as Proof).at <= (lowers[l] as Proof).at);
    const { at, limit } = (isUpper ? uppers[u++] : lowers[l++]) as Proof;
    const now = weakening(at);
    upper += now - last;
    negativeLower += now - last;
    last = now;
    if (isUpper) upper = Math.min(upper, limit);
    else negativeLower = Math.min(negativeLower, limit);
    if (upper + negativeLower < 0) return false;
  }
  return true;
}

/** The largest factor on the measured distance to the curve, tried where the pings need it. */
const weakeningMax = 64;

/** The limits around a curve; undefined where the pings do not follow it. */
function near(uppers: readonly Proof[], lowers: readonly Proof[], curve: FittedCurve) {
  const overs = uppers.map(({ at, limit }) => ({ at, limit: limit - curve.offsetAt(at) }));
  const unders = lowers.map(({ at, limit }) => ({ at, limit: limit + curve.offsetAt(at) }));
  for (let more = 1; more <= weakeningMax; more *= 2) {
    const weakening = (time: number): number => more * curve.leftBy(time);
    if (!agree(overs, unders, weakening)) continue;
    return { upper: new Cones(overs, weakening, memoryNs), lower: new Cones(unders, weakening, memoryNs), curve };
  }
  return undefined;
}

/** Upper limits by the proofs before a time, and by those after it. */
class Cones {
  readonly #at: Float64Array;
  /** The least limit at each proof by those before it, and by those after it, itself included. */
  readonly #before: Float64Array;
  readonly #after: Float64Array;
  /** The least limit at the first proof by its neighbours, and at the last. */
  readonly #head: number;
  readonly #tail: number;
  readonly #weakening: Weakening;
  /** `#weakening` at each proof. */
  readonly #weak: Float64Array;
  readonly #memory: number;
  #near = 0;

  /** `proofs` in order of time. `memory`: host time, ns, after which a proof expires. */
  constructor(proofs: readonly Proof[], weakening: Weakening, memory: number) {
    this.#at = Float64Array.from(proofs, ({ at }) => at);
    this.#before = Float64Array.from(proofs, ({ limit }) => limit);
    this.#after = this.#before.slice();
    this.#weakening = weakening;
    this.#memory = memory;
    const weak = this.#at.map(weakening);
    this.#weak = weak;
    const tighten = (limits: Float64Array, index: number, other: number): void => {
      if (Math.abs((this.#at[index] as number) - (this.#at[other] as number)) > memory) return;
      const weaker = Math.abs((weak[index] as number) - (weak[other] as number));
      limits[index] = Math.min(limits[index] as number, (limits[other] as number) + weaker);
    };
    for (let index = 1; index < proofs.length; index++) tighten(this.#before, index, index - 1);
    for (let index = proofs.length - 2; index >= 0; index--) tighten(this.#after, index, index + 1);
    const leastAbout = (end: number, way: 1 | -1): number => {
      let least = Number.POSITIVE_INFINITY;
      for (let index = end; index >= 0 && index < proofs.length; index += way) {
        const { at, limit } = proofs[index] as Proof;
        if (Math.abs(at - (this.#at[end] as number)) > Math.min(endNs, memory)) break;
        least = Math.min(least, limit + Math.abs((weak[end] as number) - (weak[index] as number)));
      }
      return least;
    };
    this.#head = leastAbout(0, 1);
    this.#tail = leastAbout(proofs.length - 1, -1);
  }

  get first(): number {
    return this.#at[0] as number;
  }

  get last(): number {
    return this.#at[this.#at.length - 1] as number;
  }

  /** The limit at host time `time`: `either` combines those of the proofs before and after it; infinite where every proof is too far away. */
  at(time: number, either: typeof Math.max): number {
    const at = this.#at;
    const last = at.length - 1;
    // Mostly asked in order of time.
    let near = this.#near;
    while (near > 0 && (at[near] as number) > time) near--;
    while (near < last && (at[near + 1] as number) <= time) near++;
    this.#near = near;
    if (time < this.first) return this.#from(this.#head, 0, time);
    if (near === last) return this.#from(this.#tail, last, time);
    return either(this.#from(this.#before[near] as number, near, time), this.#from(this.#after[near + 1] as number, near + 1, time));
  }

  #from(limit: number, index: number, time: number): number {
    const at = this.#at[index] as number;
    // With no memory it still proves the times next to it.
    if (this.#memory > 0 && Math.abs(time - at) > this.#memory) return Number.POSITIVE_INFINITY;
    return limit + Math.abs(this.#weakening(time) - (this.#weak[index] as number));
  }

  /**
   * All times of [from, until] at which limits bend upwards or jump, and some around it: at each proof and just before it, and where the memory of
   * one ends before the next.
   */
  eachBend(from: number, until: number, add: (time: number) => void): void {
    const reach = memoryNs + 1;
    const first = countBelow(this.#at.length, (place) => (this.#at[place] as number) < from - reach);
    for (let index = first; (this.#at[index] ?? Number.POSITIVE_INFINITY) <= until + reach; index++) {
      const time = this.#at[index] as number;
      add(time - 1);
      add(time);
      const next = this.#at[index + 1] ?? Number.POSITIVE_INFINITY;
      const before = this.#at[index - 1] ?? Number.NEGATIVE_INFINITY;
      for (const end of next - time > memoryNs ? [time + memoryNs, time + memoryNs + 1] : []) add(end);
      for (const end of time - before > memoryNs ? [time - memoryNs - 1, time - memoryNs] : []) add(end);
    }
  }
}
