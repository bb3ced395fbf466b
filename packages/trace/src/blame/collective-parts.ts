// Each rank's parts of collectives, with their meetings: set when the other ranks' parts have come.

import { pairOf } from '@ranktrace/protocol';
import type { MatchedCollective } from '../match/collective-matcher.ts';
import { CollectiveMatcher } from '../match/collective-matcher.ts';
import type { TraceEvent, TraceHeader, TraceProcess } from '../model/trace-sink.ts';
import { blameLimits as limits } from './blame-limits.ts';
import { meetingOf } from './meeting-of.ts';
import type { RawCollective } from './raw-steps.ts';

export class CollectiveParts {
  readonly #matcher = new CollectiveMatcher((matched) => this.#meet(matched));
  readonly #processes = new Map<number, TraceProcess>();
  /** By process, the parts that are open or unmatched. */
  readonly #waiting = new Map<number, Map<string, RawCollective>>();
  /** Ranks that met in groups smaller than the world: they reveal equal work if no metadata does. */
  readonly #groups = new Map<string, Set<number>>();
  /** Sends by `from to`. */
  readonly #sends = new Set<string>();
  #worldSize = 0;

  begin({ processes, worldSize }: TraceHeader): void {
    this.#worldSize = worldSize;
    for (const process of processes) this.#processes.set(process.index, process);
  }

  /** Takes a rank's part; returns it where it begins. `isKept` false: other ranks need it, and nobody looks at it here. */
  add(event: TraceEvent, isKept: boolean): RawCollective | undefined {
    const { lane, state, start, length, name: op, group, sequence, peerRank: peer, bytes } = event;
    const { index: member, rank } = lane.process;
    const key = keyOf(sequence, start, group, pairOf(rank, peer, op));
    const exit = state === 'open' ? undefined : start + length;
    if (state === 'close') {
      const open = this.#waiting.get(member)?.get(key);
      if (open !== undefined) open.exit = exit;
      this.#matcher.close(member, group, sequence, peer, op, start + length);
      return undefined;
    }
    const raw = isKept ? this.#keep(member, key, { lane: lane.index, entry: start, exit, size: sizeOf(event) }) : undefined;
    this.#matcher.add({ member, rank, op, group, sequence, peer, bytes, entry: start, exit });
    return raw;
  }

  end(): void {
    this.#matcher.end();
  }

  /** The ranks of each group, in a job with sends: they form a stage. A rank without a group that exchanges sends with another is a stage of its own. */
  get groups(): readonly ReadonlySet<number>[] {
    if (this.#sends.size === 0) return [];
    const both = [...this.#sends].map((pair) => pair.split(' ').map(Number) as [number, number]);
    const alone = both.filter(([from, to]) => this.#sends.has(`${to} ${from}`)).map(([from]) => new Set([from]));
    return [...this.#groups.values(), ...alone];
  }

  #keep(member: number, key: string, part: Pick<RawCollective, 'lane' | 'entry' | 'exit' | 'size'>): RawCollective {
    const raw: RawCollective = { ...part, meeting: undefined, waitedUntil: part.entry, lag: undefined, exposed: undefined };
    let waiting = this.#waiting.get(member);
    if (waiting === undefined) {
      waiting = new Map();
      this.#waiting.set(member, waiting);
    }
    waiting.set(key, raw);
    // The matcher never reports those that it gave up.
    if (waiting.size > limits.blameCollectivesPerStepMax) waiting.delete(waiting.keys().next().value as string);
    return raw;
  }

  #meet(matched: MatchedCollective): void {
    const met = meetingOf(matched, (member) => this.#processes.get(member));
    const { sequence, group, pair, parts, missing } = matched;
    if (pair !== undefined) {
      if (this.#sends.size < limits.blamePhasesMax) this.#sends.add(pair.join(' '));
      // Where a recording begins, ranks may be missing from a collective of all.
    } else if (parts.length > 1 && parts.length < this.#worldSize && missing.length === 0) {
      const ranks = this.#groups.get(group) ?? new Set();
      if (this.#groups.size < limits.blamePhasesMax || this.#groups.has(group)) this.#groups.set(group, ranks);
      for (const { rank } of parts) ranks.add(rank);
    }
    for (const [place, { member, entry }] of parts.entries()) {
      const waiting = this.#waiting.get(member);
      const key = keyOf(sequence, entry, group, pair);
      const raw = waiting?.get(key);
      if (raw === undefined) continue;
      waiting?.delete(key);
      const part = met?.parts[place];
      if (met === undefined || part === undefined) continue;
      // A rank that was not recorded, or is distrusted, may have come last.
      if (pair === undefined && raw.size > parts.length) continue;
      raw.meeting = met.meeting;
      raw.waitedUntil = part.waitedUntil;
      raw.lag = part.lag;
    }
  }
}

function sizeOf({ arguments: given }: TraceEvent): number {
  const size = given?.get('Group size');
  return typeof size === 'number' ? size : 0;
}

/** A send and a collective of one group may have the same number, and begin at the same time. */
const keyOf = (sequence: number, entry: number, group: string, pair: readonly [number, number] | undefined): string =>
  `${sequence} ${entry} ${pair ?? ''} ${group}`;
