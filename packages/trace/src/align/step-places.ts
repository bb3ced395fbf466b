// Locates a clock step between two pings by the events that its host shared with others in between: each collective and each call bounds the
// offset as a ping does, and fits one side of the step or the other.
//
//   pings      •                                          •          up to a second apart
//   together      ─ ─  ─  ─   ─  ═   ═ ═ ══  ═  ═ ═                  ─ fits the offset before, ═ the one after
//                               ↑ the step
//
// Invariant: the step lies between `last` and `first`, as far as the hosts' own bounds hold.

import { median } from '../model/robust.ts';
import { type HostPing, inOrder, referenceTime } from './host-pings.ts';
import type { OffsetLimits } from './offset-envelope.ts';

/** A step of a clock, and what is known to be on either side of it. */
export interface BesideStep {
  /** Host times, ns: the clock had not stepped up to `until`, and had stepped from `at` on; times between are skipped. */
  readonly until: number;
  readonly at: number;
  /** ns by which the clock was set ahead (below 0: back). */
  readonly jump: number;
  readonly last: HostPing;
  readonly first: HostPing;
}

/** An event shared with another host, as a ping. */
export interface SharedPing extends HostPing {
  /** ± of the other host's clock, ns: its limits hold to within that. */
  readonly bound: number;
}

/** Pings that give an offset, by their middle and by their limits. */
const nearest = 8;

/**
 * Places the step between the pings `before` and `after`, at least one each, in order: where it most likely is, by the middles of all clocks, and between
 * events that prove on which side they are.
 */
export function placeStep(before: readonly HostPing[], after: readonly HostPing[], together: readonly SharedPing[]): BesideStep {
  const [last, first] = [before.at(-1) as HostPing, after[0] as HostPing];
  const [from, until] = [referenceTime(last), referenceTime(first)];
  const between = together
    .filter((one) => referenceTime(one) > from && referenceTime(one) < until)
    .sort((a, b) => referenceTime(a) - referenceTime(b) || inOrder(a, b));
  const [own, later] = [before.slice(-nearest), after.slice(0, nearest)];
  const [offsetBefore, offsetAfter] = [middleOf(own), middleOf(later)];
  const proven = placesOf(between, limitsOf(own), limitsOf(later), ({ bound }) => bound);
  const exactly = (offset: number): OffsetLimits => ({ lower: offset, upper: offset });
  const likely = placesOf(between, exactly(offsetBefore), exactly(offsetAfter), () => 0);
  const beside = ([begin, end]: Places) => ({ last: between[begin - 1] ?? last, first: between[end] ?? first });
  const within = (place: number): number => Math.min(Math.max(place, proven[0]), proven[1]);
  const shown = beside([within(likely[0]), within(likely[1])]);
  const jump = offsetBefore - offsetAfter;
  const leftOut = Math.max(1, Math.round(jump));
  const at = Math.round((shown.last.at + shown.first.at + leftOut) / 2);
  return { until: at - leftOut, at, jump, ...beside(proven) };
}

/** The first and the last of some neighbouring places between events: so many of the events lie before the step. */
type Places = readonly [begin: number, end: number];

/** The places that the events refute least: those before by offsets that may be before the step, and those after by offsets after it. */
function placesOf(between: readonly SharedPing[], before: OffsetLimits, after: OffsetLimits, boundOf: (one: SharedPing) => number): Places {
  const miss = (one: SharedPing, { lower, upper }: OffsetLimits): number =>
    Math.max(0, one.lower - boundOf(one) - upper, lower - one.upper - boundOf(one));
  let [cost, least, begin, end] = [between.reduce((sum, one) => sum + miss(one, after), 0), Number.POSITIVE_INFINITY, 0, 0];
  for (let place = 0; place <= between.length; place++) {
    if (cost < least) [least, begin] = [cost, place];
    if (cost <= least) end = place;
    const one = between[place];
    if (one !== undefined) cost += miss(one, before) - miss(one, after);
  }
  return [begin, end];
}

const middleOf = (pings: readonly HostPing[]): number => median(pings.map(({ upper, lower }) => (upper + lower) / 2));

/** Offsets that all of these pings allow, or their middle where they contradict each other. */
function limitsOf(pings: readonly HostPing[]): OffsetLimits {
  const [lower, upper] = [Math.max(...pings.map((ping) => ping.lower)), Math.min(...pings.map((ping) => ping.upper))];
  const middle = middleOf(pings);
  return lower <= upper ? { lower, upper } : { lower: middle, upper: middle };
}
