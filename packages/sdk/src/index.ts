// The API for a training program, and nothing else.

export { SdkError, type SdkErrorCode } from './model/errors.ts';
export type { ExperimentalConfig, NatsOptions, ProfileOptions } from './model/options.ts';
export {
  ProfilerAction,
  ProfilerActivity,
  type Schedule,
  type ScheduleArguments,
  schedule,
  supportedActivities,
} from './model/schedule.ts';
export { EventList, KeyAverages, type KeyAveragesOptions, type TableOptions } from './profile/event-list.ts';
export { type FitCallback, type FitLogs, fitCallback } from './profile/fit-callback.ts';
export { type Profile, type ProfileCallbacks, profile } from './profile/profile.ts';
export { type RecordFunction, recordFunction, type SpanOptions } from './profile/record-function.ts';
export { type TensorboardTraceOptions, tensorboardTraceHandler } from './profile/tensorboard-trace-handler.ts';
export { injectTraceContext, runWithTraceContext, type TraceCarrier } from './profile/trace-carrier.ts';
export type { Args } from './record/arguments.ts';
export type { CollectiveAbout } from './record/recorder.ts';
