// Interruptions of a recording thread: garbage collections as spans on a line beside it, and event loop delay as counters.

import type { Recorder } from '../record/recorder.ts';
import { watchEventLoop } from './event-loop.ts';
import { watchGc } from './gc-pauses.ts';

/** Watches the calling thread, which is `recorder`'s, until the caller calls the returned function. Keeps nothing alive. */
export function watchThread(recorder: Recorder, intervalMs: number): () => void {
  const unwatchGc = watchGc((kind, start, length) => recorder.pause(`gc ${kind}`, start, length));
  const unwatchEventLoop = watchEventLoop((name, value, unit) => recorder.counter(name, value, unit), intervalMs);
  return () => {
    unwatchGc();
    unwatchEventLoop();
  };
}
