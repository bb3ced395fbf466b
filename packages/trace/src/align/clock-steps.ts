// Steps of a host's clock (a migrated virtual machine, a clock that was set), found in its pings, so that each side gets its own model.
//
//                        ┌ ─ ─ ─ the next 4
//   23 windows of 2 s    │  ·  ·   residuals over max(8 deviations, 15 µs), all of one sign: a step lies in between
//   ·  ·  · ·  ·  ·  ·   │ ·  ·
//   ───────── line ──────┴───────
//
// With less history (at least six windows) the line is less certain, and the limit grows by that. A window counts less if its shortest round trip
// exceeds the shortest of any four in a row so far: on a host starved of CPU, ranks receive answers late, and the middle of a ping is off by up to
// half of that. Residuals that longer trips explain are no step; the bound covers them. Nor are residuals that grow from window to window: a slewed
// clock. A step larger than all round trips is proven: a ping contradicts all before it, at any believable drift. One or two pings that contradict
// those before them, and that those after contradict in turn, are strays: no clock steps there and back at once. The bound covers them there.
//
// Invariant: at most `breaksMax` steps and strays; a clock that seems to have more is not stepping, and its bound shows it.

import { nanosPerSecond } from '@ranktrace/protocol';
import { median } from '../model/robust.ts';
import { type HostPing, inOrder, wayOf } from './host-pings.ts';
import { driftMax } from './offset-envelope.ts';
import { type WindowOffset, windowOffsets } from './offset-windows.ts';

const windowLength = 2 * nanosPerSecond;
/** Best pings of a window that are averaged. */
const bestPings = 2;
/** Windows of the line, windows between (the step may lie inside them), and windows after. */
const before = 23;
const beforeMin = 6;
const between = 2;
const after = 4;
/** A step is at least this many times the residual deviation, and at least this many ns. */
const madFactor = 8;
const stepMin = 15_000;
/** From the first window after a step to the last, residuals change by less than this part of the step. */
const growthMax = 0.25;
/** The MAD of a normal distribution times this is its standard deviation. */
const madOfDeviation = 1.4826;
const deviationMin = 2000;
const openParts = 4;
/** A proof must be exceeded by this many ns: readings are exact to less. */
const proofSlack = 2000;
const breaksMax = 64;

/** Indexes of the pings at which a clock's course breaks off. */
export interface ClockBreaks {
  /** The first ping after each step, in order. */
  readonly steps: readonly number[];
  /** Pings that contradict those before them as well as those after them. */
  readonly strays: readonly number[];
}

/** A proof by shared events must be exceeded by this many ns: a program may call a barrier what its ranks leave a little too early. */
const sharedSlack = 100_000;

/** The breaks of the clock of `pings`, which are in the order in which they were made. `areShared`: shared events, too uneven for more than proofs. */
export function clockBreaks(pings: readonly HostPing[], areShared = false): ClockBreaks {
  const slack = areShared ? sharedSlack : proofSlack;
  const [steps, strays] = [new Set<HostPing>(), new Set<HostPing>()];
  let rest = pings;
  while (rest.length > 0) {
    if (steps.size + strays.size > breaksMax) return { steps: [], strays: [] };
    const proof = firstRefuted(rest, slack);
    if (proof !== undefined && proof.strays.length > 0) {
      for (const ping of proof.strays) strays.add(ping);
      rest = rest.filter((ping) => !strays.has(ping));
      continue;
    }
    // Pings after a proof may belong to another side of a step.
    const known = rest.slice(0, proof?.at).sort(inOrder);
    const likely = areShared ? undefined : likelyStep(known);
    const at = likely === undefined ? proof && provenStep(rest, proof.at, slack) : rest.indexOf(known[likely] as HostPing);
    if (at === undefined) break;
    const { first, straddling } = besideStep(rest, at, slack);
    for (const ping of straddling) strays.add(ping);
    // One or two pings at the very beginning, or between two steps, are strays.
    const isStray = first - straddling.length <= straysMax;
    if (isStray) for (const ping of rest.slice(0, first)) strays.add(ping);
    if (!isStray || steps.delete(rest[0] as HostPing)) steps.add(rest[first] as HostPing);
    rest = rest.slice(first);
  }
  const indexesOf = (some: ReadonlySet<HostPing>): number[] => pings.flatMap((ping, index) => (some.has(ping) ? [index] : []));
  return { steps: indexesOf(steps), strays: indexesOf(strays) };
}

