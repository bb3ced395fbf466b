// Matches the ranks' parts of a collective by (group, sequence), and the two sides of a send by (group, source, destination, sequence).
//
//   rank 0  ──[ entry ······ exit ]────────
//   rank 1  ─────────[ entry · exit ]──────     reported when every known member has entered and left,
//   rank 2  ────[ entry ······· exit ]─────     or a second after the first exit, or at the end
//                             ^ no rank of a barrier-like collective enters after this
//
// No input lists the members of a group, so the matcher learns them: every rank that ever took part. Until the stream is a horizon past some
// collective that the newest member could have joined, collectives wait, as an unseen member may still come.
//
// A part that comes too late for its collective begins a new one, and so does a newer life of a rank and a reused number:
// a match that lacks a part is a loss that shows as `missing`; a match of unrelated parts would be wrong and bend clocks.
//
// Invariant: parts reported + `givenUp` + pending = parts added; no part is reported twice; the parts of a match share one group, sequence and pair.
// Invariant: memory is bounded by `MatcherBounds`, for any input.

import { collectiveKind, nanosPerSecond, pairOf } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';
import { type Aged, AgeList } from './age-list.ts';

/** One rank's part of a collective; times in ns on any one axis of the caller's choice. */
export interface CollectivePart {
  /** TraceProcess.index. */
  readonly member: number;
  readonly rank: number;
  readonly entry: number;
  /** Undefined: it is still inside. */
  readonly exit: number | undefined;
  readonly op: string;
  /** This rank's payload. */
  readonly bytes: number;
}

/** One matched collective, or one send and its receive. */
export interface MatchedCollective {
  readonly group: string;
  readonly sequence: number;
  /** The name that most parts use; on a tie, the lowest member's. */
  readonly op: string;
  /** By member; one per rank, but two for a rank that sends to itself. */
  readonly parts: readonly CollectivePart[];
  /** Known members of the group, ascending, that have no part; for a pair, the other side when it is known. */
  readonly missing: readonly number[];
  /** A send: [source rank, destination rank]. */
  readonly pair: readonly [number, number] | undefined;
}

/** A part as added. */
export interface AddedPart {
  /** TraceProcess.index: among lives of one rank, the newer has the greater. */
  readonly member: number;
  readonly rank: number;
  readonly op: string;
  readonly group: string;
  readonly sequence: number;
  /** The other side's rank of a send or receive, −1 for a collective. */
  readonly peer: number;
  readonly bytes: number;
  /** ns. */
  readonly entry: number;
  /** ns; undefined when its end comes later by `close`, or never. */
  readonly exit: number | undefined;
}

export interface MatcherBounds {
  /** A collective is over when the stream is this far past its first exit, ns. Default 1 s; Infinity: only `end` ends it. */
  readonly horizonNs?: number;
  /** How far parts may come out of order of entry, ns. Default 0.1 s. */
  readonly slackNs?: number;
  /** Default: `limits`. */
  readonly collectivesMax?: number;
  readonly partsMax?: number;
  readonly groupBytesMax?: number;
}

interface Part {
  readonly member: number;
  readonly rank: number;
  readonly entry: number;
  exit: number | undefined;
  readonly op: string;
  readonly bytes: number;
}

interface Pending extends Aged<Pending> {
  readonly group: Group;
  readonly key: string | number;
  readonly sequence: number;
  readonly pair: readonly [number, number] | undefined;
  /** By rank; for a pair by side, 0 the source. */
  readonly parts: Map<number, Part>;
  open: number;
  lastEntry: number;
  firstExit: number;
}

interface Group extends Aged<Group> {
  readonly name: string;
  /** Every rank that ever took part, with its member. */
  readonly members: Map<number, number>;
  readonly pending: Map<string | number, Pending>;
  newestSince: number;
  /** Whether all members are known. */
  settled: boolean;
  bytes: number;
}

/** Approximate memory of a group beside its name, and of each of its members, bytes. */
const groupBytes = 512;
const memberBytes = 96;

export class CollectiveMatcher {
  readonly #onMatched: (matched: MatchedCollective) => void;
  readonly #bounds: Required<MatcherBounds>;
  readonly #groups = new Map<string, Group>();
  /** In order of last use. */
  readonly #used = new AgeList<Group>();
  /** In order of their first part. */
  readonly #pending = new AgeList<Pending>();
  /** Rank of every member seen. */
  readonly #ranks = new Map<number, number>();
  #groupBytes = 0;
  #parts = 0;
  #now = Number.NEGATIVE_INFINITY;
  #sweepAt = Number.NEGATIVE_INFINITY;
  #addsBeforeSweep = 0;
  /** Parts not reported because the same rank's part of the same number was still running. */
  duplicates = 0;
  /** Parts not reported because too many were waiting. */
  overflow = 0;

