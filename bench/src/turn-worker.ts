// A side of a comparison in a thread with a heap of its own: objects of the baseline beside our columns would make the collector part of our
// figure. The thread does its work once for each message, and answers when it is done (`answerTurns`).

import { once } from 'node:events';
import { parentPort, Worker } from 'node:worker_threads';

export interface Side extends AsyncDisposable {
  /** Seconds of CPU time, the collector's included: on a busy machine a thread of the collector finds a free core more or less often. */
  turn(): Promise<number>;
}

/** Starts `script`, a file of this folder, with `work`. */
export function startSide(script: string, work: unknown): Side {
  const worker = new Worker(new URL(script, import.meta.url), { workerData: work });
  return {
    async turn() {
      const before = process.cpuUsage();
      worker.postMessage('turn');
      await once(worker, 'message');
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1e6;
    },
    async [Symbol.asyncDispose]() {
      await worker.terminate();
    },
  };
}

/** In the thread: does `turn` once for each message. */
export function answerTurns(turn: () => void): void {
  parentPort?.on('message', () => {
    turn();
    parentPort?.postMessage('done');
  });
}
