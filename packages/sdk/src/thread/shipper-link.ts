// The training thread's end of the shipper worker: starts it, and waits for it once, at the end.
//
//   stop()      returns to the event loop until FLUSHED, ERROR, the worker's exit, or the deadline
//   stopNow()   the same without the event loop: Atomics.wait, for `process.exit`
//   failed()    after either: one batch more, of a program that stopped its profile on its way to an end by an error
//
// Invariant: neither waits longer than the deadline (and a little, for the worker to give up first); neither throws. A worker that did not end by then, as
// on a host without a free CPU, is reported.

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BroadcastChannel, MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { HeldResults } from '../collect/flight-recorder.ts';
import { announceLibrary } from '../gpu/announce-library.ts';
import { SdkError } from '../model/errors.ts';
import { guarded, reasonOf, say } from '../process/guarded.ts';
import {
  type AttachedThread,
  type ChannelMessage,
  channelName,
  hasEnded,
  type Session,
  type ShipperStart,
  sessionState,
  type ToShipper,
} from '../record/session.ts';
import { unheardThreads } from './unheard-threads.ts';

/** The worker gives up first: on a host without a free CPU it needs a while to say what it leaves behind. */
const lateMs = (deadlineMs: number): number => deadlineMs + Math.max(250, deadlineMs / 4);
const resultsPollMs = 100;

export class ShipperLink {
  readonly #options: ShipperStart['options'];
  readonly #session: Session;
  readonly #worker: Worker;
  readonly #control: Int32Array;
  readonly #ended: Promise<void>;
  /** Whether the worker, once stopped, waits for `failed`; undefined until it is asked to stop. */
  #waits: boolean | undefined;

  /** `failed` is called when the worker cannot go on. */
  constructor(start: ShipperStart, failed: () => void) {
    this.#options = start.options;
    this.#session = start.session;
    this.#control = new Int32Array(start.session.control);
    this.#worker = startWorker(start);
    this.#ended = new Promise((resolve) => {
      const changed = guarded('hearing the shipper', (state: number) => {
        if (state === sessionState.flushed || state === sessionState.error) resolve();
        if (state === sessionState.error) failed();
      });
      this.#worker.on('message', changed);
      const broken = guarded('hearing the shipper', (error: Error) =>
        process.emitWarning(`recording ended: ${reasonOf(error)}`, 'RanktraceWarning'),
      );
      this.#worker.on('error', broken);
      const ended = guarded('hearing the shipper', () => {
        // It may have ended before it could report (out of memory): nobody must wait for it.
        if (Atomics.load(this.#control, 0) !== sessionState.flushed) Atomics.store(this.#control, 0, sessionState.error);
        failed();
        resolve();
      });
      this.#worker.on('exit', ended);
    });
    this.#worker.unref();
  }

  attach(thread: AttachedThread): void {
    this.#post(thread);
  }

  /** Starts or stops sampling of devices. */
  toggleDevices(on: boolean): void {
    this.#post({ type: 'toggleDevices', on });
  }

  /** Makes the worker watch the signals that the program does not handle now. */
  updateSignals(): void {
    this.#post({ type: 'signals' });
  }

