// Results of the detector, the comparison and the alert rules for a run's step times.

import type { AlertChange, EngineAlert } from '../alert/alert-change.ts';
import { AlertEngine } from '../alert/alert-engine.ts';
import { compareSeries, levelOfSeries, type SeriesLevel } from '../detect/compare-series.ts';
import type { DetectorPlan } from '../detect/detector-options.ts';
import { SeriesDetector } from '../detect/series-detector.ts';
import type { StepTimeFinding } from '../detect/step-time-finding.ts';
import type { StepRow } from './step-times.ts';

export type SlowDown = Extract<StepTimeFinding, { kind: 'regression' | 'drift' }>;

/** Regressions and drifts that the detector reports for a run. */
export function slowDownsOf(rows: readonly StepRow[], plan: DetectorPlan): SlowDown[] {
  const detector = new SeriesDetector(plan);
  return rows
    .flatMap(({ step, ms, tag }) => detector.add(step, ms, 0, tag) ?? [])
    .filter((finding) => finding.kind === 'regression' || finding.kind === 'drift');
}

/** Alerts that fire for a run of one rank. */
export function alertsOf(rows: readonly StepRow[]): EngineAlert[] {
  const engine = new AlertEngine('recorded');
  const reported: AlertChange[] = [];
  let nowMs = Date.UTC(2026, 0, 5, 12);
  for (const [at, { ms, tag }] of rows.entries()) {
    nowMs += ms;
    engine.rank(0, { worldSize: 1, host: 'a', incarnation: '1', ended: false, dropped: 0, missing: 0, lost: 0, clockSamples: 1 }, nowMs);
    engine.step(0, { step: at, length: ms * 1e6, overhead: 0, phases: new Map(), context: 0, tag });
    reported.push(...engine.changes(nowMs));
  }
  return reported.filter(({ kind }) => kind === 'fired').map(({ alert }) => alert);
}

/** The rows, `factor` times as long from step `onset` on. */
export const slowedFrom = (rows: readonly StepRow[], onset: number, factor: number): StepRow[] =>
  rows.map((row, at) => (at < onset ? row : { ...row, ms: row.ms * factor }));

export const levelOf = (times: readonly number[]): SeriesLevel => {
  const level = levelOfSeries(times);
  if (level === undefined) throw new Error('no level');
  return level;
};

/** Pieces of 64 steps of a run compared with those 500 steps later, the later ones `factor` times as long. */
export function comparedPieces(rows: readonly StepRow[], factor: number): ReturnType<typeof compareSeries>[] {
  const times = rows.map(({ ms }) => ms);
  const compared: ReturnType<typeof compareSeries>[] = [];
  for (let from = 500; from + 1000 < times.length; from += 997) {
    const later = times.slice(from + 500, from + 564).map((time) => factor * time);
    compared.push(compareSeries(levelOf(times.slice(from, from + 64)), levelOf(later)));
  }
  return compared;
}

/** Whether a check that allows +3 % fails a comparison: the excess is certain, of usual steps or of all. */
export const failsCheck = ({ ofAll, ...usual }: ReturnType<typeof compareSeries>): boolean =>
  [usual, ofAll].some((compared) => compared?.isCertain === true && compared.change >= 0.03);
