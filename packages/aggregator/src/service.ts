// The service: opens the pipeline and its entrances, in order; disposal closes them in reverse, so that nothing arrives at a closed part.

import { join } from 'node:path';
import type { Alert, ControlMessage, LiveMessage, RankStatus } from '@ranktrace/protocol';
import type { ServeConfig } from './alert/alert-config.ts';
import { AlertDelivery } from './alert/alert-delivery.ts';
import { alertFindings } from './alert/alert-findings.ts';
import { readAlertLog } from './alert/alert-log.ts';
import { AlertService } from './alert/alert-service.ts';
import { unfinishedRuns } from './alert/unfinished-runs.ts';
import { type CaptureSteps, StepCaptures } from './capture/capture-steps.ts';
import { captureRequests } from './http/capture-requests.ts';
import { HttpService, type ListenOptions } from './http/http-service.ts';
import type { AccessTokens } from './http/page-access.ts';
import type { IngestResult } from './ingest/ingest.ts';
import type { JetStreamIngest, NatsConnectOptions } from './ingest/jetstream-ingest.ts';
import { WebSocketIngest } from './ingest/web-socket-ingest.ts';
import type { FinishedStep } from './live/step-ring.ts';
import { countAlerts, Metrics } from './metrics/metrics.ts';
import { AggregatorError, messageOf } from './model/errors.ts';
import { guardedBy } from './model/guarded.ts';
import { aggregatorLimits as limits } from './model/limits.ts';
import { withoutRepeats } from './model/notices.ts';
import { createPipeline, type Pipeline } from './pipeline.ts';
import type { Retention } from './prune/prune-store.ts';
import { RetentionService } from './prune/retention-service.ts';
import { exitBatches, type ProcessExit, type RankProcess } from './store/exit-batch.ts';
import { isRunName } from './store/run-directory.ts';
import { RunLock } from './store/run-lock.ts';
import type { RunStore } from './store/run-store.ts';
import { storeId } from './store/store-id.ts';
import { StoredRuns } from './view/view-runs.ts';

export interface AggregatorOptions {
  /** Output directory: one directory per run below it. */
  readonly out: string;
  /** Address for ranks that connect without a broker; default a free port of 127.0.0.1. */
  readonly listen?: ListenOptions | undefined;
  /** Tokens that ranks and people must send as `Authorization: Bearer …`; required to listen anywhere but on loopback. */
  readonly token?: AccessTokens | undefined;
  /** NATS JetStream to read from as well. */
  readonly nats?: NatsConnectOptions | undefined;
  /** Accepts only this run. */
  readonly run?: string | undefined;
  /** With `run`: accepts any other run that comes to this address, too. */
  readonly takesOthers?: boolean | undefined;
  /** Directory of the built page that shows the runs; without it there is none. */
  readonly page?: string | undefined;
  /** Rules, captures and outputs of alerts (`readConfig`); by default there are no outputs. */
  readonly config?: ServeConfig | undefined;
  /** Ages and sizes up to which runs are kept; by default everything stays. */
  readonly retention?: Retention | undefined;
  /** Receives one line for the operator: a torn tail that was cut, NATS gone and back, a full disk. */
  readonly onNotice?: ((notice: string) => void) | undefined;
}

