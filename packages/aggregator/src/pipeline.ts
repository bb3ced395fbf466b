// The table of contents: every stage a batch goes through, in its order.
//
//   ingest ──► store ──► live, alerts              while the run runs, this file
//              store ──► align ──► merge ──► write  for a requested trace: write-trace.ts, over packages/trace

import { join } from 'node:path';
import type { AlertService } from './alert/alert-service.ts';
import { createIngest, type Ingest } from './ingest/ingest.ts';
import { LiveState } from './live/live-state.ts';
import { Replays } from './live/replays.ts';
import type { Metrics } from './metrics/metrics.ts';
import { Quarantine } from './store/quarantine.ts';
import { quarantineName } from './store/run-directory.ts';
import type { RunStore } from './store/run-store.ts';
import { RunStores } from './store/run-stores.ts';

export interface PipelineOptions {
  /** Output directory: one directory per run below it. */
  readonly out: string;
  /** Accepts only these runs. */
  readonly runs?: ReadonlySet<string> | undefined;
  readonly metrics?: Metrics | undefined;
  readonly alerts?: Pick<AlertService, 'take' | 'refused' | 'opened' | 'forget'> | undefined;
  readonly onNotice: (notice: string) => void;
}

export interface Pipeline {
  readonly ingest: Ingest;
  readonly stores: RunStores;
  readonly live: LiveState;
  readonly replays: Replays;
  readonly quarantine: Quarantine;
}

/** The stages, connected. Throws AggregatorError `store_write_failed` when the output directory cannot be made. */
export function createPipeline({ out, runs, metrics, alerts, onNotice }: PipelineOptions): Pipeline {
  const live = new LiveState();
  const replays = new Replays(live, onNotice);
  const onClose = (name: string): void => {
    live.forget(name);
    alerts?.forget(name);
  };
  const onOpen = (store: RunStore): void => {
    replays.start(store);
    alerts?.opened(store.run);
  };
  const stores = new RunStores({ out, onNotice, onOpen, onClose });
  const quarantine = new Quarantine(join(out, quarantineName));
  const ingest = createIngest({ stores, live, replays, metrics, alerts, quarantine, runs });
  return { ingest, stores, live, replays, quarantine };
}
