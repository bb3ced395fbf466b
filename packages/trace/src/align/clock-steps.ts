// Where a host's clock stepped (a migrated virtual machine, a clock that was set): found in its pings, so that each side gets a model of its own.
//
//                        ┌ ─ ─ ─ the next 4
//   23 windows of 2 s    │  ·  ·   residuals over max(8 × MAD, 15 µs), all of one sign: a step lies in between
//   ·  ·  · ·  ·  ·  ·   │ ·  ·
//   ───────── line ──────┴───────
//
// With less history (six windows at least) the line is known less well, and the limit grows by that. A window whose shortest way took longer than
// the shortest of any four in a row so far says less: on a host that is starved of CPU, ranks hear answers late, and the middle of a ping is off by up to half of that.
// Residuals that longer ways explain are no step; the bound covers them. What is larger than all ways is proven: a ping contradicts all before it,
// at any believable drift.
//
// Invariant: at most `stepsMax` steps; a clock that seems to step more often does something else, and its bound says so.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { HostPing } from './host-pings.ts';
import { medianOf } from './median.ts';
import { driftMax } from './offset-envelope.ts';
import { type WindowOffset, windowOffsets } from './offset-windows.ts';

const windowLength = 2 * nanosPerSecond;
/** Best pings of a window whose mean is taken. */
const bestPings = 2;
/** Windows of the line, windows between (the step may lie inside of them), and windows after. */
const before = 23;
const beforeMin = 6;
const between = 2;
const after = 4;
/** A step is this many times what the line leaves over, and at least this many ns. */
const madFactor = 8;
const stepMin = 15_000;
/** MAD of a normal distribution is this part of its deviation. */
const madOfDeviation = 1.4826;
const deviationMin = 2000;
const openParts = 4;
/** ns that a proof must be passed by: readings are exact to less. */
const proofSlack = 2000;
const stepsMax = 64;

/** Where the clock of `pings` (in order of time) stepped: the index of the first ping after each step, in order. */
export function clockSteps(pings: readonly HostPing[]): number[] {
  const steps: number[] = [];
  let from = 0;
  while (from < pings.length) {
    const rest = pings.slice(from);
    const at = earliest(provenStep(rest), likelyStep(rest));
    if (at === undefined) return steps;
    if (steps.length >= stepsMax) return [];
    from += at;
    steps.push(from);
  }
  return steps;
}

const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b);

/** Pings on either side of a proof that tell where the step was, and how large. */
const beside = 24;

/** The first ping after a step that is proven: one that those before it refute comes somewhat later. */
function provenStep(pings: readonly HostPing[]): number | undefined {
  const proof = firstRefuted(pings);
  if (proof === undefined) return undefined;
  const [from, to] = [Math.max(0, proof - beside), Math.min(pings.length, proof + beside)];
  const middleOf = (some: readonly HostPing[]): number => medianOf(some.map(({ upper, lower }) => (upper + lower) / 2));
  // Nearer to the proof some may be of the other side already.
  const earlier = pings.slice(from, Math.max(from + 1, proof - (beside >> 1)));
  const level = middleOf(earlier);
  const step = middleOf(pings.slice(proof, to)) - level;
  return split(pings, from, to, () => level, step);
}

function firstRefuted(pings: readonly HostPing[]): number | undefined {
  let [upper, lower, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN];
  for (const [index, ping] of pings.entries()) {
    if (index > 0) {
      upper += driftMax * (ping.at - last);
      lower -= driftMax * (ping.at - last);
    }
    last = ping.at;
    const slack = proofSlack + driftMax * ping.way;
    if (ping.lower > upper + slack || ping.upper < lower - slack) return index;
    upper = Math.min(upper, ping.upper);
    lower = Math.max(lower, ping.lower);
  }
  return undefined;
}

