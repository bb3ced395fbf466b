// The service: ingest, durable run store, live state, trace files; and the readers that other commands share with it.
export type { RunBatches } from './batch-index.ts';
export { type BatchLog, openBatchLog } from './batch-log.ts';
export { AggregatorError, type AggregatorErrorCode } from './errors.ts';
export { hostId } from './host-id.ts';
export type { ListenOptions } from './http-service.ts';
export { inflate } from './inflate.ts';
export type { Ingest, IngestResult } from './ingest.ts';
export { checkNats, type NatsConnectOptions } from './jetstream-ingest.ts';
export { aggregatorLimits } from './limits.ts';
export { RunStore, type RunStoreOptions } from './run-store.ts';
export { type Aggregator, type AggregatorOptions, startAggregator } from './service.ts';
export type { StepSummary } from './step-ring.ts';
export { traceFormatOf } from './trace-file.ts';
export type { ViewInput } from './view/view-runs.ts';
export { startViewer, type Viewer, type ViewerOptions } from './viewer.ts';
export { type MergeOptions, type MergeSource, mergeStored, type StoredSource, writeTrace } from './write-trace.ts';
