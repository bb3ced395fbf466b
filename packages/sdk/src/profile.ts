// The API of the training loop.
//
//   profile() ──start()──► recording ──stop(), `await using`, exit──► stopped
//                 │ step() │ step() │ …
//                 0        1        2        the last one, from the last step() to stop(), is not reported: it is no whole step
//
// Invariants: `start` may throw (an option is wrong, another profile runs); after it nothing here throws of its own, whatever becomes of
// the shipper. Before `start` and after `stop` every method just runs the function it is given.

import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { BroadcastChannel, isMainThread, setEnvironmentData, threadId } from 'node:worker_threads';
import type { Args } from './arguments.ts';
import { SdkError } from './errors.ts';
import { type ProfileOptions, type ResolvedOptions, resolveOptions } from './options.ts';
import { onProcessEnd } from './process-exit.ts';
import type { CollectiveAbout, Recorder } from './recorder.ts';
import { type ChannelMessage, channelName, type Session } from './session.ts';
import { ShipperLink } from './shipper-link.ts';
import { checkSpoolRoot } from './spool.ts';
import { calibrateZero } from './thread-clock.ts';
import { createRecorder, setThreadRecorder, threadRecorder } from './thread-recorder.ts';

/** Records one process. `using` stops it blocking, `await using` without. */
export interface Profile extends AsyncDisposable, Disposable {
  /**
   * Records from here on. Throws SdkError `bad_option`, `file_unreadable` or `spool_unusable`, `already_running` when this process has
   * another profile running, `already_stopped` when this one ran before.
   *
   * @example await using prof = profile({ run: 'night-42' }).start();
   */
  start(): this;
  /** A step of the training loop ends here and the next one begins. */
  step(): void;
  /** Ships what is left and ends; resolves when it is acknowledged (or on disk), at the latest after `exitDeadlineMs`. */
  stop(): Promise<void>;
  /** A fact about this rank: `addMetadata('backend', 'wasm')`. */
  addMetadata(key: string, value: string): void;
  /** A point in time. */
  instant(name: string, args?: Args): void;
  /** A value that changes over time; `unit` is text for people. */
  counter(name: string, value: number, unit?: string): void;
  /** Runs `fn`, sync or async, as this rank's part of a collective: matched across ranks by group and sequence. `bytes`: this rank's payload. */
  collective<T>(about: CollectiveAbout, fn: () => T): T;
  /** Runs `fn` as the client side of a remote call. `carrier` (W3C `traceparent`) is to travel with the call, as its headers. */
  rpcClient<T>(method: string, about: { peer?: string }, fn: (carrier: Record<string, string>) => T): T;
  /** Runs `fn` as the server side of a remote call; `carrier` is what came with it, in whatever state. */
  rpcServer<T>(method: string, about: { carrier?: Record<string, string>; peer?: string }, fn: () => T): T;
}

/** A profile, not started. Options that are left out come from the environment (options.ts). */
export function profile(options: ProfileOptions = {}): Profile {
  return new ProcessProfile(options);
}

/**
 * Runs `fn`, sync or async, as a span called `name`, on the profile that runs; without one it just runs `fn`. Gives what `fn` gives (of a
 * promise, one that settles alike), throws what it throws.
 *
 * @example const loss = recordFunction('forward', () => model.forward(batch));
 */
export function recordFunction<T>(name: string, fn: () => T): T;
export function recordFunction<T>(name: string, args: Args, fn: () => T): T;
export function recordFunction<T>(name: string, argsOrFn: Args | (() => T), maybeFn?: () => T): T {
  const fn = (typeof argsOrFn === 'function' ? argsOrFn : maybeFn) as () => T;
  const recorder = threadRecorder();
  if (recorder === undefined) return fn();
  return recorder.record(name, typeof argsOrFn === 'function' ? undefined : argsOrFn, fn);
}

/** What exists while a profile records. */
interface Running {
  readonly recorder: Recorder;
  readonly session: Session;
  readonly link: ShipperLink;
  readonly channel: BroadcastChannel;
  readonly exitDeadlineMs: number;
  readonly cancelExit: () => void;
}

