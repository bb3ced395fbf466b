// All rules over one run, fed with the batches that an aggregator receives.
//
//   rank()  step()  fail()  counter()  collective()  isIn()   for each batch, in this order; left() where a connection breaks
//                     │
//   changes(now)      ▼  steps reported by all ranks ──► step time, drift, limit          after each batch
//   tick(now)            silence, hang, loss, clocks, run over                            about once a second
//
// The rules about ranks stay together because all of them read the same record of a rank; those with more state of their own (step time,
// limit, growth, collectives) are files beside this one.
//
// Invariant: no clock: callers pass the time. Memory is bounded by `alertLimits`, whatever ranks send.
// Invariant: an engine restored from `state()` continues unchanged, except for steps that only some ranks have reported.

import {
  type Alert,
  type AlertRule,
  type CollectiveReport,
  isBeside,
  type PhaseRole,
  phaseRoleKey,
  type Running,
} from '@ranktrace/protocol';
import type { Improvement } from '../detect/step-time-finding.ts';
import { collectiveText } from '../match/collective-number.ts';
import { lengthText } from '../model/quantity-text.ts';
import { shownEnd } from '../model/shown-name.ts';
import { peerErrorOf } from '../steps/peer-errors.ts';
import { PhaseRoles } from '../steps/phase-role.ts';
import { type AlertChange, type OpenAlert, type ReportChange, runEnded } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import { type AlertRules, defaultAlertRules } from './alert-rules.ts';
import { alertSeverities } from './alert-severity.ts';
import { bytesText, nameText, ranksText } from './alert-text.ts';
import { CollectiveReports } from './collective-reports.ts';
import { type HangFacts, HangIncident } from './hang-incident.ts';
import { MemoryGrowth } from './memory-growth.ts';
import { type CollectiveFact, OpenCollectives, type OpenCollectivesState, type StuckCollective } from './open-collectives.ts';
import { type Onset, type RankIncidentState, RankIncidents, type RankTrouble } from './rank-incidents.ts';
import { RankPlaces } from './rank-places.ts';
import { type RankStepFact, StepAssembly, stepAfter } from './step-assembly.ts';
import { StepLimit, type StepLimitState } from './step-limit.ts';
import { StepTimeRules, type StepTimeState } from './step-time-rules.ts';
import { type StopFacts, stopCause } from './stop-cause.ts';

/** Facts about a rank from a batch's header and from the store. */
export interface RankFact {
  readonly worldSize: number;
  readonly host: string;
  readonly incarnation: string;
  /** Number of its process; absent: not known. */
  readonly pid?: number;
  /** Whether this is the rank's latest life. Absent: it is. */
  readonly isLatest?: boolean;
  /** Whether a recorder beside the rank sent it, which says nothing of whether the rank goes on. */
  readonly isBeside?: boolean;
  /** It has said goodbye. */
  readonly ended: boolean;
  /** Events and batches that it dropped since its start, over all its lives. */
  readonly dropped: number;
  /** Batches missing in the sequences of all its lives. */
  readonly missing: number;
  /** The missing batches that came neither out of order nor again, while others of the rank did for `alertMissingMs`. */
  readonly lost: number;
  /** Clock pings in this batch. */
  readonly clockSamples: number;
}

interface RankState {
  host: string;
  /** Ranks of the job, as this life has it. */
  worldSize: number;
  incarnation: string;
  pid: number | undefined;
  ended: boolean;
  /** When it said goodbye, ms, and the signal that ended it in the midst of a step, if one did. */
  endedMs: number;
  endedBy: string | undefined;
  /** The end of its process, as the command that started it saw it. */
  exit: (RankExit & { readonly atMs: number }) | undefined;
  /** Whether it was heard itself, and not only a recorder beside it: before that it may load for minutes. */
  hasBegun: boolean;
  lastMs: number;
  /** When its connection broke, ms; NaN: it did not, or something came since. */
  goneMs: number;
  clockMs: number;
  dropped: number;
  missing: number;
  /** Highest count of certainly lost batches. */
  missingLost: number;
  lostAtMs: number;
  /** Steps since `overhead` was judged: count, ns, ns of recording. */
  steps: number;
  length: number;
  overhead: number;
  overheadShare: number;
  readonly memory: Map<string, MemoryGrowth>;
  /** The error that ended its program, and when it came, ms. */
  failed: { readonly error: string; readonly atMs: number } | undefined;
  /** It was restarted, and has ended no step since. */
  isRestarted: boolean;
  /** Its last step before this engine was restored. */
  stepBefore: number;
}

/** The end of a rank's process, as the command that started it saw it. */
export interface RankExit {
  /** `ended with exit code 1`, `was ended by SIGKILL`. */
  readonly how: string;
  /** Whether it ended in order, or because it was asked to. */
  readonly isExpected: boolean;
}

