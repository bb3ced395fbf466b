// Open work at the end of the stream: where a job hangs. Per rank the time of its last sign of life, its last step and the spans it began and
// did not end; per open collective the ranks that left it and those that never entered.
//
// Where a schedule records nothing, ranks still report their current phase and collective (`ProcessTotals.place`), used in place of spans.
//
// For a restarted rank only its newest life counts: an earlier life's open work ended with it. A rank that ended in good order has no open
// work: a missing end was lost, as `data_loss` reports, or the program never awaited it. One that a signal ended has some: it was in the midst of a step.
//
// Memory: `limits.openSpansMax` open spans, as many groups of ranks, and what CollectiveMatcher holds.

import {
  absentKey,
  collectiveKind,
  endedByKey,
  failedKey,
  groupsOfAllRanks,
  isSameOperation,
  pairOf,
  readAbsent,
  stoppedKey,
  type TraceTime,
  traceTime,
} from '@ranktrace/protocol';
import { CollectiveParts } from '../blame/collective-parts.ts';
import type { AddedPart, CollectivePart, MatchedCollective } from '../match/collective-matcher.ts';
import { limits } from '../model/limits.ts';
import { shownEnd } from '../model/shown-name.ts';
import type { ProcessPlace, ProcessTotals, TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { type PhaseRoles, phaseRolesOf } from '../steps/phase-role.ts';

/** The innermost open span of one line of a rank. */
export interface OpenSpanSummary {
  readonly lane: string;
  readonly kind: TraceEvent['kind'];
  readonly name: string;
  readonly since: TraceTime;
  /** Names of the open spans around it, outermost first: the nearest 64. */
  readonly around: readonly string[];
}

export interface OpenRank {
  readonly rank: number;
  readonly hostName: string;
  readonly pid: number;
  /** Its last sign of life: its last watermark, or where it did not end, the end of a later event. */
  readonly until: TraceTime;
  readonly lastStep: { readonly step: number; readonly end: TraceTime } | undefined;
  /** Longest open first. */
  readonly open: readonly OpenSpanSummary[];
  /** Its place in its step, where it reported one, and the phases of a step in order. */
  readonly place: ProcessPlace | undefined;
  readonly phases: readonly string[];
  /** The signal that ended it, and it said goodbye. */
  readonly endedBy: string | undefined;
  /** The command that started it had asked it to end. */
  readonly isStopped: boolean;
}

/** A collective, or a send, that some rank entered and did not leave. */
export interface OpenCollective {
  readonly group: string;
  readonly sequence: number;
  readonly op: string;
  readonly pair: readonly [number, number] | undefined;
  /** In order of entry. */
  readonly inside: readonly { readonly rank: number; readonly since: TraceTime }[];
  readonly left: readonly number[];
  /** Ranks of the group that never entered: for `world` all others, for another group those that took part in it before, or that a file names. */
  readonly missing: readonly number[];
  /** Ranks of the group of which nothing was recorded: they may be inside, too. */
  readonly unheard: readonly number[];
  /** Ranks that called another operation under this number, or an all-reduce with another size than most: neither can end. */
  readonly differing: readonly { readonly rank: number; readonly op: string; readonly bytes: number }[];
  /** Size of the all-reduce on most ranks, bytes; 0: unknown, or another operation. */
  readonly bytes: number;
}

export interface OpenWorkSummary {
  /** The last sign of life of any rank; undefined without ranks. */
  readonly until: TraceTime | undefined;
  /** Ranks that did not end in good order, or by a signal. */
  readonly ranks: readonly OpenRank[];
  /** Ranks that ended in good order, or by an error, and whether any did by an error. */
  readonly ended: { readonly ranks: readonly number[]; readonly until: TraceTime; readonly hasFailed: boolean } | undefined;
  /** Roles of the phases. */
  readonly roles: Pick<PhaseRoles, 'of'>;
  /** Longest open first. */
  readonly collectives: readonly OpenCollective[];
  /** Open collectives and open spans beyond the limits, left out. */
  readonly collectivesLeftOut: number;
  readonly spansLeftOut: number;
}

interface UnendedSpan {
  readonly event: Pick<TraceEvent, 'kind' | 'name' | 'start' | 'lane'>;
  /** Number of spans with the same start, name and line. */
  times: number;
}

interface Life {
  readonly process: TraceProcess;
  /** In order of start. */
  readonly open: Map<string, UnendedSpan>;
  lastStep: { readonly step: number; readonly end: TraceTime } | undefined;
  phases: ReadonlyMap<string, unknown> | undefined;
  /** By group, the last collective entered. */
  readonly entered: Map<string, { sequence: number; start: number }>;
  until: number;
  ended: boolean;
  /** Place of a rank that did not end, or by a signal. */
  place: ProcessPlace | undefined;
}

export class OpenWorkSink implements TraceSink {
  readonly #parts: CollectiveParts;
  readonly #ownsParts: boolean;
  /** By `TraceProcess.index`. */
  #lives: Life[] = [];
  /** The newest life of each rank. */
  #current = new Map<number, Life>();
  #worldSize = 0;
  #openSpans = 0;
  #enteredGroups = 0;
  #leftOut = 0;
  #collectivesLeftOut = 0;
  #ending = false;
  #collectives: OpenCollective[] = [];

  /** `parts`: collectives of the same merge; default its own. */
  constructor(parts?: CollectiveParts) {
    this.#parts = parts ?? new CollectiveParts();
    this.#ownsParts = parts === undefined;
    this.#parts.listen({
      // Collectives reported before the end are over, or their rank has restarted.
      onMatched: (matched) => {
        if (this.#ending) this.#addOpen(matched);
      },
      onEnding: (totals) => this.#endOf(totals),
    });
  }

  begin(header: TraceHeader): void {
    if (this.#ownsParts) this.#parts.begin(header);
    const { processes, worldSize } = header;
    this.#worldSize = worldSize;
    for (const process of processes) {
      const life: Life = {
        process,
        open: new Map(),
        lastStep: undefined,
        phases: undefined,
        entered: new Map(),
        until: Number.NEGATIVE_INFINITY,
        ended: false,
        place: undefined,
      };
      this.#lives[process.index] = life;
      const known = this.#current.get(process.rank);
      if (known === undefined || known.process.index < process.index) this.#current.set(process.rank, life);
    }
  }

  lane(): void {}

  event(event: TraceEvent): void {
    if (this.#ownsParts) this.#parts.event(event);
    const life = this.#lives[event.lane.process.index];
    if (life === undefined) return;
    const end = event.start + event.length;
    if (end > life.until) life.until = end;
    if (event.kind === 'step') {
      life.lastStep = { step: event.step, end: traceTime(end) };
      life.phases = event.phases;
    }
    if (event.kind === 'collective' && event.state !== 'close') this.#enter(life, event);
    if (event.state === 'open') this.#open(life, event);
    else if (event.state === 'close') this.#close(life, event);
  }

  endStretch(): void {
    if (this.#ownsParts) this.#parts.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    if (this.#ownsParts) this.#parts.end(totals);
  }

  #endOf(totals: readonly ProcessTotals[]): void {
    const unrecorded: AddedPart[] = [];
    for (const { process, until, ended, place } of totals) {
      const life = this.#lives[process.index];
      if (life === undefined) continue;
      life.ended = ended && !process.metadata.has(endedByKey);
      if (until !== undefined) life.until = ended ? until : Math.max(until, life.until);
      if (this.#current.get(process.rank) !== life) continue;
      life.place = place;
      const part = life.ended ? undefined : unrecordedPart(life);
      if (part !== undefined) unrecorded.push(part);
    }
    this.#ending = unrecorded.length === 0;
    if (this.#ending) return;
    const matcher = this.#parts.fork((matched) => {
      if (this.#ending) this.#addOpen(matched);
    });
    for (const part of unrecorded) matcher.add(part);
    this.#ending = true;
    matcher.end();
    this.#ending = false;
  }

  get summary(): OpenWorkSummary {
    const lives = [...this.#current.values()].sort((a, b) => a.process.rank - b.process.rank);
    const until = lives.reduce((latest, life) => Math.max(latest, life.until), Number.NEGATIVE_INFINITY);
    return {
      until: Number.isFinite(until) ? traceTime(until) : undefined,
      ranks: lives.filter(({ ended }) => !ended).map(openRank),
      ended: endedOf(lives.filter(({ ended }) => ended)),
      roles: phaseRolesOf(lives.map(({ process }) => process)),
      collectives: this.#collectives.toSorted((a, b) => sinceOf(a) - sinceOf(b)),
      collectivesLeftOut: this.#collectivesLeftOut,
      spansLeftOut: this.#leftOut,
    };
  }

  #open(life: Life, { kind, name, start, lane }: TraceEvent): void {
    const key = openKey(lane.index, start, name);
    const known = life.open.get(key);
    if (known !== undefined) {
      known.times++;
      return;
    }
    if (this.#openSpans >= limits.openSpansMax) {
      this.#leftOut++;
      return;
    }
    this.#openSpans++;
    life.open.set(key, { event: { kind, name, start, lane }, times: 1 });
  }

  #close(life: Life, { name, start, lane }: TraceEvent): void {
    const key = openKey(lane.index, start, name);
    const known = life.open.get(key);
    if (known === undefined) {
      // A span left out for lack of room.
      this.#leftOut = Math.max(0, this.#leftOut - 1);
    } else if (--known.times === 0) {
      life.open.delete(key);
      this.#openSpans--;
    }
  }

  #enter(life: Life, { group, sequence, start, name, peerRank }: TraceEvent): void {
    if (pairOf(life.process.rank, peerRank, name) !== undefined) return;
    const known = life.entered.get(group);
    if (known !== undefined) {
      known.sequence = sequence;
      known.start = start;
    } else if (this.#enteredGroups < limits.openSpansMax) {
      this.#enteredGroups++;
      life.entered.set(group, { sequence, start });
    }
  }

  /** Whether the rank has been in that collective, or a later one, by its own report, or as it was in a later one after others entered this one. */
  #hasEntered(rank: number, group: string, sequence: number, since: number): boolean {
    const life = this.#current.get(rank);
    const last = life?.entered.get(group);
    if (last !== undefined && last.sequence > sequence && last.start >= since) return true;
    return (life?.place?.entered.get(group) ?? -1) >= sequence;
  }

  /** Ranks that belong to the group, as the rank knows, and that are not seen in it. */
  #absentOf(rank: number, group: string): readonly number[] {
    const text = this.#current.get(rank)?.process.metadata.get(absentKey);
    return (text === undefined ? undefined : readAbsent(text))?.find(([of]) => of === group)?.[1] ?? [];
  }

  #addOpen({ group, sequence, op, pair, parts, missing }: MatchedCollective): void {
    const isInside = ({ member, rank, exit }: CollectivePart): boolean => {
      const life = this.#current.get(rank);
      return exit === undefined && life?.process.index === member && !life.ended;
    };
    const stuck = parts.filter(isInside).sort((a, b) => a.entry - b.entry);
    if (stuck.length === 0) return;
    // They come in order of their first part.
    if (this.#collectives.length >= limits.openCollectivesMax) {
      this.#collectivesLeftOut++;
      return;
    }
    const inside = stuck.map(({ rank, entry }) => ({ rank, since: traceTime(entry) }));
    const left = new Set(parts.filter((part) => !isInside(part)).map(({ rank }) => rank));
    const came = new Set(parts.map(({ rank }) => rank));
    let absent = missing.map((member) => this.#lives[member]?.process.rank ?? -1);
    if (pair !== undefined) absent = parts.length < 2 ? [...new Set(pair)].filter((rank) => !came.has(rank)) : [];
    else if (groupsOfAllRanks.has(group))
      absent = Array.from({ length: this.#worldSize }, (_, rank) => rank).filter((rank) => !came.has(rank));
    else {
      const named = stuck.flatMap(({ rank }) => this.#absentOf(rank, group));
      absent = [...new Set([...absent, ...named])].filter((rank) => !came.has(rank));
    }
    if (pair === undefined) {
      for (const rank of absent) if (this.#hasEntered(rank, group, sequence, inside[0]?.since ?? 0)) left.add(rank);
      absent = absent.filter((rank) => !left.has(rank));
    }
    const unheard = absent.filter((rank) => !this.#current.has(rank));
    absent = absent.filter((rank) => this.#current.has(rank));
    const bytes = pair === undefined && collectiveKind(op) === 'all_reduce' ? mostCommon(parts.map((part) => part.bytes)) : 0;
    const differing =
      pair === undefined ? parts.filter((part) => !isSameCall(part, op, bytes)).map(({ rank, op, bytes }) => ({ rank, op, bytes })) : [];
    const others = { left: inOrder([...left]), missing: inOrder(absent), unheard: inOrder(unheard), differing };
    this.#collectives.push({ group, sequence, op, pair, inside, ...others, bytes });
  }
}

const isSameCall = (part: CollectivePart, op: string, bytes: number): boolean =>
  isSameOperation(part.op, op) && (bytes === 0 || part.bytes === 0 || part.bytes === bytes);

/** The most frequent of the numbers above 0, the larger one of two; 0 without any. */
function mostCommon(numbers: readonly number[]): number {
  const times = new Map<number, number>();
  for (const number of numbers) if (number > 0) times.set(number, (times.get(number) ?? 0) + 1);
  const [[most] = [0]] = [...times].sort(([a, timesA], [b, timesB]) => timesB - timesA || b - a);
  return most;
}

/** The collective that a rank reports to be in, if its span was not recorded. */
function unrecordedPart({ process: { index: member, rank }, open, place }: Life): AddedPart | undefined {
  if (place?.collective === undefined) return undefined;
  const { op, group, sequence, since } = place.collective;
  for (const { event } of open.values()) if (event.kind === 'collective' && event.start === since && event.name === op) return undefined;
  return { member, rank, op, group, sequence, peer: -1, bytes: 0, entry: since, exit: undefined };
}

function endedOf(lives: readonly Life[]): OpenWorkSummary['ended'] {
  if (lives.length === 0) return undefined;
  const until = traceTime(Math.max(...lives.map((life) => life.until)));
  return {
    ranks: lives.map(({ process }) => process.rank),
    until,
    hasFailed: lives.some(({ process }) => process.metadata.has(failedKey)),
  };
}

const aroundMax = 64;

const openKey = (lane: number, start: number, name: string): string => `${lane} ${start} ${name}`;

const sinceOf = ({ inside }: OpenCollective): number => inside[0]?.since ?? 0;

const inOrder = (ranks: number[]): number[] => ranks.sort((a, b) => a - b);

function openRank({ process, open, lastStep, phases, until, place }: Life): OpenRank {
  const { rank, hostName, pid } = process;
  const lines = new Map<number, UnendedSpan[]>();
  for (const span of open.values()) {
    const line = lines.get(span.event.lane.index);
    if (line === undefined) lines.set(span.event.lane.index, [span]);
    else line.push(span);
  }
  const innermost = [...lines.values()].map((spans): OpenSpanSummary => {
    const sorted = spans.toSorted((a, b) => a.event.start - b.event.start);
    const { kind, name, start, lane } = (sorted.at(-1) as UnendedSpan).event;
    return { lane: lane.name, kind, name, since: start, around: sorted.slice(-1 - aroundMax, -1).map(({ event }) => event.name) };
  });
  if (innermost.length === 0 && place !== undefined) innermost.push(...unrecordedOf(place));
  const heard = traceTime(Number.isFinite(until) ? until : 0);
  const about = { rank, hostName, pid, until: heard, lastStep, place, phases: [...(phases?.keys() ?? [])] };
  const endedBy = process.metadata.get(endedByKey);
  return {
    ...about,
    open: innermost.sort((a, b) => a.since - b.since),
    endedBy: endedBy === undefined ? undefined : shownEnd(endedBy),
    isStopped: process.metadata.has(stoppedKey),
  };
}

/** The line for unrecorded work: the stepping thread's. */
const steppingLane = 'main';

function unrecordedOf({ phase, collective }: ProcessPlace): OpenSpanSummary[] {
  if (collective !== undefined) {
    const around = phase === undefined || phase.name === collective.op ? [] : [phase.name];
    return [{ lane: steppingLane, kind: 'collective', name: collective.op, since: collective.since, around }];
  }
  return phase === undefined ? [] : [{ lane: steppingLane, kind: 'span', name: phase.name, since: phase.since, around: [] }];
}