export interface Aggregator extends AsyncDisposable {
  /**
   * The address that the service listens on, `http://<host>:<port>`, with a certificate `https://…`; ranks connect to `ws://<host>:<port>/v1/ingest`,
   * or `wss://…`.
   */
  readonly address: string;
  /** The answer to `GET /status`: runs that are open. */
  status(): LiveMessage;
  /** Names of all runs in the output directory, sorted. */
  runs(): string[];
  /** The store of a run of `runs()`, opened when it is not; throws AggregatorError `store_missing` or `store_…`. */
  store(run: string): RunStore;
  /** The last finished steps of a rank of an open run, oldest first. */
  steps(run: string, rank: number): FinishedStep[];
  /** Takes the bytes of a batch directly. Never throws. */
  ingest(bytes: Uint8Array): IngestResult;
  /**
   * Stores how the processes of this run's ranks ended, as the command that started them all saw it; to be called when nothing comes from them any more.
   * Never throws.
   */
  storeExits(run: string, exits: readonly ProcessExit[], processes: readonly RankProcess[]): void;
  /** Accepts this run, too, in a service started with `run`: its ranks turned out to use this name. Throws any error of reading NATS. */
  takeRun(run: string): Promise<void>;
  /** Calls `listener` with each changed status, at most every `progressIntervalMs`; stops when the returned function is called. */
  subscribe(listener: (status: LiveMessage) => void): () => void;
  /** Asks every rank to ship its events, and resolves when no batch came for `flushQuietMs`, at the latest after `flushWaitMsMax`. */
  flushRanks(): Promise<void>;
  /**
   * Asks every rank of a run for its flight recorder's events of these steps, both included (by default of all), and resolves as `flushRanks`. Ranks
   * that were not recording detail then have it in their traces all the same.
   */
  pullFlightRecorders(run: string, steps?: { readonly fromStep?: number; readonly toStep?: number }): Promise<void>;
  /**
   * Records `steps` steps of all ranks of a run at full detail, the same ones on each, from `fromStep` on (default: as soon as all can), and writes
   * the trace of only these steps and the pulled ones. Late or dead ranks are reported, not waited for.
   */
  readonly captureSteps: CaptureSteps;
  /** Alerts of the open runs. */
  readonly alerts: Pick<AlertService, 'alerts' | 'subscribe' | 'tick' | 'settled' | 'exited' | 'stopping'>;
  /** Outputs of alerts, and the results of their deliveries. */
  readonly delivery: Pick<AlertDelivery, 'status' | 'exitCode'>;
}

/**
 * Starts the aggregator. Throws AggregatorError: `port_in_use`, `listen_failed`, `token_required`, `bad_certificate`, `nats_unreachable`, `nats_refused`,
 * `bad_option`, `store_write_failed`, with NATS `store_locked`; with `run` also what `RunStore` throws.
 *
 * @example
 * await using aggregator = await startAggregator({ out: 'ranktrace-out' });
 */
export async function startAggregator(options: AggregatorOptions): Promise<Aggregator> {
  if (options.run !== undefined && !isRunName(options.run)) {
    throw new AggregatorError('bad_option', `Bad run name ${JSON.stringify(options.run)}: it must be letters, digits, "_" or "-"`);
  }
  const opened = new AsyncDisposables();
  try {
    return await open(options, opened);
  } catch (error) {
    await opened.dispose();
    throw error;
  }
}

