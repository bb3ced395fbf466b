// What a training program uses, and nothing else.
export type { Args } from './arguments.ts';
export { SdkError, type SdkErrorCode } from './errors.ts';
export type { NatsOptions, ProfileOptions } from './options.ts';
export { type Profile, profile, recordFunction } from './profile.ts';
export type { CollectiveAbout } from './recorder.ts';
