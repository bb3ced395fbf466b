// Step times of real runs, judged by the detector, the comparison of runs and the alert rules.

import { beforeAll, describe, expect, it } from 'vitest';
import { DetectorPlan } from '../../packages/trace/src/detect/detector-options.ts';
import { alertsOf, comparedPieces, failsCheck, slowDownsOf, slowedFrom } from '../../packages/trace/src/testing/judge-steps.ts';
import type { StepRow } from '../../packages/trace/src/testing/step-times.ts';
import { recordingRows } from './recording.ts';

const plan = new DetectorPlan();

function byRun(rows: readonly string[][], toRow: (row: readonly string[], at: number) => StepRow): Map<string, StepRow[]> {
  const runs = new Map<string, StepRow[]>();
  for (const row of rows) {
    const [run = ''] = row;
    const list = runs.get(run) ?? [];
    list.push(toRow(row, list.length));
    runs.set(run, list);
  }
  return runs;
}

describe('modded-nanogpt', () => {
  let runs: Map<string, StepRow[]>;
  let stationary: [string, StepRow[]][];
  let grown: [string, StepRow[]][];
  beforeAll(() => {
    const classes = new Map(recordingRows('steptime/nanogpt_runs.csv.gz').map((row) => [row[0], row.at(-1)]));
    runs = byRun(recordingRows('steptime/nanogpt_steps.csv.gz'), ([, step, ms]) => ({
      step: Number(step),
      ms: Number(ms),
      tag: undefined,
    }));
    stationary = [...runs].filter(([run]) => classes.get(run) === 'S');
    grown = [...runs].filter(([run]) => classes.get(run) !== 'S');
  });

  it('runs of class S are stationary, but for two: these were slower for real', () => {
    const reported = stationary.flatMap(([run, rows]) => slowDownsOf(rows, plan).map((one) => [run, one] as const));
    // Medians of 100 steps before and after: run 27 388 → 402 ms at step 125, run 29 386 → 397 ms at step 115.
    expect(reported.map(([run, { kind, step }]) => [run, kind, step])).toEqual([
      ['27', 'regression', 194],
      ['29', 'regression', 202],
    ]);
    for (const [run, { onsetStep }] of reported) {
      const times = (runs.get(run) as StepRow[]).map(({ ms }) => ms);
      const middle = (from: number, to: number): number => times.slice(from, to).sort((a, b) => a - b)[(to - from) >> 1] as number;
      expect(middle(onsetStep, onsetStep + 100) / middle(onsetStep - 85, onsetStep - 5), run).toBeGreaterThan(1.012);
    }
  });

  it('runs that grow as planned (classes B and D) raise one alert at most', () => {
    expect(grown.length).toBeGreaterThan(100);
    expect(Math.max(...grown.map(([, rows]) => slowDownsOf(rows, plan).length))).toBe(1);
  });

  it('runs of class S fail no check of +3 % as they are', () => {
    expect(stationary.length).toBeGreaterThan(20);
    expect(stationary.flatMap(([, rows]) => comparedPieces(rows, 1)).filter(failsCheck)).toEqual([]);
  });

  it('runs of class S nearly all fail it when their steps are 5 % longer', () => {
    const all = stationary.flatMap(([, rows]) => comparedPieces(rows, 1.05));
    expect(all.length).toBeGreaterThan(150);
    expect(all.filter(failsCheck).length).toBeGreaterThanOrEqual(0.97 * all.length);
  });

  it('runs of class S alert in the two alone that were slower for real', () => {
    expect(stationary.filter(([, rows]) => alertsOf(rows).length > 0).map(([run]) => run)).toEqual(['27', '29']);
  });

  it('runs of class S that become 5 % slower alert, about where it began', () => {
    for (const [run, rows] of stationary.filter(([run]) => run !== '27' && run !== '29').slice(0, 8)) {
      const [alert] = alertsOf(slowedFrom(rows, 1000, 1.05));
      expect(alert, run).toMatchObject({ rule: 'step_time' });
      expect(Math.abs((alert?.onsetStep ?? 0) - 1000), run).toBeLessThanOrEqual(16);
    }
  });
});

describe('MLPerf', () => {
  const runsOf = () =>
    byRun(recordingRows('steptime/mlperf_steps.csv.gz'), (row, step) => ({
      step,
      ms: 1000 * Number(row[3]),
      tag: row[4] === '1' ? 'eval' : undefined,
    }));

  it('runs do not regress in their train steps', () => {
    for (const [run, rows] of runsOf()) expect([run, slowDownsOf(rows, plan)]).toEqual([run, []]);
  });

  it('runs do not alert', () => {
    for (const [run, rows] of runsOf()) expect([run, alertsOf(rows)]).toEqual([run, []]);
  });
});
