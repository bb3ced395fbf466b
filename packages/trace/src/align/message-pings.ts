// Shared events of two hosts as evidence about their clocks, for hosts without pings: each collective and each remote call is as good as
// a ping, as neither host leaves before the other has entered.
//
//   host        entry ────────╮  ╭──── exit          entry before the other's exit:   offset ≤ T(exit') − entry
//                             ╳                      the other's entry before exit:   offset ≥ T(entry') − exit
//   other       entry' ───────╯  ╰──── exit'         T: the other's clock on the axis
//
// A collective's ranks leave it together, so T(exit') − exit is the offset, to within the spread of their exits.

import { nanosPerSecond } from '@ranktrace/protocol';
import { median } from '../model/robust.ts';
import type { Interval } from './clock-evidence.ts';
import type { ClockModel } from './clock-model.ts';
import { asMade, type HostPing, isExact } from './host-pings.ts';
import type { Host } from './hosts.ts';
import type { WindowOffset } from './offset-windows.ts';

/** Usual spread of the exits of ranks on one clock, ns (the largest median of real ones, NCCL over NVLink). */
const exitSpread = 20_500;
/** Exits within this window give one offset, ns. */
const exitWindowNs = 2 * nanosPerSecond;
/** Events longer than this are no evidence about clocks, ns. */
const longestNs = 3600 * nanosPerSecond;
/** A difference between clocks is one if it exceeds this many times the median deviation of exits. */
const spreads = 3;

/** An event of both hosts: on the host's clock, and on the axis by the other host's clock. */
interface Common {
  readonly own: Interval;
  readonly other: Interval;
}

/** Pings made of the events that `host` shares with `other`, which has the clock `model`; as made. */
export function messagePings(host: Host, other: Host, model: ClockModel): HostPing[] {
  const pings: HostPing[] = [];
  const add = (upperAt: number, upper: number, lowerAt: number, lower: number, exit?: number): void => {
    const ping = { at: Math.round((upperAt + lowerAt) / 2), upperAt, upper: upper + 1, lowerAt, lower: lower - 1 };
    if (Object.values(ping).every(isExact)) pings.push(exit === undefined ? ping : { ...ping, exit });
  };
  for (const { own, other: theirs } of commonOf(host, other, model, 'collectives', 'collectives')) {
    add(own.start, theirs.end - own.start, own.end, theirs.start - own.end, theirs.end - own.end);
  }
  for (const { own, other: theirs } of commonOf(host, other, model, 'clients', 'servers')) {
    add(own.start, theirs.start - own.start, own.end, theirs.end - own.end);
  }
  for (const { own, other: theirs } of commonOf(host, other, model, 'servers', 'clients')) {
    add(own.end, theirs.end - own.end, own.start, theirs.start - own.start);
  }
  for (const { upper, lower } of sendPairs(host, other, model)) add(upper.at, upper.limit, lower.at, lower.limit);
  return asMade(pings.filter(({ lower, upper }) => lower <= upper));
}

/** One-sided limit of a host's offset by one send, at its time on the host's clock. */
interface OneSided {
  readonly at: number;
  readonly limit: number;
}

/** Sends to the other host bound the offset from above, sends from it bound it from below: each is paired with the nearest in the other direction. */
function sendPairs(host: Host, other: Host, model: ClockModel): { upper: OneSided; lower: OneSided }[] {
  const uppers = oneSided(host, 'sends', other, 'receives', model);
  const lowers = oneSided(host, 'receives', other, 'sends', model);
  if (lowers.length === 0) return [];
  let near = 0;
  return uppers.map((upper) => {
    const apart = (index: number): number => Math.abs((lowers[index] as OneSided).at - upper.at);
    while (near + 1 < lowers.length && apart(near + 1) <= apart(near)) near++;
    return { upper, lower: lowers[near] as OneSided };
  });
}

/** One-sided limits in order of time. */
function oneSided(host: Host, kind: 'sends' | 'receives', other: Host, otherKind: 'sends' | 'receives', model: ClockModel): OneSided[] {
  const theirs = times(other, otherKind);
  const found: OneSided[] = [];
  for (const [key, at] of times(host, kind)) {
    const same = theirs.get(key);
    if (same !== undefined) found.push({ at, limit: model.toTrace(same) - at });
  }
  return found.sort((a, b) => a.at - b.at);
}

/** A host's sends or receives on its own clock. */
function times({ ranks, epoch }: Host, kind: 'sends' | 'receives'): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const { shared, epoch: own } of ranks) {
    const shift = Number(own - epoch);
    for (const [key, time] of shared?.[kind] ?? []) if (isExact(time + shift)) found.set(key, time + shift);
  }
  return found;
}

