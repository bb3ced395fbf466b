// Alerts of all runs: stored batches go through each run's engine; each incident gets its cause and its place, is logged and reported. In one file, for
// all of it keeps the invariants below.
//
//   stored batch ─► engine ─► fired ─► cause, link (store) ─► alerts.jsonl ─► listeners
//   tick ─────────►    │                                   └─► capture ─► reported again, with its trace
//                      └────► alert-state.json             so that a restarted service resumes where it was
//
// Invariant: nothing here throws into ingest or makes it wait: causes and captures are computed beside it, one at a time per run.
// Invariant: reports of one alert keep their order, fired first and resolved last; an incident that an earlier life of the service reported is not
// reported twice.

import { join } from 'node:path';
import type { Alert, Batch } from '@ranktrace/protocol';
import { type AlertChange, AlertEngine, type AlertRules, defaultAlertRules, type EngineAlert } from '@ranktrace/trace/alert';
import type { Improvement } from '@ranktrace/trace/detect';
import type { CaptureSteps } from '../capture/capture-steps.ts';
import { withDeadline } from '../model/deadline.ts';
import { messageOf } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { ProcessExit, RankProcess } from '../store/exit-batch.ts';
import { alertStateName } from '../store/run-directory.ts';
import type { RunStore } from '../store/run-store.ts';
import { failedCapture, pendingCapture, writtenCapture } from './alert-capture.ts';
import { type AlertPlace, causeOfHint, explainAlert, ranksOf, withHosts } from './alert-cause.ts';
import { AlertLog, readAlertLog } from './alert-log.ts';
import { readAlertState, type SavedAlertState, writeAlertState } from './alert-state.ts';
import { withCause } from './alert-text.ts';
import { BatchFacts, type Sequences } from './batch-facts.ts';
import { DeliveryMarks, type IsTaken } from './delivery-marks.ts';
import { meetStoredRanks } from './unfinished-runs.ts';

export interface AlertServiceOptions {
  readonly rules?: AlertRules | undefined;
  /** The store of a run, while it is open. */
  readonly store: (run: string) => RunStore | undefined;
  /** Address of the page, for links; undefined: there is none. */
  readonly page: () => string | undefined;
  /** Records the steps that an alert is about; without it alerts have no trace. */
  readonly capture?: AlertCapture | undefined;
  /** Asks the run's ranks for reports of their collectives, while a hang is suspected. */
  readonly askCollectives?: ((run: string) => void) | undefined;
  /** Whether the broker, which brings the batches of runs that do not come directly, is out of reach. */
  readonly isCutOff?: (() => boolean) | undefined;
  /** Receives incidents of an earlier life of the service, which reported them: those that are still open, and ended ones that are owed. */
  readonly onResumed?: ((alert: Alert, isTaken: IsTaken) => void) | undefined;
  /** Whether an output still wants the alert, which it has not taken. */
  readonly isOwed?: ((alert: Alert, isTaken: IsTaken) => boolean) | undefined;
  readonly onNotice: (notice: string) => void;
  /** Unix time, ms, that is never set back; default: the system's time at the start plus the time passed since. */
  readonly nowMs?: (() => number) | undefined;
}

export interface AlertCapture {
  readonly captureSteps: CaptureSteps;
  /** Steps before the onset, from the flight recorders, and steps from now on. */
  readonly stepsBefore: number;
  readonly stepsAfter: number;
}

interface RunAlerts {
  readonly run: string;
  readonly directory: string;
  readonly engine: AlertEngine;
  readonly facts: BatchFacts;
  readonly log: AlertLog;
  /** Current states, oldest first. */
  readonly alerts: Map<string, Alert>;
  readonly marks: DeliveryMarks;
  /** Reports one after the other. */
  reporting: Promise<void>;
  /** Requests for reports of collectives since a hang is suspected, and when the next one is due. */
  asked: number;
  askMs: number;
  isChanged: boolean;
  /** Batches of the run, as far as they were taken. */
  batches: number;
  savedMs: number;
  /** Whether the last batch came directly, and not through the broker. */
  isDirect: boolean;
  /** A time in which the run's batches were refused or could not come: its begin, and the last sign of it. */
  outage: { readonly sinceMs: number; lastMs: number } | undefined;
}