  /** The flight recorder's batches of the last active steps; blocks this thread. Undefined when the worker does not answer in time. */
  results(deadlineMs: number): HeldResults | undefined {
    const { port1, port2 } = new MessageChannel();
    const answered = new SharedArrayBuffer(4);
    this.#worker.postMessage({ type: 'results', port: port2, answered } satisfies ToShipper, [port2]);
    const end = performance.now() + deadlineMs;
    const word = new Int32Array(answered);
    while (Atomics.load(word, 0) === 0 && Atomics.load(this.#control, 0) <= sessionState.ready) {
      const left = end - performance.now();
      if (left <= 0) break;
      // In slices: a worker that dies meanwhile sets the control word, and we can wait for one word only.
      Atomics.wait(word, 0, 0, Math.min(left, resultsPollMs));
    }
    const message = receiveMessageOnPort(port1) as { message: HeldResults } | undefined;
    port1.close();
    return message?.message;
  }

  /** Ships the rest; resolves when that is done or after `deadlineMs`. The worker then waits for `failed` or `end`. */
  async stop(deadlineMs: number): Promise<void> {
    this.#worker.ref();
    this.#sendStop(deadlineMs, false, true);
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<'late'>((resolve) => {
      const late = guarded('stopping', () => resolve('late'));
      timer = setTimeout(late, lateMs(deadlineMs));
    });
    const end = await Promise.race([this.#ended, deadline]);
    clearTimeout(timer);
    this.#worker.unref();
    // A training thread that was busy until now finds its timer before the worker's message.
    if (end !== 'late' || hasEnded(this.#session)) return;
    // A thread that waits for its disk ends when the disk answers: the program goes on.
    this.end();
    this.#reportCut(deadlineMs);
  }

  /** The same, blocking this thread. `pulls`: with the flight recorder's detail. `waits`: the worker then waits, as after `stop`. */
  stopNow(deadlineMs: number, { pulls = false, waits = false }: { readonly pulls?: boolean; readonly waits?: boolean } = {}): void {
    this.#sendStop(deadlineMs, pulls, waits);
    this.#wait(deadlineMs);
  }

  /** Ships what the flight recorder holds, and the error, blocking this thread. For a worker that was stopped and has not ended. */
  failed(deadlineMs: number, error: string | undefined): void {
    const { flushed, ready } = sessionState;
    if (this.#waits !== true) return;
    this.#waits = false;
    if (Atomics.compareExchange(this.#control, 0, flushed, ready) !== flushed) return;
    this.#post({ type: 'failed', until: inMs(deadlineMs), error });
    this.#wait(deadlineMs);
  }

  /** Ends the worker's thread. */
  end(): void {
    void this.#worker.terminate();
  }

  #sendStop(deadlineMs: number, pulls: boolean, waits: boolean): void {
    if (this.#waits !== undefined) return;
    this.#waits = waits;
    this.#post({ type: 'stop', until: inMs(deadlineMs), pulls, waits });
  }

  #wait(deadlineMs: number): void {
    const end = performance.now() + lateMs(deadlineMs);
    for (;;) {
      const state = Atomics.load(this.#control, 0);
      const left = end - performance.now();
      if (hasEnded(this.#session)) return;
      if (left <= 0) break;
      Atomics.wait(this.#control, 0, state, left);
    }
    this.#reportCut(deadlineMs);
  }

  #reportCut(deadlineMs: number): void {
    const { rank, spoolDirectory } = this.#options;
    say(
      `ranktrace rank ${rank}: the recording was cut off: its thread did not end within ${deadlineMs} ms; what is not in "${spoolDirectory}" by now is lost (exitDeadlineMs, RANKTRACE_EXIT_DEADLINE_MS)`,
    );
  }

  #post(message: ToShipper): void {
    this.#worker.postMessage(message);
  }
}

/**
 * Starts it without this process's flags: a loader or debugger is not meant for the worker. Exposes Node's internals, if Node allows it:
 * signal-watch.ts. Throws SdkError.
 */
function startWorker(start: ShipperStart): Worker {
  const why = noCommonClock();
  if (why !== undefined)
    throw new SdkError('runtime_unsupported', `Cannot start the profile: ${why}; run the program with Node 20.19 or later`);
  if (start.options.kernels) announceLibrary();
  const url = workerUrl();
  const about = { workerData: start, name: 'ranktrace-shipper' };
  try {
    return new Worker(url, { ...about, execArgv: ['--expose-internals'] });
  } catch {
    try {
      return new Worker(url, { ...about, execArgv: [] });
    } catch (cause) {
      const { code = reasonOf(cause) } = cause as NodeJS.ErrnoException;
      throw new SdkError(
        'threads_refused',
        `Cannot start the profile: it needs a worker thread, and this process may start none (${code})`,
        { cause },
      );
    }
  }
}

/** Why times of threads or ranks cannot be compared: `process.hrtime` of other runtimes starts anew in each thread or process. */
function noCommonClock(): string | undefined {
  if (process.versions.deno !== undefined) return 'its threads need one clock, and in Deno each has its own';
  if (process.versions.bun !== undefined) return 'ranks of a host need one clock, and in Bun each process has its own';
  return undefined;
}

const inMs = (ms: number): bigint => process.hrtime.bigint() + BigInt(Math.ceil(1e6 * ms));

/**
 * A worker starts from a file that Node can run: beside this one in `dist`, where all files lie side by side, also when this is the source (vitest).
 * Throws SdkError where it is not there: a bundler has packed this file into another one, and may leave no `import.meta.url`.
 */
function workerUrl(): URL {
  const here: string | undefined = import.meta.url;
  const isFile = here?.startsWith('file:') === true;
  const url = isFile ? new URL(here.endsWith('.ts') ? '../../dist/shipper-worker.js' : './shipper-worker.js', here) : undefined;
  if (url !== undefined && existsSync(url)) return url;
  const where = url === undefined ? '' : ` in "${dirname(fileURLToPath(url))}"`;
  throw new SdkError(
    'worker_missing',
    `Cannot start the profile: there is no shipper-worker.js${where}, as where a bundler packs the SDK into the program; leave @ranktrace/sdk out of the bundle (external), and install it beside the program`,
  );
}

/** Announces the session to existing threads, and forwards their messages until the shipper listens itself. */
export function openChannel(session: Session, link: ShipperLink): BroadcastChannel {
  const channel = new BroadcastChannel(channelName);
  channel.onmessage = guarded('hearing of threads', (event: unknown) => {
    const message = (event as { data: ChannelMessage }).data;
    if (message.type === 'attach') link.attach(message);
    else if (message.type === 'ask') channel.postMessage({ type: 'open', session } satisfies ChannelMessage);
  });
  channel.unref();
  channel.postMessage({ type: 'open', session } satisfies ChannelMessage);
  return channel;
}

/** Tells threads that the session ends, and forwards the last that the shipper may not have heard. */
export function closeChannel(channel: BroadcastChannel, session: Session, link: ShipperLink): void {
  channel.postMessage({ type: 'close', session: session.id } satisfies ChannelMessage);
  for (const thread of unheardThreads(channel)) link.attach(thread);
  channel.close();
}
