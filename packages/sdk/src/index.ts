// What a training program uses, and nothing else.
export type { Args } from './arguments.ts';
export { SdkError, type SdkErrorCode } from './errors.ts';
export { EventList, KeyAverages, type KeyAveragesOptions, type TableOptions } from './event-list.ts';
export { type FitCallback, type FitLogs, fitCallback } from './fit-callback.ts';
export type { ExperimentalConfig, NatsOptions, ProfileOptions } from './options.ts';
export { type Profile, type ProfileCallbacks, profile } from './profile.ts';
export { type RecordFunction, recordFunction } from './record-function.ts';
export type { CollectiveAbout } from './recorder.ts';
export {
  ProfilerAction,
  ProfilerActivity,
  type Schedule,
  type ScheduleArguments,
  schedule,
  supportedActivities,
} from './schedule.ts';
export { type TensorboardTraceOptions, tensorboardTraceHandler } from './tensorboard-trace-handler.ts';
export { injectTraceContext, runWithTraceContext, type TraceCarrier } from './trace-carrier.ts';
