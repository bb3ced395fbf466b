// The series that judge change detection, recorded (recorded-steps.ts) or generated (generated-steps.ts).

import type { Annotations } from './change-scores.ts';

/** Step times of one run, in order, in a unit of its own; evaluations are marked. */
export interface StepSeries {
  readonly times: Float64Array;
  readonly isEval: readonly boolean[];
}

/** Values of any kind, and their marked changes. */
export interface MarkedSeries {
  readonly values: readonly number[];
  readonly annotations: Annotations;
}

/** Every question that `npm run bench -- detect` asks has series of its own here. */
export interface StepCorpus {
  /** In the names of figures. */
  readonly names: {
    readonly stationary: string;
    readonly withEvaluations: string;
    readonly growth: string;
    readonly slightGrowth: string;
    readonly marked: string;
  };
  /** Long runs without a planned change. */
  readonly stationary: readonly StepSeries[];
  /** Short runs. */
  readonly withEvaluations: readonly StepSeries[];
  /** Planned growth by some 10 %, and by 2 to 3 %. */
  readonly growth: readonly StepSeries[];
  readonly slightGrowth: readonly StepSeries[];
  readonly marked: readonly MarkedSeries[];
}
