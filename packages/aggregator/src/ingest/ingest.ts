// The single entrance for batches, whatever transport carried the bytes.
//
//   bytes ──► header ──► there already? ──► whole body checked ──► stored ──► live state ──► 'stored'
//               │                                 │
//               └──── bad, of another sender ─────┴──► quarantine, counted ──► 'refused'
//
// Invariants: never throws; 'stored' and 'duplicate' mean that the batch is in the store, so it may be acknowledged; every stored batch can be
// decoded, because the whole body was checked before.

import { type Batch, type BatchHeader, batchId, batchSubject, decodeBatch, decodeBatchHeader } from '@ranktrace/protocol';
import type { AlertService } from '../alert/alert-service.ts';
import type { LiveState } from '../live/live-state.ts';
import { countsOf, type Replays } from '../live/replays.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { messageOf } from '../model/errors.ts';
import { inflate } from '../model/inflate.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { Quarantine } from '../store/quarantine.ts';
import type { RunStores } from '../store/run-stores.ts';

/**
 * `stored`, `duplicate`: acknowledge it. `refused`: it will never be accepted. `unavailable`: not now (disk full, run locked); send it again.
 * `batch` is the batch's id, '' when its header could not be read.
 */
export type IngestResult =
  | { readonly result: 'stored' | 'duplicate'; readonly batch: string }
  | { readonly result: 'refused' | 'unavailable'; readonly batch: string; readonly reason: string };

/**
 * Takes the bytes of one batch. They may be a view: nothing is kept of them after the call. `subject`: the subject that NATS permitted its sender, so
 * a batch of another run or rank is rejected; without it the header alone names run and rank.
 */
export type Ingest = (bytes: Uint8Array, subject?: string) => IngestResult;

export interface IngestParts {
  readonly stores: RunStores;
  readonly live: LiveState;
  readonly replays: Replays;
  readonly metrics?: Pick<Metrics, 'answered' | 'stored'> | undefined;
  /** Receives newly stored batches only: it knows the earlier ones already. */
  readonly alerts?: Pick<AlertService, 'take' | 'refused'> | undefined;
  /** Holds bad batches that name no run. */
  readonly quarantine: Quarantine;
  /** If set, other runs are rejected; it may grow. */
  readonly runs?: ReadonlySet<string> | undefined;
}

/** The ingest stage over its parts. */
export function createIngest({ stores, live, replays, metrics, alerts, quarantine, runs }: IngestParts): Ingest {
  const refuse = (bytes: Uint8Array, batch: string, where: Quarantine, error: unknown): IngestResult => {
    where.add(bytes);
    return { result: 'refused', batch, reason: reasonOf(error) };
  };
  const take: Ingest = (bytes, subject) => {
    let header: BatchHeader;
    try {
      header = decodeBatchHeader(bytes);
    } catch (error) {
      return refuse(bytes, '', quarantine, error);
    }
    const batch = batchId(header);
    if (subject !== undefined && subject !== batchSubject(header.run, header.rank)) {
      const reason = `it says that it is of run "${header.run}", rank ${header.rank}, which "${subject}" is not for`;
      return refuse(bytes, batch, quarantine, reason);
    }
    // A pruned batch would stand for batches that never came.
    if (header.pruned !== undefined) return { result: 'refused', batch, reason: 'it was pruned: only a run store may hold it' };
    if (runs?.has(header.run) === false) {
      return { result: 'refused', batch, reason: `this aggregator takes run "${[...runs].join('", "')}" only` };
    }
    if (stores.peek(header.run)?.has(header)) return { result: 'duplicate', batch };
    let decoded: Batch;
    try {
      decoded = decodeBatch(bytes, inflate);
    } catch (error) {
      return refuse(bytes, batch, stores.peek(header.run)?.quarantine ?? quarantine, error);
    }
    try {
      const store = stores.ready(header.run);
      if (store === undefined) return { result: 'unavailable', batch, reason: `run "${header.run}" is being opened` };
      const known = store.source(header);
      if (known === undefined && store.sourceCount >= limits.sourcesPerRunMax) {
        return { result: 'refused', batch, reason: `a run may have ${limits.sourcesPerRunMax} incarnations of ranks` };
      }
      const result = store.append(bytes, header);
      // A running replay finds the batch in the store.
      if (result === 'stored' && !replays.isRunning(header.run)) live.update(decoded, countsOf(store, header));
      const source = store.source(header);
      if (result === 'stored' && source !== undefined) alerts?.take(decoded, source, subject === undefined);
      if (result === 'stored') metrics?.stored(decoded, bytes.length, source?.isLatest);
      return { result, batch };
    } catch (error) {
      alerts?.refused(header.run);
      return { result: 'unavailable', batch, reason: reasonOf(error) };
    }
  };
  return (bytes, subject) => {
    const answer = take(bytes, subject);
    metrics?.answered(answer);
    return answer;
  };
}

const reasonOf = (error: unknown): string => messageOf(error).slice(0, 1024);
