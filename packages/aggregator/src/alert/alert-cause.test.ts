// Causes of alerts, from jobs of exact step times with planted faults, through ingest.

import type { Alert } from '@ranktrace/protocol';
import { Random } from '@ranktrace/trace/simulate';
import { describe, expect, test } from 'vitest';
import { alertsOf, slower, together, type WorkedJob } from '../testing/worked-job.ts';

/** Series, ranks, cause and phase of each alert. */
const said = (alerts: readonly Alert[]): string[] =>
  alerts.map(({ series: { kind, rank }, ranks, cause }) => {
    const who = ranks.length === 0 ? '' : ` ${ranks.toSorted((a, b) => a - b).join('+')}`;
    return `${kind}${rank === undefined ? '' : ` ${rank}`}: ${cause?.kind}${who}${cause?.phase == null ? '' : ` in ${cause.phase}`}`;
  });

const ofAll =
  (phase: string, ms: number, from: number): WorkedJob['more'] =>
  (_, where, step) =>
    where === phase && step >= from ? ms : 0;

/** Sizes of a job, two of its ranks, and seeds. */
const shapes: readonly (readonly [ranks: number, first: number, second: number, seed: number])[] = [
  [2, 0, 1, 1],
  [3, 2, 0, 2],
  [4, 1, 2, 3],
  [8, 0, 7, 4],
  [8, 7, 3, 5],
  [64, 63, 0, 6],
];

describe.each(shapes)('of %i ranks, rank %i and then rank %i (seed %i)', (ranks, first, second, seed) => {
  const job = { ranks, seed, steps: 900 };
  const firstOf = (phase: string) => `cluster: straggler ${first} in ${phase}`;
  const secondOf = (phase: string) => `rank ${second}: straggler ${second} in ${phase}`;

  test('that is slow as the first becomes well is named, and not that one', async () => {
    const more = together(slower(first, 'forward', 15, 400, 700), slower(second, 'forward', 15, 700));
    const { open, notices } = await alertsOf({ ...job, more });
    expect(notices).toEqual([]);
    expect(said(open)).toEqual([firstOf('forward'), secondOf('forward')]);
    expect(open[1]?.summary).toMatch(
      new RegExp(`^rank ${second} is 1\\d\\.\\d % slower since step .*; rank ${second} \\(a\\.example\\), in forward$`),
    );
    expect(open[1]?.cause?.text).toMatch(
      new RegExp(`steps are \\d\\.\\d\\d ms (shorter|longer), for rank ${first} works 1\\d\\.\\d\\d ms less`),
    );
  });

  test('that hides behind the first is named, in its own phase', async () => {
    const more = together(slower(first, 'forward', 30, 400), slower(second, 'data', 15, 700));
    const { open } = await alertsOf({ ...job, more });
    expect(said(open)).toEqual([firstOf('forward'), secondOf('data')]);
    expect(open[1]?.cause?.text).toMatch(new RegExp(`: it hides behind rank ${first}, which works 1\\d\\.\\d\\d ms longer`));
  });

  test('that is slower than the first is named', async () => {
    const more = together(slower(first, 'forward', 15, 400), slower(second, 'backward', 35, 700));
    expect(said((await alertsOf({ ...job, more })).open)).toEqual([firstOf('forward'), secondOf('backward')]);
  });

  test('all of which become slower after the first did: that is no rank’s', async () => {
    const { open } = await alertsOf({ ...job, more: together(slower(first, 'forward', 15, 400), ofAll('backward', 20, 700)) });
    expect(said(open)).toEqual([firstOf('forward'), 'cluster: cluster_wide in backward']);
    expect(open[1]?.summary).toMatch(/^steps are 1[23]\.\d % slower since step (69\d|70\d): 15\d ms → 17\d ms; cluster wide, in backward$/);
  });

  test('of which one becomes slower twice: one incident, whose cause is of both', async () => {
    const { open } = await alertsOf({ ...job, more: together(slower(first, 'data', 15, 400), slower(first, 'data', 15, 700)) });
    expect(said(open)).toEqual([firstOf('data')]);
    const [{ summary, cause, before, after } = {} as Alert] = open;
    expect(summary).toMatch(/since step (39\d|40\d), more so since step (69\d|70\d): 14\d ms → 17\d ms; /);
    expect(cause?.share).toBeGreaterThan(0.9);
    const [, works, cost] = /works (\d+\.\d+) ms more per step.*it costs (\d+\.\d+) ms per affected step/.exec(cause?.text ?? '') ?? [];
    expect(Math.abs(Number(works) - 30)).toBeLessThan(1.5);
    // The onset may be found a block early.
    expect(Number(cost)).toBeGreaterThan(25);
    expect(Math.abs(((after ?? 0) - (before ?? 0)) / 1e6 - 30)).toBeLessThan(1.5);
  });

  test('that are even raise no alert', async () => {
    expect((await alertsOf({ ...job, more: () => 0 })).reported).toEqual([]);
  });
});

