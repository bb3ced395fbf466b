// Entry of the shipper worker. It listens for signals first, and loads the rest then: until it listens, a signal ends the process at once, with
// all that was recorded so far.

import { workerData } from 'node:worker_threads';
import { SignalWatch, signalHandles } from '../process/signal-watch.ts';
import { type ShipperStart, watchedWords } from '../record/session.ts';

const start = workerData as ShipperStart;
const signals = new SignalWatch({
  words: start.signalWords,
  watched: watchedWords(start.session),
  send: (signal) => process.kill(process.pid, signal),
  makeHandle: signalHandles(),
});
const { runShipper } = await import('./shipper-thread.ts');
runShipper(start, signals);
