// Logs of NCCL's Inspector as sources of a merge.

export { InspectorReader, looksLikeInspector } from './inspector-reader.ts';
export { inspectorJob, strangersAmong } from './inspector-source.ts';
