// How far a clock may be off at each time, as text: facts have no lists. A trace is cut into stretches of equal length, and those of equal values
// are joined:
//
//   0–4000000000 ±350000 4000000000–6000000000 ±1200000        ns: from – until, and what holds at every time between
//
// Invariant: a value that is read is at least the one that was written, by up to a tenth.

import { nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import type { Alignment } from '../model/trace-sink.ts';

/** Most stretches of one clock. */
const stretchesMax = 64;
/** Shorter ones would say little more: clocks are placed by windows of 2 s. */
const stretchNsMin = 2e9;

interface Stretch {
  readonly from: number;
  readonly until: number;
  /** Never more between `from` and `until`, ns. */
  readonly most: number;
}

/** `most` by stretch of [from, until]; those in which it is infinite are left out. */
export function boundsText(most: (from: TraceTime, until: TraceTime) => number, from: number, until: number): string {
  const count = Math.max(1, Math.min(stretchesMax, Math.floor((until - from) / stretchNsMin)));
  const stretches: { from: number; until: number; most: number }[] = [];
  for (let at = 0; at < count; at++) {
    const begin = Math.floor(from + (at / count) * (until - from));
    const end = at === count - 1 ? until : Math.floor(from + ((at + 1) / count) * (until - from));
    const value = roundedUp(most(traceTime(begin), traceTime(end)));
    const last = stretches.at(-1);
    if (!Number.isFinite(value)) continue;
    if (last?.most === value && last.until === begin) last.until = end;
    else stretches.push({ from: begin, until: end, most: value });
  }
  return stretches.map((stretch) => `${stretch.from}–${stretch.until} ±${stretch.most}`).join(' ');
}

/** To two digits, so that stretches with hardly different values are one. */
function roundedUp(value: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, value))) - 1);
  return Math.ceil(value / unit) * unit;
}

/** `boundAt` and `boundWithin`, or the same of `apart`, by the text of it; `otherwise` where it tells nothing. */
function readBounds(text: string, otherwise: number): (from: number, until: number) => number {
  const stretches = text
    .split(' ±')
    .join('±')
    .split(' ', stretchesMax)
    .flatMap((part): Stretch[] => {
      const [, from, until, most] = (/^(-?\d{1,16})–(-?\d{1,16})±(\d{1,16})$/.exec(part) ?? []).map(Number);
      return from === undefined || until === undefined || most === undefined || from > until ? [] : [{ from, until, most }];
    });
  return (from, until) => {
    // Up to where the stretches so far tell of it.
    let [told, most] = [from, Number.NEGATIVE_INFINITY];
    for (const stretch of stretches) {
      if (stretch.until < from || stretch.from > until) continue;
      if (stretch.from > told) return otherwise;
      told = Math.max(told, stretch.until);
      most = Math.max(most, stretch.most);
    }
    return most < 0 || told < until ? otherwise : Math.min(most, otherwise);
  };
}

/** What the two texts tell of a clock whose worst bound is `bound`; empty ones tell nothing. */
export function alignmentOfBounds(
  bounds: string,
  apart: string,
  bound: number,
): Pick<Alignment, 'boundAt' | 'boundWithin' | 'apartAt' | 'apartWithin'> {
  const [boundIn, apartIn] = [readBounds(bounds, bound), readBounds(apart, Number.POSITIVE_INFINITY)];
  return {
    ...(bounds !== '' && { boundAt: (time) => nanos(boundIn(time, time)), boundWithin: (from, until) => nanos(boundIn(from, until)) }),
    ...(apart !== '' && { apartAt: (time) => apartIn(time, time), apartWithin: apartIn }),
  };
}
