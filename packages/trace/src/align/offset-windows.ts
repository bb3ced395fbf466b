// Tier 1, first half: the pings of a window → where the offset was in its middle, and how well that is known.
//
//   upper  ·  · ··  ·    ·        queueing makes messages late, never early: the truth lies between the least upper limits
//          ·    ·  ·  ··    ·     and the greatest lower ones, and their middle is right as far as both ways take equally long
//   ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//   lower    ··   · ·  ·   ··
//
// Over a window the clock drifts by more than the limits are apart, so the pings are turned level first, by the slope between the best pings
// of the windows around. The mean of the few best is taken, as the one best may be a misreading.
//
// Invariant: a window's offset depends on its own pings and on those of the windows next to it, so it is final when the next one is over.

import type { HostPing } from './host-pings.ts';
import { driftMax } from './offset-envelope.ts';

/** The offset in the middle of a window of pings. */
export interface WindowOffset {
  /** Host time of the middle, ns. */
  readonly at: number;
  /** ns */
  readonly offset: number;
  /** How far apart the limits are that it lies between, ns. */
  readonly width: number;
}

/** Limits nearer to each other than clocks are read say no more. */
const widthMin = 1000;
/** Pings that a window of its own needs for a slope, when there is none next to it. */
const ownSlopePings = 8;

/** Cuts `pings`, in order of time, into windows of `length` ns on a fixed grid and measures each by the mean of its `best` best. */
export function windowOffsets(pings: readonly HostPing[], length: number, best: number): WindowOffset[] {
  const windows = cut(pings, length);
  const middles = windows.map(({ from, to }) => closest(pings, from, to));
  return windows.map(({ index, from, to }, place) => {
    const at = (index + 0.5) * length;
    const slope = clamp(slopeAround(pings, windows, middles, place), driftMax);
    return { at, ...measure(pings, from, to, at, slope, best) };
  });
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

/** The ping that leaves least open. */
function closest(pings: readonly HostPing[], from: number, to: number): HostPing {
  let best = pings[from] as HostPing;
  for (let index = from + 1; index < to; index++) {
    const ping = pings[index] as HostPing;
    if (ping.upper - ping.lower < best.upper - best.lower) best = ping;
  }
  return best;
}

function slopeAround(pings: readonly HostPing[], windows: readonly Window[], middles: readonly HostPing[], place: number): number {
  if (windows.length > 1) {
    const [before, after] = [middles[Math.max(place - 1, 0)], middles[Math.min(place + 1, middles.length - 1)]];
    return slopeBetween(before as HostPing, after as HostPing);
  }
  const { from, to } = windows[place] as Window;
  const half = (from + to) >> 1;
  return to - from < ownSlopePings ? 0 : slopeBetween(closest(pings, from, half), closest(pings, half, to));
}

function slopeBetween(a: HostPing, b: HostPing): number {
  if (b.at === a.at) return 0;
  return (b.upper + b.lower - a.upper - a.lower) / 2 / (b.at - a.at);
}

function measure(pings: readonly HostPing[], from: number, to: number, at: number, slope: number, best: number) {
  const least = new Float64Array(best).fill(Number.POSITIVE_INFINITY);
  const greatest = new Float64Array(best).fill(Number.POSITIVE_INFINITY);
  for (let index = from; index < to; index++) {
    const ping = pings[index] as HostPing;
    // Each limit holds where its message was sent or received.
    insert(least, ping.upper - slope * (ping.at - ping.way / 2 - at));
    insert(greatest, -(ping.lower - slope * (ping.at + ping.way / 2 - at)));
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
