// One profile at work: session, recorder, shipper, schedule and hooks, opened by `start` and closed in reverse by `stop`.
//
// The action of the schedule (profiler-cycle.ts) decides what is sent; a mark in the ring makes each change fall between two events:
//
//   NONE, WARMUP      only the flight recorder has the detail; steps and their phases are sent
//   RECORD            everything is sent, and goes into `events()` and `keyAverages()`
//
// Steps that an aggregator requested by number (capture-slots.ts) are sent, too, whatever the schedule says about them.

import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { type BroadcastChannel, isMainThread, setEnvironmentData, threadId } from 'node:worker_threads';
import { detail } from '../model/detail.ts';
import { SdkError } from '../model/errors.ts';
import { newIncarnation } from '../model/incarnation.ts';
import { checkCallback, type ProfileOptions, type ResolvedOptions, resolveOptions } from '../model/options.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { defaultSchedule, type ProfilerAction, ProfilerActivity, type Schedule, schedule } from '../model/schedule.ts';
import { shownValue } from '../model/shown-value.ts';
import { onProcessEnd } from '../process/process-exit.ts';
import { signalWords, trackSignalClaims } from '../process/signal-claims.ts';
import { calibrateZero } from '../process/thread-clock.ts';
import type { Args } from '../record/arguments.ts';
import { AskedSteps } from '../record/capture-slots.ts';
import { DetailControl } from '../record/detail-control.ts';
import { OverheadJudge } from '../record/overhead-judge.ts';
import type { CollectiveAbout, Recorder } from '../record/recorder.ts';
import { captureWords, channelName, controlBytes, detailWord, type Session, watchedWords } from '../record/session.ts';
import { watchThread } from '../sample/watch-thread.ts';
import { checkSpoolRoot } from '../ship/spool-folders.ts';
import { hookTfjs, type TfjsHooks } from '../tfjs/attach-tfjs.ts';
import { awaitTfjs } from '../tfjs/await-tfjs.ts';
import { findTfjs, isTfjs } from '../tfjs/find-tfjs.ts';
import { LayerHooks } from '../tfjs/layer-hooks.ts';
import { findSteps } from '../tfjs/step-finder.ts';
import { closeChannel, openChannel, ShipperLink } from '../thread/shipper-link.ts';
import { EventList, KeyAverages, type KeyAveragesOptions, writeStacks } from './event-list.ts';
import { KeptResults } from './kept-results.ts';
import { writeMemoryTimeline } from './memory-timeline.ts';
import type { Profile, ProfileCallbacks } from './profile.ts';
import { type EndingParts, stop, stopBlocking, stopForGood } from './profile-end.ts';
import { ProfilerCycle } from './profiler-cycle.ts';
import { RankMetadata } from './rank-metadata.ts';
import { type Recording, type RecordingAbout, recordingAbout } from './recording.ts';
import { beforeOwn, tensorboardTraceHandler } from './tensorboard-trace-handler.ts';
import { createRecorder, setThreadRecorder, threadRecorder } from './thread-recorder.ts';

/** Parts that exist while a profile records. */
interface Running extends EndingParts {
  readonly options: ResolvedOptions;
  readonly recorder: Recorder;
  readonly session: Session;
  readonly channel: BroadcastChannel;
  readonly control: DetailControl;
  readonly judge: OverheadJudge;
  readonly asked: AskedSteps;
  readonly cycle: ProfilerCycle;
  readonly hooks: TfjsHooks | undefined;
  readonly unwatch: () => void;
}

interface Plan {
  readonly schedule: Schedule;
  readonly ready: ((prof: Profile) => unknown) | undefined;
}

/** Options that programs cannot set. */
export interface StandInOptions {
  /**
   * register.ts started this profile, not the program: its steps are those of the optimizers, and it ends when the program starts one of its own.
   */
  readonly isStandIn?: boolean;
}

