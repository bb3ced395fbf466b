// A bound that changes with time, as few stretches: a run is cut into parts of equal length, each gets the largest bound in it, and neighbours
// with the same are joined.
//
// Invariant: no stretch's value is below the bound at any of its times; it is above the largest by a tenth at most.

import { type TraceTime, traceTime } from '@ranktrace/protocol';
import { limits } from './limits.ts';

export interface BoundStretch {
  /** Times of the trace, ns. */
  readonly from: number;
  readonly until: number;
  /** ns; may be infinite. */
  readonly most: number;
}

/** Shorter parts would say little more: a clock's bound changes from ping to ping. */
const partNsMin = 1e9;

/**
 * Stretches of [`from`, `until`] ns and somewhat beyond, without gaps, at most `limits.boundStretchesMax`. `within`: the largest bound between two times. Parts
 * begin at multiples of their length, so that those of a run that grows stay the same.
 */
export function boundStretches(within: (from: TraceTime, until: TraceTime) => number, from: number, until: number): BoundStretch[] {
  let length = partNsMin;
  while (until - from > (limits.boundStretchesMax - 2) * length) length *= 2;
  const stretches: BoundStretch[] = [];
  for (let begin = Math.floor(from / length) * length; begin <= until; begin += length) {
    const most = roundedUp(within(traceTime(begin), traceTime(begin + length)));
    const last = stretches.at(-1);
    if (last?.most === most) stretches[stretches.length - 1] = { ...last, until: begin + length };
    else stretches.push({ from: begin, until: begin + length, most });
  }
  return stretches;
}

/** To two digits, so that neighbours with hardly different values are one. */
function roundedUp(value: number): number {
  if (!(value > 0 && value < Number.POSITIVE_INFINITY)) return value;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
}
