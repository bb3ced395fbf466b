// What `ranktrace agent` ships by: this package's spool, transports, clock pings and samplers, for a process that records other processes. Not for
// training programs; it may change in any version.

export { BatchBuilder, noneRecorded, type RecordedCounts } from './collect/batch-builder.ts';
export { ClockRows } from './collect/clock-rows.ts';
export { type EventTarget, GpuEvents } from './gpu/gpu-events.ts';
export { SdkError } from './model/errors.ts';
export { type HostClock, hostClock } from './model/host-clock.ts';
export { newIncarnation } from './model/incarnation.ts';
export { type ProfileOptions, type ResolvedOptions, resolveOptions } from './model/options.ts';
export { guarded, reasonOf } from './process/guarded.ts';
export { readWallClock, type WallClockReading } from './process/wall-clock.ts';
export { HostCounters } from './sample/host-counters.ts';
export { type DeviceSample, deviceUnits, startNvidiaSmi } from './sample/nvidia-smi.ts';
export type { ClockSample } from './ship/clock-pinger.ts';
export { openShipper, type Shipper } from './ship/shipper.ts';