test.each([8, 64])('two of %i ranks that are slow in different phases have no phase in common', async (ranks) => {
  const more = together(slower(1, 'forward', 15, 400), slower(ranks - 1, 'data', 15, 400));
  const { open } = await alertsOf({ ranks, seed: 7, steps: 600, more });
  expect(said(open)).toEqual([`cluster: straggler 1+${ranks - 1}`]);
  const text = open[0]?.cause?.text ?? '';
  expect(text).toMatch(/rank 1 works 1[45]\.\d\d ms more per step(, |: )1[45]\.\d\d ms (more in|of it in) forward/);
  expect(text).toMatch(
    new RegExp(`rank ${ranks - 1} works 1[45]\\.\\d\\d ms more per step(, |: )1[45]\\.\\d\\d ms (more in|of it in) data`),
  );
  expect(open[0]?.summary).not.toMatch(/data|forward/);
  const both = together(slower(1, 'forward', 15, 400), slower(ranks - 1, 'forward', 15, 400));
  expect(said((await alertsOf({ ranks, seed: 7, steps: 600, more: both })).open)).toEqual([`cluster: straggler 1+${ranks - 1} in forward`]);
});

test.each([
  [2, 0, 4],
  [4, 1, 1],
  [8, 7, 2],
  [8, 7, 3],
])('of %i ranks, rank %i that becomes slower little by little is told with what it came to (seed %i)', async (ranks, slow, seed) => {
  const more: WorkedJob['more'] = (rank, phase, step) => (rank === slow && phase === 'forward' ? Math.max(0, step - 400) * 0.03 : 0);
  const { ended, reported } = await alertsOf({ ranks, seed, steps: 1600, more });
  expect(said(ended)).toEqual([`cluster: straggler ${slow} in forward`]);
  // As a drift, or as a small jump that grows.
  const [{ change, step, cause } = {} as Alert] = ended;
  // The steps end 25 % slower.
  expect(change).toBeGreaterThan(0.19);
  expect(step).toBeGreaterThan(1300);
  const works = Number(/works (\d+\.\d+) ms more per step/.exec(cause?.text ?? '')?.[1]);
  // A rise before its onset is not part of it.
  expect(Math.abs(works - 0.03 * ((step ?? 0) - 400))).toBeLessThan(5);
  expect(reported.length).toBeLessThan(12);
});

describe.each([1, 2, 3])('on a busy host (seed %i)', (seed) => {
  /** Delays by chance, `mean` ms a step; each phase has its part of them. */
  const delays = (mean: (step: number) => number): WorkedJob['more'] => {
    const random = new Random(seed, 'a busy host');
    return (_, __, step) => (-Math.log(1 - random.uniform()) * mean(step)) / 4;
  };

  test.each([2, 4, 8])('none of %i ranks is named that is slow by chance', async (ranks) => {
    for (const usual of [2, 20]) {
      const more = delays((step) => (step >= 500 ? usual + 60 : usual));
      const { open } = await alertsOf({ ranks, seed, steps: 800, more, cpuWait: (step) => (step >= 500 ? 0.55 : usual / 50) });
      expect(said(open)).toEqual(['cluster: cpu_contention']);
      expect(open[0]?.summary).toMatch(/; cpu contention$/);
      expect(open[0]?.cause?.text).toMatch(/^in 5\d % of the time that threads wanted a CPU they had none/);
    }
  });

  test.each([2, 4, 8])('one of %i ranks is named that is slower than that', async (ranks) => {
    const more = together(
      delays(() => 20),
      slower(1, 'forward', 70, 500),
    );
    const { open } = await alertsOf({ ranks, seed, steps: 800, more, cpuWait: () => 0.3 });
    expect(said(open)).toEqual(['cluster: straggler 1 in forward']);
  });
});
