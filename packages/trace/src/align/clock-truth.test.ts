// Misbehaving clocks against the truth: from the first burst of pings to the last, the published bound holds at every
// time, and no step is invented.

import { rankTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { AdverseClock, type AdverseKind, adverseKinds, referenceStart } from '../testing/adverse-clock.ts';
import type { ClockEvidence } from './clock-evidence.ts';
import { type FittedClocks, fitClocks } from './fit-clocks.ts';

/** Number of seeds of each kind; RANKTRACE_TEST_SEEDS=200 takes 20 s. */
const seeds = seedCount(25);
const second = 1e9;

const reference: ClockEvidence = {
  rank: 0,
  host: 'reference',
  epoch: referenceStart,
  samples: [],
  wallClock: undefined,
  until: 3600 * second,
};

function judge(kind: AdverseKind, seed: number): { beyond: number; invented: number } {
  const clock = new AdverseClock(kind, seed);
  const { clock: rankClock, model } = fitClocks([reference, clock.evidence]).clocks[1] as FittedClocks['clocks'][number];
  const { bound, boundAt, clockSteps = [] } = model.alignment;
  const pinged = [...clock.evidence.samples].map(({ remoteReceived }) => remoteReceived);
  const [from, until] = [Math.min(...pinged), Math.max(...pinged) - second / 2];
  const epoch = clock.shows(0);
  let beyond = 0;
  for (let instant = 0; instant <= 3000; instant++) {
    const time = from + ((until - from) * instant) / 3000;
    const shown = rankClock.toTrace(rankTime(clock.shows(time) - epoch));
    // Also counts an error that is not a number.
    const held = Math.abs(shown - time) <= (boundAt?.(shown) ?? bound ?? 0);
    if (!held) beyond++;
  }
  // A slew between two bursts of pings is rightly reported as a step.
  const sudden = clock.slewed.filter((slew) => slew.until - slew.from <= second).length;
  return { beyond, invented: Math.max(0, clockSteps.length - clock.steps.length - sudden) };
}

describe.each(adverseKinds)('a clock: %s', (kind) => {
  it(`stays within its bound, and steps no more often than it did (seeds 0 to ${seeds - 1})`, () => {
    for (let seed = 0; seed < seeds; seed++) expect({ seed, ...judge(kind, seed) }).toEqual({ seed, beyond: 0, invented: 0 });
  });
});

it('whose drift is larger than usual says so', () => {
  const drifts = (seed: number): number | undefined =>
    fitClocks([reference, new AdverseClock('drifts', seed).evidence]).clocks[1]?.model.alignment.driftPpm;
  const reported = Array.from({ length: 20 }, (_, seed) => ({
    ppm: Math.abs(new AdverseClock('drifts', seed).drift * 1e6),
    reported: drifts(seed),
  }));
  for (const { ppm, reported: reckoned = 50 } of reported) expect(reckoned).toBeGreaterThanOrEqual(ppm);
  expect(reported.filter(({ ppm }) => ppm < 35).every((one) => one.reported === undefined)).toBe(true);
});
