// The pure heart: no clock, disk, socket or DOM.
export { ClockModel, type RankClock } from './align/clock-model.ts';
export { type ClockEvidence, type ClockSample, type FittedClocks, fitClocks } from './align/fit-clocks.ts';
export { type Finding, findCompleteness, worstBound } from './analyse/findings.ts';
export { type FunctionAverage, functionAverages, totalAverage } from './analyse/function-averages.ts';
export { type FunctionEvents, functionEvents } from './analyse/function-events.ts';
export { type KeyAverage, KeyAveragesSink } from './analyse/key-averages.ts';
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
export { type AveragesTableOptions, averagesTable, sortAverages, sortKeyOf, sortKeys } from './write/averages-table.ts';
export { chromeWriter } from './write/chrome.ts';
export { dumpWriter } from './write/dump.ts';
export { perfettoWriter } from './write/perfetto.ts';
