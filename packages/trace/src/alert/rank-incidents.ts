// One rule about ranks: ranks with the same trouble within a short time are one incident, reported as one alert.
//
//   raise(3)  raise(5)      clear(3)           clear(5)
//      └───────┴─ fired (3, 5) └─ updated (5)     └─ resolved
//
// `flush` reports changes, once for all ranks of a tick.
//
// Invariant: a rank is in at most one open incident of a rule.

import type { Alert, AlertRule } from '@ranktrace/protocol';
import { type AlertHint, isoTime, type OpenAlert, type ReportChange, resolveAlert } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';

/** An incident's text about its ranks. */
export interface RankTrouble {
  readonly summary: string;
  readonly before?: number;
  readonly after?: number;
  readonly hint?: AlertHint | null;
  /** Ranks to name in place of those in it, which are its victims alone. */
  readonly blamed?: readonly number[];
}

export interface RankRule {
  readonly run: string;
  readonly rule: AlertRule;
  readonly severity: Alert['severity'];
  readonly unit: Alert['unit'];
  /** For the ranks in it now; `all` adds those that were. */
  readonly describe: (ranks: readonly number[], all: readonly number[]) => RankTrouble;
  readonly report: ReportChange;
}

/** Identifies one trouble of a rank among its successive ones. */
export interface Onset {
  readonly key: string;
  readonly step: number | null;
  /** The first affected step. Default: `step`. */
  readonly onsetStep?: number;
  /** When the trouble began, ms. Default: when it is raised. */
  readonly sinceMs?: number;
  /** Whether it follows from what the last open incident reports, however long ago that began. */
  readonly follows?: boolean;
}

interface Incident {
  readonly alert: OpenAlert;
  readonly ranks: Set<number>;
  /** All that were ever in it. */
  readonly all: Set<number>;
  readonly raisedMs: number;
  isReported: boolean;
  isChanged: boolean;
  resolution: string;
}

/** An open incident in JSON's types. */
export interface RankIncidentState {
  readonly alert: OpenAlert;
  readonly ranks: readonly number[];
  readonly raisedMs: number;
}

export class RankIncidents {
  readonly #rule: RankRule;
  #open: Incident[] = [];

  constructor(rule: RankRule) {
    this.#rule = rule;
  }

  /** Ranks in trouble now. */
  get ranks(): Set<number> {
    return new Set(this.#open.flatMap(({ ranks }) => [...ranks]));
  }

  has(rank: number): boolean {
    return this.#open.some(({ ranks }) => ranks.has(rank));
  }

  raise(rank: number, nowMs: number, onset: Onset): void {
    if (this.has(rank)) return;
    const { run, rule, severity, unit } = this.#rule;
    const id = `${run}/${rule}/rank-${rank}/${onset.key}`;
    const last = this.#open.at(-1);
    const isSoon = (onset.sinceMs ?? nowMs) - (last?.raisedMs ?? nowMs) <= limits.alertJoinMs;
    const joins = last !== undefined && (isSoon || onset.follows === true || this.#open.length >= limits.alertOpenPerRuleMax);
    // A rank that was clear for a while has its incident again, which goes on for the other ranks in it.
    const joined = this.#open.find(({ alert }) => alert.id === id) ?? (joins ? last : undefined);
    if (joined !== undefined) {
      joined.ranks.add(rank);
      joined.all.add(rank);
      joined.isChanged = true;
      return;
    }
    const alert: OpenAlert = {
      ...{ id, run, rule, severity, unit },
      state: 'firing',
      summary: '',
      series: { kind: 'rank', rank },
      firedAt: isoTime(nowMs),
      resolvedAt: null,
      resolution: null,
      step: onset.step,
      onsetStep: onset.onsetStep ?? onset.step,
      onsetAt: null,
      before: null,
      after: null,
      change: null,
      confidence: null,
      ranks: [],
      hint: null,
    };
    const ranks = new Set([rank]);
    this.#open.push({ alert, ranks, all: new Set(ranks), raisedMs: nowMs, isReported: false, isChanged: false, resolution: '' });
  }

  /** More is known of why ranks are in trouble: the open incidents are described anew. */
  reconsider(): void {
    for (const incident of this.#open) incident.isChanged = true;
  }

  /** Clears the rank; the incident ends when all its ranks are clear. */
  clear(rank: number, resolution: string): void {
    for (const incident of this.#open) {
      if (!incident.ranks.delete(rank)) continue;
      incident.isChanged = true;
      incident.resolution = resolution;
    }
  }

  clearAll(resolution: string): void {
    for (const rank of this.ranks) this.clear(rank, resolution);
  }

  flush(nowMs: number): void {
    for (const incident of this.#open) {
      const { alert, ranks, isReported } = incident;
      if (ranks.size === 0) {
        if (isReported) resolveAlert(alert, nowMs, incident.resolution, this.#rule.report);
        continue;
      }
      if (isReported && !incident.isChanged) continue;
      incident.isReported = true;
      incident.isChanged = false;
      const inOrder = [...ranks].sort((a, b) => a - b);
      const all = [...incident.all].sort((a, b) => a - b);
      const { summary, before, after, hint, blamed = all } = this.#rule.describe(inOrder, all);
      if (isReported && summary === alert.summary && `${blamed}` === `${alert.ranks}`) continue;
      alert.ranks = [...blamed];
      alert.series = all.length === 1 ? { kind: 'rank', rank: all[0] as number } : { kind: 'cluster' };
      alert.summary = summary;
      alert.hint = hint ?? null;
      alert.before = before ?? null;
      alert.after = after ?? null;
      this.#rule.report(isReported ? 'updated' : 'fired', alert);
    }
    this.#open = this.#open.filter(({ ranks }) => ranks.size > 0);
  }

  state(): RankIncidentState[] {
    return this.#open
      .filter(({ isReported }) => isReported)
      .map(({ alert, ranks, raisedMs }) => ({ alert: { ...alert }, ranks: [...ranks], raisedMs }));
  }

  restore(states: readonly RankIncidentState[]): void {
    this.#open = states.map(({ alert, ranks, raisedMs }) => {
      const all = new Set([...alert.ranks, ...ranks]);
      return { alert: { ...alert }, ranks: new Set(ranks), all, raisedMs, isReported: true, isChanged: false, resolution: '' };
    });
  }
}