export class AlertService implements AsyncDisposable {
  readonly #options: AlertServiceOptions;
  readonly #nowMs: () => number;
  readonly #runs = new Map<string, RunAlerts>();
  /** Runs whose alerts cannot be kept: reported once. */
  readonly #refused = new Set<string>();
  /** Runs that may still go on: their alerts are opened with their stores. */
  readonly #resuming = new Set<string>();
  readonly #listeners = new Set<(alert: Alert) => void>();
  readonly #closed = new AbortController();
  readonly #captures = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #tickedAt = performance.now();

  constructor(options: AlertServiceOptions) {
    this.#options = options;
    const began = Date.now() - performance.now();
    this.#nowMs = options.nowMs ?? (() => began + performance.now());
  }

  /** Checks about once a second for changes that show through time alone. */
  start(): void {
    const look = (): void => {
      const late = performance.now() - this.#tickedAt > limits.alertTickLateMs;
      this.#tickedAt = performance.now();
      // If this tick is late, this process was blocked: read the sockets before calling any rank silent.
      if (!late) this.tick();
    };
    this.#timer ??= setInterval(guardedBy(this.#options.onNotice)('the look at the alerts', look), limits.alertTickMs).unref();
  }

  /**
   * A batch was stored; `sequences` are those of its incarnation, with it; `isDirect`: it came without the broker. Never throws.
   */
  take(batch: Batch, sequences: Sequences, isDirect = true): void {
    const { run } = batch.header;
    try {
      const known = this.#runs.get(run);
      const alerts = known ?? this.#open(run, 1);
      if (alerts === undefined) return;
      alerts.batches++;
      const nowMs = this.#nowMs();
      alerts.isDirect = isDirect;
      alerts.facts.feed(alerts.engine, batch, sequences, nowMs);
      alerts.isChanged = true;
      this.#changed(alerts, alerts.engine.changes(nowMs));
    } catch (error) {
      this.#options.onNotice(`run ${run}: a batch is not looked at for alerts: ${messageOf(error)}`);
    }
  }

