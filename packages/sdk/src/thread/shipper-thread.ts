// The shipper worker: all work that costs time or may wait happens on this thread, never on one that trains.
//
// Invariants: the main thread unrefs it, so it never keeps the process alive; it reports FLUSHED or ERROR exactly once (once more for a program
// that fails after it stopped its profile), and wakes the thread that waits for that; it needs nothing from the main thread's event loop, which may be blocked or inside `process.exit`. It ends by
// `stop`, or by a signal that will end the process, which it lets through when it is done.

import { existsSync } from 'node:fs';
import { BroadcastChannel, parentPort } from 'node:worker_threads';
import { endedByKey, failedKey } from '@ranktrace/protocol';
import { Collector } from '../collect/collector.ts';
import type { DeviceProgress } from '../collect/device-steps.ts';
import { GpuRecording } from '../gpu/gpu-recording.ts';
import { hostClock } from '../model/host-clock.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { guarded, reasonOf, reportFailure, say } from '../process/guarded.ts';
import type { SignalWatch } from '../process/signal-watch.ts';
import { type ChannelMessage, channelName, type ShipperStart, sessionState, type ToShipper } from '../record/session.ts';
import { Sampling } from '../sample/sampling.ts';
import { leaveNote } from '../ship/rank-note.ts';
import { openShipper } from '../ship/shipper.ts';
import { unheardThreads } from './unheard-threads.ts';

/** Ships the records of the session's threads. If it cannot, it reports that and ends its thread. */
export function runShipper(start: ShipperStart, signals: SignalWatch): void {
  // Errors of a library's own callbacks, too.
  process.on(
    'uncaughtException',
    guarded('shipping', (error: Error) => reportFailure('shipping', error)),
  );
  orEnd(start.session.control, () => run(start, signals));
}

