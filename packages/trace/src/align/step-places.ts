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

/** Pings that give an offset by their middle. */
const nearest = 8;

/** Places the step between the pings `before` and `after`, at least one each, in order. */
export function placeStep(before: readonly HostPing[], after: readonly HostPing[], together: readonly HostPing[]): BesideStep {
  const [last, first] = [before.at(-1) as HostPing, after[0] as HostPing];
  const [from, until] = [referenceTime(last), referenceTime(first)];
  const between = together
    .filter((one) => referenceTime(one) > from && referenceTime(one) < until)
    .sort((a, b) => referenceTime(a) - referenceTime(b) || inOrder(a, b));
  const [offsetBefore, offsetAfter] = [middleOf(before.slice(-nearest)), middleOf(after.slice(0, nearest))];
  // Cost of a place: how far evidence before it refutes the offset before the step, and evidence after it the one after.
  let [cost, least, begin, end] = [between.reduce((sum, one) => sum + missOf(one, offsetAfter), 0), Number.POSITIVE_INFINITY, 0, 0];
  for (let place = 0; place <= between.length; place++) {
    if (cost < least) [least, begin] = [cost, place];
    if (cost <= least) end = place;
    const one = between[place];
    if (one !== undefined) cost += missOf(one, offsetBefore) - missOf(one, offsetAfter);
  }
  const step = { last: between[begin - 1] ?? last, first: between[end] ?? first };
  const jump = offsetBefore - offsetAfter;
  const leftOut = Math.max(1, Math.round(jump));
  const at = Math.round((step.last.at + step.first.at + leftOut) / 2);
  return { until: at - leftOut, at, jump, ...step };
}

const middleOf = (pings: readonly HostPing[]): number => median(pings.map(({ upper, lower }) => (upper + lower) / 2));

const missOf = ({ lower, upper }: HostPing, offset: number): number => Math.max(0, lower - offset, offset - upper);