  constructor(onMatched: (matched: MatchedCollective) => void, bounds: MatcherBounds = {}) {
    this.#onMatched = onMatched;
    this.#bounds = {
      horizonNs: nanosPerSecond,
      slackNs: nanosPerSecond / 10,
      collectivesMax: limits.collectivesPendingMax,
      partsMax: limits.collectivePartsPendingMax,
      groupBytesMax: limits.collectiveGroupBytesMax,
      ...bounds,
    };
  }

  /** Parts that were added and will never be reported. */
  get givenUp(): number {
    return this.duplicates + this.overflow;
  }

  /** Parts not reported yet. */
  get waiting(): number {
    return this.#parts;
  }

  /**
   * Takes a part; they come in order of entry, to within `slackNs`. May report collectives. `part`: reported as this part of its collective, and given its
   * exit by `close`; default a new object.
   */
  add(added: AddedPart, part?: CollectivePart & { exit: number | undefined }): void {
    const { member, rank, op, bytes, entry, exit } = added;
    const group = this.#group(added.group);
    this.#ranks.set(member, rank);
    this.#learnMember(group, rank, member, entry);
    const { pair, slot, key } = placeOf(rank, added.peer, added.sequence, op);
    const pending = this.#room(group, key, added, slot) ?? this.#begin(group, key, added.sequence, pair);
    if (pending === 'duplicate') {
      this.duplicates++;
    } else {
      pending.parts.set(slot, part ?? { member, rank, entry, exit, op, bytes });
      this.#parts++;
      pending.lastEntry = Math.max(pending.lastEntry, entry);
      if (exit === undefined) pending.open++;
      else pending.firstExit = Math.min(pending.firstExit, exit);
      if (this.#isComplete(pending)) this.#report(pending);
    }
    this.#bound();
    if (entry > this.#now) this.#now = entry;
    this.#sweep();
  }

  /** Ends a part that was added without its exit, at `exit` ns. A part that no longer waits stays as reported. */
  close(member: number, group: string, sequence: number, peer: number, op: string, exit: number): void {
    const rank = this.#ranks.get(member);
    if (rank === undefined) return;
    const { slot, key } = placeOf(rank, peer, sequence, op);
    const pending = this.#groups.get(group)?.pending.get(key);
    const part = pending?.parts.get(slot);
    if (pending === undefined || part === undefined || part.member !== member || part.exit !== undefined) return;
    part.exit = exit;
    pending.open--;
    pending.firstExit = Math.min(pending.firstExit, exit);
    if (this.#isComplete(pending) || this.#isOver(pending)) this.#report(pending);
  }

  /** A matcher with all that is pending here; from now on, each takes parts of its own. */
  fork(onMatched: (matched: MatchedCollective) => void): CollectiveMatcher {
    const fork = new CollectiveMatcher(onMatched, this.#bounds);
    const groups = new Map<Group, Group>();
    for (let group = this.#used.oldest; group !== undefined; group = group.newer) {
      const copy = { ...group, members: new Map(group.members), pending: new Map(), older: undefined, newer: undefined };
      groups.set(group, copy);
      fork.#groups.set(group.name, copy);
      fork.#used.add(copy);
    }
    for (let pending = this.#pending.oldest; pending !== undefined; pending = pending.newer) {
      const group = groups.get(pending.group) as Group;
      const parts = new Map([...pending.parts].map(([slot, part]) => [slot, { ...part }]));
      const copy = { ...pending, group, parts, older: undefined, newer: undefined };
      group.pending.set(pending.key, copy);
      fork.#pending.add(copy);
    }
    for (const [member, rank] of this.#ranks) fork.#ranks.set(member, rank);
    fork.#groupBytes = this.#groupBytes;
    fork.#parts = this.#parts;
    fork.#now = this.#now;
    fork.#sweepAt = this.#sweepAt;
    fork.#addsBeforeSweep = this.#addsBeforeSweep;
    return fork;
  }

  /** Reports everything that is left. No part may follow. */
  end(): void {
    for (let pending = this.#pending.oldest; pending !== undefined; pending = this.#pending.oldest) this.#report(pending);
  }

  #group(name: string): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      const bytes = groupBytes + 2 * name.length;
      const newestSince = Number.NEGATIVE_INFINITY;
      group = { name, members: new Map(), pending: new Map(), newestSince, settled: false, bytes, older: undefined, newer: undefined };
      this.#groups.set(name, group);
      this.#groupBytes += bytes;
    } else {
      this.#used.remove(group);
    }
    this.#used.add(group);
    return group;
  }

  #learnMember(group: Group, rank: number, member: number, entry: number): void {
    const known = group.members.get(rank);
    if (known !== undefined && known >= member) return;
    if (known !== undefined) {
      // A rank restarted, and mostly all of them with it: waiting collectives are over, and the members have to be learnt again.
      for (const pending of group.pending.values()) this.#report(pending);
      this.#groupBytes -= group.members.size * memberBytes;
      group.bytes -= group.members.size * memberBytes;
      group.members.clear();
    }
    group.members.set(rank, member);
    group.bytes += memberBytes;
    this.#groupBytes += memberBytes;
    group.settled = false;
    group.newestSince = Math.max(group.newestSince, entry);
  }

  /** The pending collective that has room for the part; undefined when the part begins a new one. */
  #room(group: Group, key: string | number, added: AddedPart, slot: number): Pending | 'duplicate' | undefined {
    const pending = group.pending.get(key);
    if (pending === undefined) return undefined;
    const held = pending.parts.get(slot);
    if (held === undefined) {
      if (added.entry < pending.firstExit + this.#bounds.horizonNs) return pending;
    } else if (added.member < held.member) {
      return 'duplicate';
    } else if (added.member === held.member && (added.entry <= held.entry || added.entry < (held.exit ?? held.entry))) {
      return 'duplicate';
    }
    this.#report(pending);
    return undefined;
  }

  #begin(group: Group, key: string | number, sequence: number, pair: readonly [number, number] | undefined): Pending {
    const [lastEntry, firstExit] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    const [older, newer] = [undefined, undefined];
    const pending: Pending = { group, key, sequence, pair, parts: new Map(), open: 0, lastEntry, firstExit, older, newer };
    group.pending.set(key, pending);
    this.#pending.add(pending);
    return pending;
  }

  #isComplete({ open, parts, pair, group }: Pending): boolean {
    if (open > 0) return false;
    if (pair !== undefined) return parts.size === 2;
    if (!group.settled || parts.size < group.members.size) return false;
    for (const rank of group.members.keys()) if (!parts.has(rank)) return false;
    return true;
  }

  /** Whether no part can come any more, and no rank is inside. */
  #isOver(pending: Pending): boolean {
    const { horizonNs, slackNs } = this.#bounds;
    return pending.open === 0 && pending.firstExit + horizonNs + slackNs <= this.#now;
  }

  /** Reports finished collectives, now and then: eight checks per added part on average. */
  #sweep(): void {
    if (this.#addsBeforeSweep-- > 0 || this.#now < this.#sweepAt) return;
    let next = this.#pending.oldest;
    while (next !== undefined) {
      const pending = next;
      next = pending.newer;
      if (!this.#isOver(pending)) continue;
      if (pending.pair === undefined && pending.lastEntry >= pending.group.newestSince) pending.group.settled = true;
      this.#report(pending);
    }
    this.#addsBeforeSweep = this.#pending.size >> 3;
    this.#sweepAt = this.#now + this.#bounds.horizonNs / 8;
  }

  #report(pending: Pending): void {
    this.#forget(pending);
    const parts = [...pending.parts.values()].sort((a, b) => a.member - b.member);
    const { group, sequence, pair } = pending;
    this.#onMatched({ group: group.name, sequence, op: commonOp(parts), parts, missing: missingOf(pending), pair });
  }

  #forget(pending: Pending): void {
    this.#pending.remove(pending);
    pending.group.pending.delete(pending.key);
    this.#parts -= pending.parts.size;
  }

  /** Gives up the longest waiting collectives, and the least recently used groups, while there are too many. */
  #bound(): void {
    const { collectivesMax, partsMax, groupBytesMax } = this.#bounds;
    while (this.#pending.size > collectivesMax || this.#parts > partsMax) {
      const oldest = this.#pending.oldest as Pending;
      this.overflow += oldest.parts.size;
      this.#forget(oldest);
    }
    while (this.#groupBytes > groupBytesMax && this.#groups.size > 1) {
      const group = this.#used.oldest as Group;
      for (const pending of group.pending.values()) {
        this.overflow += pending.parts.size;
        this.#forget(pending);
      }
      this.#used.remove(group);
      this.#groups.delete(group.name);
      this.#groupBytes -= group.bytes;
    }
  }
}

