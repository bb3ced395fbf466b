// The last reported place of each rank: where a job hangs, and where a silent rank was last.

import { isWaitingRole, type Running } from '@ranktrace/protocol';
import type { PhaseRoles } from '../steps/phase-role.ts';
import type { AlertHint } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import { nameText, ranksText } from './alert-text.ts';

export class RankPlaces {
  readonly #places = new Map<number, Running>();

  set(rank: number, place: Running): void {
    this.#places.set(rank, place);
  }

  /** Forgets a restarted rank. */
  forget(rank: number): void {
    this.#places.delete(rank);
  }

  has(rank: number): boolean {
    return this.#places.has(rank);
  }

  /** The phase that the rank is in, by its last report. */
  phaseOf(rank: number): string | undefined {
    return this.#places.get(rank)?.phase;
  }

  /** `rank 2 is in forward of step 300`: groups ranks at one place, the first step first, and of one step the fewest ranks. `verbs`: for one rank, for several. */
  texts(ranks: Iterable<number>, verbs: readonly [string, string]): string[] {
    const groups = new Map<string, { readonly step: number; readonly ranks: number[] }>();
    for (const rank of ranks) {
      const place = this.#places.get(rank);
      if (place === undefined) continue;
      const after = place.phase === undefined && place.after !== undefined ? `, after ${nameText(place.after)}` : '';
      const where = `in ${place.phase === undefined ? '' : `${nameText(place.phase)} of `}step ${place.step}${after}`;
      const group = groups.get(where);
      if (group === undefined) groups.set(where, { step: place.step, ranks: [rank] });
      else group.ranks.push(rank);
    }
    for (const group of groups.values()) group.ranks.sort((a, b) => a - b);
    const sorted = [...groups]
      .sort(([, a], [, b]) => a.step - b.step || a.ranks.length - b.ranks.length || (a.ranks[0] as number) - (b.ranks[0] as number))
      .slice(0, limits.alertPlacesNamedMax);
    return sorted.map(([where, group]) => `${ranksText(group.ranks)} ${verbs[group.ranks.length === 1 ? 0 : 1]} ${where}`);
  }

  /**
   * The ranks that did not come as far as the others within a step, by the order of its phases: they wait for nobody, are less than half, and all places
   * are known. `phases`: those of a step in order; stages of a pipeline have other ones each.
   */
  behind(ranks: readonly number[], phases: readonly string[], roles: Pick<PhaseRoles, 'of'>): number[] {
    const places = ranks.map((rank) => ({ rank, at: placeIn(this.#places.get(rank), phases) }));
    const first = Math.min(...places.map(({ at }) => at));
    const behind = places.flatMap(({ rank, at }) => (at === first ? [rank] : []));
    const isKnown = Number.isFinite(first) && 2 * behind.length < ranks.length;
    return isKnown && !behind.some((rank) => this.#waits(rank, roles)) ? behind : [];
  }

  /** The ranks that are in no phase of waiting, where all others are in one: they are less than half, and all places are known. */
  working(ranks: readonly number[], roles: Pick<PhaseRoles, 'of'>): number[] {
    const working = ranks.filter((rank) => !this.#waits(rank, roles));
    return ranks.every((rank) => this.has(rank)) && 2 * working.length < ranks.length ? working : [];
  }

  #waits(rank: number, roles: Pick<PhaseRoles, 'of'>): boolean {
    return isWaitingRole(roles.of(this.phaseOf(rank) ?? ''));
  }

  /** Blame for a stop: `ranks`, in the phase of the least advanced one. Null if nothing is known. */
  hint(kind: 'rank_stopped' | 'hang', ranks: readonly number[], texts: readonly string[]): AlertHint | null {
    if (texts.length === 0) return null;
    const places = ranks.flatMap((rank) => this.#places.get(rank) ?? []);
    const [first] = places.sort((a, b) => a.step - b.step);
    return { ranks, phase: first?.phase, stated: { kind, text: texts.join('; ') } };
  }
}

/** Orders places by step, then by phase: a place after a phase is between it and the next one. NaN: it is not known. */
function placeIn(place: Running | undefined, phases: readonly string[]): number {
  const name = place?.phase ?? place?.after ?? '';
  const phase = phases.indexOf(name);
  if (place === undefined || phase < 0) return Number.NaN;
  return place.step + (phase + (place.phase === undefined ? 0.5 : 0)) / phases.length;
}
