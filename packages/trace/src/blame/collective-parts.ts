// Each rank's parts of collectives, matched once for all analyses of a merge, with their meetings: set when the other ranks' parts have come.
//
//   event ─► part ─► matcher ─► matched collective, timed once ─► waits, open work
//             │                                            └────► meeting of each part
//             └─► blame of hosts, blame of devices
//
// A sink that is given none has one of its own, and passes its events on to it.

import { pairOf } from '@ranktrace/protocol';
import { type AddedPart, CollectiveMatcher, type CollectivePart, type MatchedCollective } from '../match/collective-matcher.ts';
import { type CollectiveTiming, collectiveTiming } from '../match/collective-timing.ts';
import { argumentOf } from '../model/event-arguments.ts';
import { StretchQueue } from '../model/stretch-queue.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { blameLimits as limits } from './blame-limits.ts';
import { meetingOf } from './meeting-of.ts';
import type { RawCollective } from './raw-steps.ts';

export interface PartsListener {
  /** A collective, or a send and its receive; `timing`: undefined where a part is missing. */
  readonly onMatched?: (matched: MatchedCollective, timing: CollectiveTiming | undefined) => void;
  /** Nothing more comes; pending collectives are matched next. */
  readonly onEnding?: (totals: readonly ProcessTotals[]) => void;
}

type Part = RawCollective & CollectivePart & Pick<AddedPart, 'group' | 'sequence' | 'peer'>;

export class CollectiveParts implements TraceSink {
  readonly #matcher = new CollectiveMatcher((matched) => this.#meet(matched));
  readonly #toMatch = new StretchQueue<Part>((part) => this.#matcher.add(part, part));
  readonly #processes = new Map<number, TraceProcess>();
  readonly #listeners: PartsListener[] = [];
  /** Parts that came without their end. */
  readonly #open = new Map<string, Part>();
  /** Ranks that met in groups smaller than the world: they reveal equal work if no metadata does. */
  readonly #groups = new Map<string, Set<number>>();
  /** Sends by `from to`. */
  readonly #sends = new Set<string>();
  #worldSize = 0;
  #added = 0;
  #part: Part | undefined;

  listen(listener: PartsListener): void {
    this.#listeners.push(listener);
  }

  begin(header: TraceHeader): void {
    const { processes, worldSize } = header;
    this.#toMatch.begin(header);
    this.#worldSize = worldSize;
    for (const process of processes) this.#processes.set(process.index, process);
  }

  lane(): void {}

  event(event: TraceEvent): void {
    this.#part = undefined;
    if (event.kind !== 'collective') return;
    const { lane, state, start, length, name: op, group, sequence, peerRank: peer, bytes, isAsync } = event;
    const { index: member, rank } = lane.process;
    const key = state === 'whole' ? '' : openKey(member, sequence, start, group, pairOf(rank, peer, op));
    if (state === 'close') {
      const open = this.#open.get(key);
      this.#open.delete(key);
      this.#matcher.close(member, group, sequence, peer, op, start + length);
      if (open !== undefined) open.exit ??= start + length;
      return;
    }
    const exit = state === 'open' ? undefined : start + length;
    const about = { lane: lane.index, isAsync, meeting: undefined, waitedUntil: start, lag: undefined, exposed: undefined };
    const part: Part = { member, rank, op, group, sequence, peer, bytes, size: sizeOf(event), entry: start, exit, ...about };
    if (exit === undefined) this.#keepOpen(key, part);
    this.#part = part;
    this.#added++;
    this.#toMatch.add(start, part);
  }

  endStretch(): void {
    this.#toMatch.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    for (const { onEnding } of this.#listeners) onEnding?.(totals);
    this.#matcher.end();
  }

  /** The part that began with the last event; undefined where that was none. */
  get part(): RawCollective | undefined {
    return this.#part;
  }

  /** Parts that came, and those of them that no match has: recorded twice, or too many waiting at once. */
  get counts(): { readonly added: number; readonly duplicates: number; readonly overflow: number } {
    const { duplicates, overflow } = this.#matcher;
    return { added: this.#added, duplicates, overflow };
  }

  /** A matcher with all that is pending; what is added to it changes nothing here. */
  fork(onMatched: (matched: MatchedCollective) => void): CollectiveMatcher {
    return this.#matcher.fork(onMatched);
  }

  /** The ranks of each group, in a job with sends: they form a stage. A rank without a group that exchanges sends with another is a stage of its own. */
  get groups(): readonly ReadonlySet<number>[] {
    if (this.#sends.size === 0) return [];
    const both = [...this.#sends].map((pair) => pair.split(' ').map(Number) as [number, number]);
    const alone = both.filter(([from, to]) => this.#sends.has(`${to} ${from}`)).map(([from]) => new Set([from]));
    return [...this.#groups.values(), ...alone];
  }

  #keepOpen(key: string, part: Part): void {
    this.#open.set(key, part);
    if (this.#open.size > limits.blameCollectivesOpenMax) this.#open.delete(this.#open.keys().next().value as string);
  }

  #meet(matched: MatchedCollective): void {
    const { group, pair, parts, missing } = matched;
    if (pair !== undefined) {
      if (this.#sends.size < limits.blamePhasesMax) this.#sends.add(pair.join(' '));
      // Where a recording begins, ranks may be missing from a collective of all.
    } else if (parts.length > 1 && parts.length < this.#worldSize && missing.length === 0) this.#addGroup(group, parts);
    const timing = missing.length > 0 ? undefined : collectiveTiming(matched, (member) => this.#processes.get(member));
    const met = timing && meetingOf(matched, timing);
    if (met !== undefined) {
      for (const { part, waitedUntil, lag } of met.parts) {
        const raw = part as Part;
        // A rank that was not recorded, or is distrusted, may have come last.
        if (pair === undefined && raw.size > parts.length) continue;
        raw.meeting = met.meeting;
        raw.waitedUntil = waitedUntil;
        raw.lag = lag;
      }
    }
    for (const { onMatched } of this.#listeners) onMatched?.(matched, timing);
  }

  #addGroup(group: string, parts: readonly CollectivePart[]): void {
    let ranks = this.#groups.get(group);
    if (ranks === undefined) {
      if (this.#groups.size >= limits.blamePhasesMax) return;
      ranks = new Set();
      this.#groups.set(group, ranks);
    }
    for (const { rank } of parts) ranks.add(rank);
  }
}

function sizeOf(event: TraceEvent): number {
  const size = argumentOf(event, 'Group size');
  return typeof size === 'number' ? size : 0;
}

/** A send and a collective of one group may have the same number, and begin at the same time. */
const openKey = (member: number, sequence: number, entry: number, group: string, pair: readonly [number, number] | undefined): string =>
  `${member} ${sequence} ${entry} ${pair ?? ''} ${group}`;