export class ProcessProfile implements Profile {
  static #standIn: ProcessProfile | undefined;
  readonly #isStandIn: boolean;
  readonly #options: ProfileOptions & ProfileCallbacks;
  readonly #metadata = new RankMetadata();
  #running: Running | undefined;
  #recorder: Recorder | undefined;
  /** Hooks installed before the start. */
  #layers: LayerHooks | undefined;
  #stopping: Promise<void> | undefined;
  #stepNum = 0;
  #action: ProfilerAction = 0;
  /** Whether the schedule wants this step. */
  #isActive = false;
  /** Whether the schedule acted in this step; the time for that is no part of the next step. */
  #transited = false;
  /** Wanted detail when the hooks looked last. */
  #detailSeen = -1;
  /** Steps until the next check of the overhead. */
  #untilJudged: number = recordingLimits.budgetStepsMin;
  #traceIdCallback: () => string;
  #traceId = '';
  #about: Omit<RecordingAbout, 'metadata' | 'traceId'> | undefined;
  readonly #kept = new KeptResults(warn);

  constructor({ customTraceIdCallback, ...options }: ProfileOptions & ProfileCallbacks, { isStandIn = false }: StandInOptions = {}) {
    this.#options = options;
    this.#isStandIn = isStandIn;
    this.#traceIdCallback = customTraceIdCallback ?? randomTraceId;
  }

  get stepNum(): number {
    return this.#running?.cycle.stepNum ?? this.#stepNum;
  }

  get currentAction(): ProfilerAction {
    return this.#running?.cycle.currentAction ?? this.#action;
  }

