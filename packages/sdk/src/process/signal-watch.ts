// Hears signals in the shipper's thread, where a handler runs although the main thread is in a loop that never gives its thread back.
//
// `process.on(signal)` runs only on the main thread's event loop, and replaces the system's default action: with such a handler nobody can end
// a program in a synchronous loop any more. Node's own signal handles work in the loop of any thread, but only Node's internals have them: a
// thread started with --expose-internals (Node 20 to 26) can. If Node refuses that, we watch nothing: signals act at once as without us, and
// events recorded since the last batch are lost with the process.
//
//   unhandled signal              ──► `heard` ──► the shipper ships ──► `raise`: no longer watched, sent again, and the system ends the process
//   a second one meanwhile        ──► `raise` at once
//   signal with a handler         not watched (signal-claims.ts)

import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { guarded } from './guarded.ts';
import { type EndingSignal, endingSignals } from './signal-claims.ts';

/** From Node's internal binding `signal_wrap`. */
interface SignalHandle {
  onsignal: () => void;
  /** Returns an error number, 0 when it listens. */
  start(signal: number): number;
  unref(): void;
  close(): void;
}

export interface SignalWatchParts {
  /** `signalWords` of signal-claims.ts. */
  readonly words: SharedArrayBuffer;
  /** Words of the session: for each signal the claim with which we watch it, for the main thread to read. */
  readonly watched: Int32Array;
  /** Sends a signal to this process. */
  readonly send: (signal: EndingSignal) => void;
  /** Makes a handle; undefined if Node refuses. */
  readonly makeHandle: (() => SignalHandle) | undefined;
}

export class SignalWatch {
  readonly #parts: SignalWatchParts;
  readonly #claims: Int32Array;
  /** For each signal, whether some shipper of this process has sent it on: then it is no second one from outside. */
  readonly #sentOn: Int32Array;
  readonly #handles = new Map<EndingSignal, { readonly handle: SignalHandle; readonly claim: number }>();
  #heard: EndingSignal | undefined;
  #isOver = false;
  /** Called once, at the first unhandled signal; until it is set, that signal waits. */
  #onHeard: (() => void) | undefined;

  constructor(parts: SignalWatchParts) {
    this.#parts = parts;
    this.#claims = new Int32Array(parts.words, 0, endingSignals.length);
    this.#sentOn = new Int32Array(parts.words, 4 * endingSignals.length);
    this.update();
  }

  /** The signal that is to end this process. */
  get heard(): EndingSignal | undefined {
    return this.#heard;
  }

  set onHeard(listener: () => void) {
    this.#onHeard = listener;
    if (this.#heard !== undefined) listener();
  }

  /** Watches exactly the signals that are unhandled now. */
  update(): void {
    if (this.#isOver) return;
    for (const [index, signal] of endingSignals.entries()) {
      const claim = Atomics.load(this.#claims, index);
      if (this.#handles.get(signal)?.claim !== claim) {
        this.#unwatch(signal);
        if ((claim & 1) === 0) this.#watch(signal, index, claim);
      }
      Atomics.store(this.#parts.watched, index, claim);
      Atomics.notify(this.#parts.watched, index);
    }
  }

  /** Stops watching: from now on signals act as they would without us. */
  end(): void {
    this.#isOver = true;
    for (const signal of endingSignals) this.#unwatch(signal);
  }

  /** Lets the signal that was heard act as it would have. */
  raise(): void {
    const signal = this.#heard;
    this.end();
    if (signal === undefined) return;
    Atomics.store(this.#sentOn, endingSignals.indexOf(signal), 1);
    this.#parts.send(signal);
  }

  #watch(signal: EndingSignal, index: number, claim: number): void {
    const handle = this.#parts.makeHandle?.();
    if (handle === undefined) return;
    handle.unref();
    handle.onsignal = guarded('hearing a signal', () => this.#hear(signal, index, claim));
    if (handle.start(constants.signals[signal]) === 0) this.#handles.set(signal, { handle, claim });
    else handle.close();
  }

  #unwatch(signal: EndingSignal): void {
    this.#handles.get(signal)?.handle.close();
    this.#handles.delete(signal);
  }

  #hear(signal: EndingSignal, index: number, claim: number): void {
    // The program has begun to listen since: it received this signal, too.
    if (Atomics.load(this.#claims, index) !== claim) return;
    // Another profile of this process finished first and sent the same signal on.
    if (Atomics.exchange(this.#sentOn, index, 0) === 1 && this.#heard !== undefined) return;
    if (this.#heard !== undefined) this.raise();
    else {
      this.#heard = signal;
      this.#onHeard?.();
    }
  }
}

/** A function that makes signal handles in this thread; undefined if Node refuses. */
export function signalHandles(): (() => SignalHandle) | undefined {
  const { emitWarning } = process;
  // Node warns that the module is for its own tests.
  process.emitWarning = () => {};
  try {
    const { internalBinding } = createRequire(import.meta.url)('internal/test/binding');
    const { Signal } = internalBinding('signal_wrap') as { Signal: new () => SignalHandle };
    return () => new Signal();
  } catch {
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}
