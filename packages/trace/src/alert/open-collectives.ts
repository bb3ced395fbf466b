// Which ranks are inside of collectives that others never entered, as far as ranks announce what is open.
//
// A rank has entered a collective of a group when it entered that one or a later one, so one number per rank and group is enough.

import { alertLimits as limits } from './alert-limits.ts';

/** One rank's part of a collective, as its batch told it. */
export interface CollectiveFact {
  readonly group: string;
  readonly op: string;
  readonly sequence: number;
  readonly state: 'whole' | 'open' | 'close';
  /** How long the rank had been inside of it when it told so, ms. Default 0. */
  readonly ageMs?: number;
}

/** A collective that somebody has been inside of for long. */
export interface StuckCollective {
  readonly group: string;
  readonly op: string;
  readonly sequence: number;
  readonly sinceMs: number;
  readonly inside: readonly number[];
  /** Ranks of the group that never entered. */
  readonly missing: readonly number[];
}

interface OpenPart {
  readonly group: string;
  readonly op: string;
  readonly sequence: number;
  readonly sinceMs: number;
  /** Told as the rank's place alone, not as a span: it is over with that place. */
  isPlace: boolean;
}

export class OpenCollectives {
  /** By group, the highest sequence that each rank entered. */
  readonly #entered = new Map<string, Map<number, number>>();
  readonly #open = new Map<number, Map<string, OpenPart>>();

  add(rank: number, { group, op, sequence, state, ageMs = 0 }: CollectiveFact, nowMs: number): void {
    this.enter(rank, group, sequence);
    if (state === 'whole') return;
    const key = `${sequence} ${group}`;
    if (state === 'close') this.#open.get(rank)?.delete(key);
    else this.#begin(rank, key, { group, op, sequence, sinceMs: nowMs - ageMs, isPlace: false }).isPlace = false;
  }

  /** Where the rank says that it is: inside of this collective, or of none that it did not record. */
  isIn(rank: number, collective: Omit<CollectiveFact, 'state'> | undefined, nowMs: number): void {
    const current = collective === undefined ? undefined : `${collective.sequence} ${collective.group}`;
    const parts = this.#open.get(rank);
    for (const [key, { isPlace }] of parts ?? []) if (isPlace && key !== current) parts?.delete(key);
    if (collective === undefined || current === undefined) return;
    const { group, op, sequence, ageMs = 0 } = collective;
    this.enter(rank, group, sequence);
    this.#begin(rank, current, { group, op, sequence, sinceMs: nowMs - ageMs, isPlace: true });
  }

  /** A step ended: what the rank was inside of before now does not keep it from going on, whether or not its end was told. */
  goesOn(rank: number, nowMs: number): void {
    const parts = this.#open.get(rank);
    if (parts === undefined || parts.size === 0) return;
    for (const [key, { sinceMs }] of parts) if (sinceMs < nowMs) parts.delete(key);
  }

  /** The rank ended: it is inside of nothing, and has entered what it entered. */
  leave(rank: number): void {
    this.#open.delete(rank);
  }

  /** The rank began anew. */
  forget(rank: number): void {
    this.leave(rank);
    for (const ranks of this.#entered.values()) ranks.delete(rank);
  }

  /** The collective that somebody has been inside of for longest, if that is since before `beforeMs`. */
  stuck(beforeMs: number, everyRank: Iterable<number>): StuckCollective | undefined {
    let oldest: OpenPart | undefined;
    for (const parts of this.#open.values()) {
      for (const part of parts.values()) if (part.sinceMs <= (oldest?.sinceMs ?? beforeMs)) oldest = part;
    }
    if (oldest === undefined) return undefined;
    const { group, sequence } = oldest;
    const entered = this.#entered.get(group);
    const members = group === 'world' ? everyRank : (entered?.keys() ?? []);
    const missing = [...members].filter((rank) => (entered?.get(rank) ?? -1) < sequence).sort((a, b) => a - b);
    const inside = [...this.#open].filter(([, parts]) => parts.has(`${sequence} ${group}`)).map(([rank]) => rank);
    return { ...oldest, inside: inside.sort((a, b) => a - b), missing };
  }

  /** The part as it is known, from now on. */
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

  /** The rank has entered all collectives of the group up to this one. */
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
