// What a detector says about a series of step times: a closed union, and what is open.

/** Why a step is not like the others: its time says nothing about the rest, so it is dropped. */
export type StepTag = 'checkpoint' | 'eval' | 'profile';

/** All tags. */
export const stepTags: readonly StepTag[] = ['checkpoint', 'eval', 'profile'];

/** How sure a change of level is. */
export interface ChangeConfidence {
  /** Size of the change over its standard error (of medians): detection begins at `thresholdT`. */
  readonly t: number;
  /** 95 % of the change, as `change` is told: 0.031 is +3.1 %. */
  readonly low: number;
  readonly high: number;
}

/** One level of step time and another one after it. Times are in the unit that the series was given in. */
export interface LevelChange {
  /** The step with which it was certain. */
  readonly step: number;
  /** The first step of the block with which it began; of a ramp, where it leaves the level before. */
  readonly onsetStep: number;
  /** after ÷ before − 1. */
  readonly change: number;
  readonly before: number;
  readonly after: number;
  readonly confidence: ChangeConfidence;
}

/** Steps became slower at once and stayed so. `isFurther`: on top of the regression or drift that is open. */
export interface Regression extends LevelChange {
  readonly kind: 'regression';
  readonly isFurther: boolean;
}

/** Steps became slower little by little, by now more than a golden baseline allows: told once for each baseline. */
export interface Drift extends LevelChange {
  readonly kind: 'drift';
  readonly isFurther: boolean;
}

/** Steps became faster: a note. The new level is the baseline once it has held. */
export interface Improvement extends LevelChange {
  readonly kind: 'improvement';
}

/** What was open is over: steps are as fast again as before it, or nearly. `before` is the slowest level reported. */
export interface WentAway extends LevelChange {
  readonly kind: 'went_away';
  /** The first step of what is over. */
  readonly openedStep: number;
}

/** What was open is over because there is nothing to compare with any more: a new context, or somebody asked. */
export interface Rebaselined {
  readonly kind: 'rebaselined';
  readonly step: number;
  readonly openedStep: number;
  readonly reason: 'context' | 'asked';
}

/** Everything a detector can say. Of one series one incident is open at most: from `regression` or `drift` to `went_away` or `rebaselined`. */
export type StepTimeFinding = Regression | Drift | Improvement | WentAway | Rebaselined;

/** The open incident of a series. */
export interface StepTimeIncident {
  readonly kind: 'regression' | 'drift';
  readonly onsetStep: number;
  /** Level before it and the slowest one reported, in the series' unit. */
  readonly before: number;
  readonly slowest: number;
}
