// Timeline: the data for a page about any stretch of a run, at any zoom.

export { OpSumsSink } from '../analyse/op-sums.ts';
export { memoryOf } from '../analyse/run-profile.ts';
export { type BlockStore, MemoryBlocks } from '../model/block-store.ts';
export { type HeatMeasure, heatCellsOf, type OverviewRequest, overviewOf } from './overview.ts';
export { ProcessTimeline } from './process-timeline.ts';
export { ReportDataSink } from './report-data.ts';
export { Timeline, type ViewProgress } from './timeline.ts';
export type { TimelineClock } from './timeline-clock.ts';
export { timelineSink } from './timeline-sink.ts';
