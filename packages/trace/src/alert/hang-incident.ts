// The rule `hang`: ranks are inside a collective that others never entered, or no step ends.
//
//   entered ──── half of after ────┬─────►│ at the next tick it fires, with the collective and the missing ranks
//                                  └ suspected: the service asks Flight Recorder and NCCL (collective-reports.ts), whose reports refine it
//
// A rank that is missing but alive hangs the others: the alert fires `after` they entered. A silent rank is left to the rule `rank_stopped`: its
// alert names the ranks that wait for it. If no rank is missing, or all that is known is that no step ends, a pause usual for this run is no
// hang: it must last several times as long as its steps do. The same holds while the missing rank evaluates or saves.
//
// What the ranks announce themselves, Flight Recorder and NCCL may name different ranks: only those are blamed that all of them name, and where they
// contradict each other nobody is.
//
// Invariant: at most one hang is open. It is refined, and its severity rises, as more is known; it ends with the first step that ends after that.

import { type Alert, isOccasionalRole } from '@ranktrace/protocol';
import { collectiveText } from '../match/collective-number.ts';
import { lengthText } from '../model/quantity-text.ts';
import type { PhaseRoles } from '../steps/phase-role.ts';
import { isoTime, type OpenAlert, type ReportChange, resolveAlert } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import type { AlertRules } from './alert-rules.ts';
import { alertSeverities } from './alert-severity.ts';
import { nameText, ranksText } from './alert-text.ts';
import { type Accusation, type CollectiveReports, namedByAll } from './collective-reports.ts';
import type { OpenCollectives, StuckCollective } from './open-collectives.ts';
import type { RankPlaces } from './rank-places.ts';
import { stepAfter } from './step-assembly.ts';

/** Unix ms. `isRestarted`: since then it has ended no step. */
interface RankOfHang {
  readonly ended: boolean;
  /** NaN: it goes on, or ended at a time that is not known. */
  readonly endedMs: number;
  readonly lastMs: number;
  readonly isRestarted: boolean;
}

/** The engine's facts for this rule. Times: Unix ms, lengths of steps: ns. */
export interface HangFacts {
  readonly nowMs: number;
  readonly ranks: ReadonlyMap<number, RankOfHang>;
  /** Ranks that never came. */
  readonly absent: readonly number[];
  /** Ranks that `rank_stopped` reports. */
  readonly stopped: ReadonlySet<number>;
  /** The last step that a rank ended; −1 before its first. */
  readonly lastStepOf: (rank: number) => number;
  readonly lastStepMs: number;
  /** Phases of a step, in their order. */
  readonly phases: readonly string[];
  /** Whether enough steps ended to know their usual length. */
  readonly isWarm: boolean;
  readonly usual: number;
  readonly longest: number;
}

export interface HangIncidentOptions {
  readonly run: string;
  readonly rules: AlertRules;
  readonly roles: PhaseRoles;
  readonly collectives: OpenCollectives;
  readonly reports: CollectiveReports;
  readonly places: RankPlaces;
  readonly report: ReportChange;
}

/** What is known of a hang at one moment. */
interface Evidence {
  /** The collective that ranks are inside of, whether they have been for long enough, and whether Flight Recorder alone shows it. */
  readonly stuck: StuckCollective | undefined;
  readonly isStuck: boolean;
  readonly isRecorded: boolean;
  /** Whether no rank ended a step for long enough. */
  readonly isStalled: boolean;
  /** Whether NCCL shows ranks behind others, and nothing moved for long enough. */
  readonly isBehind: boolean;
  readonly accusations: readonly Accusation[];
}

export class HangIncident {
  readonly #run: string;
  readonly #rules: AlertRules;
  readonly #report: ReportChange;
  readonly #roles: PhaseRoles;
  readonly #collectives: OpenCollectives;
  readonly #reports: CollectiveReports;
  readonly #places: RankPlaces;
  #alert: OpenAlert | undefined = undefined;
  #firedMs = Number.NEGATIVE_INFINITY;
  /** Key of the last report: a report that differs only in duration is not repeated. Unknown after a restart. */
  #key: string | undefined = undefined;
  /** Time until which a rank was stopped, or nothing could be received. */
  #explainedMs = Number.NEGATIVE_INFINITY;
  #isSuspected = false;