/** Limits at host time `at` that pings prove so far; they weaken by the largest believable drift. */
class Proven {
  #at = Number.NaN;
  #upper = Number.POSITIVE_INFINITY;
  #lower = Number.NEGATIVE_INFINITY;
  readonly #slack: number;

  /** `slack`: ns by which a proof must be exceeded. */
  constructor(slack: number) {
    this.#slack = slack;
  }

  /** Whether no clock can satisfy both this ping and those taken. */
  refutes({ upperAt, upper, lowerAt, lower }: HostPing): boolean {
    if (Number.isNaN(this.#at)) return false;
    const grown = (time: number): number => driftMax * Math.abs(time - this.#at) + this.#slack;
    return lower > this.#upper + grown(lowerAt) || upper < this.#lower - grown(upperAt);
  }

  take(ping: HostPing): void {
    const drifted = Number.isNaN(this.#at) ? 0 : driftMax * Math.abs(ping.at - this.#at);
    const open = (driftMax * wayOf(ping)) / 2;
    this.#at = ping.at;
    this.#upper = Math.min(this.#upper + drifted, ping.upper + open);
    this.#lower = Math.max(this.#lower - drifted, ping.lower - open);
  }
}

/** The leading `pings` that agree with each other. */
function agreeing(pings: readonly HostPing[], slack: number): readonly HostPing[] {
  const proven = new Proven(slack);
  const other = pings.findIndex((ping) => {
    if (proven.refutes(ping)) return true;
    proven.take(ping);
    return false;
  });
  return pings.slice(0, other < 0 ? pings.length : other);
}

/** Limits next to the first of `pings`, by the leading ones that agree with each other. */
function provenBeside(pings: readonly HostPing[], slack: number): Proven {
  const proven = new Proven(slack);
  for (const ping of agreeing(pings, slack).toReversed()) proven.take(ping);
  return proven;
}

/** Most pings in a row that may be strays: a step lasts longer. */
const straysMax = 2;
/** Pings after a refuted one that are checked to decide whether it is a stray. */
const lookMax = 32;

/** The first ping that those before it refute, and the strays from there on: none where the clock stepped. */
function firstRefuted(
  pings: readonly HostPing[],
  slack: number,
): { readonly at: number; readonly strays: readonly HostPing[] } | undefined {
  const proven = new Proven(slack);
  for (const [at, ping] of pings.entries()) {
    if (proven.refutes(ping)) return { at, strays: straysFrom(pings, at, proven, slack) };
    proven.take(ping);
  }
  return undefined;
}

function straysFrom(pings: readonly HostPing[], at: number, proven: Proven, slack: number): readonly HostPing[] {
  const refuted = [pings[at] as HostPing];
  for (const next of pings.slice(at + 1, at + 1 + lookMax)) {
    if (!proven.refutes(next)) {
      if (provenBeside(refuted.toReversed(), slack).refutes(next)) return refuted;
    } else if (refuted.push(next) > straysMax) return [];
  }
  // At the end of the pings a step and a stray look alike.
  return at + lookMax >= pings.length ? refuted : [];
}

/** Pings on either side of a proof that locate and measure the step. */
const beside = 24;

/** The first ping after the step that the ping at index `proof` proves: the step is at it or somewhat earlier. */
function provenStep(pings: readonly HostPing[], proof: number, slack: number): number {
  // The clock may have stepped again soon, so only pings that agree with the proof count. Pings that they refute were before the step.
  const later = agreeing(pings.slice(proof, proof + beside), slack);
  const after = provenBeside(later, slack);
  const begin = Math.max(0, proof - beside);
  const from = begin + pings.slice(begin, proof).findLastIndex((ping) => after.refutes(ping)) + 1;
  const middleOf = (some: readonly HostPing[]): number => median(some.map(({ upper, lower }) => (upper + lower) / 2));
  // Nearer to the proof some pings may already be on the other side.
  const earlier = pings.slice(begin, Math.max(begin + 1, proof - (beside >> 1)));
  const level = middleOf(earlier);
  return split(pings, from, proof + later.length, () => level, middleOf(later) - level);
}

/** The first ping after a step found near `at`, and the neighbouring pings that were in flight during it: they fit neither side. */
function besideStep(
  pings: readonly HostPing[],
  at: number,
  slack: number,
): { readonly first: number; readonly straddling: readonly HostPing[] } {
  const straddling: HostPing[] = [];
  let first = at;
  for (; first < Math.min(at + straysMax, pings.length - 1); first++) {
    const ping = pings[first] as HostPing;
    if (!provenBeside(pings.slice(first + 1, first + 1 + beside), slack).refutes(ping)) break;
    if (provenBeside(pings.slice(Math.max(0, first - beside), first).reverse(), slack).refutes(ping)) straddling.push(ping);
  }
  for (let last = at - 1; last > Math.max(0, at - 1 - straysMax); last--) {
    const ping = pings[last] as HostPing;
    if (!provenBeside(pings.slice(Math.max(0, last - beside), last).reverse(), slack).refutes(ping)) break;
    straddling.push(ping);
  }
  return { first, straddling };
}

/** The first ping after the first step that windows show. */
function likelyStep(pings: readonly HostPing[]): number | undefined {
  const windows = windowOffsets(pings, windowLength, bestPings, 0);
  let shortest = Number.POSITIVE_INFINITY;
  for (let end = after; end <= windows.length; end++) {
    const later = windows.slice(end - after, end);
    shortest = Math.min(shortest, median(later.map(({ width }) => width)));
    const index = end - after - between;
    if (index < beforeMin) continue;
    const earlier = windows.slice(Math.max(0, index - before), index);
    const line = lineThrough(earlier);
    const limit = Math.max(madFactor * line.deviation * line.openness((later[after - 1] as WindowOffset).at), stepMin);
    const residuals = later.map(({ at, offset }) => offset - line.at(at));
    const step = median(residuals);
    const growth = Math.abs((residuals[after - 1] as number) - (residuals[0] as number));
    if (growth > Math.max(stepMin, growthMax * Math.abs(step))) continue;
    if (Math.abs(step) <= limit || residuals.some((value) => Math.sign(value) !== Math.sign(step))) continue;
    const explained = later.map((window) => lateBy(window, shortest) + line.lateBy(window.at, shortest));
    if (median(residuals.map((value, place) => Math.abs(value) - (explained[place] as number))) <= limit) continue;
    const [last, next] = [windows[index - 1] as WindowOffset, later[after - 1] as WindowOffset];
    if (isSlewed(pings, last.at - windowLength / 2, next.at, line.at, step)) continue;
    return firstAfter(pings, last, next, line.at, step);
  }
  return undefined;
}

/** Whether most pings between two times allow neither the offset before a step nor the one after it: a true step has nothing in between. */
function isSlewed(pings: readonly HostPing[], from: number, to: number, line: (at: number) => number, step: number): boolean {
  let neither = 0;
  for (const { at, lower, upper } of pings) {
    if (at < from || at > to) continue;
    const allows = (offset: number): boolean => lower - stepMin <= offset && offset <= upper + stepMin;
    if (!allows(line(at)) && !allows(line(at) + step)) neither++;
  }
  return neither > straysMax;
}

/** The first ping after the step, among those between two windows (a window after may still hold pings from before). */
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
  // A ping's cost for an offset: the amount by which it refutes it, plus the distance to its middle, which counts less the wider its limits are.
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

/** Largest error of a window's middle through late messages, ns, if all the delay was in one direction. */
const lateBy = ({ width }: WindowOffset, shortest: number): number => Math.max(0, width - shortest) / 2;

/** Line by least squares, and the deviation of the residuals. */
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
  /** Largest error of the line at a time through late messages: each window's error, weighted as the line weights it. */
  const lateAt = (time: number, shortest: number): number =>
    windows.reduce((sum, window) => {
      const weight = 1 / windows.length + (square === 0 ? 0 : ((time - meanAt) * (window.at - meanAt)) / square);
      return sum + Math.abs(weight) * lateBy(window, shortest);
    }, 0);
  const deviation = madOfDeviation * median(windows.map((window) => Math.abs(window.offset - at(window.at))));
  // A few windows may lie on a line by chance: their width beyond the narrowest one shows how far off they can be.
  const least = Math.min(...windows.map(({ width }) => width));
  const open = median(windows.map(({ width }) => width - least)) / openParts;
  // How much less certain the line is at a time than its windows, compared with a line through the full number of windows.
  const opennessAt = (count: number, time: number, spread: number): number => Math.sqrt(1 + 1 / count + (time - meanAt) ** 2 / spread);
  const full = windowLength ** 2 * ((before ** 3 - before) / 12);
  const openness = (time: number): number => {
    const reach = (before / 2 + between + after) * windowLength;
    return Math.max(1, opennessAt(windows.length, time, square) / opennessAt(before, meanAt + reach, full));
  };
  return { at, lateBy: lateAt, deviation: Math.max(deviation, open, deviationMin), openness };
}
