// The pure heart: no clock, disk, socket or DOM.

export type { AlertChange, AlertHint, EngineAlert } from './alert/alert-change.ts';
export { AlertEngine, type AlertEngineState, type RankFact } from './alert/alert-engine.ts';
export { alertLimits } from './alert/alert-limits.ts';
export { type AlertRules, defaultAlertRules, resolveAlertRules } from './alert/alert-rules.ts';
export type { CollectiveFact } from './alert/open-collectives.ts';
export { type AlertedFault, isSameFault, type ToldFault } from './alert/same-fault.ts';
export type { RankStepFact } from './alert/step-assembly.ts';
export { type ClockConflict, ClockCoupling, type CoupledHosts } from './align/clock-coupling.ts';
export { ClockModel, type RankClock } from './align/clock-model.ts';
export { type ClockEvidence, type ClockSample, ClusterClocks, type FittedClocks, fitClocks } from './align/fit-clocks.ts';
export { type AdjustedSpan, adjustSpanSkew, type SkewSpan } from './align/span-skew.ts';
export { type ClockOfRank, clockReport } from './analyse/clock-report.ts';
export {
  type CollectiveLine,
  type CollectiveRank,
  type CollectiveRecord,
  CollectiveSink,
  type CollectiveSummary,
  type SendLine,
  type SpreadSummary,
} from './analyse/collectives.ts';
export { type Finding, findCompleteness, worstBound } from './analyse/findings.ts';
export { hostsText } from './analyse/hosts-text.ts';
export { type LeftOutCounts, leftOutText } from './analyse/left-out.ts';
export {
  type OpenCollective,
  type OpenRank,
  type OpenSpanSummary,
  OpenWorkSink,
  type OpenWorkSummary,
} from './analyse/open-work.ts';
export { type LengthQuantiles, type RpcParty, type RpcRoute, RpcSink, type RpcSummary } from './analyse/rpcs.ts';
export { analyseRun, analysisSink, type RunAnalysis, type RunAnalysisOptions, type RunAnalysisSink } from './analyse/run-analysis.ts';
export {
  type Blame,
  type BlameContext,
  type BlameFinding,
  blameOfWindow,
  type PeerExcess,
  type WhatIf,
} from './blame/blame.ts';
export { type BlameChange, type BlameLevels, blameOf, levelsOf } from './blame/blame-change.ts';
export type { BlameAlignment, BlameRank, BlameStep, BlameWindow, StepRange } from './blame/blame-window.ts';
export type { RankBreakdown, WaitedFor } from './blame/breakdown.ts';
export { costText, type FaultCost, findingCostOf } from './blame/fault-cost.ts';
export type { FrontierPhase } from './blame/frontier.ts';
export { type RunBlame, RunBlameSink, type RunFinding } from './blame/run-blame-sink.ts';
export { slowOps } from './blame/slow-ops.ts';
export { type StepBlameOptions, StepBlameSink } from './blame/step-blame-sink.ts';
export type { Verdict } from './blame/verdict.ts';
export {
  compareSeries,
  levelOfSeries,
  type SeriesComparison,
  type SeriesLevel,
  seriesStepsMin,
} from './detect/compare-series.ts';
export { contextKeyOf } from './detect/context-key.ts';
export { detectLimits } from './detect/detect-limits.ts';
export {
  type DetectorOptions,
  DetectorPlan,
  type DetectorWishes,
  defaultDetectorOptions,
  detectorOptionsFor,
  type Sensitivity,
  sensitivities,
  shortSeriesOptions,
} from './detect/detector-options.ts';
export type { DetectorState } from './detect/detector-state.ts';
export { tagOfPhase } from './detect/phase-tag.ts';
export { type SeriesColumn, type SeriesColumnNames, SeriesCsvReader, type SeriesRowVisitor, seriesColumns } from './detect/series-csv.ts';
export { SeriesDetector } from './detect/series-detector.ts';
export {
  type ChangeConfidence,
  type Drift,
  type Improvement,
  type LevelChange,
  type Rebaselined,
  type Regression,
  type StepTag,
  type StepTimeFinding,
  type StepTimeIncident,
  stepTags,
  type WentAway,
} from './detect/step-time-finding.ts';
export type { Bandwidth } from './match/bus-bandwidth.ts';
export {
  type AddedPart,
  CollectiveMatcher,
  type CollectivePart,
  type MatchedCollective,
  type MatcherBounds,
} from './match/collective-matcher.ts';
export { collectiveNumber } from './match/collective-number.ts';
export {
  type MatchedRpc,
  type RpcHalf,
  type RpcMatchCounts,
  RpcMatcher,
  type RpcMatcherOptions,
  rpcHalfOf,
} from './match/rpc-matcher.ts';
export { type AlignedRun, lastPartOf, RunAlignment } from './merge/align-run.ts';
export { BatchMerger } from './merge/merge-batches.ts';
export { type MergeProgress, mergeRun, processOf } from './merge/merge-run.ts';
export { mergeSteps, type StepsSource, type StepWindow } from './merge/merge-steps.ts';
export type { BatchSource } from './model/batch-source.ts';
export { TraceError, type TraceErrorCode } from './model/errors.ts';
export { QuantileSketch } from './model/quantile-sketch.ts';
export { lengthText, percentText, significant } from './model/quantity-text.ts';
export { ReadBudget } from './model/read-budget.ts';
export { displayName, displayText } from './model/shown-name.ts';
export { teeSink } from './model/tee-sink.ts';
export type {
  Alignment,
  ClockConflictAt,
  EventCounts,
  ProcessPlace,
  ProcessTotals,
  PrunedPart,
  TraceEvent,
  TraceHeader,
  TraceLane,
  TraceProcess,
  TraceSink,
  WriteBytes,
} from './model/trace-sink.ts';
export { isNdtimeline, looksLikeNdtimeline, ndtimelineSources } from './ndtimeline/ndtimeline-source.ts';
export type { PerfettoSkipped } from './perfetto/perfetto-events.ts';
export { type PerfettoTrace, readPerfetto } from './perfetto/perfetto-trace.ts';
export { perfettoWriter } from './perfetto/perfetto-writer.ts';
export { type ClusterObserver, ClusterSimulation } from './simulate/cluster-simulation.ts';
export { type ClusterTruth, type TrueHost, trueTimeOf, truthLines } from './simulate/cluster-truth.ts';
export { type NoisyStepsOptions, noisySteps, type StepNoise, stepNoises } from './simulate/noisy-steps.ts';
export { Random } from './simulate/random.ts';
export type { TrueRpc } from './simulate/rpc-traffic.ts';
export { type ClockStep, type OffsetKnots, SimulatedClock } from './simulate/simulated-clock.ts';
export { simulatedCluster } from './simulate/simulated-cluster.ts';
export type { RankLosses } from './simulate/simulated-rank.ts';
export {
  type ClusterOptions,
  type HostClockStep,
  type ResolvedCluster,
  resolveCluster,
  type Straggler,
  type StragglingPhase,
  stragglingPhases,
} from './simulate/simulation-options.ts';
export type { TrueCollective } from './simulate/training-loop.ts';
export { readSampled, type SampledDetail } from './steps/sampled-detail.ts';
export { StepRangeSink, StepTimesSink } from './steps/step-range.ts';
export { quantile, type RankSummary, type RunSummary, type StepSummary, StepSummarySink } from './steps/step-summary.ts';
export { isWaitingPhase } from './steps/waiting-phase.ts';
export { type BlockStore, MemoryBlocks } from './timeline/block-store.ts';
export type { NameTable } from './timeline/name-table.ts';
export { type OverviewRequest, overviewOf, type StepsOfProcess } from './timeline/overview.ts';
export { ProcessTimeline } from './timeline/process-timeline.ts';
export { StepBudget, StepHistory } from './timeline/step-history.ts';
export { Timeline, type TimelineOptions, type ViewProgress } from './timeline/timeline.ts';
export { identityClock, type TimelineClock } from './timeline/timeline-clock.ts';
export { timelineSink } from './timeline/timeline-sink.ts';
export { TrackTimeline } from './timeline/track-timeline.ts';
export {
  type AveragesTableOptions,
  type AveragesTableRow,
  averagesTable,
  sortAverages,
  sortKeyOf,
  sortKeys,
} from './torch/averages-table.ts';
export { collapsedStacks, type StackMetric, stackMetricOf } from './torch/collapsed-stacks.ts';
export { type FunctionAverage, functionAverages, totalAverage } from './torch/function-averages.ts';
export {
  type FunctionEvent,
  type FunctionEventInterval,
  type FunctionEventKernel,
  type FunctionEventListOptions,
  functionEventList,
} from './torch/function-event-list.ts';
export { type FunctionEvents, functionEvents } from './torch/function-events.ts';
export { type KeyAverage, KeyAveragesSink } from './torch/key-averages.ts';
export { KinetoReader, type KinetoReaderOptions, readKineto } from './torch/kineto-reader.ts';
export { type KinetoFile, type KinetoProcess, kinetoExtent, kinetoSources } from './torch/kineto-source.ts';
export { KinetoTable } from './torch/kineto-table.ts';
export { type KinetoTableOptions, KinetoTableSink } from './torch/kineto-table-sink.ts';
export { type KinetoWriterOptions, kinetoWriter, type RecordedClock } from './torch/kineto-writer.ts';
export {
  type MemoryAction,
  type MemoryCategory,
  type MemoryTimeline,
  type MemoryTimelineEvent,
  type MemoryTimelineOptions,
  memoryAction,
  memoryCategories,
  memoryTimeline,
  memoryTimelineJson,
  memoryTimelineRawJson,
} from './torch/memory-timeline.ts';
export { type MemoryTimelinePageOptions, memoryTimelinePage } from './torch/memory-timeline-page.ts';
export { opTimesText } from './torch/op-times.ts';
export type { RecordingWindow } from './torch/rank-recording.ts';
export { tableHeader } from './torch/table-header.ts';
export { chromeWriter } from './write/chrome.ts';
export { dumpWriter } from './write/dump.ts';
export { readZipkin, type ZipkinFile } from './zipkin/zipkin-source.ts';
export { looksLikeZipkin } from './zipkin/zipkin-spans.ts';