/** The engine's whole state, in JSON's types. */
export interface AlertEngineState {
  readonly version: 1;
  readonly run: string;
  /** Absent where it is not known, and in states of older services. */
  readonly worldSize?: number;
  /** Whether all its ranks ended, or nothing came for so long, that no alert of it can change any more. Absent in states of older services. */
  readonly isOver?: boolean;
  readonly judged: number;
  readonly stepTime: StepTimeState;
  readonly limit: StepLimitState | null;
  readonly incidents: Readonly<Partial<Record<AlertRule, readonly RankIncidentState[]>>>;
  readonly hang: OpenAlert | null;
  /** Stated roles of phases. Absent in states of older services. */
  readonly roles?: readonly (readonly [string, PhaseRole])[];
  readonly ranks: readonly (readonly [
    number,
    {
      readonly host: string;
      readonly incarnation: string;
      /** Absent in states of older services. */
      readonly worldSize?: number;
      readonly ended: boolean;
      readonly dropped: number;
      readonly missingLost: number;
      /** Absent in states of older services. */
      readonly missing?: number;
      /** Absent in states of older services. */
      readonly lastStep?: number;
    },
  ])[];
  /** How far the ranks came, which a hang is known by. Absent in states of older services, and where ranks came further since. */
  readonly progress?: {
    readonly collectives: OpenCollectivesState;
    readonly places: readonly (readonly [rank: number, place: Running])[];
    /** Unix ms; null: no step ended. */
    readonly lastStepMs: number | null;
    readonly fullestPhases: readonly (readonly [string, number])[];
    readonly stepsJudged: number;
    /** ns. */
    readonly longest: number;
  };
}

/** A run without batches for this many heartbeat timeouts is over. */
const overFactor = 20;
/** Below this share of the least growth, or of the overhead limit, the incident is over. */
const calmShare = 0.75;

export class AlertEngine {
  readonly #run: string;
  readonly #rules: AlertRules;
  /** The roles of the run's phases. */
  readonly roles = new PhaseRoles();
  readonly #assembly = new StepAssembly();
  readonly #stepTime: StepTimeRules;
  readonly #limit: StepLimit | undefined;
  readonly #collectives = new OpenCollectives();
  readonly #reports = new CollectiveReports();
  readonly #places = new RankPlaces();
  readonly #ranks = new Map<number, RankState>();
  /** Processes that ended before anything was heard of their ranks. */
  readonly #unheard = new Map<number, RankExit & { readonly atMs: number }>();
  readonly #stopped: RankIncidents;
  readonly #growing: RankIncidents;
  readonly #losing: RankIncidents;
  readonly #unaligned: RankIncidents;
  readonly #recording: RankIncidents;
  readonly #changes: AlertChange[] = [];
  readonly #report: ReportChange = (kind, alert) => {
    if (!this.#rules.off.includes(alert.rule)) this.#changes.push({ kind, alert: { ...alert, ranks: [...alert.ranks] } });
  };
  readonly #hang: HangIncident;
  #nowMs = 0;
  #isStopping = false;
  #lastStepMs = Number.NaN;
  /** Phases of the last of the steps with most of them: some steps lack what others have now and then, as a barrier. */
  #fullestPhases: ReadonlyMap<string, number> = new Map();
  #lastBatchMs = 0;
  #firstBatchMs = Number.NaN;
  /** Ranks of the job, as the rank that was started again last has it; Infinity: unknown. */
  #worldSize = Number.POSITIVE_INFINITY;
  /** Since when a rank of the job may be missed. */
  #worldSinceMs = Number.NaN;
  #stepsJudged = 0;
  /** The longest step, ns, without the first ones. */
  #longest = 0;

