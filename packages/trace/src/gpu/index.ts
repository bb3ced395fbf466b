// What the GPUs did: device work of merged events, and its analyses.

export type { DeviceUsage } from './device-usage.ts';
export { GpuSink, type GpuSinkOptions } from './gpu-sink.ts';
export type { GpuRank, GpuStep, GpuSummary, StreamIdle } from './gpu-summary.ts';