/** The first ping after the first step that windows show. */
function likelyStep(pings: readonly HostPing[]): number | undefined {
  const windows = windowOffsets(pings, windowLength, bestPings, 0);
  let shortest = Number.POSITIVE_INFINITY;
  for (let end = after; end <= windows.length; end++) {
    const later = windows.slice(end - after, end);
    shortest = Math.min(shortest, medianOf(later.map(({ width }) => width)));
    const index = end - after - between;
    if (index < beforeMin) continue;
    const earlier = windows.slice(Math.max(0, index - before), index);
    const line = lineThrough(earlier);
    const limit = Math.max(madFactor * line.deviation * line.openness((later[after - 1] as WindowOffset).at), stepMin);
    const residuals = later.map(({ at, offset }) => offset - line.at(at));
    const step = medianOf(residuals);
    if (Math.abs(step) <= limit || residuals.some((value) => Math.sign(value) !== Math.sign(step))) continue;
    const explained = later.map((window) => lateBy(window, shortest) + line.lateBy(window.at, shortest));
    if (medianOf(residuals.map((value, place) => Math.abs(value) - (explained[place] as number))) <= limit) continue;
    return firstAfter(pings, windows[index - 1] as WindowOffset, later[after - 1] as WindowOffset, line.at, step);
  }
  return undefined;
}

/** Of the pings between two windows (one of those after may still be of before) the first after the step. */
function firstAfter(
  pings: readonly HostPing[],
  last: WindowOffset,
  next: WindowOffset,
  line: (at: number) => number,
  step: number,
): number {
  const from = pings.findIndex(({ at }) => at > last.at);
  const to = pings.findIndex(({ at }) => at > next.at);
  return split(pings, from, to < 0 ? pings.length : to, line, step);
}

/** The first ping of [from, to) from which on the offset fits better with the step than without. */
function split(pings: readonly HostPing[], from: number, to: number, line: (at: number) => number, step: number): number {
  // What a ping says against an offset: by how much it refutes it, and less the more it leaves open, how far its middle is off.
  const miss = (index: number, offset: number): number => {
    const { at, upper, lower } = pings[index] as HostPing;
    const expected = line(at) + offset;
    return Math.max(0, lower - expected, expected - upper) + Math.abs((upper + lower) / 2 - expected) / (1 + (upper - lower) / stepMin);
  };
  let [best, least, cost] = [from, 0, 0];
  for (let index = from; index < to; index++) {
    cost += miss(index, 0) - miss(index, step);
    if (cost < least) [best, least] = [index + 1, cost];
  }
  return Math.max(1, Math.min(best, pings.length - 1));
}

/** How far the middle of a window may be off because messages came late, ns, if all of that was on one way. */
const lateBy = ({ width }: WindowOffset, shortest: number): number => Math.max(0, width - shortest) / 2;

/** Least squares, and the deviation of what is left over. */
function lineThrough(windows: readonly WindowOffset[]) {
  const meanAt = windows.reduce((sum, { at }) => sum + at, 0) / windows.length;
  const mean = windows.reduce((sum, { offset }) => sum + offset, 0) / windows.length;
  let [product, square] = [0, 0];
  for (const { at, offset } of windows) {
    product += (at - meanAt) * (offset - mean);
    square += (at - meanAt) ** 2;
  }
  const slope = square === 0 ? 0 : product / square;
  const at = (time: number): number => mean + slope * (time - meanAt);
  /** How far the line may be off at a time for what its windows may be off, each weighed as the line weighs it. */
  const lateAt = (time: number, shortest: number): number =>
    windows.reduce((sum, window) => {
      const weight = 1 / windows.length + (square === 0 ? 0 : ((time - meanAt) * (window.at - meanAt)) / square);
      return sum + Math.abs(weight) * lateBy(window, shortest);
    }, 0);
  const deviation = madOfDeviation * medianOf(windows.map((window) => Math.abs(window.offset - at(window.at))));
  // A few windows may lie on a line by chance: what they leave open beyond the best of them says how far off they can be.
  const least = Math.min(...windows.map(({ width }) => width));
  const open = medianOf(windows.map(({ width }) => width - least)) / openParts;
  // How much less well the line is known at a time than its windows are, against one through all that are wanted.
  const opennessAt = (count: number, time: number, spread: number): number => Math.sqrt(1 + 1 / count + (time - meanAt) ** 2 / spread);
  const full = windowLength ** 2 * ((before ** 3 - before) / 12);
  const openness = (time: number): number => {
    const reach = (before / 2 + between + after) * windowLength;
    return Math.max(1, opennessAt(windows.length, time, square) / opennessAt(before, meanAt + reach, full));
  };
  return { at, lateBy: lateAt, deviation: Math.max(deviation, open, deviationMin), openness };
}
