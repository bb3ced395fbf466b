// The API of the training loop: torch.profiler's `profile`, for one process.
//
//   profile() ──start()──► running: schedule, step by step ──stop(), `using`, exit──► stopped
//                 │ step() │ step() │ …
//                 0        1        2        the last one, from the last step() to stop(), is not reported: it is incomplete
//
// Invariants: `start` may throw (an option is wrong, another profile runs); after it only methods that return results or write files throw
// errors of their own, whatever happens to the shipper. Before `start` and after `stop` every method just runs the function it is given.

import { checkOptions, type ProfileOptions } from '../model/options.ts';
import type { ProfilerAction } from '../model/schedule.ts';
import type { Args } from '../record/arguments.ts';
import type { CollectiveAbout } from '../record/recorder.ts';
import type { EventList, KeyAverages, KeyAveragesOptions } from './event-list.ts';
import { ProcessProfile } from './process-profile.ts';

/** Options that are functions or objects of the program, beside those that an environment variable can set. */
export interface ProfileCallbacks {
  /**
   * Called with this profile at the end of each cycle of the schedule, and at `stop` while recording. The profile reports its errors and goes on.
   *
   * @example onTraceReady: (prof) => console.log(prof.keyAverages().table({ sortBy: 'selfCpuTimeTotal' }))
   */
  readonly onTraceReady?: ((prof: Profile) => unknown) | undefined;
  /** Makes each cycle's trace id. Default: random, 32 hex digits in upper case. */
  readonly customTraceIdCallback?: (() => string) | undefined;
  /** The tfjs namespace that the training uses. Default: the one it has loaded; required where the program bundles it. */
  readonly tf?: unknown;
}

/** Records one process. `using` stops it blocking, `await using` without. */
export interface Profile extends AsyncDisposable, Disposable {
  /**
   * Starts recording. Throws SdkError `bad_option`, `file_unreadable`, `spool_unusable`, `runtime_unsupported`, `threads_refused` or
   * `worker_missing`, `already_running` when another profile records this thread (of the main thread only its own), `already_stopped` when this one ran before.
   *
   * @example const prof = profile({ run: 'night-42' }).start(); // later, in `finally`: await prof.stop()
   */
  start(): this;
  /** Ends a step of the training loop and begins the next one, with the schedule's action for it. */
  step(): void;
  /**
   * Ships the rest and ends; resolves when it is acknowledged (or on disk), at the latest after `exitDeadlineMs`. Results are available
   * as soon as it is called.
   */
  stop(): Promise<void>;
  /** Number of the running step. */
  readonly stepNum: number;
  /** The schedule's action for it. */
  readonly currentAction: ProfilerAction;
  /** A fact about this rank: `addMetadata('backend', 'wasm')`. */
  addMetadata(key: string, value: string): void;
  /** The same for a value given as JSON text; invalid JSON is reported and left out. */
  addMetadataJson(key: string, json: string): void;
  /** The same, before `start`: for each trace recorded later. */
  presetMetadataJson(key: string, json: string): void;
  /** Switches activities off, or on again, from now on. */
  toggleCollectionDynamic(enable: boolean, activities: Iterable<string>): void;
  /** Id of the current or last recorded trace; '' before the first. */
  getTraceId(): string;
  setCustomTraceIdCallback(callback: () => string): void;
  /**
   * Every op and span of the last cycle (of all, with `accEvents`). Throws SdkError `no_results` before one has ended.
   */
  events(): EventList;
  /** The same, summed by name. Throws as `events`. */
  keyAverages(options?: KeyAveragesOptions): KeyAverages;
  /**
   * Writes the last cycle's trace: `.json` as torch.profiler's, `.pftrace` for Perfetto, both also `.gz`. Throws SdkError `no_results`,
   * `bad_option` for any other file name, `file_unwritable`.
   */
  exportChromeTrace(path: string): void;
  /**
   * Writes stacks as FlameGraph and speedscope read them; needs `withStack`. `metric`: `self_cpu_time_total` or `self_cuda_time_total`, in
   * µs. Throws SdkError `no_results`, `file_unwritable`, `bad_option` without stacks; TraceError `bad_option` for another metric.
   */
  exportStacks(path: string, metric?: string): void;
  /**
   * Writes memory by category over time: `.html` (a plot), `.json` or `.raw.json`, the latter two also `.gz`. Needs `profileMemory`. Throws
   * as `exportStacks`.
   */
  exportMemoryTimeline(path: string, device?: string): void;
  /** A point in time. */
  instant(name: string, args?: Args): void;
  /** A value that changes over time; `unit` is text for people. */
  counter(name: string, value: number, unit?: string): void;
  /**
   * Runs `fn`, sync or async, as this rank's part of a collective: matched across ranks by group and sequence. `bytes`: this rank's payload.
   * With `peer`, as its side of a send: matched by group, direction and sequence, counted per pair of ranks.
   */
  collective<T>(about: CollectiveAbout, fn: () => T): T;
  /** Runs `fn` as the client side of a remote call. Send `carrier` (W3C `traceparent`) with the call, as its headers. */
  rpcClient<T>(method: string, about: { peer?: string }, fn: (carrier: Record<string, string>) => T): T;
  /** Runs `fn` as the server side of a remote call; `carrier` came with the call and may be invalid. */
  rpcServer<T>(method: string, about: { carrier?: Record<string, string>; peer?: string }, fn: () => T): T;
}

/** Makes a profile without starting it. Omitted options come from the environment (options.ts). Throws SdkError `bad_option` for no object. */
export function profile(options: ProfileOptions & ProfileCallbacks = {}): Profile {
  checkOptions(options);
  return new ProcessProfile(options);
}
