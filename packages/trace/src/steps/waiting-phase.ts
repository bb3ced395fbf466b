// Recognises phases that are spent waiting for other ranks by their names: for input with nothing but phase lengths.

import { collectiveKind } from '@ranktrace/protocol';

const waiting = /wait|idle|barrier|(?<!a)sync|comm|nccl|gloo|bubble/i;

/** Whether a phase called `name` is waiting, or a collective, in which a rank waits for those that come later. */
export const isWaitingPhase = (name: string): boolean => waiting.test(name) || collectiveKind(name) !== undefined;