async function open(options: AggregatorOptions, opened: AsyncDisposables): Promise<Aggregator> {
  const { out, listen = {}, token, nats, run, page } = options;
  const onNotice = withoutRepeats(options.onNotice ?? (() => undefined));
  const guarded = guardedBy(onNotice);
  const { config } = options;
  const taken = run === undefined || options.takesOthers === true ? undefined : new Set([run]);
  const jetStreams: JetStreamIngest[] = [];
  const alerts = new AlertService({
    rules: config?.rules,
    store: (name) => pipeline.stores.peek(name),
    page: () => config?.page ?? (page === undefined ? undefined : http?.address),
    capture: config?.capture && { captureSteps: (...request) => captures.capture(...request), ...config.capture },
    askCollectives: (name) => broadcast({ type: 'report_collectives', run: name }),
    isCutOff: () => jetStreams.some(({ isAway }) => isAway),
    onResumed: (alert, isTaken) => delivery.resume(alert, isTaken),
    isOwed: (alert, isTaken) => delivery.owes(alert, isTaken),
    onNotice,
  });
  // Set up before anything arrives: the first batch may already raise an alert.
  const publish = nats && ((subject: string, text: string) => publishTo(jetStreams[0], subject, text));
  const delivery = new AlertDelivery(config?.outputs ?? [], {
    ...{ onNotice, log: options.onNotice, publish },
    onSent: (output, alert) => alerts.delivered(output, alert),
  });
  alerts.subscribe((alert) => delivery.deliver(alert));
  const former = (name: string): RankStatus[] => pipeline.live.former(name);
  const metrics = new Metrics({
    status: () => status(),
    former,
    alerts: () => countAlerts(alerts.alerts()),
    outputs: () => delivery.status(),
  });
  const pipeline = createPipeline({ out, runs: taken, metrics, alerts, onNotice });
  opened.add(() => pipeline.quarantine.close());
  opened.add(() => pipeline.stores.close());
  const natsLock = nats === undefined || run !== undefined ? undefined : RunLock.takeNats(out);
  opened.add(() => natsLock?.release());
  // A service for one run reports at once that the run has another writer, or the batches that it already holds.
  if (run !== undefined) pipeline.stores.get(run);

  let isNatsLost = false;
  // Apart from the batches: what happens to the lock of NATS must not keep them from the disk.
  const touchNats = guarded('keeping the lock of NATS', () => {
    if (natsLock === undefined || isNatsLost) return;
    try {
      natsLock.touch(new Date());
    } catch (error) {
      if (!natsLock.isTaken) throw error;
      isNatsLost = true;
      onNotice(`NATS is not read any more, until this service is started again: another process reads it for "${out}" by now`);
      for (const jetStream of jetStreams) jetStream.stopReading();
    }
  });
  const syncing = setInterval(
    guarded('putting batches on the disk', () => {
      touchNats();
      return pipeline.stores.sync(new Date());
    }),
    limits.syncIntervalMs,
  ).unref();
  opened.add(() => clearInterval(syncing));

  const onLeft = (batch: string): void => {
    pipeline.live.left(batch);
    alerts.left(batch);
  };
  const webSocket = new WebSocketIngest({ ingest: pipeline.ingest, onLeft, onNotice });
  opened.add(() => webSocket.close());
  const status = (): LiveMessage =>
    pipeline.live.status(
      pipeline.quarantine.count + pipeline.stores.quarantined + webSocket.broken,
      jetStreams.reduce((sum, { expired }) => sum + expired, 0),
    );
  const view = new StoredRuns(out, pipeline.stores, pipeline.live, onNotice, (name, lastStep) =>
    alertFindings(alertsOf(name) ?? [], alerts.improvements(name), lastStep),
  );
  opened.add(() => view[Symbol.asyncDispose]());
  const broadcast = (message: ControlMessage): void => {
    webSocket.broadcast(message);
    for (const jetStream of jetStreams) if (!('run' in message) || jetStream.takes(message.run)) jetStream.broadcast(message);
  };
  const captures = new StepCaptures({
    live: pipeline.live,
    store: (name) => storeOf(pipeline, name),
    checkRun: (name) => checkRun(pipeline, name),
    broadcast,
    onNotice,
  });
  const capture = captureRequests(pipeline.live, captures.capture);
  // For a run that is not open, reads its alert log; undefined for an unknown one.
  const alertsOf = (name?: string): readonly Alert[] | undefined => {
    if (name === undefined || alerts.has(name)) return alerts.alerts(name);
    return pipeline.stores.runs().includes(name) ? readAlertLog(join(out, name)).alerts : undefined;
  };
  let http: HttpService | undefined;
  opened.add(() => http?.close());
  opened.add(() => captures.close());

  const runs = (): string[] => pipeline.stores.runs();
  const readNats = async (only: string | undefined): Promise<void> => {
    if (nats === undefined) return;
    const of = only === undefined ? runs : () => [only];
    // A service without NATS starts without its client.
    const { JetStreamIngest } = await import('./ingest/jetstream-ingest.ts');
    jetStreams.push(await JetStreamIngest.start({ nats, run: only, storeId: storeId(out), ingest: pipeline.ingest, runs: of, onNotice }));
  };
  opened.add(() => Promise.all(jetStreams.map((jetStream) => jetStream.close())));
  await readNats(run);
  opened.add(() => delivery.close());
  alerts.start();
  opened.add(() => alerts[Symbol.asyncDispose]());
  // The state behind the alerts is about all batches that are stored.
  opened.add(() => {
    webSocket.close();
    return Promise.all(jetStreams.map((jetStream) => jetStream.end()));
  });
  if (run === undefined) resumeRuns(pipeline, { alerts, metrics }, out, onNotice);
  // Its first look comes after the runs were resumed: a run that is being pruned cannot be opened.
  const retention = new RetentionService({
    out,
    retention: options.retention ?? {},
    open: (name) => pipeline.stores.peek(name),
    isBusy: (name) => pipeline.replays.isRunning(name) || pipeline.stores.isOpening(name),
    onPruned: (result) => metrics.pruned(result),
    onNotice,
  });
  opened.add(() => retention[Symbol.asyncDispose]());
  // It listens last: all that a request needs is there.
  http = await HttpService.listen({
    ...{ listen, token, status, capture, metrics, page, view, onNotice },
    alerts: alertsOf,
    ingest: webSocket,
  });
  return {
    address: http.address,
    status,
    runs,
    store: (name) => storeOf(pipeline, name),
    steps: (name, rank) => pipeline.live.steps(name, rank),
    ingest: pipeline.ingest,
    storeExits: (name, exits, processes) => {
      try {
        for (const bytes of exitBatches(storeOf(pipeline, name).sources(), exits, processes)) pipeline.ingest(bytes);
      } catch (error) {
        onNotice(`run ${name}: how its ranks ended is not stored: ${messageOf(error)}`);
      }
    },
    takeRun: async (name) => {
      if (taken === undefined || taken.has(name)) return;
      taken.add(name);
      await readNats(name);
    },
    subscribe: (listener) =>
      subscribe(
        pipeline,
        guarded('a listener of the status', () => listener(status())),
      ),
    flushRanks: () => {
      broadcast({ type: 'flush' });
      return quiet(pipeline);
    },
    pullFlightRecorders: (run, steps = {}) => {
      broadcast({ type: 'pull', run, ...steps });
      return quiet(pipeline);
    },
    captureSteps: captures.capture,
    alerts,
    delivery,
    [Symbol.asyncDispose]: () => opened.dispose(),
  };
}