  constructor({ run, rules, roles, collectives, reports, places, report }: HangIncidentOptions) {
    this.#run = run;
    this.#roles = roles;
    this.#rules = rules;
    this.#report = report;
    this.#collectives = collectives;
    this.#reports = reports;
    this.#places = places;
  }

  get alert(): OpenAlert | undefined {
    return this.#alert;
  }

  /** Whether half of the time has passed after which a hang is reported, or one is open: now reports of other sources help. */
  get isSuspected(): boolean {
    return this.#isSuspected;
  }

  judge(facts: HangFacts): void {
    const { nowMs, stopped, lastStepMs } = facts;
    // Ranks that waited for a stopped rank get time to continue when it is back.
    if (stopped.size > 0) this.#explainedMs = nowMs;
    const evidence = this.#evidence(facts, 1);
    const { stuck, isStuck } = evidence;
    this.#isSuspected =
      this.#alert !== undefined ||
      isAny(evidence) ||
      isAny(this.#evidence(facts, suspectedShare)) ||
      this.#reports.isQuiet(suspectedShare * this.#leastMs(facts, undefined), nowMs);
    if (!isAny(evidence)) {
      if (Math.max(lastStepMs || 0, this.#reports.progressMs || 0) > this.#firedMs) this.end(nowMs, 'steps go on');
      return;
    }
    const missing = isStuck && stuck !== undefined ? stuck.missing : [];
    if (missing.length > 0 && missing.every((rank) => stopped.has(rank))) {
      this.end(nowMs, `${ranksText(missing)} stopped: its own alert names the waiting ranks`);
      return;
    }
    if (stopped.size === 0 && nowMs - this.#explainedMs < this.#leastMs(facts, stuck)) return;
    // Part of the alert about a stopped rank, or of one still to come.
    if (
      isStuck && stuck !== undefined
        ? missing.length > 0 && !missing.some((rank) => this.#isAlive(rank, stuck.sinceMs, facts))
        : this.#waitsForSilent(facts)
    ) {
      if (!isStuck && stopped.size > 0) this.end(nowMs, `${ranksText([...stopped])} stopped: its own alert names the waiting ranks`);
      return;
    }
    const reported = this.#announcement(evidence, facts);
    if (this.#alert === undefined) this.#fire(reported, facts);
    else this.#refine(this.#alert, reported, facts);
  }

  /** Ends the incident. */
  end(nowMs: number, resolution: string): void {
    const alert = this.#alert;
    if (alert === undefined) return;
    this.#alert = undefined;
    resolveAlert(alert, nowMs, resolution, this.#report);
  }

  /** Nothing could be received until now: ranks may have gone on. */
  excuse(nowMs: number): void {
    this.#explainedMs = nowMs;
  }

  restore(alert: OpenAlert | null, nowMs: number): void {
    this.#alert = alert === null ? undefined : { ...alert };
    this.#firedMs = nowMs;
    // Batches that the ranks sent meanwhile are still to come.
    this.#explainedMs = nowMs;
  }

  /** What is known when `share` of the time has passed after which a hang is reported. */
  #evidence(facts: HangFacts, share: number): Evidence {
    const { nowMs, ranks, absent } = facts;
    const announced = this.#collectives.stuck(nowMs - share * this.#rules.hangMs, [...ranks.keys(), ...absent]);
    const recorded = this.#reports.stuck(nowMs);
    // Flight Recorder may know who is missing where the ranks themselves announce nothing, or not all of it.
    const stuck = announced === undefined || (announced.missing.length === 0 && recorded !== undefined) ? recorded : announced;
    const behind = this.#reports.behind(nowMs);
    const accused = this.#reports.accused(recorded);
    const own: Accusation[] =
      announced === undefined || announced.missing.length === 0
        ? []
        : [{ source: 'ranks', ranks: announced.missing, text: `the ranks' own reports: ${ranksText(announced.missing)}` }];
    const isLong = (sinceMs: number, of: StuckCollective | undefined): boolean => nowMs - sinceMs >= share * this.#leastMs(facts, of);
    return {
      stuck,
      isRecorded: stuck !== undefined && stuck === recorded,
      isStuck: stuck !== undefined && isLong(stuck.sinceMs, stuck),
      isStalled: this.#isStalled(facts, share),
      isBehind: behind !== undefined && isLong(this.#reports.progressMs, undefined),
      accusations: [...own, ...(accused === undefined ? [] : [accused]), ...(behind === undefined ? [] : [behind])],
    };
  }

  #leastMs({ usual, longest }: HangFacts, stuck: StuckCollective | undefined): number {
    const { hangMs } = this.#rules;
    // A rank whose phase nobody knows may be saving or evaluating, as it was in the longest pause so far.
    const isOrdinary = (rank: number): boolean =>
      (this.#places.has(rank) || this.#reports.longestPauseMs === 0) && !isOccasionalRole(this.#roles.of(this.#places.phaseOf(rank) ?? ''));
    if (stuck !== undefined && stuck.missing.length > 0 && stuck.missing.every(isOrdinary)) return hangMs;
    const longestMs = Math.max(longest / 1e6, this.#reports.longestPauseMs);
    return Math.max(hangMs, limits.alertHangSteps * (usual / 1e6), limits.alertHangLongestSteps * longestMs);
  }

  /** Whether ranks that could continue end no step. Ranks left after others said goodbye at their last step are leaving, too: these get more time. */
  #isStalled(facts: HangFacts, share: number): boolean {
    const { nowMs, lastStepMs, isWarm, lastStepOf, ranks } = facts;
    const going = goingOf(facts);
    if (going.length === 0 || !isWarm || nowMs - lastStepMs < share * this.#leastMs(facts, undefined)) return false;
    const furthest = Math.max(...going.map(lastStepOf));
    const left = [...ranks].filter(([rank, { ended }]) => ended && lastStepOf(rank) >= furthest);
    // One of them may have more to do at the end than the others, as to save or to send the result.
    const isSaving = (rank: number): boolean => isOccasionalRole(this.#roles.of(this.#places.phaseOf(rank) ?? ''));
    if (left.length > 0 && (2 * going.length >= ranks.size || going.some(isSaving))) return false;
    const leastMs = limits.alertHangAfterEnd * this.#leastMs(facts, undefined);
    return left.every(([, { endedMs }]) => nowMs - endedMs >= share * leastMs);
  }

  /** Whether it was heard after the others had entered, and recently. */
  #isAlive(rank: number, sinceMs: number, { nowMs, ranks, stopped }: HangFacts): boolean {
    const state = ranks.get(rank);
    if (stopped.has(rank)) return false;
    // No other rule would report it.
    if (this.#rules.off.includes('rank_stopped') || state?.ended === true) return true;
    return state !== undefined && state.lastMs >= sinceMs + limits.alertHeardMs && nowMs - state.lastMs < limits.alertSilentMs;
  }

  #waitsForSilent(facts: HangFacts): boolean {
    const { stopped, nowMs, ranks } = facts;
    if (stopped.size > 0) return true;
    if (this.#rules.off.includes('rank_stopped')) return false;
    return goingOf(facts).some((rank) => nowMs - (ranks.get(rank)?.lastMs ?? nowMs) >= limits.alertSilentMs);
  }

  #announcement({ stuck, isStuck, isRecorded, isStalled, accusations }: Evidence, facts: HangFacts): Announcement {
    if (!isStuck && !isStalled) return this.#behind(accusations, facts);
    if (!isStuck || stuck === undefined) return withAccusations(this.#stalled(facts), accusations, []);
    const inside = this.#inside(stuck, facts);
    if (!isRecorded) return withAccusations(inside, accusations, ['ranks']);
    return withAccusations({ ...inside, summary: `Flight Recorder: ${inside.summary}` }, accusations, ['flight_recorder']);
  }

  #inside(stuck: StuckCollective, { nowMs, ranks, phases }: HangFacts): Announcement {
    const { group, op, sequence, sinceMs, inside, differing, missing, left, elsewhere = [] } = stuck;
    const name = collectiveText(nameText(op), nameText(group), sequence);
    const others = differing.map(({ rank }) => rank);
    const alike = inside.filter((rank) => !others.includes(rank));
    const called = [...new Set(differing.map((call) => nameText(call.op)))].join(', ');
    const ended = missing.filter((rank) => ranks.get(rank)?.ended === true);
    const never = missing.filter((rank) => !ended.includes(rank));
    const isApart = ended.length + others.length + left.length === 0 && this.#places.areElsewhere(inside, never, phases, this.#roles);
    const apart = isApart ? [`the others wait in another place: ${this.#places.texts(never, ['is', 'are']).join('; ')}`] : [];
    const who = [
      ...(isApart ? apart : never.length > 0 ? [`${ranksText(never)} never entered it`] : []),
      ...(ended.length > 0 ? [`${ranksText(ended)} ended before it`] : []),
      ...(elsewhere.length > 0 ? [`${ranksText(elsewhere)} ${elsewhere.length === 1 ? 'waits' : 'wait'} in another collective`] : []),
      ...(others.length > 0 ? [`${ranksText(others)} called ${called} instead`] : []),
      ...(left.length > 0 && missing.length === 0 ? [`${ranksText(left)} left it`] : []),
      ...(missing.length + elsewhere.length + others.length + left.length === 0 ? ['all ranks are in it'] : []),
    ];
    const verb = alike.length === 1 ? 'is' : 'are';
    const few = inside.length < never.length ? inside : never.length < inside.length ? never : [];
    const named = isApart ? few : missing.length > 0 ? missing : 2 * others.length < inside.length ? others : [];
    return {
      what: `${nameText(group)}-${sequence}`,
      severity: 'critical',
      summary: `${ranksText(alike)} ${verb} inside of ${name} for ${lengthText((nowMs - sinceMs) * 1e6)}; ${who.join('; ')}`,
      ranks: named.length > 0 || isApart ? named : [...inside, ...elsewhere].sort((a, b) => a - b),
      onsetAt: isoTime(sinceMs),
      key: JSON.stringify([group, sequence, inside, never, ended, others, isApart]),
    };
  }

  #stalled(facts: HangFacts): Announcement {
    const { lastStepOf, lastStepMs, nowMs, usual } = facts;
    const going = goingOf(facts);
    const restarted = going.filter((rank) => facts.ranks.get(rank)?.isRestarted === true);
    const furthest = Math.max(...going.map(lastStepOf));
    // The steps of an earlier life say nothing of how far a rank came in this one.
    const others = going.filter((rank) => !restarted.includes(rank));
    const first = Math.min(...others.map(lastStepOf));
    const working = first < furthest || restarted.length > 0 ? [] : this.#places.working(others, this.#roles);
    const inStep = working.length > 0 ? [] : this.#places.behind(others, facts.phases, this.#roles);
    const late = first < furthest ? others.filter((rank) => lastStepOf(rank) === first) : inStep;
    const behind = restarted.length === 0 ? late : others.length === 0 ? [] : restarted;
    const ended = [...facts.ranks].flatMap(([rank, state]) => (state.ended ? [rank] : []));
    const isLeft = ended.length > 0 && ended.every((rank) => lastStepOf(rank) >= furthest);
    if (isLeft) return this.#leftOver(going, ended, furthest, facts);
    const who = [
      ...(restarted.length > 0 ? [`; ${others.length === 0 ? 'all ranks' : ranksText(restarted)} restarted since then`] : []),
      ...(restarted.length === 0 && behind.length > 0 ? [`; ${ranksText(behind)} did not come as far as the others`] : []),
      ...(working.length > 0 ? [`; all wait but ${ranksText(working)}`] : []),
      ...(ended.length > 0 ? [`; ${ranksText(ended)} ended before`] : []),
    ].join('');
    const since = `no rank has ended a step for ${lengthText((nowMs - lastStepMs) * 1e6)}, after step ${furthest}`;
    return {
      what: `steps-${furthest}`,
      severity: alertSeverities.hang.first,
      summary: `${since}; usually one takes ${lengthText(usual)}${who}`,
      ranks: behind.length > 0 ? behind : working,
      onsetAt: isoTime(lastStepMs),
      key: JSON.stringify([furthest, behind, working, ended, restarted]),
    };
  }

  /** The others ended at their last step, and these do not. */
  #leftOver(going: readonly number[], ended: readonly number[], step: number, { ranks, nowMs }: HangFacts): Announcement {
    const endedMs = Math.max(...ended.map((rank) => ranks.get(rank)?.endedMs ?? Number.NaN).filter((ms) => !Number.isNaN(ms)));
    const still = going.length === 1 ? 'still runs' : 'still run';
    const since = Number.isFinite(endedMs) ? `, ${lengthText((nowMs - endedMs) * 1e6)} after that` : '';
    return {
      what: `left-${step}`,
      severity: alertSeverities.hang.first,
      summary: `${ranksText(ended)} ended after step ${step}, and ${ranksText(going)} ${still}${since}`,
      ranks: going,
      onsetAt: isoTime(Number.isFinite(endedMs) ? endedMs : nowMs),
      key: JSON.stringify([step, going, ended]),
    };
  }

  /** NCCL alone knows of it. */
  #behind(accusations: readonly Accusation[], { nowMs }: HangFacts): Announcement {
    const { progressMs } = this.#reports;
    const [first] = accusations;
    return {
      what: `collectives-${Math.round(progressMs)}`,
      severity: 'critical',
      summary: `no rank launches collectives for ${lengthText((nowMs - progressMs) * 1e6)}; ${first?.text ?? ''}`,
      ranks: first?.ranks ?? [],
      onsetAt: isoTime(progressMs),
      key: JSON.stringify(first?.ranks),
    };
  }

  #fire({ what, severity, summary, ranks, onsetAt, key }: Announcement, facts: HangFacts): void {
    const { nowMs } = facts;
    const step = Math.max(-1, ...[...facts.ranks.keys()].map(facts.lastStepOf));
    this.#key = key;
    this.#firedMs = nowMs;
    this.#alert = {
      id: `${this.#run}/hang/cluster/${what}`,
      run: this.#run,
      rule: 'hang',
      state: 'firing',
      severity,
      summary,
      series: { kind: 'cluster' },
      firedAt: isoTime(nowMs),
      resolvedAt: null,
      resolution: null,
      step: step < 0 ? null : step,
      onsetStep: step < 0 ? null : stepAfter(step),
      onsetAt,
      unit: 'count',
      before: null,
      after: null,
      change: null,
      confidence: null,
      ranks: [...ranks],
      hint: this.#hint(ranks, facts),
    };
    this.#report('fired', this.#alert);
  }

  #refine(alert: OpenAlert, reported: Announcement, facts: HangFacts): void {
    // A stall is weaker evidence than the collective that is already known.
    if (alert.severity === 'critical' && reported.severity !== 'critical') return;
    // Ranks that end now were ended because of it, or give up: where they were when it hung is what counts.
    if ([...facts.ranks.values()].some(({ endedMs }) => endedMs > this.#firedMs)) return;
    const isNew = this.#key !== undefined && this.#key !== reported.key;
    this.#key = reported.key;
    if (!isNew) return;
    alert.severity = reported.severity;
    alert.summary = reported.summary;
    alert.ranks = [...reported.ranks];
    alert.hint = this.#hint(reported.ranks, facts) ?? alert.hint;
    this.#report('updated', alert);
  }

  #hint(ranks: readonly number[], { ranks: all }: HangFacts) {
    const alive = [...all].flatMap(([rank, { ended }]) => (ended ? [] : [rank]));
    return this.#places.hint('hang', ranks, this.#places.texts(alive, ['is', 'are']));
  }
}

/** Share of the time after which a hang is reported at which it is suspected. */
const suspectedShare = 0.5;

interface Announcement {
  /** Its part of the alert's id. */
  readonly what: string;
  readonly severity: Alert['severity'];
  readonly summary: string;
  readonly ranks: readonly number[];
  readonly onsetAt: string;
  /** Key that must differ for a new report. */
  readonly key: string;
}

/** The announcement with what other sources than `own` say: they may know who is missing, or contradict it. */
function withAccusations(announced: Announcement, accusations: readonly Accusation[], own: readonly Accusation['source'][]): Announcement {
  const others = accusations.filter(({ source }) => !own.includes(source));
  if (others.length === 0) return announced;
  const { ranks, isDisputed } = namedByAll(accusations);
  const dispute = isDisputed ? ['these contradict each other, so no rank is named'] : [];
  const summary = [announced.summary, ...others.map(({ text }) => text), ...dispute].join('; ');
  return { ...announced, summary, ranks, key: `${announced.key} ${JSON.stringify([ranks, others.map((one) => one.ranks)])}` };
}

const isAny = ({ isStuck, isStalled, isBehind }: Evidence): boolean => isStuck || isStalled || isBehind;

const goingOf = ({ ranks, stopped }: HangFacts): number[] =>
  [...ranks].flatMap(([rank, { ended }]) => (ended || stopped.has(rank) ? [] : [rank]));