  /** @throws TraceError `bad_option` */
  constructor(run: string, rules: AlertRules = defaultAlertRules) {
    this.#run = run;
    this.#rules = rules;
    this.#stepTime = new StepTimeRules(run, rules, this.roles, this.#report);
    this.#limit = rules.stepTimeLimitMs === undefined ? undefined : new StepLimit(run, rules.stepTimeLimitMs, this.#report);
    this.#hang = new HangIncident({
      run,
      rules,
      roles: this.roles,
      collectives: this.#collectives,
      reports: this.#reports,
      places: this.#places,
      report: this.#report,
    });
    const incidents = (
      rule: AlertRule,
      unit: Alert['unit'],
      describe: (ranks: readonly number[], all: readonly number[]) => RankTrouble,
    ): RankIncidents => new RankIncidents({ run, rule, severity: alertSeverities[rule].first, unit, describe, report: this.#report });
    this.#stopped = incidents('rank_stopped', 'count', (ranks) => this.#stop(ranks));
    this.#growing = incidents('memory_growth', 'bytes', (ranks) => this.#growth(ranks));
    this.#losing = incidents('data_loss', 'count', (ranks) => this.#loss(ranks));
    this.#unaligned = incidents('clock_unaligned', 'count', (ranks) => {
      const few = `for ${seconds(rules.clockUnalignedMs)} no clock ping came of the host of ${ranksText(ranks)}`;
      return { summary: `${few}: its times cannot be placed exactly`, after: ranks.length };
    });
    this.#recording = incidents('overhead', 'share', (ranks) => this.#overhead(ranks));
  }

  /**
   * An engine that continues from `state`, as of now; ranks get time to be heard again.
   * @throws TraceError `bad_option` if the state has other settings
   */
  static restore(state: AlertEngineState, nowMs: number, rules: AlertRules = defaultAlertRules): AlertEngine {
    const engine = new AlertEngine(state.run, rules);
    engine.#restore(state, nowMs);
    return engine;
  }

  /** Takes a rank's batch. */
  rank(rank: number, fact: RankFact, nowMs: number): void {
    this.#nowMs = nowMs;
    this.#lastBatchMs = nowMs;
    if (Number.isNaN(this.#firstBatchMs) && !fact.isBeside) this.#firstBatchMs = nowMs;
    const known = this.#ranks.get(rank);
    const isNewLife = known === undefined || (fact.isLatest !== false && fact.incarnation !== known.incarnation);
    // Ranks of the job's life before may still send when the first one of the next life comes.
    if (!Number.isFinite(this.#worldSize) || isNewLife) {
      const isFirst = known === undefined && Number.isFinite(this.#worldSize);
      const worldSize = isFirst ? Math.max(this.#worldSize, fact.worldSize) : fact.worldSize;
      if (worldSize !== this.#worldSize) this.#worldSinceMs = Number.NaN;
      this.#worldSize = worldSize;
    }
    if (Number.isNaN(this.#worldSinceMs) && !fact.isBeside) this.#worldSinceMs = nowMs;
    if (known === undefined) this.#ranks.set(rank, newRank(fact, nowMs));
    else if (isNewLife) {
      known.incarnation = fact.incarnation;
      known.pid = undefined;
      known.exit = undefined;
      known.endedBy = undefined;
      known.worldSize = fact.worldSize;
      known.ended = false;
      known.steps = 0;
      known.isRestarted = true;
      known.stepBefore = -1;
      known.failed = undefined;
      known.memory.clear();
      this.#limit?.restarted();
      this.#collectives.forget(rank);
      this.#reports.forget(rank);
      this.#places.forget(rank);
    }
    const state = this.#ranks.get(rank) as RankState;
    const isArrival = known === undefined || !state.hasBegun;
    if (!fact.isBeside) {
      state.lastMs = nowMs;
      state.goneMs = Number.NaN;
      state.hasBegun = true;
    }
    if (fact.incarnation === state.incarnation) {
      state.host = fact.host;
      state.pid = fact.pid ?? state.pid;
      if (fact.ended && !state.ended) {
        state.ended = true;
        state.endedMs = nowMs;
        this.#collectives.leave(rank);
      }
    }
    if (fact.clockSamples > 0) state.clockMs = nowMs;
    if (fact.dropped > state.dropped) {
      state.lostAtMs = nowMs;
      state.dropped = fact.dropped;
    }
    if (fact.lost > state.missingLost) {
      state.lostAtMs = nowMs;
      state.missingLost = fact.lost;
    }
    state.missing = fact.missing;
    if (!fact.isBeside && state.failed === undefined && state.exit?.isExpected !== false)
      this.#stopped.clear(rank, state.ended ? 'the rank ended' : isArrival ? 'the rank came' : 'the rank is back');
  }

  /** Whether nothing that is stored of this life of the rank can be news. */
  hasEnded(rank: number, incarnation: string): boolean {
    const state = this.#ranks.get(rank);
    return state?.incarnation === incarnation && state.ended;
  }

  /** Takes the latest life of a rank as it is stored, where it is not known so; the rank gets time to be heard again. */
  meet(
    rank: number,
    { worldSize, host, incarnation, ended }: Pick<RankFact, 'worldSize' | 'host' | 'incarnation' | 'ended'>,
    nowMs: number,
  ): void {
    const known = this.#ranks.get(rank);
    if (known?.incarnation === incarnation && known.ended === ended) return;
    this.rank(rank, { worldSize, host, incarnation, ended, dropped: 0, missing: 0, lost: 0, clockSamples: 0 }, nowMs);
  }

  /** The connection of this life broke without a goodbye. */
  left(rank: number, incarnation: string, nowMs: number): void {
    const state = this.#ranks.get(rank);
    if (state?.incarnation === incarnation && !state.ended) state.goneMs = nowMs;
  }

  /** Nothing could be received in the last `ms`: silence in that time says nothing. */
  excuse(ms: number, nowMs: number): void {
    const later = (then: number): number => Math.min(nowMs, then + ms);
    for (const state of this.#ranks.values()) {
      state.lastMs = later(state.lastMs);
      state.clockMs = later(state.clockMs);
      state.goneMs = Number.NaN;
    }
    this.#lastBatchMs = later(this.#lastBatchMs);
    this.#lastStepMs = later(this.#lastStepMs);
    this.#worldSinceMs = later(this.#worldSinceMs);
    this.#hang.excuse(nowMs);
  }

  /** Takes the error that ended the rank's program. Ranks that were gone by then are its cause: a killed rank breaks the connections of the others. */
  fail(rank: number, incarnation: string, error: string): void {
    const state = this.#ranks.get(rank);
    if (state === undefined || state.incarnation !== incarnation || state.failed !== undefined) return;
    const isInterrupted = this.#isStopping || [...this.#ranks.values()].some(({ endedBy }) => endedBy === 'SIGINT');
    // Ranks that end by Ctrl-C break the connections of others.
    if (isInterrupted && peerErrorOf(error) !== undefined) return;
    state.failed = { error, atMs: this.#nowMs };
    for (const [other, { goneMs }] of this.#ranks) if (!Number.isNaN(goneMs) && this.#isGoing(other)) this.#raiseStopped(other, {});
    const follows = [...this.#stopped.ranks].some((other) => this.#wasLost(other, this.#nowMs));
    this.#raiseStopped(rank, { follows });
  }

  /** Takes the signal that ended the rank's program in the midst of a step. */
  endedBy(rank: number, incarnation: string, signal: string): void {
    const state = this.#ranks.get(rank);
    if (state?.incarnation === incarnation) state.endedBy = shownEnd(signal);
  }

  /**
   * Takes the end of a rank's process, as the command that started it saw it. That of another process with the rank's number, such as a shell around it,
   * is not the rank's; a rank that was never heard of has ended by it if other ranks are known to be such processes.
   */
  exited(rank: number, pid: number, exit: RankExit, nowMs: number): void {
    const state = this.#ranks.get(rank);
    if (state === undefined ? this.#unheard.has(rank) || rank >= this.#worldSize : state.pid !== pid || state.exit !== undefined) return;
    this.#nowMs = nowMs;
    const seen = { ...exit, atMs: nowMs };
    if (state === undefined) this.#unheard.set(rank, seen);
    else {
      state.exit = seen;
      this.#collectives.leave(rank);
    }
    if (!exit.isExpected && state?.failed === undefined) this.#raiseStopped(rank, {});
    this.#stopped.reconsider();
  }

  /** Whether the rank's process is the one of this id, by what it says itself. */
  hasProcess(rank: number, pid: number): boolean {
    return this.#ranks.get(rank)?.pid === pid;
  }

  hears(rank: number): boolean {
    return this.#ranks.has(rank);
  }

  /** People ask the job to end: what its ranks do from now on says nothing of what was wrong with it. */
  stopping(): void {
    this.#isStopping = true;
  }

  #raiseStopped(rank: number, onset: Pick<Onset, 'sinceMs' | 'follows'>): void {
    const step = this.#assembly.lastOf(rank);
    const steps = step < 0 ? { step: null } : { step, onsetStep: stepAfter(step) };
    this.#stopped.raise(rank, this.#nowMs, { key: `${this.#ranks.get(rank)?.incarnation}-${step}`, ...steps, ...onset });
  }

  /** Whether the rank was lost, without a word, by this time. */
  #wasLost(rank: number, byMs: number): boolean {
    const state = this.#ranks.get(rank);
    if (state === undefined || !state.hasBegun || isGone(state) || state.failed !== undefined || !this.isInJob(rank)) return false;
    return state.goneMs <= byMs || byMs - state.lastMs >= limits.alertSilentMs;
  }

  /** Takes the end of a step from the rank's batch. */
  step(rank: number, fact: RankStepFact): void {
    const state = this.#ranks.get(rank);
    if (state === undefined) return;
    if (state.steps === 0 && fact.step <= this.#assembly.lastOf(rank)) this.#assembly.restart(rank, fact.step);
    this.#assembly.add(rank, fact);
    this.#collectives.goesOn(rank, this.#nowMs);
    this.#reports.forget(rank);
    this.#lastStepMs = this.#nowMs;
    if (fact.phases.size >= this.#fullestPhases.size) this.#fullestPhases = fact.phases;
    state.isRestarted = false;
    state.steps++;
    state.length += fact.length;
    state.overhead += fact.overhead;
    if (state.steps % limits.alertOverheadSteps === 0 && state.length >= limits.alertOverheadMsMin * 1e6) this.#judgeOverhead(rank, state);
  }

  /** Takes a counter of memory, bytes; `name` identifies it among the rank's counters. */
  counter(rank: number, name: string, value: number): void {
    const state = this.#ranks.get(rank);
    if (state === undefined) return;
    let growth = state.memory.get(name);
    if (growth === undefined) {
      if (state.memory.size >= limits.alertMemoryCountersPerRankMax) return;
      growth = new MemoryGrowth(this.#rules.memoryGrowthStepsMin, calmShare * this.#rules.memoryGrowthBytesMin);
      state.memory.set(name, growth);
    }
    const step = this.#assembly.lastOf(rank);
    if (!growth.add(step, value)) return;
    const most = largestGrowth(state)?.growth ?? 0;
    if (most >= this.#rules.memoryGrowthBytesMin) {
      if (!this.#growing.has(rank))
        this.#growing.raise(rank, this.#nowMs, { key: `${state.incarnation}-${growth.fromStep}`, step: growth.fromStep });
    } else if (most < calmShare * this.#rules.memoryGrowthBytesMin) this.#growing.clear(rank, 'memory does not grow any more');
  }

  collective(rank: number, fact: CollectiveFact): void {
    if (this.#ranks.has(rank)) this.#collectives.add(rank, { ...fact, ageMs: this.#ageOf(fact.ageMs) }, this.#nowMs);
  }

  /** Takes the rank's reported place at the end of its newest batch; `insideMs`: how long it had been in its collective by then. */
  isIn(rank: number, incarnation: string, place: Running, insideMs = 0): void {
    const state = this.#ranks.get(rank);
    if (state === undefined || state.ended || state.incarnation !== incarnation) return;
    this.#places.set(rank, place);
    this.#collectives.isIn(rank, place.collective && { ...place.collective, ageMs: this.#ageOf(insideMs) }, this.#nowMs);
    for (const [group, sequence] of place.entered ?? []) this.#collectives.enter(rank, group, sequence);
  }

  /** Takes how far the rank came in its collectives, as a source outside of its training loop reports it. */
  collectives(rank: number, report: CollectiveReport): void {
    const state = this.#ranks.get(rank);
    if (state === undefined || state.ended) return;
    const groups = report.groups.map(({ open, ...group }) => ({
      ...group,
      open: open && { ...open, insideMs: this.#ageOf(open.insideMs) },
    }));
    this.#reports.add(rank, { ...report, groups }, this.#nowMs);
  }

  /** Whether the run may hang: reports of its ranks' collectives would help. */
  get suspectsHang(): boolean {
    return this.#hang.isSuspected;
  }

  /** Judges the steps that all ranks have reported by now; returns the changes since the last call. */
  changes(nowMs: number): AlertChange[] {
    this.#nowMs = nowMs;
    const slowest = this.#assembly.waitsFor;
    // With a thousand ranks, do not search all of them for each batch.
    if (slowest !== undefined && this.#isGoing(slowest)) return this.#changes.splice(0);
    for (const [step, facts] of this.#assembly.whole(this.#going())) {
      const { length, isOrdinary } = this.#stepTime.step(step, facts, nowMs);
      if (isOrdinary) this.#limit?.step(step, length, nowMs);
      if (++this.#stepsJudged > 3) this.#longest = Math.max(this.#longest, length);
    }
    return this.#changes.splice(0);
  }

  /** Judges by time alone. Returns the changes since the last call. */
  tick(nowMs: number): AlertChange[] {
    this.#nowMs = nowMs;
    const isOver = this.#isOver();
    for (const [rank, state] of this.#ranks) this.#judgeLoss(rank, state);
    // The job was restarted with fewer ranks.
    for (const rank of this.#stopped.ranks) if (!this.isInJob(rank)) this.#stopped.clear(rank, 'the job goes on without it');
    if (!isOver) this.#judgeSilence();
    this.#judgeClocks();
    // A run that ends by an error is over soon: its alert goes out all the same.
    if ([...this.#ranks.values()].some(({ failed }) => failed !== undefined)) this.#stopped.flush(nowMs);
    if (isOver) this.#close(runEnded);
    else this.#hang.judge(this.#hangFacts());
    for (const incidents of this.#all) incidents.flush(nowMs);
    return this.changes(nowMs);
  }

  /** The latest lasting speed-ups of the cluster's steps: notes, not alerts. Oldest first. */
  get improvements(): readonly Improvement[] {
    return this.#stepTime.improvements;
  }

  /** Ids of open alerts. */
  get open(): string[] {
    const ids = this.#all.flatMap((incidents) => incidents.state().map(({ alert }) => alert.id));
    for (const alert of [this.#hang.alert, this.#limit?.state().alert]) if (alert !== undefined && alert !== null) ids.push(alert.id);
    return [...ids, ...this.#stepTime.open];
  }

  state(): AlertEngineState {
    const incidents: Partial<Record<AlertRule, readonly RankIncidentState[]>> = {};
    for (const [rule, one] of this.#byRule()) incidents[rule] = one.state();
    return {
      version: 1,
      run: this.#run,
      ...(Number.isFinite(this.#worldSize) && { worldSize: this.#worldSize }),
      isOver: this.#isOver() && this.#losing.ranks.size === 0 && ![...this.#ranks.values()].some(mayHaveLost),
      judged: this.#assembly.judged,
      stepTime: this.#stepTime.state(),
      limit: this.#limit?.state() ?? null,
      incidents,
      hang: this.#hang.alert === undefined ? null : { ...this.#hang.alert },
      roles: [...this.roles.stated],
      ranks: [...this.#ranks].map(([rank, { host, incarnation, worldSize, ended, dropped, missingLost, missing }]) => {
        const lastStep = this.#lastStepOf(rank);
        return [rank, { host, incarnation, worldSize, ended, dropped, missingLost, missing, lastStep }];
      }),
      progress: {
        collectives: this.#collectives.state(),
        places: this.#places.state(),
        lastStepMs: Number.isNaN(this.#lastStepMs) ? null : this.#lastStepMs,
        fullestPhases: [...this.#fullestPhases],
        stepsJudged: this.#stepsJudged,
        longest: this.#longest,
      },
    };
  }

  /** The last step that a rank of this life ended; −1 before its first. */
  #lastStepOf(rank: number): number {
    return Math.max(this.#assembly.lastOf(rank), this.#ranks.get(rank)?.stepBefore ?? -1);
  }

  #restore({ worldSize, judged, stepTime, limit, incidents, hang, roles = [], ranks, progress }: AlertEngineState, nowMs: number): void {
    this.#worldSize = worldSize ?? this.#worldSize;
    this.#assembly.restore(judged);
    this.#stepTime.restore(stepTime);
    if (limit !== null) this.#limit?.restore(limit);
    for (const [rule, one] of this.#byRule()) one.restore(incidents[rule] ?? []);
    this.#hang.restore(hang, nowMs);
    for (const [name, role] of roles) this.roles.state(`${phaseRoleKey}${name}`, role);
    for (const [rank, { missingLost, ...about }] of ranks) {
      const { worldSize: ranksThen = this.#worldSize, missing = missingLost } = about;
      const state = newRank({ ...about, worldSize: ranksThen, missing, isBeside: isBeside(about.incarnation) }, nowMs);
      const lostAtMs = this.#losing.has(rank) ? nowMs : Number.NaN;
      const stepBefore = progress === undefined ? -1 : (about.lastStep ?? -1);
      this.#ranks.set(rank, { ...state, dropped: about.dropped, missingLost, lostAtMs, stepBefore });
    }
    if (progress !== undefined) {
      this.#collectives.restore(progress.collectives);
      for (const [rank, place] of progress.places) this.#places.set(rank, place);
      this.#lastStepMs = progress.lastStepMs ?? Number.NaN;
      this.#fullestPhases = new Map(progress.fullestPhases);
      this.#stepsJudged = progress.stepsJudged;
      this.#longest = progress.longest;
    }
    this.#lastBatchMs = nowMs;
  }

  get #all(): RankIncidents[] {
    return [this.#stopped, this.#growing, this.#losing, this.#unaligned, this.#recording];
  }

  #byRule(): [AlertRule, RankIncidents][] {
    const rules: AlertRule[] = ['rank_stopped', 'memory_growth', 'data_loss', 'clock_unaligned', 'overhead'];
    return this.#all.map((incidents, at) => [rules[at] as AlertRule, incidents]);
  }

  /** Ranks of the job that were not heard of yet; none where most of a job is missing: then only a part of it is watched. */
  #missed(): number[] {
    let begun = 0;
    for (const [rank, { hasBegun }] of this.#ranks) if (hasBegun && rank < this.#worldSize) begun++;
    if (!Number.isFinite(this.#worldSize) || begun === this.#worldSize || 2 * begun < this.#worldSize) return [];
    return Array.from({ length: this.#worldSize }, (_, rank) => rank).filter((rank) => !this.#hasBegun(rank));
  }

  /** Overdue ranks: no more of them than known ones. */
  #absent(): number[] {
    const isDue = this.#nowMs - this.#worldSinceMs >= Math.max(2 * this.#rules.rankStoppedMs, limits.alertAbsentMsMin);
    return isDue ? this.#missed() : [];
  }

  /** Whether the job still has this rank: it may have been started again with fewer. */
  isInJob(rank: number): boolean {
    return rank < this.#worldSize || rank >= (this.#ranks.get(rank)?.worldSize ?? 0);
  }

  #hasBegun(rank: number): boolean {
    return this.#ranks.get(rank)?.hasBegun === true;
  }

  /** Ranks with more steps to come. */
  *#going(): Generator<number> {
    const stopped = this.#stopped.ranks;
    for (const [rank, state] of this.#ranks) if (state.hasBegun && !isGone(state) && !stopped.has(rank) && this.isInJob(rank)) yield rank;
  }

  #isGoing(rank: number): boolean {
    const state = this.#ranks.get(rank);
    return state?.hasBegun === true && !isGone(state) && !this.#stopped.has(rank) && this.isInJob(rank);
  }

  /** A rank's reported age, bounded: no wait began before the first rank was heard. */
  #ageOf(ms: number | undefined): number {
    if (!Number.isFinite(ms) || Number.isNaN(this.#firstBatchMs)) return 0;
    return Math.min(Math.max(0, ms as number), this.#nowMs - this.#firstBatchMs);
  }

  #isOver(): boolean {
    if (this.#ranks.size === 0) return false;
    if ([...this.#ranks].every(([rank, state]) => isGone(state) || !this.isInJob(rank))) return true;
    return this.#nowMs - this.#lastBatchMs >= overFactor * this.#rules.rankStoppedMs;
  }

  #close(resolution: string): void {
    for (const [step, facts] of this.#assembly.whole([])) this.#stepTime.step(step, facts, this.#nowMs);
    this.#stepTime.close(this.#nowMs, resolution);
    this.#limit?.close(this.#nowMs, resolution);
    this.#hang.end(this.#nowMs, resolution);
    // Losses often show only at the end: their incidents last as long as after any other loss.
    for (const incidents of this.#all) if (incidents !== this.#losing) incidents.clearAll(resolution);
  }

  /** Ranks that stopped: by an error, or without a word. */
  #stop(ranks: readonly number[]): RankTrouble {
    const job = [...this.#ranks].filter(([rank]) => this.isInJob(rank));
    const furthest = Math.max(...job.map(([rank]) => this.#lastStepOf(rank)));
    const stepOf = (rank: number, atMs: number) => {
      const [step, { ended = false }] = [this.#lastStepOf(rank), this.#ranks.get(rank) ?? {}];
      return { rank, step, atMs, mayBeLater: !ended && step < furthest };
    };
    const failed = ranks.flatMap((rank) => {
      const failure = this.#ranks.get(rank)?.failed;
      return failure === undefined ? [] : [{ ...stepOf(rank, failure.atMs), error: failure.error }];
    });
    const exited = ranks.flatMap((rank) => {
      const { failed = undefined, exit = this.#unheard.get(rank) } = this.#ranks.get(rank) ?? {};
      const when = this.#ranks.has(rank) ? '' : ' before anything was heard of it';
      return failed !== undefined || exit === undefined || exit.isExpected
        ? []
        : [{ ...stepOf(rank, exit.atMs), how: `${exit.how}${when}` }];
    });
    const lostBy = (byMs: number): number[] => ranks.filter((rank) => this.#wasLost(rank, byMs));
    const cause = stopCause({
      failed,
      exited,
      lost: (byMs) => lostBy(byMs).map((rank) => stepOf(rank, byMs)),
      left: (byMs) =>
        job.flatMap(([rank, { failed, endedMs, endedBy, exit }]) => {
          if (failed !== undefined || !(endedMs <= byMs) || (endedBy !== undefined && exit?.isExpected === true)) return [];
          return [{ ...stepOf(rank, endedMs), how: endedBy === undefined ? 'ended' : `was ended by ${endedBy}` }];
        }),
      behind: () => this.#behind(job),
      absent: () => this.#missed(),
    });
    if (cause === undefined) return this.#silence(ranks);
    const { texts, ranks: blamed, later } = cause;
    const told = [...failed, ...exited].map(({ rank }) => rank);
    const silent = ranks.filter((rank) => !told.includes(rank) && !blamed.includes(rank));
    const parts = [
      ...texts,
      ...(later.length > 0 ? [`${ranksText(later)} failed, too`] : []),
      ...(silent.length > 0 ? [this.#silence(silent).summary] : []),
    ];
    const isFailed = blamed.some((rank) => this.#ranks.get(rank)?.failed !== undefined);
    const phase = isFailed || blamed[0] === undefined ? undefined : this.#places.phaseOf(blamed[0]);
    return {
      summary: parts.join('; '),
      after: ranks.length,
      hint: { ranks: blamed, phase, stated: { kind: 'rank_stopped', text: texts.join('; ') } },
      ...(blamed.every((rank) => ranks.includes(rank)) ? {} : { blamed }),
    };
  }

  /** Ranks that did not come as far as the others, of which none failed by waiting, and the places of all. */
  #behind(job: readonly (readonly [rank: number, RankState])[]): ReturnType<StopFacts['behind']> {
    const all = job.map(([rank]) => rank);
    const isVictim = (rank: number): boolean => peerErrorOf(this.#ranks.get(rank)?.failed?.error ?? '') === 'timeout';
    const ranks = this.#places.behind(all, [...this.#fullestPhases.keys()], this.roles);
    return ranks.some(isVictim) ? { ranks: [], places: [] } : { ranks, places: this.#places.texts(all, ['was', 'were']) };
  }

  #silence(ranks: readonly number[]): RankTrouble {
    const [gone, absent] = [ranks.filter((rank) => this.#hasBegun(rank)), ranks.filter((rank) => !this.#hasBegun(rank))];
    const job = [...this.#ranks].filter(([rank]) => this.isInJob(rank));
    const others = [...this.#going()].filter((rank) => !gone.includes(rank)).length;
    const ended = job.filter(([, state]) => state.ended).length;
    const stoppedBefore = [...this.#stopped.ranks].filter((rank) => !ranks.includes(rank)).length;
    const steps = gone.map((rank) => this.#lastStepOf(rank)).filter((step) => step >= 0);
    const since = steps.length === 0 ? '' : `, after step ${Math.max(...steps)}`;
    const silent = `nothing was heard of ${ranksText(gone)} for ${seconds(this.#rules.rankStoppedMs)}${since}`;
    const never = `nothing was ever heard of ${ranksText(absent)}`;
    const what = [...(gone.length > 0 ? [silent] : []), ...(absent.length > 0 ? [never] : [])];
    const places = this.#places.texts(ranks, ['was', 'were']).map((text) => `${text} when last heard`);
    const stuck = this.#collectives.stuck(this.#nowMs, [...this.#ranks.keys(), ...absent]);
    const waits = stuck?.missing.some((rank) => ranks.includes(rank)) ? waitText(stuck) : undefined;
    const all = new Set([...job.map(([rank]) => rank), ...absent]).size;
    const alone =
      stoppedBefore > 0
        ? 'no other rank goes on'
        : ended === 0
          ? 'no rank reports anything'
          : `the other ${ended === 1 ? 'rank has' : `${ended} ranks have`} ended`;
    const rest = others === 0 ? alone : (waits ?? `${others} of ${all} ranks go on`);
    return {
      summary: [...what, ...places, rest].join('; '),
      after: ranks.length,
      hint: this.#places.hint('rank_stopped', ranks, [...places, ...(waits === undefined ? [] : [waits])]),
    };
  }

  #growth(ranks: readonly number[]): RankTrouble {
    const states = ranks.flatMap((rank) => this.#ranks.get(rank) ?? []);
    const most = largest(states.flatMap((state) => largestGrowth(state) ?? []));
    const [growth, steps] = [most?.growth ?? 0, most?.steps ?? this.#rules.memoryGrowthStepsMin];
    const summary = `memory of ${ranksText(ranks)} grows by ${bytesText(growth)} a step, and did not stop for ${steps} steps`;
    return { summary, before: 0, after: growth };
  }

  #loss(ranks: readonly number[]): RankTrouble {
    const states = ranks.map((rank) => this.#ranks.get(rank)).filter((state) => state !== undefined);
    const dropped = states.reduce((sum, one) => sum + one.dropped, 0);
    const missing = states.reduce((sum, one) => sum + one.missingLost, 0);
    const what = [
      ...(dropped > 0 ? [`${dropped} events or batches were dropped`] : []),
      ...(missing > 0 ? [`${missing} batches are missing`] : []),
    ];
    return { summary: `data of ${ranksText(ranks)} is lost: ${what.join(', ')}`, before: 0, after: dropped + missing };
  }

  #overhead(ranks: readonly number[]): RankTrouble {
    const most = Math.max(...ranks.map((rank) => this.#ranks.get(rank)?.overheadShare ?? 0));
    const { overheadBudget: budget } = this.#rules;
    const text = `recording takes ${(100 * most).toFixed(2)} % of the steps of ${ranksText(ranks)}`;
    const remedy = 'record less (withStack, recordShapes, profileMemory, spans inside of others), or raise rules.overhead.budget';
    return { summary: `${text}, over the budget of ${(100 * budget).toFixed(2)} %: ${remedy}`, before: budget, after: most };
  }

  #judgeOverhead(rank: number, state: RankState): void {
    const { overheadBudget, overheadFactor } = this.#rules;
    const share = state.overhead / state.length;
    const most = overheadBudget * overheadFactor;
    state.overheadShare = share;
    state.length = 0;
    state.overhead = 0;
    if (share > most) {
      const step = this.#assembly.lastOf(rank);
      this.#recording.raise(rank, this.#nowMs, { key: `${state.incarnation}-${step}`, step });
    } else if (share <= calmShare * most) this.#recording.clear(rank, `recording takes ${(100 * share).toFixed(2)} % again`);
  }

  /** Ranks of a run that is over are not missed: their silence would be reported again with each look. */
  #judgeSilence(): void {
    for (const [rank, state] of this.#ranks) {
      if (state.hasBegun && !isGone(state) && this.isInJob(rank) && this.#nowMs - state.lastMs >= this.#rules.rankStoppedMs) {
        this.#raiseStopped(rank, { sinceMs: state.lastMs });
      }
    }
    for (const rank of this.#absent()) this.#stopped.raise(rank, this.#nowMs, { key: 'never', step: null });
  }

  #judgeLoss(rank: number, state: RankState): void {
    // No newer batch will come to settle it.
    if (mayHaveLost(state) && this.#nowMs - state.lastMs >= limits.alertMissingMs) {
      state.missingLost = state.missing;
      state.lostAtMs = this.#nowMs;
    }
    if (Number.isNaN(state.lostAtMs)) return;
    if (this.#nowMs - state.lostAtMs >= this.#rules.dataLossQuietMs) {
      this.#losing.clear(rank, `nothing more was lost for ${seconds(this.#rules.dataLossQuietMs)}`);
      state.lostAtMs = Number.NaN;
    } else if (!this.#losing.has(rank)) {
      const lost = state.dropped + state.missingLost;
      this.#losing.raise(rank, this.#nowMs, { key: `${state.incarnation}-${lost}`, step: null });
    }
  }

  /** Judges clocks. Hosts are distinguished by their clocks; with one clock there is nothing to align. */
  #judgeClocks(): void {
    const lastOf = new Map<string, number>();
    for (const { host, clockMs } of this.#ranks.values()) lastOf.set(host, Math.max(clockMs, lastOf.get(host) ?? 0));
    for (const [rank, { host, ended, lastMs, incarnation }] of this.#ranks) {
      const isSilent = this.#nowMs - lastMs >= this.#rules.clockUnalignedMs;
      const isDue = lastOf.size > 1 && this.#nowMs - (lastOf.get(host) ?? 0) >= this.#rules.clockUnalignedMs;
      if (isDue && !ended && !isSilent) this.#unaligned.raise(rank, this.#nowMs, { key: incarnation, step: null });
      else if (!isDue) this.#unaligned.clear(rank, 'clock pings come again');
    }
  }

  #hangFacts(): HangFacts {
    return {
      nowMs: this.#nowMs,
      ranks: new Map(
        [...this.#ranks].flatMap(([rank, state]) => (this.isInJob(rank) ? [[rank, { ...state, ...endOf(state) }] as const] : [])),
      ),
      absent: this.#absent(),
      stopped: this.#rules.off.includes('rank_stopped') ? new Set() : this.#stopped.ranks,
      lastStepOf: (rank) => this.#lastStepOf(rank),
      lastStepMs: this.#lastStepMs,
      phases: [...this.#fullestPhases.keys()],
      isWarm: this.#stepsJudged >= limits.alertLimitSteps,
      usual: this.#stepTime.usual,
      longest: this.#longest,
    };
  }
}

/** Whether its program is known to have ended. */
const isGone = ({ ended, exit }: Pick<RankState, 'ended' | 'exit'>): boolean => ended || exit !== undefined;

/** Whether it has ended, and batches of it are missing that may still come. */
const mayHaveLost = (state: RankState): boolean => isGone(state) && state.missing > state.missingLost;

const endOf = (state: RankState): { readonly ended: boolean; readonly endedMs: number } => ({
  ended: isGone(state),
  endedMs: state.ended ? state.endedMs : (state.exit?.atMs ?? Number.NaN),
});

/** The ranks that wait, and their collective. */
const waitText = ({ group, op, sequence, inside }: StuckCollective): string =>
  `${ranksText(inside)} ${inside.length === 1 ? 'waits' : 'wait'} in ${collectiveText(nameText(op), nameText(group), sequence)}`;

const largest = (counters: readonly MemoryGrowth[]): MemoryGrowth | undefined =>
  counters.reduce<MemoryGrowth | undefined>((most, one) => ((one.growth ?? 0) > (most?.growth ?? 0) ? one : most), undefined);
const largestGrowth = ({ memory }: RankState): MemoryGrowth | undefined => largest([...memory.values()]);
const seconds = (ms: number): string => lengthText(ms * 1e6);

function newRank(
  { host, worldSize, incarnation, pid, ended, missing, isBeside = false }: Omit<RankFact, 'clockSamples' | 'lost'>,
  nowMs: number,
): RankState {
  return {
    ...{ host, worldSize, incarnation, pid, ended },
    endedMs: ended ? nowMs : Number.NaN,
    endedBy: undefined,
    exit: undefined,
    hasBegun: !isBeside,
    lastMs: nowMs,
    goneMs: Number.NaN,
    clockMs: nowMs,
    dropped: 0,
    missing,
    missingLost: 0,
    lostAtMs: Number.NaN,
    steps: 0,
    length: 0,
    overhead: 0,
    overheadShare: 0,
    memory: new Map(),
    failed: undefined,
    isRestarted: false,
    stepBefore: -1,
  };
}
