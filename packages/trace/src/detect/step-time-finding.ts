// A detector's findings in a series of step times, a closed union, and its open incident.

/** Why a step is extraordinary: its time is unlike the rest, so it is dropped. */
export type StepTag = 'checkpoint' | 'eval' | 'profile';

/** All tags. */
export const stepTags: readonly StepTag[] = ['checkpoint', 'eval', 'profile'];

/** Confidence of a change of level. */
export interface ChangeConfidence {
  /** Size of the change over its standard error (of medians): detection begins at `thresholdT`. */
  readonly t: number;
  /** 95 % interval of the change, in the same form as `change`: 0.031 is +3.1 %. */
  readonly low: number;
  readonly high: number;
}

/** A change from one level of step time to another. Times are in the unit of the given series. */
export interface LevelChange {
  /** The step at which it became certain. */
  readonly step: number;
  /** The first step of the block with its onset; for a ramp, where it leaves the level before. */
  readonly onsetStep: number;
  /** after ÷ before − 1. */
  readonly change: number;
  readonly before: number;
  readonly after: number;
  readonly confidence: ChangeConfidence;
}

/** Steps became slower at once and stayed so. `isFurther`: on top of the open regression or drift. */
export interface Regression extends LevelChange {
  readonly kind: 'regression';
  readonly isFurther: boolean;
}

/** Steps became slower gradually, by now beyond the golden baseline's tolerance: reported once per baseline. */
export interface Drift extends LevelChange {
  readonly kind: 'drift';
  readonly isFurther: boolean;
}

/** Steps became faster: a note. The new level becomes the baseline once it has held. */
export interface Improvement extends LevelChange {
  readonly kind: 'improvement';
}

/** The open incident is over: steps are about as fast as before it. `before` is the slowest level reported. */
export interface WentAway extends LevelChange {
  readonly kind: 'went_away';
  /** The first step of the ended incident. */
  readonly openedStep: number;
}

/** The open incident ended because its baseline is gone: a new context, or a request. */
export interface Rebaselined {
  readonly kind: 'rebaselined';
  readonly step: number;
  readonly openedStep: number;
  readonly reason: 'context' | 'asked';
}

/** Everything a detector reports. A series has at most one open incident: from `regression` or `drift` to `went_away` or `rebaselined`. */
export type StepTimeFinding = Regression | Drift | Improvement | WentAway | Rebaselined;

/** The open incident of a series. */
export interface StepTimeIncident {
  readonly kind: 'regression' | 'drift';
  readonly onsetStep: number;
  /** The level before it and the slowest one reported, in the series' unit. */
  readonly before: number;
  readonly slowest: number;
}
