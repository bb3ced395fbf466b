// What the GPUs did: device work of merged events, and its analyses.

export { changeOnDevices, type DeviceLevels, GpuBlameSink } from './gpu-blame.ts';
export { GpuSink } from './gpu-sink.ts';
export type { GpuRank, GpuSummary } from './gpu-summary.ts';
export { evidenceText } from './recommendations.ts';
