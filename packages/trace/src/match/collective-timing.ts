// Timing of one matched collective, or of one send and its receive.
//
//   rank 0  ├──── waits ─────────┼──── transfer ────┤
//   rank 1          ├─── waits ──┼──── transfer ────────┤       exit spread = latest exit − earliest exit
//   rank 2                       ├──── transfer ──────┤
//           └──── entry skew ────┘                  └ earliest exit
//                                └ last entry: rank 2 was last in
//
// Entries and exits on different hosts compare to within epsilon only, so a transfer no longer than that is indistinguishable
// from none, and has no bandwidth.

import { type CollectiveKind, collectiveKind, isBarrierLike, type Nanos, nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import { apartAt, boundAt } from '../model/epsilon.ts';
import { twoLargest } from '../model/robust.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import { type Bandwidth, bandwidthOf } from './bus-bandwidth.ts';
import type { CollectivePart, MatchedCollective } from './collective-matcher.ts';

export interface CollectiveTiming {
  readonly kind: CollectiveKind | undefined;
  readonly time: TraceTime;
  readonly ranks: number;
  /** Latest entry − earliest entry, ns. */
  readonly entrySkew: Nanos;
  /** The rank that entered last, after all others by more than their clocks can be off; undefined where the clocks cannot decide. */
  readonly lastIn: number | undefined;
  /** Per part: from its entry to the last entry, or to its own exit where it did not wait for that, ns. */
  readonly waiting: readonly Nanos[];
  /** Last entry → earliest exit (send: receive's exit), ns; below 0 where no rank waits for all, or clocks are off. Undefined while one is inside. */
  readonly transfer: Nanos | undefined;
  /** Latest exit − earliest exit, ns. Undefined while a rank is inside. */
  readonly exitSpread: Nanos | undefined;
  /** ± ns between any two of its times; 0 on one host, undefined where a host of several is not aligned. */
  readonly epsilon: Nanos | undefined;
  /** Whether the transfer is longer than epsilon. */
  readonly isDistinguishable: boolean;
  /** Whether a rank seems to have left before the last had entered, which is impossible: an error of the clocks. */
  readonly isViolation: boolean;
  /** Input of a rank, bytes: the largest of any part. */
  readonly bytes: number;
  /** Undefined unless the transfer is distinguishable and moved something. */
  readonly bandwidth: Bandwidth | undefined;
}

/** The timing of a collective with no part missing. */
export function collectiveTiming(
  { op, parts, pair }: MatchedCollective,
  processOf: (member: number) => TraceProcess | undefined,
): CollectiveTiming {
  const kind = pair === undefined ? collectiveKind(op) : 'send';
  let [firstEntry, lastEntry] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let [firstExit, lastExit] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let last = parts[0] as CollectivePart;
  let bytes = 0;
  for (const part of parts) {
    firstEntry = Math.min(firstEntry, part.entry);
    if (part.entry > lastEntry) {
      lastEntry = part.entry;
      last = part;
    }
    // An unknown exit is NaN, and so is everything that depends on it.
    firstExit = Math.min(firstExit, part.exit ?? Number.NaN);
    lastExit = Math.max(lastExit, part.exit ?? Number.NaN);
    bytes = Math.max(bytes, part.bytes);
  }
  const end = pair === undefined ? firstExit : receiveExit(parts, pair[1]);
  const waiting = parts.map(({ entry, exit = lastEntry }) => nanos(Math.max(0, Math.min(lastEntry, exit) - entry)));
  const clocks = clocksOf(parts, processOf, traceTime(lastEntry));
  const epsilon = spreadOf(clocks);
  const transfer = known(end - lastEntry);
  const isDistinguishable = transfer !== undefined && epsilon !== undefined && transfer > epsilon;
  return {
    kind,
    time: traceTime(firstEntry),
    ranks: parts.length,
    entrySkew: nanos(lastEntry - firstEntry),
    lastIn: isClearlyLast(last, parts, processOf, clocks) ? last.rank : undefined,
    waiting,
    transfer,
    exitSpread: known(lastExit - firstExit),
    epsilon,
    isDistinguishable,
    isViolation: pair === undefined ? isBarrierLike(op) && firstExit < lastEntry : isReversed(parts, pair),
    bytes,
    bandwidth: isDistinguishable ? bandwidthOf(kind, parts.length, bytes, transfer) : undefined,
  };
}

const known = (length: number): Nanos | undefined => (Number.isFinite(length) ? nanos(length) : undefined);

/** How far a host's clock may be off at one time, ± ns: from the reference clock, and from other hosts' clocks. Infinite where nothing tells. */
interface HostClock {
  readonly bound: number;
  readonly apart: number;
}

/** By host: all of its processes read one clock. */
function clocksOf(
  parts: readonly CollectivePart[],
  processOf: (member: number) => TraceProcess | undefined,
  time: TraceTime,
): ReadonlyMap<string, HostClock> {
  const clocks = new Map<string, HostClock>();
  for (const { member } of parts) {
    const process = processOf(member);
    if (process === undefined || clocks.has(process.host)) continue;
    clocks.set(process.host, { bound: boundAt(process, time) ?? Number.POSITIVE_INFINITY, apart: apartAt(process, time) });
  }
  return clocks;
}

/** Whether `last` entered after all others by more than their clocks can be off. */
function isClearlyLast(
  last: CollectivePart,
  parts: readonly CollectivePart[],
  processOf: (member: number) => TraceProcess | undefined,
  clocks: ReadonlyMap<string, HostClock>,
): boolean {
  const host = processOf(last.member)?.host;
  if (host === undefined) return false;
  const { bound, apart } = clocks.get(host) as HostClock;
  return parts.every((part) => {
    if (part === last) return true;
    const other = processOf(part.member)?.host;
    const clock = other === undefined ? undefined : clocks.get(other);
    const epsilon = other === host ? 0 : clock && Math.min(bound + clock.bound, apart + clock.apart);
    return epsilon !== undefined && last.entry - part.entry > epsilon;
  });
}

/** The exit of the receiving side: the sender may return as soon as its data is buffered. A rank that sends to itself has both sides. */
function receiveExit(parts: readonly CollectivePart[], destination: number): number {
  const sides = parts.filter(
    ({ rank, op }) => rank === destination && (parts[0]?.rank !== parts[1]?.rank || collectiveKind(op) === 'recv'),
  );
  return sides[0]?.exit ?? Number.NaN;
}

/** Whether a receive ended before its send began. */
function isReversed(parts: readonly CollectivePart[], [source, destination]: readonly [number, number]): boolean {
  if (source === destination) return false;
  const sent = parts.find(({ rank }) => rank === source)?.entry ?? Number.NaN;
  return receiveExit(parts, destination) < sent;
}

/** ± ns between any two hosts. */
function spreadOf(clocks: ReadonlyMap<string, HostClock>): Nanos | undefined {
  if (clocks.size < 2) return nanos(0);
  const all = [...clocks.values()];
  return known(Math.min(twoLargest(all.map(({ bound }) => bound)), twoLargest(all.map(({ apart }) => apart))));
}
