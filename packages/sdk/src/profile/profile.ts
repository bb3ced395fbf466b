// The API of the training loop: torch.profiler's `profile`, for one process.
//
//   profile() ──start()──► running: schedule, step by step ──stop(), `using`, exit──► stopped
//                 │ step() │ step() │ …
//                 0        1        2        the last one, from the last step() to stop(), is not reported: it is no whole step
//
// Invariants: `start` may throw (an option is wrong, another profile runs); after it nothing here throws of its own but what gives results
// or writes files, whatever becomes of the shipper. Before `start` and after `stop` every method just runs the function it is given.

import type { ProfileOptions } from '../model/options.ts';
import type { ProfilerAction } from '../model/schedule.ts';
import type { Args } from '../record/arguments.ts';
import type { CollectiveAbout } from '../record/recorder.ts';
import type { EventList, KeyAverages, KeyAveragesOptions } from './event-list.ts';
import { ProcessProfile } from './process-profile.ts';

/** Options that are functions or objects of the program, beside those that an environment variable can set. */
export interface ProfileCallbacks {
  /**
   * Called with this profile at the end of each cycle of the schedule, and at `stop` while recording. What it throws is told, not thrown.
   *
   * @example onTraceReady: (prof) => console.log(prof.keyAverages().table({ sortBy: 'selfCpuTimeTotal' }))
   */
  readonly onTraceReady?: ((prof: Profile) => unknown) | undefined;
  /** Gives each cycle its trace id. Default: random, 32 hex digits in upper case. */
  readonly customTraceIdCallback?: (() => string) | undefined;
  /** The tfjs namespace that the training uses. Default: the one it has loaded; needed where that is bundled into the program. */
  readonly tf?: unknown;
}

/** Records one process. `using` stops it blocking, `await using` without. */
export interface Profile extends AsyncDisposable, Disposable {
  /**
   * Records from here on. Throws SdkError `bad_option`, `file_unreadable`, `spool_unusable`, `runtime_unsupported` or `threads_refused`, `already_running` when this process has
   * another profile running, `already_stopped` when this one ran before.
   *
   * @example const prof = profile({ run: 'night-42' }).start(); // later, in `finally`: await prof.stop()
   */
  start(): this;
  /** A step of the training loop ends here and the next one begins, with the action that the schedule has for it. */
  step(): void;
  /**
   * Ships what is left and ends; resolves when it is acknowledged (or on disk), at the latest after `exitDeadlineMs`. Results can be asked
   * for as soon as it was called.
   */
  stop(): Promise<void>;
  /** Number of the step that runs. */
  readonly stepNum: number;
  /** What the schedule has for it. */
  readonly currentAction: ProfilerAction;
  /** A fact about this rank: `addMetadata('backend', 'wasm')`. */
  addMetadata(key: string, value: string): void;
  /** The same for a value given as JSON text; what is no JSON is told, and left out. */
  addMetadataJson(key: string, json: string): void;
  /** The same, before `start`: for each trace that will be recorded. */
  presetMetadataJson(key: string, json: string): void;
  /** Switches activities off, or on again, from here on. */
  toggleCollectionDynamic(enable: boolean, activities: Iterable<string>): void;
  /** Id of the trace that is being recorded or was recorded last; '' before the first. */
  getTraceId(): string;
  setCustomTraceIdCallback(callback: () => string): void;
  /**
   * Every op and span of the last cycle (of all, with `accEvents`). Throws SdkError `no_results` before one has ended.
   */
  events(): EventList;
  /** The same by name, summed up. Throws as `events`. */
  keyAverages(options?: KeyAveragesOptions): KeyAverages;
  /**
   * Writes the last cycle's trace: `.json` as torch.profiler's, `.pftrace` for Perfetto, both also `.gz`. Throws SdkError `no_results`,
   * `bad_option` for another name, `file_unwritable`.
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
  /** Runs `fn` as the client side of a remote call. `carrier` (W3C `traceparent`) is to travel with the call, as its headers. */
  rpcClient<T>(method: string, about: { peer?: string }, fn: (carrier: Record<string, string>) => T): T;
  /** Runs `fn` as the server side of a remote call; `carrier` is what came with it, in whatever state. */
  rpcServer<T>(method: string, about: { carrier?: Record<string, string>; peer?: string }, fn: () => T): T;
}

/** A profile, not started. Options that are left out come from the environment (options.ts). */
export function profile(options: ProfileOptions & ProfileCallbacks = {}): Profile {
  return new ProcessProfile(options);
}