class ProcessProfile implements Profile {
  readonly #options: ProfileOptions;
  #running: Running | undefined;
  #recorder: Recorder | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: ProfileOptions) {
    this.#options = options;
  }

  start(): this {
    if (this.#running !== undefined) return this;
    if (this.#stopping !== undefined)
      throw new SdkError('already_stopped', 'Cannot start the profile: it was stopped; make another one with profile()');
    if (threadRecorder()?.on === true) {
      throw new SdkError('already_running', 'Cannot start the profile: another one is running in this process; stop it first');
    }
    const options = resolveOptions(this.#options);
    checkSpoolRoot(join(options.spoolDirectory, options.run), options.transport === 'file');
    this.#running = this.#run(options);
    this.#recorder = this.#running.recorder;
    return this;
  }

  step(): void {
    this.#recorder?.step();
  }

  addMetadata(key: string, value: string): void {
    this.#recorder?.addMetadata(key, value);
  }

  instant(name: string, args?: Args): void {
    this.#recorder?.instant(name, args);
  }

  counter(name: string, value: number, unit?: string): void {
    this.#recorder?.counter(name, value, unit);
  }

  collective<T>(about: CollectiveAbout, fn: () => T): T {
    return this.#recorder === undefined ? fn() : this.#recorder.collective(about, fn);
  }

  rpcClient<T>(method: string, about: { peer?: string }, fn: (carrier: Record<string, string>) => T): T {
    return this.#recorder === undefined ? fn({}) : this.#recorder.rpcClient(method, about, fn);
  }

  rpcServer<T>(method: string, about: { carrier?: Record<string, string>; peer?: string }, fn: () => T): T {
    return this.#recorder === undefined ? fn() : this.#recorder.rpcServer(method, about, fn);
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop(this.#endRecording());
    return this.#stopping;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  [Symbol.dispose](): void {
    const running = this.#endRecording();
    this.#stopping ??= Promise.resolve();
    running?.cancelExit();
    running?.link.stopNow(running.exitDeadlineMs);
  }

  #run(options: ResolvedOptions): Running {
    const zeroNs = calibrateZero(() => performance.now(), process.hrtime.bigint);
    const session: Session = {
      id: `${Date.now().toString(36)}-${process.pid.toString(36)}`,
      control: new SharedArrayBuffer(4),
      epochNs: zeroNs + BigInt(Math.round(performance.now() * 1e6)),
      ringBytes: options.ringBytes,
    };
    const { recorder, thread } = createRecorder(session, isMainThread ? 'main' : `worker ${threadId}`);
    recorder.beginSteps();
    const link = new ShipperLink({ session, main: thread, options, pid: process.pid }, () => recorder.close());
    const channel = openChannel(session, link);
    setEnvironmentData(channelName, session as never);
    setThreadRecorder(recorder);
    // Also while `stop` is waiting: a `process.exit` then must not cut it short.
    const cancelExit = onProcessEnd(() => {
      this.#endRecording();
      link.stopNow(options.exitDeadlineMs);
    });
    return { recorder, session, link, channel, exitDeadlineMs: options.exitDeadlineMs, cancelExit };
  }

  async #stop(running: Running | undefined): Promise<void> {
    if (running === undefined) return;
    await running.link.stop(running.exitDeadlineMs);
    running.cancelExit();
  }

  /** What was running until now; `undefined` when nothing was. */
  #endRecording(): Running | undefined {
    const running = this.#running;
    if (running === undefined) return undefined;
    this.#running = undefined;
    running.recorder.close();
    // After its shipper failed, another profile may have taken its place.
    if (threadRecorder() === running.recorder) {
      setThreadRecorder(undefined);
      setEnvironmentData(channelName, undefined as never);
    }
    running.channel.postMessage({ type: 'close', session: running.session.id } satisfies ChannelMessage);
    running.channel.close();
    return running;
  }
}

/** Tells threads that are there already, and hands on what they say before the shipper listens itself. */
function openChannel(session: Session, link: ShipperLink): BroadcastChannel {
  const channel = new BroadcastChannel(channelName);
  channel.onmessage = (event: unknown) => {
    const message = (event as { data: ChannelMessage }).data;
    if (message.type === 'attach') link.attach(message);
    else if (message.type === 'ask') channel.postMessage({ type: 'open', session } satisfies ChannelMessage);
  };
  channel.unref();
  channel.postMessage({ type: 'open', session } satisfies ChannelMessage);
  return channel;
}
