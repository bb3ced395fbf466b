// Signals with a handler of the program: the main thread lists them for the shipper's, which hears the unhandled ones (signal-watch.ts).
//
//   claims, one word per signal, of the process    | SIGTERM | SIGINT | SIGHUP |      odd: the program listens; even: no handler
//
// A word grows by one whenever the program begins or ceases to listen, before it begins and after it ceased. So a signal that reaches the shipper
// is unhandled exactly if the word still has its value from when the shipper began to watch.
//
// Invariants: none of a signal's listeners is ours, for some programs and libraries count them; a signal that comes while the program listens
// belongs to the program alone.

import { isMainThread } from 'node:worker_threads';
import { recordingLimits } from '../model/recording-limits.ts';
import { guarded } from './guarded.ts';

/** Signals that end a process and that the shipper watches. */
export const endingSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
export type EndingSignal = (typeof endingSignals)[number];

/** Words of the process: its claims, then for each signal whether a shipper has sent it on. */
export const signalWords = new SharedArrayBuffer(4 * 2 * endingSignals.length);

/**
 * Keeps the claims up to date; returns a function that ends it. `changed` makes the shipper look; `watched` has one word per signal: the claim
 * with which the shipper watches it.
 */
export function trackSignalClaims(watched: Int32Array, changed: () => void): () => void {
  // Only the main thread gets signals and sees their handlers.
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
    // `process.removeAllListeners()` removes ours, too: later listeners are invisible to us, so treat every signal as the program's.
    if (event === 'newListener' && listener === adds) for (const index of endingSignals.keys()) claim(index, true);
    const index = indexOf(event);
    if (index < 0 || process.listenerCount(event) > 0 || !claim(index, false)) return;
    changed();
    // Libraries that clean up remove their handler and send the signal again at once: the shipper must hear that one.
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