/** Offsets by shared exits, one per window; empty where no ping is a collective. */
export function exitOffsets(pings: readonly HostPing[]): WindowOffset[] {
  const windows = new Map<number, Exit[]>();
  for (const exit of exitsOf(pings)) {
    const window = Math.floor(exit.at / exitWindowNs);
    const held = windows.get(window);
    if (held === undefined) windows.set(window, [exit]);
    else held.push(exit);
  }
  const offsets = [...windows.values()].map(exitOffset).sort((a, b) => a.at - b.at);
  const [first, last] = [offsets[0], offsets.at(-1)];
  const slope = first === undefined || last === undefined || first === last ? 0 : (last.offset - first.offset) / (last.at - first.at);
  return offsets.map((offset) => ({ ...offset, slope }));
}

/** The end of a collective on the host's clock, and the offset there if all ranks left together. */
interface Exit {
  readonly at: number;
  readonly offset: number;
}

const exitsOf = (pings: readonly HostPing[]): Exit[] =>
  pings.flatMap(({ lowerAt, exit }) => (exit === undefined ? [] : [{ at: lowerAt, offset: exit }]));

/** The middle of at least one collective's exits, and twice their median deviation. */
function exitOffset(exits: readonly Exit[]): WindowOffset {
  const offset = median(exits.map((exit) => exit.offset));
  const width = 2 * median(exits.map((exit) => Math.abs(exit.offset - offset)));
  return { at: Math.round(median(exits.map(({ at }) => at))), offset, width: Math.max(width, 1000), slope: 0 };
}

/**
 * The offset of `host` if it reads the same wall clock as `other`: no shared event contradicts that, and their exits lie no further
 * apart than exits on one clock. Undefined when it does not, or when the evidence is too thin.
 */
export function sharedOffset(host: Host, other: Host, model: ClockModel, pings: readonly HostPing[]): number | undefined {
  if (!isUnknown(host) || !isUnknown(other) || pings.length === 0) return undefined;
  const shift = Number(host.epoch - other.epoch);
  const offset = shift + model.offsetAt((pings[0] as HostPing).at + shift);
  if (pings.some(({ lower, upper }) => offset < lower || offset > upper)) return undefined;
  const exits = exitsOf(pings);
  if (exits.length === 0) return offset;
  const middle = exitOffset(exits);
  return Math.abs(middle.offset - offset) <= Math.max((spreads * middle.width) / 2, exitSpread) ? offset : undefined;
}

/** Offset of a host by shared steps, ns. */
export interface StepOffset {
  readonly offset: number;
  /** Least distance between the starts of two steps; 0 where only one is shared. */
  readonly apart: number;
}

/** The median shift of `host` at which the steps that it shares with `other` begin together; undefined when they share none. */
export function stepOffset(host: Host, other: Host, model: ClockModel): StepOffset | undefined {
  const shifts: number[] = [];
  const own = stepsOf(host);
  const theirs = stepsOf(other);
  let [before, apart] = [Number.NaN, Number.POSITIVE_INFINITY];
  for (const [step, start] of [...own].sort(([a], [b]) => a - b)) {
    const same = theirs.get(step);
    if (same === undefined) continue;
    shifts.push(Math.round(model.toTrace(same) - start));
    if (start > before) apart = Math.min(apart, start - before);
    before = start;
  }
  return shifts.length === 0 ? undefined : { offset: Math.round(median(shifts)), apart: Number.isFinite(apart) ? apart : 0 };
}

type IntervalKind = 'collectives' | 'clients' | 'servers';

const isUnknown = ({ ranks }: Host): boolean => ranks.some(({ hostUnknown }) => hostUnknown === true);

/** Events that `host` has under `kind` and `other` under `otherKind`. */
function commonOf(host: Host, other: Host, model: ClockModel, kind: IntervalKind, otherKind: IntervalKind): Common[] {
  const theirs = intervals(other, otherKind);
  const common: Common[] = [];
  if (theirs.size === 0) return common;
  for (const [key, own] of intervals(host, kind)) {
    const same = theirs.get(key);
    if (same !== undefined) common.push({ own, other: { start: model.toTrace(same.start), end: model.toTrace(same.end) } });
  }
  return common;
}

/** A host's events on its own clock: for a collective, the latest entry and the earliest exit of its ranks. */
function intervals({ ranks, epoch }: Host, kind: IntervalKind): ReadonlyMap<string, Interval> {
  const found = new Map<string, Interval>();
  for (const { shared, epoch: own } of ranks) {
    const shift = Number(own - epoch);
    for (const [key, { start, end }] of shared?.[kind] ?? []) {
      const held = found.get(key);
      const [from, to] = [start + shift, end + shift];
      found.set(key, held === undefined ? { start: from, end: to } : { start: Math.max(held.start, from), end: Math.min(held.end, to) });
    }
  }
  for (const [key, { start, end }] of found)
    if (!isExact(start) || !isExact(end) || end < start || end - start > longestNs) found.delete(key);
  return found;
}

/** The start of each step of a host's ranks, on its own clock. */
export function stepsOf({ ranks, epoch }: Host): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  for (const { shared, epoch: own } of ranks) {
    for (const [step, start] of shared?.steps ?? []) {
      const at = start + Number(own - epoch);
      if (isExact(at) && !found.has(step)) found.set(step, at);
    }
  }
  return found;
}