/** Opens the runs that may still go on: their alerts stay open, and their silent ranks are noticed. Large ones are opened beside everything else. */
function resumeRuns(
  { stores }: Pipeline,
  { alerts, metrics }: { readonly alerts: AlertService; readonly metrics: Metrics },
  out: string,
  onNotice: (notice: string) => void,
): void {
  for (const name of unfinishedRuns(out, stores.runs(), Date.now())) {
    alerts.resume(name);
    metrics.resumed(name);
    try {
      stores.ready(name);
    } catch (error) {
      onNotice(messageOf(error));
    }
  }
}

async function publishTo(jetStream: JetStreamIngest | undefined, subject: string, text: string): Promise<void> {
  if (jetStream === undefined) throw new AggregatorError('closed', 'Cannot publish: NATS is not connected yet');
  await jetStream.publish(subject, text);
}

/** Runs that an error names. */
const runsNamedMax = 8;

function storeOf({ stores }: Pipeline, run: string): RunStore {
  const open = stores.peek(run);
  if (open !== undefined) return open;
  checkRun({ stores }, run);
  return stores.get(run);
}

function checkRun({ stores }: Pick<Pipeline, 'stores'>, run: string): void {
  const runs = stores.runs();
  if (runs.includes(run)) return;
  const names = runs.slice(0, runsNamedMax).join(', ') + (runs.length > runsNamedMax ? ` and ${runs.length - runsNamedMax} more` : '');
  const others = runs.length === 0 ? 'there is no run yet' : runs.length === 1 ? `the only run is ${names}` : `the runs are ${names}`;
  throw new AggregatorError('store_missing', `Cannot open run "${run}": ${others}`);
}

function subscribe({ live }: Pipeline, listener: () => void): () => void {
  let waiting: NodeJS.Timeout | undefined;
  const stop = live.subscribe(() => {
    const report = (): void => {
      waiting = undefined;
      listener(); // guarded by the caller that made it
    };
    waiting ??= setTimeout(report, limits.progressIntervalMs).unref();
  });
  return () => {
    stop();
    clearTimeout(waiting);
  };
}

function quiet({ live }: Pipeline): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      stop();
      clearTimeout(latest);
      clearTimeout(calm);
      resolve();
    };
    const latest = setTimeout(end, limits.flushWaitMsMax);
    const calm = setTimeout(end, limits.flushQuietMs);
    const stop = live.subscribe(() => calm.refresh());
  });
}

/** Disposables, closed once, last opened first. */
class AsyncDisposables {
  readonly #closers: (() => unknown)[] = [];

  add(closer: () => unknown): void {
    this.#closers.push(closer);
  }

  async dispose(): Promise<void> {
    for (let closer = this.#closers.pop(); closer !== undefined; closer = this.#closers.pop()) await closer();
  }
}
