// Tier 1, first half: the pings of a window → the offset in its middle, and its uncertainty.
//
//   upper  ·  · ··  ·    ·        queueing makes messages late, never early: the truth lies between the least upper limits
//          ·    ·  ·  ··    ·     and the greatest lower ones; their middle is right as far as both directions take equally long
//   ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//   lower    ··   · ·  ·   ··
//
// Over a window the clock drifts by more than the distance of the limits, so the slope through the best pings of the windows around is
// removed first. The few best pings are averaged, as the best one may be a misreading.
//
// Invariant: a window's offset depends on its own pings and on those of the next `reach` windows, so it is final when those are over.

import { countBelow } from '../model/count-below.ts';
import type { HostPing } from './host-pings.ts';
import { driftMax, driftUsual } from './offset-envelope.ts';

/** The offset in the middle of a window of pings. */
export interface WindowOffset {
  /** Host time of the middle, ns. */
  readonly at: number;
  /** ns. */
  readonly offset: number;
  /** Distance between the limits around the offset, ns. */
  readonly width: number;
  /** Change of the offset, ns per ns, by the best pings around: rough. */
  readonly slope: number;
}

/** Limits nearer to each other than the resolution of clock readings add nothing, ns. */
const widthMin = 1000;
/** Windows on either side that measure the drift by their best pings. */
const reach = 5;
/** Least error of a ping's middle, ns; the best ping's width ÷ `openPart` is added to it. */
const noiseNs = 3000;
const openPart = 16;
/** Standard deviation of drifts among clocks: oscillators are specified to ±20–50 ppm. */
const driftDeviation = 20e-6;

/**
 * Cuts `pings`, in order of time, into windows of `length` ns on a fixed grid and measures each by the mean of its `best` best. `ahead`: later
 * windows that help to measure the drift; none where a step may lie between.
 */
export function windowOffsets(pings: readonly HostPing[], length: number, best: number, ahead = reach): WindowOffset[] {
  const windows = cut(pings, length);
  const closest = windows.map(({ from, to }) => closestOf(pings, from, to));
  return windows.map(({ index, from, to }, place) => {
    const at = (index + 0.5) * length;
    const slope = clamp(slopeAround(pings, windows, closest, place, ahead), driftMax);
    return { at, slope, ...measure(pings, from, to, at, slope, best) };
  });
}

/** Windows this much later than a time tell of it, ns: few enough to be known when a live run places it. */
const aheadNs = 30e9;

/** How far a host's offset may be off, by the pings around a time alone. Later pings change nothing, unlike limits over a whole run. */
export class OffsetSpread {
  readonly #at: Float64Array;
  readonly #half: Float64Array;
  /** ± ns at each window, by it and those before. */
  readonly #before: Float64Array;

