// How far a clock may be off, as text, because facts have no lists:
//
//   0–4000000000 ±350000 4000000000–6000000000 ±1200000        ns: from – until, and what holds at every time between

import { nanos, type TraceTime } from '@ranktrace/protocol';
import { type BoundStretch, boundStretches } from '../model/bound-stretches.ts';
import { limits } from '../model/limits.ts';
import type { Alignment } from '../model/trace-sink.ts';

/** `within`, the largest bound between two times, over [from, until]; stretches in which it is infinite are left out. */
export function boundsText(within: (from: TraceTime, until: TraceTime) => number, from: number, until: number): string {
  return boundStretches(within, from, until)
    .filter(({ most }) => Number.isFinite(most))
    .map((stretch) => `${stretch.from}–${stretch.until} ±${stretch.most}`)
    .join(' ');
}

/** `boundAt` and `boundWithin`, or the same of `apart`, by the text of it; `otherwise` where it tells nothing. */
function readBounds(text: string, otherwise: number): (from: number, until: number) => number {
  const stretches = text
    .split(' ±')
    .join('±')
    .split(' ', limits.boundStretchesMax)
    .flatMap((part): BoundStretch[] => {
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

/** Reads the two texts about a clock whose worst bound is `bound`; empty ones add nothing. */
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