function run({ session, main, options, pid }: ShipperStart, signals: SignalWatch): void {
  const { host, now, at, nsPerMs } = hostClock(options.testClock);
  const identity = { run: options.run, rank: options.rank, worldSize: options.worldSize, incarnation: session.id, host, pid };
  const notice = (line: string) => say(`ranktrace rank ${options.rank}: ${line}`);

  let stopping = false;
  leaveNote(options, session.id);
  const open = () =>
    openShipper(options, identity, {
      control: (message) => {
        // No batch follows the last one.
        if (stopping) return;
        if (message.type === 'flush') collector.flush();
        if (message.type === 'pull' && message.run === options.run) {
          gpu?.drain(true);
          collector.pull(message.fromStep, message.toStep);
        }
        if (message.type === 'record' && message.run === options.run) {
          gpu?.drain(true);
          collector.record(message.fromStep, message.toStep);
        }
      },
      notice,
    });
  let shipper = open();
  const collector = new Collector({
    session: { ...session, epochNs: at(session.epochNs) },
    identity,
    get shipper() {
      return shipper;
    },
    flushIntervalMs: options.flushIntervalMs,
    flightRecorderSteps: options.flightRecorderSteps,
    flightRecorderBytes: options.flightRecorderBytes,
    mainThread: main.thread,
    monotonicNs: now,
    nsPerMs,
    threadEnded,
  });
  collector.attach(main);
  let gpu: GpuRecording | undefined;
  const sampling = new Sampling(options, (samples, until) => collector.addSamples(samples, until), {
    notice,
    fact: (key, value) => collector.addFact(key, value),
    own: () => [collector.sampleRings()],
  });

  const channel = new BroadcastChannel(channelName);
  const announce = () => channel.postMessage({ type: 'open', session } satisfies ChannelMessage);
  channel.onmessage = guarded('hearing of threads', (event: unknown) => {
    const message = (event as { data: ChannelMessage }).data;
    if (message.type === 'attach') collector.attach(message);
    else if (message.type === 'ask' && !stopping) announce();
  });
  announce();

  const drainIntervalMs = Math.min(recordingLimits.drainIntervalMs, options.flushIntervalMs);
  let failed = 0;
  const tick = guarded('reading what was recorded', () => {
    // A bug of ours that recurs at every drain would never end.
    if (++failed > recordingLimits.drainsFailedMax) endWith(session.control, new Error('what was recorded cannot be read'));
    gpu?.drain(collector.awaitsDevice);
    collector.tick();
    failed = 0;
  });
  const timer = setInterval(tick, drainIntervalMs);
  const heard = guarded('hearing the training thread', (message: ToShipper) => {
    if (message.type === 'attach') return collector.attach(message);
    if (message.type === 'signals') return signals.update();
    if (message.type === 'failed') return fail(message);
    if (stopping) return;
    if (message.type === 'toggleDevices') {
      gpu?.toggle(message.on);
      return sampling.toggleDevices(message.on);
    }
    if (message.type === 'results') {
      gpu?.drainFinished();
      collector.catchUp();
      sampling.sampleHost(collector.resultsEnd);
      return answer(message, collector);
    }
    finish(message);
  });
  parentPort?.on('message', heard);
  const finish = (stop: Omit<Extract<ToShipper, { type: 'stop' }>, 'type'>): void => {
    stopping = true;
    for (const thread of unheardThreads(channel)) collector.attach(thread);
    clearInterval(timer);
    sampling.stop();
    gpu?.stop();
    orEnd(session.control, () => sayGoodbye(stop));
  };
  /** Ships the rest. */
  const sayGoodbye = async ({ until, pulls, waits }: Parameters<typeof finish>[0]): Promise<void> => {
    if (pulls) collector.pull();
    if (signals.heard !== undefined) collector.addFact(endedByKey, signals.heard);
    collector.flush(true);
    // A worker that has just started reads this late: the waiting thread must not wait longer for that.
    await shipper.drained(Math.max(0, Number(until - process.hrtime.bigint()) / 1e6));
    const closed = shipper.close();
    // Before anybody learns that this is over: the main thread may then end this thread, and with it the signal handles.
    if (signals.heard === undefined) signals.end();
    else signals.raise();
    report(session.control, sessionState.flushed);
    channel.close();
    if (waits) return;
    await closed;
    parentPort?.close();
  };
  /** A program stops its profile while an error ends it: what the flight recorder holds follows, and a last batch with the error. */
  const fail = ({ until, error }: Extract<ToShipper, { type: 'failed' }>): void => {
    orEnd(session.control, () => {
      shipper = open();
      if (error !== undefined) collector.addFact(failedKey, error);
      return sayGoodbye({ until, pulls: true, waits: false });
    });
  };
  report(session.control, sessionState.ready);
  tick();
  // Nobody waits for this: it may take a second.
  if (options.kernels) {
    const parts = { epochNs: session.epochNs, scale: nsPerMs / 1e6, incarnation: session.id, spoolFolder: options.spoolDirectory };
    const drained = (lost: number, progress: DeviceProgress): void => {
      collector.deviceLost = lost;
      collector.device = progress;
    };
    const recording = (from: 'now' | 'begin' | 'never') => collector.recordDevices(from);
    gpu = new GpuRecording({ ...parts, target: collector, notice, recording, drained });
  }
  // Last: a signal may have come during all of this loading, and then it ends here.
  signals.onHeard = () => {
    shipper.hurry();
    if (!stopping) finish({ until: process.hrtime.bigint() + BigInt(options.exitDeadlineMs) * 1_000_000n, pulls: false, waits: false });
  };
}

/** The training thread waits for this answer, outside its event loop. */
function answer({ port, answered }: Extract<ToShipper, { type: 'results' }>, collector: Collector): void {
  port.postMessage(collector.results());
  const word = new Int32Array(answered);
  Atomics.store(word, 0, 1);
  Atomics.notify(word, 0);
}

/** Runs `work`, which is essential: an error in it ends recording, and no thread waits for it. */
function orEnd(control: SharedArrayBuffer, work: () => void | Promise<void>): void {
  try {
    work()?.catch((error: unknown) => endWith(control, error));
  } catch (error) {
    endWith(control, error);
  }
}

function endWith(control: SharedArrayBuffer, error: unknown): void {
  report(control, sessionState.error);
  say(`ranktrace: recording ended: ${reasonOf(error)}`);
  process.exit(1); // Ends this thread only.
}

function report(control: SharedArrayBuffer, state: number): void {
  const word = new Int32Array(control);
  Atomics.store(word, 0, state);
  Atomics.notify(word, 0);
  parentPort?.postMessage(state);
}

/** Whether the system's thread `tid` of this process has ended; false where the system does not show it. A terminated thread sends no notice. */
function threadEnded(tid: number): boolean {
  return existsSync('/proc/self/task') && !existsSync(`/proc/self/task/${tid}`);
}
