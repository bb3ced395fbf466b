// Causes of long steps, and their cost.

export { type Blame, type BlameFinding, blameOfWindow, mayBeVerdict } from './blame.ts';
export { type BlameChange, type BlameLevels, blameOf, levelsOf } from './blame-change.ts';
export { blameOfRise } from './blame-rise.ts';
export type { BlameWindow, StepRange } from './blame-window.ts';
export type { RankBreakdown, WaitedFor } from './breakdown.ts';
export { CollectiveParts } from './collective-parts.ts';
export { type Compared, comparedIn, costText, findingCostOf } from './fault-cost.ts';
export { type RunBlame, RunBlameSink, type RunFinding } from './run-blame-sink.ts';
export { slowOps } from './slow-ops.ts';
export { StepBlameSink } from './step-blame-sink.ts';
export type { Verdict } from './verdict.ts';