interface Place {
  readonly pair: readonly [number, number] | undefined;
  /** Rank; for a pair, the side. */
  readonly slot: number;
  readonly key: string | number;
}

/** The place of a part in its group. */
function placeOf(rank: number, peer: number, sequence: number, op: string): Place {
  const pair = pairOf(rank, peer, op);
  if (pair === undefined) return { pair, slot: rank, key: sequence };
  // A rank that sends to itself has both sides.
  const slot = pair[0] === pair[1] ? (collectiveKind(op) === 'recv' ? 1 : 0) : pair[0] === rank ? 0 : 1;
  return { pair, slot, key: `${sequence} ${pair[0]} ${pair[1]}` };
}

function missingOf({ group, parts, pair }: Pending): number[] {
  const missing: number[] = [];
  if (pair !== undefined) {
    if (parts.size === 2) return missing;
    const other = group.members.get(pair[parts.has(0) ? 1 : 0]);
    return other === undefined ? missing : [other];
  }
  // Includes ranks first seen after it: groups do not grow, recordings begin late.
  for (const [rank, member] of group.members) if (!parts.has(rank)) missing.push(member);
  return missing.sort((a, b) => a - b);
}

function commonOp(parts: readonly CollectivePart[]): string {
  const first = (parts[0] as CollectivePart).op;
  if (parts.every((part) => part.op === first)) return first;
  const counts = new Map<string, number>();
  for (const { op } of parts) counts.set(op, (counts.get(op) ?? 0) + 1);
  let common = first;
  for (const [op, count] of counts) if (count > (counts.get(common) as number)) common = op;
  return common;
}
