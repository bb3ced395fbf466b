// The rule `hang`: ranks are inside a collective that others never entered, or no step ends.
//
//   entered ─────────── after ───────────►│ at the next tick it fires, with the collective and the missing ranks
//
// A rank that is missing but alive hangs the others: the alert fires `after` they entered. A silent rank is left to the rule `rank_stopped`: its
// alert names the ranks that wait for it. If no rank is missing, or all that is known is that no step ends, a pause usual for this run is no
// hang: it must last several times as long as its steps do. The same holds while the missing rank evaluates or saves.
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
import type { OpenCollectives, StuckCollective } from './open-collectives.ts';
import type { RankPlaces } from './rank-places.ts';

/** The engine's facts for this rule. Times: Unix ms, lengths of steps: ns. */
export interface HangFacts {
  readonly nowMs: number;
  readonly ranks: ReadonlyMap<number, { readonly ended: boolean; readonly lastMs: number }>;
  /** Ranks that never came. */
  readonly absent: readonly number[];
  /** Ranks that `rank_stopped` reports. */
  readonly stopped: ReadonlySet<number>;
  /** The last step that a rank ended; −1 before its first. */
  readonly lastStepOf: (rank: number) => number;
  readonly lastStepMs: number;
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
  readonly places: RankPlaces;
  readonly report: ReportChange;
}

export class HangIncident {
  readonly #run: string;
  readonly #rules: AlertRules;
  readonly #report: ReportChange;
  readonly #roles: PhaseRoles;
  readonly #collectives: OpenCollectives;
  readonly #places: RankPlaces;
  #alert: OpenAlert | undefined = undefined;
  #firedMs = Number.NEGATIVE_INFINITY;
  /** Key of the last report: a report that differs only in duration is not repeated. Unknown after a restart. */
  #key: string | undefined = undefined;
  /** Time until which a rank was stopped. */
  #explainedMs = Number.NEGATIVE_INFINITY;

  constructor({ run, rules, roles, collectives, places, report }: HangIncidentOptions) {
    this.#run = run;
    this.#roles = roles;
    this.#rules = rules;
    this.#report = report;
    this.#collectives = collectives;
    this.#places = places;
  }

  get alert(): OpenAlert | undefined {
    return this.#alert;
  }

  judge(facts: HangFacts): void {
    const { nowMs, stopped, ranks, absent, lastStepMs } = facts;
    // Ranks that waited for a stopped rank get time to continue when it is back.
    if (stopped.size > 0) this.#explainedMs = nowMs;
    const stuck = this.#collectives.stuck(nowMs - this.#rules.hangMs, [...ranks.keys(), ...absent]);
    const leastMs = this.#leastMs(facts, stuck);
    const isStuck = stuck !== undefined && nowMs - stuck.sinceMs >= leastMs;
    if (!isStuck && !this.#isStalled(facts)) {
      if (lastStepMs > this.#firedMs) this.end(nowMs, 'steps go on');
      return;
    }
    const missing = isStuck ? stuck.missing : [];
    if (missing.length > 0 && missing.every((rank) => stopped.has(rank))) {
      this.end(nowMs, `${ranksText(missing)} stopped: its own alert names the waiting ranks`);
      return;
    }
    if (stopped.size === 0 && nowMs - this.#explainedMs < leastMs) return;
    // Part of the alert about a stopped rank, or of one still to come.
    if (isStuck ? missing.length > 0 && !missing.some((rank) => this.#isAlive(rank, stuck.sinceMs, facts)) : this.#waitsForSilent(facts)) {
      if (!isStuck && stopped.size > 0) this.end(nowMs, `${ranksText([...stopped])} stopped: its own alert names the waiting ranks`);
      return;
    }
    const reported = isStuck ? this.#inside(stuck, facts) : this.#stalled(facts);
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

  restore(alert: OpenAlert | null, nowMs: number): void {
    this.#alert = alert === null ? undefined : { ...alert };
    this.#firedMs = nowMs;
  }

  #leastMs({ usual, longest }: HangFacts, stuck: StuckCollective | undefined): number {
    const { hangMs } = this.#rules;
    const isOrdinary = stuck?.missing.every((rank) => !isOccasionalRole(this.#roles.of(this.#places.phaseOf(rank) ?? ''))) === true;
    if (isOrdinary && stuck !== undefined && stuck.missing.length > 0) return hangMs;
    return Math.max(hangMs, limits.alertHangSteps * (usual / 1e6), limits.alertHangLongestSteps * (longest / 1e6));
  }

  /** Whether ranks that could continue end no step. Ranks left after others said goodbye at their last step are leaving, too. */
  #isStalled(facts: HangFacts): boolean {
    const { nowMs, lastStepMs, isWarm, lastStepOf, ranks } = facts;
    const going = goingOf(facts);
    if (going.length === 0 || !isWarm || nowMs - lastStepMs < this.#leastMs(facts, undefined)) return false;
    const furthest = Math.max(...going.map(lastStepOf));
    return ![...ranks].some(([rank, { ended }]) => ended && lastStepOf(rank) >= furthest);
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

  #inside({ group, op, sequence, sinceMs, inside, missing }: StuckCollective, { nowMs, ranks }: HangFacts): Announcement {
    const name = collectiveText(nameText(op), nameText(group), sequence);
    const ended = missing.filter((rank) => ranks.get(rank)?.ended === true);
    const never = missing.filter((rank) => !ended.includes(rank));
    const who = [
      ...(never.length > 0 ? [`${ranksText(never)} never entered it`] : []),
      ...(ended.length > 0 ? [`${ranksText(ended)} ended before it`] : []),
      ...(missing.length === 0 ? ['all ranks are in it'] : []),
    ];
    const verb = inside.length === 1 ? 'is' : 'are';
    return {
      what: `${nameText(group)}-${sequence}`,
      severity: 'critical',
      summary: `${ranksText(inside)} ${verb} inside of ${name} for ${lengthText((nowMs - sinceMs) * 1e6)}; ${who.join('; ')}`,
      ranks: missing.length > 0 ? missing : inside,
      onsetAt: isoTime(sinceMs),
      key: JSON.stringify([group, sequence, inside, never, ended]),
    };
  }

  #stalled(facts: HangFacts): Announcement {
    const { lastStepOf, lastStepMs, nowMs, usual } = facts;
    const going = goingOf(facts);
    const last = going.map(lastStepOf);
    const [first, furthest] = [Math.min(...last), Math.max(...last)];
    const behind = first < furthest ? going.filter((_, at) => last[at] === first) : [];
    const ended = [...facts.ranks].flatMap(([rank, state]) => (state.ended ? [rank] : []));
    const who = [
      ...(behind.length > 0 ? [`; ${ranksText(behind)} did not come as far as the others`] : []),
      ...(ended.length > 0 ? [`; ${ranksText(ended)} ended before`] : []),
    ].join('');
    const since = `no rank has ended a step for ${lengthText((nowMs - lastStepMs) * 1e6)}, after step ${furthest}`;
    return {
      what: `steps-${furthest}`,
      severity: alertSeverities.hang.first,
      summary: `${since}; usually one takes ${lengthText(usual)}${who}`,
      ranks: behind,
      onsetAt: isoTime(lastStepMs),
      key: JSON.stringify([furthest, behind, ended]),
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
      onsetStep: step < 0 ? null : step + 1,
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

const goingOf = ({ ranks, stopped }: HangFacts): number[] =>
  [...ranks].flatMap(([rank, { ended }]) => (ended || stopped.has(rank) ? [] : [rank]));