  /** The connection of the rank with this batch (`batchId`) broke. Never throws. */
  left(batch: string): void {
    const [run = '', rank, incarnation = ''] = batch.split('.');
    const alerts = this.#runs.get(run);
    // The connection of a refused batch is closed here.
    if (alerts?.outage === undefined) alerts?.engine.left(Number(rank), incarnation, this.#nowMs());
  }

  /** The process of a rank ended, as the command that started all `processes` saw it. Never throws. */
  exited(exit: ProcessExit, processes: readonly RankProcess[]): void {
    const { rank, pid, how, isWell, isStopped } = exit;
    for (const { engine, run } of this.#runs.values()) {
      const isOfRun = processes.some((one) => engine.hasProcess(one.rank, one.pid));
      if (!isOfRun || (engine.hears(rank) ? !engine.hasProcess(rank, pid) : isWell || isStopped)) continue;
      try {
        engine.exited(rank, pid, { how, isExpected: isWell || isStopped }, this.#nowMs());
      } catch (error) {
        this.#options.onNotice(`run ${run}: alerts: ${messageOf(error)}`);
      }
    }
  }

  /** People ask all ranks to end. */
  stopping(): void {
    for (const { engine } of this.#runs.values()) engine.stopping();
  }

  /** A batch of the run could not be stored, by no fault of its rank. Never throws. */
  refused(run: string): void {
    const alerts = this.#runs.get(run);
    if (alerts !== undefined) this.#noteOutage(alerts, this.#nowMs());
  }

  /** Checks all runs for changes that show through time alone. Never throws. */
  tick(): void {
    const nowMs = this.#nowMs();
    for (const alerts of this.#runs.values()) {
      try {
        if (!this.#isInOutage(alerts, nowMs)) {
          this.#changed(alerts, alerts.engine.tick(nowMs));
          this.#askCollectives(alerts, nowMs);
        }
        if (alerts.isChanged && nowMs - alerts.savedMs >= limits.alertStateSaveMs) this.#save(alerts);
      } catch (error) {
        this.#options.onNotice(`run ${alerts.run}: alerts: ${messageOf(error)}`);
      }
    }
  }

  /** Opens the alerts of a run of an earlier life of the service as soon as its store is open, and not only with its next batch. */
  resume(run: string): void {
    this.#resuming.add(run);
  }

  /** The store of a run was opened. Never throws. */
  opened(run: string): void {
    if (this.#resuming.delete(run)) this.#open(run);
  }

  /** An output took the alert. Never throws. */
  delivered(output: string, alert: Alert): void {
    const alerts = this.#runs.get(alert.run);
    if (alerts !== undefined) {
      alerts.marks.note(output, alert);
      this.#save(alerts);
      return;
    }
    // The run was closed meanwhile.
    const store = this.#options.store(alert.run);
    const { onNotice } = this.#options;
    const saved = store && readAlertState(store.directory, alert.run, onNotice);
    if (store === undefined || saved?.delivered === undefined) return;
    const marks = new DeliveryMarks(saved.delivered, []);
    marks.note(output, alert);
    writeAlertState(store.directory, { ...saved, delivered: marks.saved({ has: () => true }) }, onNotice);
  }

  /** Drops a run that was closed; its alerts stay on disk and are loaded with its next batch. */
  forget(run: string): void {
    const alerts = this.#runs.get(run);
    if (alerts === undefined) return;
    this.#runs.delete(run);
    this.#save(alerts);
  }

  /** Whether the run's alerts are open in this life of the service: then `alerts` has them all. */
  has(run: string): boolean {
    return this.#runs.has(run);
  }

  /** Open alerts of one run or of all, in their current state, oldest first. */
  alerts(run?: string): Alert[] {
    const runs = run === undefined ? [...this.#runs.values()] : [this.#runs.get(run)];
    return runs.flatMap((alerts) => [...(alerts?.alerts.values() ?? [])]).sort((a, b) => (a.firedAt < b.firedAt ? -1 : 1));
  }

  /** The last times when a run's steps became faster and stayed so, oldest first. */
  improvements(run: string): readonly Improvement[] {
    return this.#runs.get(run)?.engine.improvements ?? [];
  }

  /** Calls `listener` on each report of an alert, until the returned function is called. */
  subscribe(listener: (alert: Alert) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when every incident found by now is reported; captures continue. */
  async settled(): Promise<void> {
    await Promise.all([...this.#runs.values()].map(({ reporting }) => reporting));
  }

  /** Aborts the work in progress and saves the state. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.tick();
    this.#closed.abort(new Error('the service ends'));
    await this.settled();
    await Promise.allSettled([...this.#captures]);
    await this.settled();
    for (const run of [...this.#runs.keys()]) this.forget(run);
    this.#listeners.clear();
  }

  /** `coming`: batches in the store that are yet to be taken. */
  #open(run: string, coming = 0): RunAlerts | undefined {
    const store = this.#options.store(run);
    if (store === undefined || this.#refused.has(run) || this.#closed.signal.aborted) return undefined;
    const { onNotice } = this.#options;
    const { directory } = store;
    const nowMs = this.#nowMs();
    try {
      const { alerts: logged, unreadable } = readAlertLog(directory);
      if (unreadable > 0) onNotice(`run ${run}: ${unreadable} lines of its alerts cannot be read and are left out`);
      const known = logged.slice(-limits.alertsPerRunMax);
      const saved = readAlertState(directory, run, onNotice);
      const alerts: RunAlerts = {
        run,
        directory,
        ...this.#restored(saved, store, batchesOf(store) - coming, nowMs),
        log: new AlertLog(directory),
        alerts: new Map(known.map((alert) => [alert.id, alert])),
        marks: new DeliveryMarks(saved?.delivered, known),
        reporting: Promise.resolve(),
        asked: 0,
        askMs: 0,
        isChanged: false,
        batches: batchesOf(store) - coming,
        savedMs: nowMs,
        isDirect: false,
        outage: undefined,
      };
      this.#runs.set(run, alerts);
      this.#meetRanks(alerts, store, nowMs);
      // Met ranks are saved with the next state, also where no batch comes any more.
      alerts.isChanged = true;
      this.#resumeKnown(alerts, saved !== undefined, nowMs);
      return alerts;
    } catch (error) {
      if (this.#refused.size < limits.runsOpenMax) this.#refused.add(run);
      onNotice(`run ${run}: there are no alerts: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** Without a state, or with one of other rules, the engine learns its baselines anew. */
  #restored(saved: SavedAlertState | undefined, store: RunStore, batches: number, nowMs: number): Pick<RunAlerts, 'engine' | 'facts'> {
    const { rules = defaultAlertRules } = this.#options;
    try {
      if (saved !== undefined) {
        // A killed service stored more than its state is about: ranks that were inside of a collective then may have left it.
        const { progress, ...others } = saved;
        const engine = AlertEngine.restore(saved.batches === batches ? saved : others, nowMs, rules);
        return { engine, facts: new BatchFacts(saved.facts, (life) => store.source(life)) };
      }
    } catch (error) {
      this.#options.onNotice(`"${join(store.directory, alertStateName)}" is left out: ${messageOf(error)}`);
    }
    return { engine: new AlertEngine(store.run, rules), facts: new BatchFacts() };
  }

  #noteOutage(alerts: RunAlerts, nowMs: number): void {
    alerts.outage ??= { sinceMs: nowMs, lastMs: nowMs };
    alerts.outage.lastMs = nowMs;
  }

  /** Whether batches of the run cannot come now, or could not a moment ago, so that silence proves nothing; after that, the time of it does not count. */
  #isInOutage(alerts: RunAlerts, nowMs: number): boolean {
    if (!alerts.isDirect && this.#options.isCutOff?.() === true) this.#noteOutage(alerts, nowMs);
    const { outage } = alerts;
    if (outage === undefined) return false;
    if (nowMs - outage.lastMs < limits.alertOutageEndMs) return true;
    alerts.outage = undefined;
    alerts.engine.excuse(nowMs - outage.sinceMs, nowMs);
    return false;
  }

  #meetRanks({ engine, run }: RunAlerts, store: RunStore, nowMs: number): void {
    try {
      meetStoredRanks(engine, store, nowMs);
    } catch (error) {
      this.#options.onNotice(`run ${run}: not all of its ranks are known before they send again: ${messageOf(error)}`);
    }
  }

  /** Takes up the alerts of an earlier life. Incidents that are open in the log and missing in the engine are resolved: nothing else ever would. */
  #resumeKnown(alerts: RunAlerts, hasState: boolean, nowMs: number): void {
    const open = new Set(alerts.engine.open);
    const { onResumed, isOwed, rules } = this.#options;
    for (const known of [...alerts.alerts.values()]) {
      const isTaken: IsTaken = (output) => alerts.marks.isTaken(output, known);
      // Its steps are not recorded any more.
      const isPending = known.capture?.state === 'pending';
      const alert = isPending ? { ...known, capture: failedCapture(known.capture ?? pendingCapture, 'the service ended') } : known;
      if (alert.state === 'resolved') {
        if (isOwed?.(alert, isTaken) === true) onResumed?.(alert, isTaken);
        continue;
      }
      onResumed?.(alert, isTaken);
      if (open.has(alert.id) && rules?.off.includes(alert.rule) !== true) {
        if (isPending) this.#report(alerts, alert);
        continue;
      }
      const resolution = hasState
        ? 'the service was started again and does not see it any more'
        : `the service was started again without ${alertStateName}, and cannot tell whether it goes on`;
      this.#report(alerts, { ...alert, state: 'resolved', resolvedAt: new Date(nowMs).toISOString(), resolution });
    }
  }

  /** Asks soon again, for a count must stand still to count, and then less and less often. */
  #askCollectives(alerts: RunAlerts, nowMs: number): void {
    if (!alerts.engine.suspectsHang) alerts.asked = 0;
    else if (alerts.asked === 0 || nowMs >= alerts.askMs) {
      this.#options.askCollectives?.(alerts.run);
      alerts.askMs = nowMs + Math.min(limits.alertAskMsMax, limits.alertAskMsMin * 2 ** alerts.asked++);
    }
  }

  #changed(alerts: RunAlerts, changes: readonly AlertChange[]): void {
    if (changes.length === 0) return;
    for (const change of changes) {
      alerts.reporting = alerts.reporting
        .then(() => this.#reportChange(alerts, change))
        .catch((error: unknown) => this.#options.onNotice(`run ${alerts.run}: alert ${change.alert.id}: ${messageOf(error)}`));
    }
    this.#save(alerts);
  }

  async #reportChange(alerts: RunAlerts, { kind, alert }: AlertChange): Promise<void> {
    const known = alerts.alerts.get(alert.id);
    if (known === undefined) {
      if (kind === 'fired') await this.#reportNew(alerts, alert);
      return;
    }
    // A restarted service detects incidents again that it reported before.
    if (kind === 'fired' && known.state === 'firing') return;
    const { hint: _, latestOnsetStep: __, ...said } = alert;
    const { link, capture, onsetAt } = known;
    const cause = await this.#refined(alerts, alert, known);
    const reported: Alert = { ...said, summary: withCause(alert, cause), onsetAt: onsetAt ?? said.onsetAt, cause, link, capture };
    this.#report(alerts, { ...reported, ranks: ranksOf(said.ranks, cause) });
  }

  /**
   * The cause of an incident that continues; searched again if the series of single ranks now point to others than the first search did, or if the rise to
   * explain is another one by now.
   */
  async #refined(alerts: RunAlerts, alert: EngineAlert, { cause: known, step, series }: Alert): Promise<Alert['cause']> {
    const { hint } = alert;
    if (hint?.stated !== undefined) return withHosts(causeOfHint(alert), known);
    const isNamed = (known?.ranks.length ?? 0) > 0;
    const isLater = isNamed ? hint?.isOfAll === true : (hint?.ranks.length ?? 0) > 0;
    const isOther = alert.step !== step || alert.series.kind !== series.kind;
    if (alert.state !== 'firing' || !(isLater || (isOther && alert.unit === 'ns'))) return known ?? causeOfHint(alert);
    const { cause } = await this.#explained(alerts, alert);
    return isLater || (cause !== null && cause.kind !== 'inconclusive') ? cause : (known ?? cause);
  }

  async #reportNew(alerts: RunAlerts, alert: EngineAlert): Promise<void> {
    const { cause, place } = await this.#explained(alerts, alert);
    const { hint: _, latestOnsetStep: __, ...said } = alert;
    const { capture: captures } = this.#options;
    const wantsCapture =
      captures !== undefined && alert.onsetStep !== null && rulesAboutSteps.has(alert.rule) && !this.#closed.signal.aborted;
    const reported: Alert = {
      ...said,
      summary: withCause(alert, cause),
      onsetAt: place?.onsetAt ?? said.onsetAt,
      cause,
      ranks: ranksOf(said.ranks, cause),
      link: this.#link(alerts.run, place),
      capture: wantsCapture ? pendingCapture : null,
    };
    this.#report(alerts, reported);
    if (wantsCapture) this.#capture(alerts, reported, captures);
  }

  async #explained(alerts: RunAlerts, alert: EngineAlert): Promise<Awaited<ReturnType<typeof explainAlert>>> {
    const hinted = { cause: causeOfHint(alert), place: undefined };
    const store = this.#options.store(alerts.run);
    if (store === undefined || this.#closed.signal.aborted) return hinted;
    try {
      const stored = store.sources().filter(({ rank }) => alerts.engine.isInJob(rank));
      return await withDeadline(this.#closed.signal, limits.alertCauseMsMax, (signal) => explainAlert(alert, stored, signal));
    } catch (error) {
      this.#options.onNotice(`run ${alerts.run}: the cause of alert ${alert.id} is not known: ${messageOf(error)}`);
      return hinted;
    }
  }

  #link(run: string, place: AlertPlace | undefined): string | null {
    const page = this.#options.page();
    if (page === undefined) return null;
    const times = place === undefined ? '' : `&from=${place.from}&until=${place.until}`;
    return `${page.replace(/\/+$/, '')}/#/timeline?run=${encodeURIComponent(run)}${times}`;
  }

  /** Runs beside everything else: the alert is reported again when its trace is written. */
  #capture(alerts: RunAlerts, { id, rule, onsetStep, step }: Alert, { captureSteps, stepsBefore, stepsAfter }: AlertCapture): void {
    const onset = onsetStep ?? 0;
    const first = Math.max(0, onset - stepsBefore);
    // Where a job stands still, no further step will come.
    const request = rulesOfStops.has(rule)
      ? { fromStep: first, steps: onset - first + stepsAfter, last: true }
      : { pull: { fromStep: first, toStep: Math.max(onset, step ?? onset) }, steps: stepsAfter };
    const done = captureSteps(alerts.run, request, this.#closed.signal).then(
      (result) => writtenCapture(result, first, alerts.directory),
      (error: unknown) => failedCapture(pendingCapture, messageOf(error)),
    );
    const reporting = done.then((capture) => {
      const alert = alerts.alerts.get(id);
      if (alert !== undefined) this.#report(alerts, { ...alert, capture });
    });
    const ended: Promise<void> = reporting.finally(() => this.#captures.delete(ended));
    this.#captures.add(ended);
  }

  #report(alerts: RunAlerts, alert: Alert): void {
    alerts.alerts.set(alert.id, alert);
    alerts.isChanged = true;
    for (const [id, { state }] of alerts.alerts) {
      if (alerts.alerts.size <= limits.alertsPerRunMax) break;
      if (state === 'resolved' || alerts.alerts.size > 2 * limits.alertsPerRunMax) alerts.alerts.delete(id);
    }
    try {
      alerts.log.append(alert, alerts.alerts.values());
    } catch (error) {
      this.#options.onNotice(`run ${alerts.run}: an alert is not written down: ${messageOf(error)}`);
    }
    for (const listener of this.#listeners) {
      try {
        listener(alert);
      } catch (error) {
        this.#options.onNotice(`alert ${alert.id} did not reach every receiver: ${messageOf(error)}`);
      }
    }
  }

  #save(alerts: RunAlerts): void {
    const { engine, facts, marks, directory } = alerts;
    alerts.isChanged = false;
    alerts.savedMs = this.#nowMs();
    const state = engine.state();
    const isOwed = (alert: Alert): boolean => this.#options.isOwed?.(alert, (output) => marks.isTaken(output, alert)) === true;
    // A run with an alert that some output still wants is opened again.
    const isOver = state.isOver === true && ![...alerts.alerts.values()].some(isOwed);
    writeAlertState(
      directory,
      { ...state, isOver, delivered: marks.saved(alerts.alerts), facts: facts.saved(), batches: alerts.batches },
      this.#options.onNotice,
    );
  }
}

const batchesOf = (store: RunStore): number => store.sources().reduce((sum, { count }) => sum + count, 0);

const rulesOfStops: ReadonlySet<Alert['rule']> = new Set(['rank_stopped', 'hang']);
/** For other rules the steps hold no evidence. */
const rulesAboutSteps: ReadonlySet<Alert['rule']> = new Set(['step_time', 'step_time_drift', 'step_time_limit', ...rulesOfStops]);