  /** `windows` in order of time. */
  constructor(windows: readonly WindowOffset[]) {
    this.#at = Float64Array.from(windows, ({ at }) => at);
    this.#half = Float64Array.from(windows, ({ width }) => width / 2);
    this.#before = this.#half.slice();
    for (let place = 1; place < windows.length; place++) {
      const carried = (this.#before[place - 1] as number) + this.#drifted(place, this.#at[place - 1] as number);
      this.#before[place] = Math.min(carried, this.#half[place] as number);
    }
  }

  /** ± ns at host time `time`; infinite where no window before or soon after tells of it. */
  around(time: number): number {
    const next = countBelow(this.#at.length, (place) => (this.#at[place] as number) <= time);
    let least = next === 0 ? Number.POSITIVE_INFINITY : (this.#before[next - 1] as number) + this.#drifted(next - 1, time);
    for (let place = next; place < this.#at.length && (this.#at[place] as number) <= time + aheadNs; place++) {
      least = Math.min(least, (this.#half[place] as number) + this.#drifted(place, time));
    }
    return least;
  }

  #drifted(place: number, time: number): number {
    return driftUsual * Math.abs((this.#at[place] as number) - time);
  }
}

interface Window {
  readonly index: number;
  readonly from: number;
  readonly to: number;
}

function cut(pings: readonly HostPing[], length: number): Window[] {
  const windows: Window[] = [];
  for (let from = 0; from < pings.length; ) {
    const index = Math.floor((pings[from] as HostPing).at / length);
    let to = from + 1;
    while (to < pings.length && Math.floor((pings[to] as HostPing).at / length) === index) to++;
    windows.push({ index, from, to });
    from = to;
  }
  return windows;
}

/** The ping with the narrowest limits. */
function closestOf(pings: readonly HostPing[], from: number, to: number): HostPing {
  let best = pings[from] as HostPing;
  for (let index = from + 1; index < to; index++) {
    const ping = pings[index] as HostPing;
    if (ping.upper - ping.lower < best.upper - best.lower) best = ping;
  }
  return best;
}

/** Slope by the best ping of each window around; for a lone window, by the best of each half. */
function slopeAround(
  pings: readonly HostPing[],
  windows: readonly Window[],
  closest: readonly HostPing[],
  place: number,
  ahead: number,
): number {
  if (windows.length === 1) {
    const half = pings.length >> 1;
    return half === 0 ? 0 : slopeThrough([closestOf(pings, 0, half), closestOf(pings, half, pings.length)]);
  }
  // The first windows have none before them.
  return slopeThrough(closest.slice(Math.max(0, place - reach), Math.max(place + ahead, reach) + 1));
}

/**
 * The likeliest slope: a ping counts more the less its width exceeds the narrowest, and clocks drift by some 20 ppm, so
 * that few pings, or a short time, suggest no other drift.
 */
function slopeThrough(pings: readonly HostPing[]): number {
  const least = Math.min(...pings.map(widthOf));
  let [weights, at, offset] = [0, 0, 0];
  const weighted = pings.map((ping) => {
    const weight = 1 / (Math.max(0, widthOf(ping) - least) / 2 + least / openPart + noiseNs) ** 2;
    weights += weight;
    at += weight * ping.at;
    offset += weight * middleOf(ping);
    return { ping, weight };
  });
  at /= weights;
  offset /= weights;
  let [product, square] = [0, 0];
  for (const { ping, weight } of weighted) {
    product += weight * (ping.at - at) * (middleOf(ping) - offset);
    square += weight * (ping.at - at) ** 2;
  }
  return product / (square + 1 / driftDeviation ** 2);
}

const widthOf = ({ upper, lower }: HostPing): number => upper - lower;
const middleOf = ({ upper, lower }: HostPing): number => (upper + lower) / 2;

function measure(pings: readonly HostPing[], from: number, to: number, at: number, slope: number, best: number) {
  const least = new Float64Array(best).fill(Number.POSITIVE_INFINITY);
  const greatest = new Float64Array(best).fill(Number.POSITIVE_INFINITY);
  for (let index = from; index < to; index++) {
    const ping = pings[index] as HostPing;
    // Each limit holds at the time when its message was sent or received.
    insert(least, ping.upper - slope * (ping.upperAt - at));
    insert(greatest, -(ping.lower - slope * (ping.lowerAt - at)));
  }
  const count = Math.min(best, to - from);
  const upper = meanOf(least, count);
  const lower = -meanOf(greatest, count);
  return { offset: (upper + lower) / 2, width: Math.max(upper - lower, widthMin) };
}

/** Keeps the least values, in order. */
function insert(least: Float64Array, value: number): void {
  let at = least.length - 1;
  if (value >= (least[at] as number)) return;
  for (; at > 0 && (least[at - 1] as number) > value; at--) least[at] = least[at - 1] as number;
  least[at] = value;
}

function meanOf(values: Float64Array, count: number): number {
  let sum = 0;
  for (let index = 0; index < count; index++) sum += values[index] as number;
  return sum / count;
}

const clamp = (value: number, most: number): number => Math.max(-most, Math.min(most, value));
