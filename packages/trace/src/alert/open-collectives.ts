// The ranks inside collectives that others never entered, as far as ranks announce open ones.
//
// A rank has entered a collective of a group if it entered that one or a later one, so one number per rank and group is enough.

import { groupsOfAllRanks } from '@ranktrace/protocol';
import { calledOperation, type OperationCall } from '../match/called-operation.ts';
import { alertLimits as limits } from './alert-limits.ts';

/** One rank's part of a collective, from its batch. */
export interface CollectiveFact {
  readonly group: string;
  readonly op: string;
  readonly sequence: number;
  readonly state: 'whole' | 'open' | 'close';
  /** How long the rank had been inside when it reported this, ms. Default 0. */
  readonly ageMs?: number;
}

/** A collective that some rank has been inside for long. */
export interface StuckCollective {
  readonly group: string;
  readonly op: string;
  readonly sequence: number;
  readonly sinceMs: number;
  readonly inside: readonly number[];
  /** Those of them that called another operation under this number. */
  readonly differing: readonly OperationCall[];
  /** Ranks of the group that never entered. */
  readonly missing: readonly number[];
  /** Ranks of the group that entered and are not inside any more. */
  readonly left: readonly number[];
  /** Ranks that did not enter because they wait in another collective; absent: not known. */
  readonly elsewhere?: readonly number[];
}

/** Collectives that ranks entered, and those that they are inside of, in JSON's types. */
export interface OpenCollectivesState {
  readonly entered: readonly (readonly [group: string, ranks: readonly (readonly [rank: number, sequence: number])[]])[];
  readonly open: readonly (readonly [rank: number, parts: readonly OpenPart[]])[];
}

interface OpenPart {
  readonly group: string;
  readonly op: string;
  readonly sequence: number;
  readonly sinceMs: number;
  /** Reported only as the rank's place, not as a span: it ends with that place. */
  isPlace: boolean;
}

export class OpenCollectives {
  /** By group, then rank: the highest sequence entered. */
  readonly #entered = new Map<string, Map<number, number>>();
  readonly #open = new Map<number, Map<string, OpenPart>>();

  add(rank: number, { group, op, sequence, state, ageMs = 0 }: CollectiveFact, nowMs: number): void {
    this.enter(rank, group, sequence);
    if (state === 'whole') return;
    const key = `${sequence} ${group}`;
    if (state === 'close') this.#open.get(rank)?.delete(key);
    else this.#begin(rank, key, { group, op, sequence, sinceMs: nowMs - ageMs, isPlace: false }).isPlace = false;
  }

  /** Takes the rank's reported place: inside this collective, or in no unrecorded one. */
  isIn(rank: number, collective: Omit<CollectiveFact, 'state'> | undefined, nowMs: number): void {
    const current = collective === undefined ? undefined : `${collective.sequence} ${collective.group}`;
    const parts = this.#open.get(rank);
    for (const [key, { isPlace }] of parts ?? []) if (isPlace && key !== current) parts?.delete(key);
    if (collective === undefined || current === undefined) return;
    const { group, op, sequence, ageMs = 0 } = collective;
    this.enter(rank, group, sequence);
    this.#begin(rank, current, { group, op, sequence, sinceMs: nowMs - ageMs, isPlace: true });
  }

  /** Takes the end of a step: whatever the rank was inside before no longer blocks it, even if no end was reported. */
  goesOn(rank: number, nowMs: number): void {
    const parts = this.#open.get(rank);
    if (parts === undefined || parts.size === 0) return;
    for (const [key, { sinceMs }] of parts) if (sinceMs < nowMs) parts.delete(key);
  }

  /** Takes the end of the rank: it is inside nothing, and what it entered stays entered. */
  leave(rank: number): void {
    this.#open.delete(rank);
  }

  /** Forgets a restarted rank. */
  forget(rank: number): void {
    this.leave(rank);
    for (const ranks of this.#entered.values()) ranks.delete(rank);
  }

  /** The collective that some rank has been inside for longest, if that is since before `beforeMs`. */
  stuck(beforeMs: number, everyRank: Iterable<number>): StuckCollective | undefined {
    let oldest: OpenPart | undefined;
    for (const parts of this.#open.values()) {
      for (const part of parts.values()) if (part.sinceMs <= (oldest?.sinceMs ?? beforeMs)) oldest = part;
    }
    if (oldest === undefined) return undefined;
    const { group, sequence } = oldest;
    const entered = this.#entered.get(group);
    const members = [...(groupsOfAllRanks.has(group) ? everyRank : (entered?.keys() ?? []))].sort((a, b) => a - b);
    const calls = [...this.#open].flatMap(([rank, parts]) => {
      const part = parts.get(`${sequence} ${group}`);
      return part === undefined ? [] : [{ rank, op: part.op }];
    });
    calls.sort((a, b) => a.rank - b.rank);
    const inside = new Set(calls.map(({ rank }) => rank));
    const hasEntered = (rank: number): boolean => (entered?.get(rank) ?? -1) >= sequence;
    const missing = members.filter((rank) => !hasEntered(rank));
    const left = members.filter((rank) => hasEntered(rank) && !inside.has(rank));
    return { ...oldest, ...calledOperation(calls), inside: [...inside], missing, left };
  }

  state(): OpenCollectivesState {
    return {
      entered: [...this.#entered].map(([group, ranks]) => [group, [...ranks]]),
      open: [...this.#open].flatMap(([rank, parts]) => (parts.size === 0 ? [] : [[rank, [...parts.values()]] as const])),
    };
  }

  restore({ entered, open }: OpenCollectivesState): void {
    for (const [group, ranks] of entered) for (const [rank, sequence] of ranks) this.enter(rank, group, sequence);
    for (const [rank, parts] of open) for (const part of parts) this.#begin(rank, `${part.sequence} ${part.group}`, { ...part });
  }

  /** Registers the part from now on. */
  #begin(rank: number, key: string, part: OpenPart): OpenPart {
    let parts = this.#open.get(rank);
    if (parts === undefined) {
      parts = new Map();
      this.#open.set(rank, parts);
    }
    const known = parts.get(key);
    if (known === undefined && parts.size < limits.alertOpenCollectivesPerRankMax) parts.set(key, part);
    return known ?? part;
  }

  /** Marks all collectives of the group up to this one as entered by the rank. */
  enter(rank: number, group: string, sequence: number): void {
    let ranks = this.#entered.get(group);
    if (ranks === undefined) {
      if (this.#entered.size >= limits.alertGroupsMax) return;
      ranks = new Map();
      this.#entered.set(group, ranks);
    }
    if (sequence > (ranks.get(rank) ?? -1)) ranks.set(rank, sequence);
  }
}
