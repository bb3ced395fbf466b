// The end of a rank's process as a batch of the rank: what the command that started it saw, in the store beside what the rank said itself.
//
//   0 │ 1 │ … │ n   from the rank     n + 1   nothing but metadata; it takes the rank's header, so that the rank is heard no longer than it was
//
// A rank that was never heard of has this one batch alone, on the clock of a rank of the same host.

import { deflateRawSync } from 'node:zlib';
import { type BatchHeader, createEventTables, decodeBatchHeader, encodeBatch, exitKey, stoppedKey } from '@ranktrace/protocol';
import type { SegmentSource } from './segment-source.ts';

/** A process that was started as a rank, on this host. */
export interface RankProcess {
  readonly rank: number;
  readonly pid: number;
}

/** How it ended. */
export interface ProcessExit extends RankProcess {
  /** `ended with exit code 1`, `was ended by SIGKILL`. */
  readonly how: string;
  /** Whether it ended well, so that nothing needs to be said unless it left without a goodbye. */
  readonly isWell: boolean;
  /** Whether it had been asked to end. */
  readonly isStopped: boolean;
}

/** Encoded batches for those of the exits that are of this run. `processes`: all ranks of the command. */
export function exitBatches(
  sources: readonly SegmentSource[],
  exits: readonly ProcessExit[],
  processes: readonly RankProcess[],
): Uint8Array[] {
  const last = new Map(sources.filter(({ isLatest }) => isLatest).flatMap((source) => headerOf(source)));
  const isOfRun = ({ rank, pid }: RankProcess): boolean => last.get(rank)?.pid === pid;
  const peer = processes.filter(isOfRun).map(({ rank }) => last.get(rank) as BatchHeader)[0];
  return exits.flatMap((exit) => {
    const own = last.get(exit.rank);
    if (exit.isWell && own?.last !== false) return [];
    if (own !== undefined) return isOfRun(exit) ? [exitBatch({ ...own, sequence: own.sequence + 1 }, exit)] : [];
    // One that was asked to end was on its way to begin.
    if (peer === undefined || exit.isStopped || exit.rank >= peer.worldSize) return [];
    const { rank, pid } = exit;
    return [
      exitBatch(
        { ...peer, rank, pid, incarnation: `${peer.incarnation.slice(0, 24)}-exit`, sequence: 0, last: false, dropped: none },
        exit,
      ),
    ];
  });
}

const none: BatchHeader['dropped'] = { events: 0, arguments: 0, names: 0, batches: 0 };

function headerOf(source: SegmentSource): [rank: number, BatchHeader][] {
  for (let index = source.count - 1; index >= 0; index--) {
    const bytes = source.read(index);
    if (bytes !== undefined) return [[source.rank, decodeBatchHeader(bytes)]];
  }
  return [];
}

function exitBatch({ since: _since, pruned: _pruned, ...header }: BatchHeader, { how, isStopped }: ProcessExit): Uint8Array {
  const tables = createEventTables();
  tables.metadata.append({ key: 1, value: 2 });
  if (isStopped) tables.metadata.append({ key: 3, value: 4 });
  return encodeBatch({ header, strings: ['', exitKey, how, stoppedKey, 'true'], tables }, (body) => deflateRawSync(body));
}
