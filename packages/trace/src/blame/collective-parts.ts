// Each rank's parts of collectives, matched once for all analyses of a merge, with their meetings: set when the other ranks' parts have come.
//
//   event ─► part ─► matcher ─► matched collective, timed once ─► waits, open work
//             │                                            └────► meeting of each part
//             └─► blame of hosts, blame of devices
//
// A sink that is given none has one of its own, and passes its events on to it.

import { CollectiveMatcher, type CollectivePart, type MatchedCollective } from '../match/collective-matcher.ts';
import { type CollectiveTiming, collectiveTiming } from '../match/collective-timing.ts';
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

type Part = RawCollective & CollectivePart;

export class CollectiveParts implements TraceSink {
  readonly #matcher = new CollectiveMatcher((matched) => this.#meet(matched));
  readonly #processes = new Map<number, TraceProcess>();
  readonly #listeners: PartsListener[] = [];
  /** Parts that came without their end. */
  readonly #open = new Map<string, Part>();
  /** Ranks that met in groups smaller than the world: they reveal equal work if no metadata does. */
  readonly #groups = new Map<string, Set<number>>();
  #worldSize = 0;
  #hasSends = false;
  #part: Part | undefined;

  listen(listener: PartsListener): void {
    this.#listeners.push(listener);
  }

  begin({ processes, worldSize }: TraceHeader): void {
    this.#worldSize = worldSize;
    for (const process of processes) this.#processes.set(process.index, process);
  }

  lane(): void {}

  event(event: TraceEvent): void {
    this.#part = undefined;
    if (event.kind !== 'collective') return;
    const { lane, state, start, length, name: op, group, sequence, peerRank: peer, bytes } = event;
    const { index: member, rank } = lane.process;
    if (state === 'close') {
      const key = openKey(member, sequence, start, group);
      const open = this.#open.get(key);
      this.#open.delete(key);
      this.#matcher.close(member, group, sequence, peer, op, start + length);
      if (open !== undefined) open.exit ??= start + length;
      return;
    }
    const exit = state === 'open' ? undefined : start + length;
    const about = { lane: lane.index, meeting: undefined, waitedUntil: start, lag: undefined, exposed: undefined };
    const part: Part = { member, rank, op, bytes, entry: start, exit, ...about };
    if (exit === undefined) this.#keepOpen(openKey(member, sequence, start, group), part);
    this.#part = part;
    this.#matcher.add({ member, rank, op, group, sequence, peer, bytes, entry: start, exit }, part);
  }

  end(totals: readonly ProcessTotals[]): void {
    for (const { onEnding } of this.#listeners) onEnding?.(totals);
    this.#matcher.end();
  }

  /** The part that began with the last event; undefined where that was none. */
  get part(): RawCollective | undefined {
    return this.#part;
  }

  /** A matcher with all that is pending; what is added to it changes nothing here. */
  fork(onMatched: (matched: MatchedCollective) => void): CollectiveMatcher {
    return this.#matcher.fork(onMatched);
  }

  /** The ranks of each group, in a job with sends: they form a stage. */
  get groups(): readonly ReadonlySet<number>[] {
    return this.#hasSends ? [...this.#groups.values()] : [];
  }

  #keepOpen(key: string, part: Part): void {
    this.#open.set(key, part);
    if (this.#open.size > limits.blameCollectivesOpenMax) this.#open.delete(this.#open.keys().next().value as string);
  }

  #meet(matched: MatchedCollective): void {
    const { group, pair, parts, missing } = matched;
    if (pair !== undefined) this.#hasSends = true;
    else if (parts.length > 1 && parts.length < this.#worldSize) this.#addGroup(group, parts);
    const timing = missing.length > 0 ? undefined : collectiveTiming(matched, (member) => this.#processes.get(member));
    const met = timing && meetingOf(matched, timing);
    if (met !== undefined) {
      for (const { part, waitedUntil, lag } of met.parts) {
        const raw = part as Part;
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

const openKey = (member: number, sequence: number, entry: number, group: string): string => `${member} ${sequence} ${entry} ${group}`;
