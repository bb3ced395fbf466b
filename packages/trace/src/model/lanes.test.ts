// Overlapping spans: each lane nests for any order of ends, and spans that never end are bounded.

import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { traceLane } from '../testing/trace-events.ts';
import { Lanes } from './lanes.ts';
import { limits } from './limits.ts';
import type { TraceLane } from './trace-sink.ts';

describe('spans of one track', () => {
  it('nest on each lane, whatever their ends (seed 1)', () => {
    const random = new Random(1, 'lanes');
    const lanes = new Lanes((overflow) => traceLane({ index: overflow + 1, overflow }));
    const open = new Map<TraceLane, number[]>();
    for (let start = 0; start < 5000; start += 1 + random.whole(3)) {
      const end = start + random.whole(60);
      const lane = lanes.place(start, end) as TraceLane;
      const ends = (open.get(lane) ?? []).filter((one) => one > start);
      expect(ends.every((one) => one >= end)).toBe(true);
      open.set(lane, [...ends, end]);
    }
    expect(open.size).toBeGreaterThan(1);
  });

  it('that never end have a line each up to the bound, and no place beyond it; others still nest in them', () => {
    let made = 0;
    const lanes = new Lanes((overflow) => {
      made++;
      return traceLane({ index: overflow + 1, overflow });
    });
    const places = Array.from({ length: limits.lanesPerTrackMax + 100 }, (_, start) => lanes.placeOpen(start, true));
    expect(made).toBe(limits.lanesPerTrackMax);
    expect(places.filter((place) => place === undefined)).toHaveLength(100);
    expect(lanes.place(5000, 5010)).toBe(places[limits.lanesPerTrackMax - 1]?.lane);
    places[7]?.setEnd(6000);
    expect(lanes.placeOpen(6001, true)?.lane).toBe(places[7]?.lane);
  });
});
