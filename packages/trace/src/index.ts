// The pure heart: no clock, disk, socket or DOM.
export { ClockModel, type RankClock } from './align/clock-model.ts';
export { ClockCoupling, type ClockConflict, type CoupledHosts } from './align/clock-coupling.ts';
export { type ClockEvidence, type ClockSample, ClusterClocks, type FittedClocks, fitClocks } from './align/fit-clocks.ts';
export { collapsedStacks, type StackMetric, stackMetricOf } from './analyse/collapsed-stacks.ts';
export { type Finding, findCompleteness, worstBound } from './analyse/findings.ts';
export { type FunctionAverage, functionAverages, totalAverage } from './analyse/function-averages.ts';
export {
  type FunctionEvent,
  type FunctionEventInterval,
  type FunctionEventKernel,
  type FunctionEventListOptions,
  functionEventList,
} from './analyse/function-event-list.ts';
export { type FunctionEvents, functionEvents } from './analyse/function-events.ts';
export { type KeyAverage, KeyAveragesSink } from './analyse/key-averages.ts';
export { type KinetoTableOptions, KinetoTableSink } from './analyse/kineto-table-sink.ts';
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
} from './analyse/memory-timeline.ts';
export type { RecordingWindow } from './analyse/rank-recording.ts';
export { quantile, type RankSummary, type RunSummary, type StepSummary, StepSummarySink } from './analyse/step-summary.ts';
export { TraceError, type TraceErrorCode } from './errors.ts';
export type { BatchSource } from './merge/batch-source.ts';
export { BatchMerger } from './merge/merge-batches.ts';
export { type MergeProgress, mergeRun } from './merge/merge-run.ts';
export { teeSink } from './merge/tee-sink.ts';
export { KinetoReader, readKineto } from './read/kineto.ts';
export { KinetoTable } from './read/kineto-table.ts';
export type {
  Alignment,
  EventCounts,
  ProcessTotals,
  TraceEvent,
  TraceHeader,
  TraceLane,
  TraceProcess,
  TraceSink,
  WriteBytes,
} from './trace-sink.ts';
export {
  type AveragesTableOptions,
  type AveragesTableRow,
  averagesTable,
  sortAverages,
  sortKeyOf,
  sortKeys,
} from './write/averages-table.ts';
export { chromeWriter } from './write/chrome.ts';
export { dumpWriter } from './write/dump.ts';
export { type KinetoWriterOptions, kinetoWriter } from './write/kineto.ts';
export { type MemoryTimelinePageOptions, memoryTimelinePage } from './write/memory-timeline-page.ts';
export { perfettoWriter } from './write/perfetto.ts';
