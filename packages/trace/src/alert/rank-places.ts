// The last reported place of each rank: where a job hangs, and where a silent rank was last.

import type { Running } from '@ranktrace/protocol';
import type { PhaseRoles } from '../steps/phase-role.ts';
import { areElsewhere, placesTexts, ranksBehind, ranksWorking } from '../steps/step-places.ts';
import type { AlertHint } from './alert-change.ts';

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

  /** By rank, in JSON's types: `set` takes each again. */
  state(): [rank: number, place: Running][] {
    return [...this.#places];
  }

  /** The phase that the rank is in, by its last report. */
  phaseOf(rank: number): string | undefined {
    return this.#places.get(rank)?.phase;
  }

  /** See `placesTexts`. */
  texts(ranks: Iterable<number>, verbs: readonly [string, string]): string[] {
    return placesTexts(this.#places, ranks, verbs);
  }

  /** See `ranksBehind`. */
  behind(ranks: readonly number[], phases: readonly string[], roles: Pick<PhaseRoles, 'of'>): number[] {
    return ranksBehind(this.#places, ranks, phases, roles);
  }

  /** See `ranksWorking`. */
  working(ranks: readonly number[], roles: Pick<PhaseRoles, 'of'>): number[] {
    return ranksWorking(this.#places, ranks, roles);
  }

  /** See `areElsewhere`. */
  areElsewhere(inside: readonly number[], missing: readonly number[], phases: readonly string[], roles: Pick<PhaseRoles, 'of'>): boolean {
    return areElsewhere(this.#places, inside, missing, phases, roles);
  }

  /** Blame for a stop: `ranks`, in the phase of the least advanced one. Null if nothing is known. */
  hint(kind: 'rank_stopped' | 'hang', ranks: readonly number[], texts: readonly string[]): AlertHint | null {
    if (texts.length === 0) return null;
    const places = ranks.flatMap((rank) => this.#places.get(rank) ?? []);
    const [first] = places.sort((a, b) => a.step - b.step);
    return { ranks, phase: first?.phase, stated: { kind, text: texts.join('; ') } };
  }
}
