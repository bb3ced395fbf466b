// Hears signals in the shipper's thread, where a handler runs although the main thread is in a loop that never gives its thread back.
//
// `process.on(signal)` runs on the main thread's event loop alone, and replaces what the system would do: with such a handler a program in a
// synchronous loop cannot be ended any more. Node's own signal handles work in the loop of any thread, but only Node's internals have them: a
// thread started with --expose-internals (Node 20 to 26) can. Where that is refused, nothing is watched: signals do at once what they always
// did, and what was recorded since the last batch is lost with the process.
//
//   signal, nobody handles it ──► `heard` ──► the shipper ships ──► `raise`: no longer watched, sent again, and the system ends the process
//   a second one meanwhile    ──► `raise` at once
//   signal that the program handles: not watched, and none of our business (signal-claims.ts)

import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { guarded } from './guarded.ts';
import { type EndingSignal, endingSignals } from './signal-claims.ts';

/** Of Node's internal binding `signal_wrap`. */
interface SignalHandle {
  onsignal: () => void;
  /** Gives back an error number, 0 when it listens. */
  start(signal: number): number;
  unref(): void;
  close(): void;
}

export interface SignalWatchParts {
  /** `signalWords` of signal-claims.ts. */
  readonly words: SharedArrayBuffer;
  /** Words of the session: for each signal the claim with which it is watched, told to the main thread. */
  readonly watched: Int32Array;
  /** Sends a signal to this process. */
  readonly send: (signal: EndingSignal) => void;
  /** Makes a handle; undefined where Node does not let us. */
  readonly makeHandle: (() => SignalHandle) | undefined;
}

export class SignalWatch {
  readonly #parts: SignalWatchParts;
  readonly #claims: Int32Array;
  /** By signal, whether some shipper of this process has sent it on: then it is no second one from outside. */
  readonly #sentOn: Int32Array;
  readonly #handles = new Map<EndingSignal, { readonly handle: SignalHandle; readonly claim: number }>();
  #heard: EndingSignal | undefined;
  #isOver = false;
  /** Called once, at the first signal that nobody handles; before it is set, that signal waits. */
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

  /** Watches what nobody handles now, and nothing else. */
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

  /** Watches no more: from here on signals do what they would without us. */
  end(): void {
    this.#isOver = true;
    for (const signal of endingSignals) this.#unwatch(signal);
  }

  /** Lets the signal that was heard do what it would have done. */
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
    // The program has begun to listen since: it has this one, too.
    if (Atomics.load(this.#claims, index) !== claim) return;
    // Another profile of this process was done before: that is the same signal.
    if (Atomics.exchange(this.#sentOn, index, 0) === 1 && this.#heard !== undefined) return;
    if (this.#heard !== undefined) this.raise();
    else {
      this.#heard = signal;
      this.#onHeard?.();
    }
  }
}

/** How to make signal handles in this thread; undefined where Node does not let us. */
export function signalHandles(): (() => SignalHandle) | undefined {
  const { emitWarning } = process;
  // It warns that it is there for Node's own tests.
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
