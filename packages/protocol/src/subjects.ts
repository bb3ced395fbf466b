// NATS subject grammar and names.
//
//   ranktrace.v1.<run>.batch.<rank>   JetStream: batches, one message each, Nats-Msg-Id = an id known to the sender alone
//   ranktrace.v1.<run>.clock          request/reply: clock pings
//   ranktrace.v1.<run>.control        publish: control messages to every rank of the run
//   ranktrace.v1.<run>.alert          publish: alerts, unless another subject is configured
//   ranktrace.v1.<run>.inbox.<rank>.>  answers to a rank of the run: pongs, publish acknowledgements
//   ranktrace.inbox.>                  answers to aggregators
//
// Answers have subjects of their own: with the client's default, `_INBOX.>`, anyone permitted to receive one answer may receive everybody's. A
// run name is a single token by its own grammar, so that no name can widen a subscription.

import type { BatchHeader } from './batch.ts';
import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';

export const streamName = 'RANKTRACE';
export const batchSubjects = 'ranktrace.v1.*.batch.*';

export const batchSubject = (run: string, rank: number): string => `ranktrace.v1.${checkRunName(run)}.batch.${rank}`;
/** The run of a subject of batches. */
export const runOfBatch = (subject: string): string => subject.split('.', 3)[2] ?? '';
/** The batches of all ranks of a run. */
export const runBatchSubjects = (run: string): string => `ranktrace.v1.${checkRunName(run)}.batch.*`;
export const clockSubject = (run: string): string => `ranktrace.v1.${checkRunName(run)}.clock`;
export const clockSubjects = 'ranktrace.v1.*.clock';
export const controlSubject = (run: string): string => `ranktrace.v1.${checkRunName(run)}.control`;
/** Below this subject the ranks of a run receive answers. */
export const runInbox = (run: string): string => `ranktrace.v1.${checkRunName(run)}.inbox`;
/** Below this subject one rank of the run receives answers. */
export const rankInbox = (run: string, rank: number): string => `${runInbox(run)}.${rank}`;
/**
 * Whether an answer to a request about a run may go to `reply`: not to another run's subjects, an aggregator's or the broker's own, although
 * the answering service may publish there.
 */
export const mayAnswer = (run: string, reply: string): boolean => reply.startsWith(`${runInbox(run)}.`) || !/^(ranktrace\.|\$)/.test(reply);
/** Below this subject aggregators receive answers; no run's subjects begin with it. */
export const aggregatorInbox = 'ranktrace.inbox';

/** Identity of a batch everywhere: in acknowledgements, as the key of deduplication. */
export function batchId(header: Pick<BatchHeader, 'run' | 'rank' | 'incarnation' | 'sequence'>): string {
  return `${header.run}.${header.rank}.${header.incarnation}.${header.sequence}`;
}

/** Returns the name; throws ProtocolError `bad_subject` when it is not letters, digits, `_` and `-`. */
export function checkRunName(run: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(run) && run.length <= limits.runNameCharsMax) return run;
  const shown = JSON.stringify(run.slice(0, 80));
  throw new ProtocolError('bad_subject', `Bad run name ${shown}: it must be 1 to ${limits.runNameCharsMax} letters, digits, "_" or "-"`);
}
