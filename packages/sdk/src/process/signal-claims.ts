// Which signals the program has a handler for, told by the main thread to the shipper's, which hears those that nobody handles (signal-watch.ts).
//
//   claims, one word per signal, of the process    | SIGTERM | SIGINT | SIGHUP |      odd: the program listens; even: nobody does
//
// A word grows by one whenever the program begins to listen or ceases to, before it begins and after it ceased. So a signal that reaches the shipper
// is one that nobody handles exactly where the word is what it was when the shipper began to watch.
//
// Invariants: no listener of ours stands among those of a signal, for there are programs and libraries that count them; a signal that comes while the
// program listens is the program's alone.

import { isMainThread } from 'node:worker_threads';
import { recordingLimits } from '../model/recording-limits.ts';
import { guarded } from './guarded.ts';

/** Signals that end a process, and which the shipper watches. */
export const endingSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
export type EndingSignal = (typeof endingSignals)[number];

/** Words of the process: its claims, then by signal whether a shipper has sent it on. */
export const signalWords = new SharedArrayBuffer(4 * 2 * endingSignals.length);

/**
 * Keeps the claims up to date; gives back how to end that. `changed` tells the shipper to look; in `watched`, one word per signal, it says
 * with which claim it watches.
 */
export function trackSignalClaims(watched: Int32Array, changed: () => void): () => void {
  // Threads get no signals, and see nothing of the main thread's handlers.
  if (!isMainThread) return () => {};
  const claims = new Int32Array(signalWords, 0, endingSignals.length);
  const claim = (index: number, isClaimed: boolean): boolean => {
    if ((Atomics.load(claims, index) & 1) === Number(isClaimed)) return false;
    Atomics.add(claims, index, 1);
    return true;
  };
  const indexOf = (event: string | symbol): number => endingSignals.indexOf(event as EndingSignal);
  const adds = guarded('watching signals', (event: string | symbol) => {
    const index = indexOf(event);
    if (index >= 0 && claim(index, true)) changed();
  });
  const removed = guarded('watching signals', (event: string | symbol, listener: unknown) => {
    // `process.removeAllListeners()` takes ours, too: whoever listens from here on is not seen, so every signal is the program's.
    if (event === 'newListener' && listener === adds) for (const index of endingSignals.keys()) claim(index, true);
    const index = indexOf(event);
    if (index < 0 || process.listenerCount(event) > 0 || !claim(index, false)) return;
    changed();
    // Libraries that clean up take their handler off and send the signal again at once: that one is to be heard.
    awaitWatch(watched, index, Atomics.load(claims, index));
  });
  for (const [index, signal] of endingSignals.entries()) claim(index, process.listenerCount(signal) > 0);
  process.on('newListener', adds);
  process.on('removeListener', removed);
  return () => {
    process.off('removeListener', removed);
    process.off('newListener', adds);
  };
}

function awaitWatch(watched: Int32Array, index: number, claim: number): void {
  const end = performance.now() + recordingLimits.signalWatchWaitMsMax;
  for (let seen = Atomics.load(watched, index); seen !== claim; seen = Atomics.load(watched, index)) {
    const left = end - performance.now();
    if (left <= 0) return;
    Atomics.wait(watched, index, seen, left);
  }
}
