// The last moment to ship what was recorded, however the process ends.
//
//   event loop empty, process.exit, uncaught exception    'exit' event: flush, blocking, with a deadline; first in line, for a
//                                                         `process.exit` inside another handler ends the process there
//   SIGTERM, SIGINT, SIGHUP, nobody else listens          flush, then the signal again, which now ends the process as it always did
//   the same, the user listens                            the user decides; 'exit' comes later
//   SIGKILL                                               what was shipped is there; open spans show where it was
//
// Invariant: with us the process ends for the same reason and with the same code as without.

import { isMainThread } from 'node:worker_threads';

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Signal listeners of profiles: one that is stopping and the next one may both have theirs, and neither is the user's. */
const ours = new WeakSet<object>();

/** Calls `flush` at most once, when the process ends; `failed`: with an exit code other than 0. Gives back how to cancel that. */
export function onProcessEnd(flush: (failed: boolean) => void): () => void {
  const cancel = () => {
    process.off('exit', end);
    for (const signal of signals) process.off(signal, onSignal);
  };
  const end = (code: number) => {
    cancel();
    flush(code !== 0);
  };
  const onSignal = (signal: NodeJS.Signals) => {
    if (process.listeners(signal).some((listener) => !ours.has(listener))) return;
    end(0);
    process.kill(process.pid, signal);
  };
  ours.add(onSignal);
  process.prependListener('exit', end);
  // First in line, so that a user's `once` listener still counts when we look. Threads get no signals.
  if (isMainThread) for (const signal of signals) process.prependListener(signal, onSignal);
  return cancel;
}
