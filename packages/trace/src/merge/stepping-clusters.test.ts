// Clusters with clock steps, merged and compared with their truth: within their bounds, cut at the steps, and every effect before its cause marked.

import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { Random } from '../simulate/random.ts';
import { judgeClocks } from '../testing/judge-clocks.ts';

const base = { ranks: 8, hosts: 8, seconds: 60, driftPpm: 8 };

describe('one clock of eight', () => {
  it.each([
    { seed: 99, seconds: 1, micros: 50_000 },
    { seed: 99, seconds: 57, micros: 20_000 },
    { seed: 99, seconds: 28, micros: -20_000 },
    { seed: 4711, seconds: 2, micros: 5000 },
    { seed: 4711, seconds: 5, micros: -2000 },
    { seed: 62, seconds: 58.4, micros: 900_000 },
  ])(
    'that steps at $seconds s by $micros µs is cut there, and everything is shown within 20 µs (seed $seed)',
    ({ seed, seconds, micros }) => {
      const judged = judgeClocks({ ...base, seed, clockSteps: [{ host: 5, seconds, micros }] });
      expect(judged).toMatchObject({ beyond: 0, apartBeyond: 0, belowWithin: 0, reversed: 0 });
      expect(judged.steps.map((steps) => steps.length)).toEqual([0, 0, 0, 0, 0, 1, 0, 0]);
      // The axis may begin up to half a second before or after the simulation.
      expect(Math.abs((judged.steps[5]?.[0] ?? 0) / 1e9 - seconds)).toBeLessThan(0.75);
      expect(judged.error).toBeLessThan(20_000 + (micros < 0 ? -micros * 1000 : 0));
    },
  );
});

it.each(someSeeds([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]))(
  'clusters with up to three steps of 1 µs to 10 s hold their bounds, and report what is reversed (seed %i)',
  (seed) => {
    const random = new Random(seed, 'steps');
    const seconds = 30;
    const clockSteps = Array.from({ length: 1 + Math.floor(random.uniform(0, 3)) }, (_, host) => ({
      host,
      seconds: random.uniform(0, seconds - 0.7),
      micros: Math.round((random.chance(0.5) ? 1 : -1) * 10 ** random.uniform(0, 7)),
    }));
    const judged = judgeClocks({ ranks: 8, hosts: 4, seconds, seed, driftPpm: 20, clockSteps });
    const { beyond, apartBeyond, belowWithin, unmarked } = judged;
    expect({ clockSteps, beyond, apartBeyond, belowWithin, unmarked }).toEqual({
      clockSteps,
      beyond: 0,
      apartBeyond: 0,
      belowWithin: 0,
      unmarked: 0,
    });
  },
);

/** Sources whose clocks were pinged until `seconds` after each rank's begin, as where the aggregator goes away. */
function pingedUntil(sources: readonly BatchSource[], seconds: number): readonly BatchSource[] {
  return sources.map((source) => ({
    ...source,
    batch: (index, tables) => {
      const batch = source.batch(index, tables);
      const { length, columns } = batch?.tables.clockSamples ?? { length: 0, columns: { sent: [] } };
      for (let row = 0; row < length; row++) if ((columns.sent[row] as number) > seconds * 1e9) columns.sent[row] = Number.NaN;
      return batch;
    },
  }));
}

it.each(someSeeds([1, 2]))('hosts that nobody pings any more stay together, and are proven to (seed %i)', (seed) => {
  const judged = judgeClocks({ ranks: 8, hosts: 4, seconds: 90, seed, driftPpm: 20 }, (sources) => pingedUntil(sources, 15));
  expect(judged).toMatchObject({ beyond: 0, apartBeyond: 0, belowWithin: 0, unmarked: 0 });
  // By pings nothing is known but that clocks drift by 50 µs a second.
  expect(judged.bound).toBeGreaterThan(3e6);
  expect(judged.apart).toBeLessThan(400e3);
});

it.each(someSeeds([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]))(
  'a clock that nobody pings and that steps, mostly back, is cut there by the collectives and calls of its ranks (seed %i)',
  (seed) => {
    const random = new Random(seed, 'unpinged steps');
    const hosts = 2 + Math.floor(random.uniform(0, 2));
    const bare = 1 + Math.floor(random.uniform(0, hosts));
    // Where nobody is pinged at all, the first host's clock is the axis: nothing shows that it steps.
    const host = bare === hosts ? 1 + Math.floor(random.uniform(0, hosts - 1)) : Math.floor(random.uniform(0, bare));
    const micros = Math.round((random.chance(0.3) ? 1 : -1) * 10 ** random.uniform(4, 7));
    const clockSteps = [{ host, seconds: random.uniform(2, 25), micros }];
    const noPings = Array.from({ length: bare }, (_, index) => index);
    const judged = judgeClocks({ ranks: 2 * hosts, hosts, seconds: 30, seed, driftPpm: 20, clockSteps, noPings });
    const { apartBeyond, belowWithin, unmarked } = judged;
    expect({ clockSteps, apartBeyond, belowWithin, unmarked }).toEqual({ clockSteps, apartBeyond: 0, belowWithin: 0, unmarked: 0 });
    // The axis drifts with the first host where that is the reference: by 20 µs a second.
    expect(judged.beyond).toBeLessThan(bare === hosts ? 30 * 2 * 25_000 : 1);
    expect(judged.error).toBeLessThan(Math.abs(micros) * 1000 + 2e6);
  },
);
