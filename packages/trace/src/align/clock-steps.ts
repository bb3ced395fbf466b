// Where a host's clock stepped (a migrated virtual machine, a clock that was set): found in its pings, so that each side gets a model of its own.
//
//                        ┌ ─ ─ ─ the next 4
//   23 windows of 2 s    │  ·  ·   residuals over max(8 × MAD, 15 µs), all of one sign: a step lies in between
//   ·  ·  · ·  ·  ·  ·   │ ·  ·
//   ───────── line ──────┴───────
//
// That needs 48 s of history. Before, and for what is larger than all ways, the proof: a ping that contradicts all before it, at any
// believable drift.
//
// Invariant: at most `stepsMax` steps; a clock that seems to step more often does something else, and its bound says so.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { HostPing } from './host-pings.ts';
import { driftMax } from './offset-envelope.ts';
import { type WindowOffset, windowOffsets } from './offset-windows.ts';

const windowLength = 2 * nanosPerSecond;
/** Best pings of a window whose mean is taken. */
const bestPings = 2;
/** Windows of the line, windows between (the step may lie inside of them), and windows after. */
const before = 23;
const between = 2;
const after = 4;
/** A step is this many times what the line leaves over, and at least this many ns. */
const madFactor = 8;
const stepMin = 15_000;
/** MAD of a normal distribution is this part of its deviation. */
const madOfDeviation = 1.4826;
const deviationMin = 1000;
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

/** The first ping that those before it refute, and that the next ones confirm. */
function provenStep(pings: readonly HostPing[]): number | undefined {
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
  const windows = windowOffsets(pings, windowLength, bestPings);
  for (let index = before; index + between + after <= windows.length; index++) {
    const line = lineThrough(windows.slice(index - before, index));
    const residual = ({ at, offset }: WindowOffset): number => offset - line.at(at);
    const limit = Math.max(madFactor * line.deviation, stepMin);
    const residuals = windows.slice(index + between, index + between + after).map(residual);
    const step = medianOf(residuals);
    if (Math.abs(step) <= limit || residuals.some((value) => Math.sign(value) !== Math.sign(step))) continue;
    return firstAfter(pings, windows[index - 1] as WindowOffset, windows[index + between] as WindowOffset, line.at, step);
  }
  return undefined;
}

/** Of the pings between two windows the first from which on the new offset fits better than the old. */
function firstAfter(
  pings: readonly HostPing[],
  last: WindowOffset,
  next: WindowOffset,
  line: (at: number) => number,
  step: number,
): number {
  const inside = pings.flatMap(({ at }, index) => (at > last.at && at <= next.at ? [index] : []));
  // Costs of a split: what the pings before it say of the old offset, and those after it of the new one.
  const miss = (index: number, offset: number): number => {
    const { at, upper, lower } = pings[index] as HostPing;
    const expected = line(at) + offset;
    return Math.max(0, lower - expected, expected - upper) + Math.abs((upper + lower) / 2 - expected) / (1 + (upper - lower) / stepMin);
  };
  let cost = inside.reduce((sum, index) => sum + miss(index, step), 0);
  let [best, least] = [inside[0] as number, cost];
  for (const index of inside) {
    cost += miss(index, 0) - miss(index, step);
    if (cost < least) [best, least] = [index + 1, cost];
  }
  return Math.max(1, Math.min(best, pings.length - 1));
}

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
  const deviation = madOfDeviation * medianOf(windows.map((window) => Math.abs(window.offset - at(window.at))));
  return { at, deviation: Math.max(deviation, deviationMin) };
}

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[middle] as number;
  return ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
