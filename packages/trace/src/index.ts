// The pure heart: no clock, disk, socket or DOM. The root exports merge, analyses and writers; formats and other subjects have their own entries.

export { ClockCoupling } from './align/clock-coupling.ts';
export { ownClock } from './align/clock-model.ts';
export { type ClockEvidence, type ClockSample, ClusterClocks, type FittedClocks } from './align/fit-clocks.ts';
export { betweenHosts, type ClockOfRank, clockReport } from './analyse/clock-report.ts';
export {
  type CollectiveLine,
  type CollectiveRank,
  type CollectiveRecord,
  CollectiveSink,
  type CollectiveSummary,
  type SendLine,
  type SpreadSummary,
} from './analyse/collectives.ts';
export { type Finding, findCompleteness } from './analyse/findings.ts';
export { hangsOf } from './analyse/hangs.ts';
export { hostsText } from './analyse/hosts-text.ts';
export { leftOutText } from './analyse/left-out.ts';
export { type OpenCollective, type OpenRank, type OpenSpanSummary, OpenWorkSink, type OpenWorkSummary } from './analyse/open-work.ts';
export { type LengthQuantiles, type RpcParty, type RpcRoute, RpcSink, type RpcSummary } from './analyse/rpcs.ts';
export { analyseRun, analysisSink, type RunAnalysis } from './analyse/run-analysis.ts';
export { collectiveNumber } from './match/collective-number.ts';
export { type AlignedRun, lastPartOf, RunAlignment } from './merge/align-run.ts';
export { BatchMerger } from './merge/merge-batches.ts';
export { type MergeProgress, mergeRun, processOf } from './merge/merge-run.ts';
export { mergeSteps, type StepsSource, type StepWindow } from './merge/merge-steps.ts';
export type { BatchSource } from './model/batch-source.ts';
export { type BoundStretch, boundStretches } from './model/bound-stretches.ts';
export { countBelow } from './model/count-below.ts';
export { TraceError } from './model/errors.ts';
export { lengthText, percentText, significant } from './model/quantity-text.ts';
export { rankNumbersText, ranksText } from './model/ranks-text.ts';
export { ReadBudget } from './model/read-budget.ts';
export { displayName, displayText } from './model/shown-name.ts';
export { teeSink } from './model/tee-sink.ts';
export type {
  Alignment,
  ClockConflictAt,
  ProcessTotals,
  TraceEvent,
  TraceHeader,
  TraceLane,
  TraceProcess,
  TraceSink,
  WriteBytes,
} from './model/trace-sink.ts';
export { phasesOfSteps } from './steps/batch-steps.ts';
export { CountedStepsSink } from './steps/counted-steps.ts';
export { PhaseRoles } from './steps/phase-role.ts';
export { StepRangeSink, StepTimesSink } from './steps/step-range.ts';
export type { RankSummary, RunSummary } from './steps/step-summary.ts';
export { WindowSink } from './steps/window-sink.ts';
export { chromeWriter } from './write/chrome.ts';
export { csvWriter } from './write/csv.ts';
export { dumpWriter } from './write/dump.ts';
export { foldedWriter } from './write/folded.ts';
