// The evaluation service of rank 0: "how good are the weights after this epoch?" as a remote procedure call.
//
//   worker → rank 0   {"method":"evaluate","rank":2,"epoch":1,"headers":{…}}
//   rank 0 → worker   {"accuracy":0.934}
//
// The headers carry the caller's trace context, as HTTP headers would, so that the profiler can draw the call from one rank to the other.
// Only the caller and the answering rank touch them.
//
// Invariant: rank 0 answers only in `answerAll`, at the end of an epoch. A worker may be ahead of rank 0 by part of an all-reduce, so an
// answer on arrival could come from weights that are one step old.

import type { PeerConnection } from './peer-connection.ts';
import { TrainingError } from './training-error.ts';

/** A worker's call. */
export interface EvaluationCall {
  /** The calling rank. */
  readonly rank: number;
  /** The finished epoch, from 0. */
  readonly epoch: number;
  /** The caller's trace context. */
  readonly headers: Record<string, string>;
}

/** The caller's side, on every rank but 0: the accuracy of rank 0's weights on the test digits, from 0 to 1. */
export async function evaluateOnMaster(master: PeerConnection, call: EvaluationCall): Promise<number> {
  await master.sendJson({ method: 'evaluate', ...call });
  const { accuracy } = (await master.receiveJson()) as { accuracy?: unknown };
  if (typeof accuracy !== 'number')
    throw new TrainingError('bad_message', `Cannot use the evaluation from ${master.peer}: it has no accuracy`);
  return accuracy;
}

/** Rank 0's side: waits for one call from every worker and answers each as soon as it arrives. */
export async function answerAll(workers: readonly PeerConnection[], answer: (call: EvaluationCall) => number): Promise<void> {
  await Promise.all(
    workers.map(async (worker) => {
      const call = (await worker.receiveJson()) as EvaluationCall & { method?: unknown };
      if (call.method !== 'evaluate') throw new TrainingError('bad_message', `Cannot answer ${worker.peer}: "${call.method}" is no method`);
      await worker.sendJson({ accuracy: answer(call) });
    }),
  );
}