  /**
   * Call before a `fit` that will start this profile: hooks its layers now, so that their caller and model are known then. Never throws.
   */
  prepare(): void {
    if (this.#running !== undefined || this.#stopping !== undefined || this.#layers !== undefined) return;
    try {
      const options = resolveOptions(this.#givenOptions);
      const layers = new LayerHooks(options);
      const tf = (options.detail & detail.ops) !== 0 && layers.isNeeded ? findTfjs(this.#options.tf) : undefined;
      if (tf === undefined) return;
      layers.install(tf);
      this.#layers = layers;
    } catch {
      // `start` will report a wrong option.
    }
  }

  start(): this {
    if (this.#running !== undefined) return this;
    if (this.#stopping !== undefined)
      throw new SdkError('already_stopped', 'Cannot start the profile: it was stopped; make another one with profile()');
    const standIn = ProcessProfile.#standIn;
    if (threadRecorder()?.on === true && (standIn === undefined || threadRecorder() !== standIn.#recorder)) {
      throw new SdkError('already_running', 'Cannot start the profile: another one is running in this process; stop it first');
    }
    const options = resolveOptions(this.#givenOptions);
    // Before anything is set up: they throw where they are wrong.
    const plan = this.#plan(options);
    checkSpoolRoot(join(options.spoolDirectory, options.run), options.transport === 'file');
    if (standIn !== undefined) standIn.#giveWay();
    const running = this.#run(options, plan);
    if (this.#isStandIn) ProcessProfile.#standIn = this;
    this.#running = running;
    this.#recorder = running.recorder;
    try {
      running.cycle.start();
    } catch (error) {
      this.#endRecording();
      stopForGood(running, 0);
      throw error;
    }
    if (running.cycle.currentAction < 2) running.recorder.mark({ sends: false, begins: false });
    // torch's files have these, too: readers learn from them which columns to expect.
    for (const [name, value] of Object.entries(this.#about?.switches ?? {})) running.recorder.addMetadata(name, value);
    for (const [name, role] of Object.entries(options.phaseRoles)) running.recorder.phaseRole(name, role);
    for (const [key, text] of this.#metadata.texts) running.recorder.addMetadata(key, text);
    running.recorder.beginStep();
    return this;
  }

  step(): void {
    const running = this.#running;
    if (running === undefined) return;
    // Between two steps of training the processor has evicted all of this from its caches: each function and object that we touch costs some
    // 0.3 µs. So we skip the parts that have nothing to do.
    const { recorder, control, cycle, hooks } = running;
    if (cycle.isInside) {
      cycle.step(); // It warns.
      return;
    }
    recorder.step();
    if (control.isSampling) control.beginStep(recorder.stepNum);
    const { detail: wanted } = recorder;
    if (hooks !== undefined && ((wanted & detail.ops) !== 0 || wanted !== this.#detailSeen)) {
      this.#detailSeen = wanted;
      hooks.endStep();
    }
    if (--this.#untilJudged === 0) this.#untilJudged = running.judge.judge();
    cycle.step();
    // `onTraceReady` of the program may have stopped us.
    if (this.#running !== undefined) this.#capture(this.#running);
    if (!this.#transited) {
      recorder.countSinceStep();
      return;
    }
    this.#transited = false;
    recorder.beginStep();
    this.#untilJudged = running.judge.restart();
  }

  addMetadata(key: string, value: string): void {
    this.#metadata.set(key, value);
    this.#recorder?.addMetadata(key, value);
  }

  addMetadataJson(key: string, json: string): void {
    const text = this.#metadata.setJson(key, json);
    if (text !== undefined) this.#recorder?.addMetadata(key, text);
    else warn(`metadata "${typeof key === 'string' ? key : typeof key}" is left out: it must be JSON`);
  }

  presetMetadataJson(key: string, json: string): void {
    this.addMetadataJson(key, json);
  }

  toggleCollectionDynamic(enable: boolean, activities: Iterable<string>): void {
    const running = this.#running;
    if (running === undefined) return;
    try {
      if (typeof activities === 'string') throw new TypeError('text is no list');
      for (const activity of activities) {
        if (activity === ProfilerActivity.CPU) {
          running.control.toggle(~0, enable);
          // Hooks come off at a step: an op may be running in them.
          if (enable) running.hooks?.follow();
        } else if (activity === ProfilerActivity.CUDA) running.link.toggleDevices(enable);
        else warn(`toggleCollectionDynamic leaves out "${activity}": it is no activity`);
      }
    } catch {
      warn('toggleCollectionDynamic takes a list of activities, such as [ProfilerActivity.CUDA]');
    }
    this.#untilJudged = running.judge.restart();
  }

  getTraceId(): string {
    return this.#traceId;
  }

  setCustomTraceIdCallback(callback: () => string): void {
    this.#traceIdCallback = callback;
  }

  events(): EventList {
    return new EventList(this.#results('events'));
  }

  keyAverages(options: KeyAveragesOptions = {}): KeyAverages {
    return new KeyAverages(this.#results('key averages'), options);
  }

  exportChromeTrace(path: string): void {
    this.#results('a trace').writeTrace(path);
  }

  exportStacks(path: string, metric = 'self_cpu_time_total'): void {
    const recording = this.#results('stacks');
    if (recording.about.switches.with_stack !== '1') {
      throw new SdkError('bad_option', 'Cannot export stacks: none were recorded; option withStack must be on');
    }
    writeStacks(recording, path, metric);
  }

  exportMemoryTimeline(path: string, device?: string): void {
    const recording = this.#results('a memory timeline');
    if (recording.about.switches.profile_memory !== '1') {
      throw new SdkError('bad_option', 'Cannot export the memory timeline: memory was not recorded; option profileMemory must be true');
    }
    writeMemoryTimeline(recording, path, device);
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
    if (this.#stopping === undefined) {
      const running = this.#endCycle();
      this.#layers?.remove();
      this.#stopping = running === undefined ? Promise.resolve() : stop(running, running.options.exitDeadlineMs);
    }
    return this.#stopping;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  [Symbol.dispose](): void {
    const running = this.#endCycle();
    this.#layers?.remove();
    this.#stopping ??= Promise.resolve();
    if (running !== undefined) stopBlocking(running, running.options.exitDeadlineMs);
  }

  get #givenOptions(): ProfileOptions {
    const { onTraceReady: _ready, tf: _tf, ...given } = this.#options;
    return given;
  }

  #run(options: ResolvedOptions, plan: Plan): Running {
    const zeroNs = calibrateZero(() => performance.now(), process.hrtime.bigint);
    const session: Session = {
      id: newIncarnation(),
      thread: threadId,
      control: new SharedArrayBuffer(controlBytes),
      epochNs: zeroNs + BigInt(Math.round(performance.now() * 1e6)),
      ringBytes: options.ringBytes,
      hooks:
        (options.detail & detail.ops) === 0
          ? undefined
          : {
              fence: options.fence,
              withMemory: options.profileMemory,
              withModules: options.withModules,
              withStack: options.withStack,
            },
    };
    const control = new DetailControl({
      word: detailWord(session),
      wanted: options.detail,
      idle: options.flightRecorderSteps > 0 ? options.detail : options.detail & detail.spans,
      asked: this.#isScheduled(options) || options.fence || (options.detail & askedFor) !== 0,
      budget: options.overheadBudget,
      hasOps: () => hooks?.hasEngine === true,
    });
    const { recorder, thread } = createRecorder(session, isMainThread ? 'main' : `worker ${threadId}`, options.firstStep);
    const link = new ShipperLink({ session, main: thread, options, pid: process.pid, signalWords }, () => recorder.close());
    const channel = openChannel(session, link);
    setEnvironmentData(channelName, session as never);
    setThreadRecorder(recorder);
    this.#about = recordingAbout(options, session, this.#isScheduled(options), warn);
    this.#kept.start(options);
    // Also while `stop` is waiting: a `process.exit` then must not cut it short.
    const cancelClaims = trackSignalClaims(watchedWords(session), () => link.updateSignals());
    const cancelExit = onProcessEnd(recorder, (failed, error) => {
      cancelClaims();
      // A stand-in has no caller that ends its last cycle.
      if (this.#isStandIn && options.tensorboardDirectory !== undefined) this.#endCycle();
      this.#endRecording();
      // The flight recorder exists for the events before a failure.
      link.stopNow(options.exitDeadlineMs, { pulls: failed });
      if (failed) link.failed(options.exitDeadlineMs, error);
    });
    const { tf } = this.#options;
    let unwatchSteps = (): void => {};
    // After the hooks of the layers: its hooks lie around theirs, and come off first.
    const onTfjs = !this.#isStandIn
      ? undefined
      : (found: object) => {
          unwatchSteps = findSteps(found, () => this.step());
        };
    const hooks =
      session.hooks === undefined ? undefined : hookTfjs(warn, recorder, { ...session.hooks, tf, layers: this.#layers, onTfjs });
    if (hooks === undefined && onTfjs !== undefined) unwatchSteps = awaitTfjs(onTfjs);
    if (options.withStack !== false) recorder.stacks = hooks?.stacks;
    const unwatchThread = options.sampleIntervalMs === 0 ? () => {} : watchThread(recorder, options.sampleIntervalMs);
    const unwatch = (): void => {
      unwatchSteps();
      unwatchThread();
    };
    const cycle = this.#cycle(options, plan, recorder, control, hooks);
    const asked = new AskedSteps(captureWords(session));
    const judge = new OverheadJudge(recorder, control, options.overheadBudget);
    return { options, recorder, session, link, channel, control, judge, asked, cycle, hooks, unwatch, cancelClaims, cancelExit };
  }

  /** Begins or ends recording of steps requested by number: on all ranks at the same step. */
  #capture({ recorder, control, judge, asked, hooks }: Running): void {
    const captures = asked.step(recorder.stepNum);
    if (captures === control.captures) return;
    control.captures = captures;
    this.#untilJudged = judge.restart();
    if (this.#isActive) return;
    recorder.mark({ sends: captures, begins: false });
    if (captures) hooks?.beginWindow();
  }

  #isScheduled(options: ResolvedOptions): boolean {
    return options.schedule !== undefined || typeof this.#options.schedule === 'function';
  }

  /** The schedule, and the program's call at the end of each of its cycles. Throws SdkError `bad_option`. */
  #plan({ schedule: args, tensorboardDirectory: directory }: ResolvedOptions): Plan {
    const { schedule: given, onTraceReady } = this.#options;
    checkCallback('onTraceReady', onTraceReady);
    checkCallback('customTraceIdCallback', this.#traceIdCallback);
    const { tf } = this.#options;
    if (tf !== undefined && !isTfjs(tf))
      throw new SdkError('bad_option', `Bad option tf: it must be TensorFlow.js, as import * as tf gives it, got ${shownValue(tf)}`);
    return {
      schedule: typeof given === 'function' ? given : args !== undefined ? schedule(args) : defaultSchedule,
      ready: directory === undefined ? onTraceReady : beforeOwn(tensorboardTraceHandler(directory), onTraceReady, warn),
    };
  }

  #cycle(options: ResolvedOptions, plan: Plan, recorder: Recorder, control: DetailControl, hooks: TfjsHooks | undefined): ProfilerCycle {
    return new ProfilerCycle({
      firstStep: options.firstStep,
      schedule: plan.schedule,
      prepareTrace: () => {
        control.active = true;
      },
      startTrace: () => {
        this.#transited = true;
        control.active = this.#isActive = true;
        this.#traceId = this.#newTraceId();
        this.#kept.begin(options);
        recorder.mark({ sends: true, begins: true });
        hooks?.beginWindow();
      },
      stopTrace: () => {
        this.#transited = true;
        recorder.mark({ sends: control.captures, begins: false, ends: true });
        control.active = this.#isActive = false;
        this.#kept.end();
        if (options.accEvents) this.#fetch();
      },
      traceReady: () => plan.ready?.(this),
      warn,
    });
  }

  #newTraceId(): string {
    try {
      return String(this.#traceIdCallback());
    } catch (error) {
      warn(`customTraceIdCallback failed, so the trace id is random: ${String(error)}`);
      return randomTraceId();
    }
  }

  #fetch(): void {
    this.#kept.fetch(() => this.#running?.link.results(recordingLimits.resultsWaitMsMax));
  }

  #results(what: string): Recording {
    this.#fetch();
    const about = this.#about && { ...this.#about, metadata: this.#metadata.values, traceId: this.#traceId };
    return this.#kept.recording(what, about);
  }

  /** Ends at once: the program has a profile of its own. Blocks until everything is shipped, for that profile may have the same spool. */
  #giveWay(): void {
    ProcessProfile.#standIn = undefined;
    const running = this.#endRecording();
    this.#stopping ??= Promise.resolve();
    if (running !== undefined) stopForGood(running, running.options.exitDeadlineMs);
  }

  /** Ends the schedule, and fetches results while there is a shipper to ask. */
  #endCycle(): Running | undefined {
    const running = this.#running;
    if (running === undefined) return undefined;
    running.judge.reportSampled();
    running.cycle.stop();
    // Fetching may take as long as the shipper needs.
    running.recorder.markEnd();
    this.#fetch();
    return this.#endRecording();
  }

  /** Stops recording; returns the parts that were running, `undefined` when nothing was. */
  #endRecording(): Running | undefined {
    const running = this.#running;
    if (running === undefined) return undefined;
    this.#running = undefined;
    this.#kept.stop();
    this.#stepNum = running.cycle.stepNum;
    this.#action = running.cycle.currentAction;
    running.unwatch();
    running.hooks?.remove();
    running.control.close();
    running.recorder.close();
    // After its shipper failed, another profile may have replaced it.
    if (threadRecorder() === running.recorder) {
      setThreadRecorder(undefined);
      setEnvironmentData(channelName, undefined as never);
    }
    closeChannel(running.channel, running.session, running.link);
    return running;
  }
}

/** Bits that a user sets on purpose and wants to see at any cost. */
const askedFor = detail.shapes | detail.memory | detail.stacks | detail.modules | detail.flops;

const randomTraceId = (): string => randomUUID().replaceAll('-', '').toUpperCase();

const warn = (text: string): void => process.emitWarning(text, 'RanktraceWarning');
