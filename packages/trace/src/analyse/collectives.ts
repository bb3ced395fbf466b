// Collectives by (group, operation) and sends by (group, source → destination): how unevenly ranks entered, which rank was waited for, transfer
// times and bandwidths. A sink on the merge that writes the trace.
//
// Only complete collectives are timed: with a part missing, the last rank in is unknown. Those with an unaligned host are counted, but not
// timed.
//
// Memory: a line per group and operation, `limits.collectiveLinesMax` of either kind, and `limits.collectiveRecordsMax` single collectives.

import { collectiveKind, type Nanos, nanos, type TraceTime } from '@ranktrace/protocol';
import { CollectiveParts } from '../blame/collective-parts.ts';
import type { MatchedCollective } from '../match/collective-matcher.ts';
import type { CollectiveTiming } from '../match/collective-timing.ts';
import { limits } from '../model/limits.ts';
import { QuantileSketch } from '../model/quantile-sketch.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';

/** Quantiles of some values (lengths: ns); accurate to 1 %, exact for up to 256 of them. */
export interface SpreadSummary {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

/** A rank's part in one line. */
export interface CollectiveRank {
  readonly rank: number;
  /** Total ns that it waited for others. */
  readonly waiting: Nanos;
  /** How often it entered last, by more than the clocks' error. */
  readonly lastIn: number;
  /** Collectives without its part. */
  readonly missing: number;
}

interface LineSummary {
  readonly group: string;
  /** Collectives with all their parts. */
  readonly count: number;
  /** Collectives with a missing part: never entered, or never recorded. The fields below exclude them. */
  readonly incomplete: number;
  /** Collectives with a part that never ended. */
  readonly unfinished: number;
  /** Collectives with an unaligned host clock. The fields below exclude them. */
  readonly unaligned: number;
  readonly entrySkew: SpreadSummary | undefined;
  readonly transfer: SpreadSummary | undefined;
  /** Collectives with a transfer longer than their epsilon. Bandwidths cover only these. */
  readonly distinguishable: number;
  /** Worst error of one rank's times against another's, ± ns; undefined if none could be timed. */
  readonly epsilon: Nanos | undefined;
  /** Impossible orders, due to clock error: left before the last rank had entered, or received before it was sent. */
  readonly violations: number;
  /** Total bytes that ranks put in. */
  readonly bytes: number;
  /** Bytes per second. */
  readonly algorithmBandwidth: SpreadSummary | undefined;
  readonly busBandwidth: SpreadSummary | undefined;
}

export interface CollectiveLine extends LineSummary {
  /** One of `CollectiveKind`, else the program's own name. */
  readonly op: string;
  /** Ranks of the largest collective. */
  readonly ranks: number;
  /** Latest exit − earliest exit. */
  readonly exitSpread: SpreadSummary | undefined;
  /** Total ns that all ranks waited. */
  readonly waiting: Nanos;
  /** By rank; ranks beyond the limit are left out. */
  readonly perRank: readonly CollectiveRank[];
}

export interface SendLine extends LineSummary {
  readonly source: number;
  readonly destination: number;
  /** Sends without a receive, and receives without a send. */
  readonly withoutReceive: number;
  readonly withoutSend: number;
  /** Total ns that the receiver waited for the sender to begin, and the sender for the receiver. */
  readonly lateSender: Nanos;
  readonly lateReceiver: Nanos;
}

/** One collective, or one send and its receive. */
export interface CollectiveRecord {
  readonly group: string;
  readonly sequence: number;
  readonly op: string;
  /** Source and destination rank of a send. */
  readonly pair: readonly [number, number] | undefined;
  /** Time at which the first rank entered. */
  readonly time: TraceTime;
  readonly entrySkew: Nanos;
  /** In order of process. */
  readonly waiting: readonly { readonly rank: number; readonly waiting: Nanos }[];
  /** The rank that entered last; undefined if it is within clock error. */
  readonly lastIn: number | undefined;
  readonly transfer: Nanos | undefined;
  readonly epsilon: Nanos | undefined;
  readonly isDistinguishable: boolean;
  readonly bytes: number;
  readonly algorithmBandwidth: number | undefined;
  readonly busBandwidth: number | undefined;
}

export interface CollectiveSummary {
  /** Longest total waiting first. */
  readonly collectives: readonly CollectiveLine[];
  readonly sends: readonly SendLine[];
  /** Collectives and sends beyond the limit of lines, on the last line, `(other groups)`. */
  readonly leftOut: number;
  /** The collectives with the longest waits, longest first. */
  readonly longest: readonly CollectiveRecord[];
  /** Parts received, and unmatched ones: recorded twice, or too many waiting at once. */
  readonly parts: { readonly added: number; readonly duplicates: number; readonly overflow: number };
}

/** Name of the group that collects all beyond `limits.collectiveLinesMax` lines. */
export const otherGroups = '(other groups)';

type Count = 'count' | 'incomplete' | 'unfinished' | 'unaligned' | 'distinguishable' | 'violations' | 'bytes';

interface Line {
  readonly group: string;
  readonly op: string;
  readonly pair: readonly [number, number] | undefined;
  readonly counts: Record<Count, number>;
  readonly spreads: Record<'entrySkew' | 'transfer' | 'exitSpread' | 'algorithm' | 'bus', QuantileSketch>;
  readonly perRank: Map<number, { waiting: number; lastIn: number; missing: number }>;
  ranks: number;
  epsilon: number | undefined;
  waiting: number;
  withoutReceive: number;
  withoutSend: number;
}

export class CollectiveSink implements TraceSink {
  readonly #parts: CollectiveParts;
  readonly #ownsParts: boolean;
  readonly #collectives = new Map<string, Line>();
  readonly #sends = new Map<string, Line>();
  readonly #longest: { readonly total: number; readonly record: CollectiveRecord }[] = [];
  #processes: ReadonlyMap<number, TraceProcess> = new Map();
  #leftOut = 0;
  #rankLines = 0;

  /** `parts`: collectives of the same merge; default its own. */
  constructor(parts?: CollectiveParts) {
    this.#parts = parts ?? new CollectiveParts();
    this.#ownsParts = parts === undefined;
    this.#parts.listen({ onMatched: (matched, timing) => this.#count(matched, timing) });
  }

  begin(header: TraceHeader): void {
    if (this.#ownsParts) this.#parts.begin(header);
    this.#processes = new Map(header.processes.map((process) => [process.index, process]));
  }

  lane(): void {}

  event(event: TraceEvent): void {
    if (this.#ownsParts) this.#parts.event(event);
  }

  endStretch(): void {
    if (this.#ownsParts) this.#parts.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    if (this.#ownsParts) this.#parts.end(totals);
  }

  get summary(): CollectiveSummary {
    const byWaiting = (lines: ReadonlyMap<string, Line>): Line[] => [...lines.values()].sort((a, b) => b.waiting - a.waiting);
    return {
      collectives: byWaiting(this.#collectives).map(collectiveLine),
      sends: byWaiting(this.#sends).map(sendLine),
      leftOut: this.#leftOut,
      longest: this.#longest.map(({ record }) => record),
      parts: this.#parts.counts,
    };
  }

  #count(matched: MatchedCollective, timing: CollectiveTiming | undefined): void {
    const { parts, missing, pair } = matched;
    const line = this.#lineOf(matched);
    const { counts } = line;
    line.ranks = Math.max(line.ranks, parts.length + missing.length);
    if (parts.some(({ exit }) => exit === undefined)) counts.unfinished++;
    if (timing === undefined || (pair !== undefined && parts.length < 2)) this.#countIncomplete(line, matched);
    else {
      counts.count++;
      for (const { bytes } of parts) counts.bytes += bytes;
      if (timing.epsilon === undefined) counts.unaligned++;
      else this.#time(line, matched, timing, timing.epsilon);
    }
  }

  #countIncomplete(line: Line, { parts, missing, pair }: MatchedCollective): void {
    line.counts.incomplete++;
    if (pair === undefined) {
      for (const member of missing) {
        const about = this.#rankLine(line, this.#processes.get(member)?.rank ?? -1);
        if (about !== undefined) about.missing++;
      }
    } else if (parts[0]?.rank === pair[0]) line.withoutReceive++;
    else line.withoutSend++;
  }

  #time(line: Line, matched: MatchedCollective, timing: CollectiveTiming, epsilon: Nanos): void {
    const { spreads, counts } = line;
    const { entrySkew, transfer, exitSpread, bandwidth, waiting } = timing;
    spreads.entrySkew.add(entrySkew);
    if (transfer !== undefined) spreads.transfer.add(transfer);
    if (exitSpread !== undefined) spreads.exitSpread.add(exitSpread);
    if (bandwidth !== undefined) {
      spreads.algorithm.add(bandwidth.algorithm);
      spreads.bus.add(bandwidth.bus);
    }
    if (timing.isDistinguishable) counts.distinguishable++;
    if (timing.isViolation) counts.violations++;
    line.epsilon = Math.max(line.epsilon ?? 0, epsilon);
    let total = 0;
    for (const [place, { rank }] of matched.parts.entries()) {
      const waited = waiting[place] as number;
      total += waited;
      const about = this.#rankLine(line, rank);
      if (about === undefined) continue;
      about.waiting += waited;
      if (rank === timing.lastIn && matched.parts.length > 1) about.lastIn++;
    }
    line.waiting += total;
    this.#keepRecord(total, matched, timing);
  }

  #lineOf({ group, op: called, pair }: MatchedCollective): Line {
    const lines = pair === undefined ? this.#collectives : this.#sends;
    const op = pair === undefined ? (collectiveKind(called) ?? called) : 'send';
    const key = pair === undefined ? `${op.length} ${op} ${group}` : `${pair[0]} ${pair[1]} ${group}`;
    const line = lines.get(key);
    if (line !== undefined) return line;
    if (lines.size < limits.collectiveLinesMax - 1) return addLine(lines, key, group, op, pair);
    this.#leftOut++;
    return lines.get(otherGroups) ?? addLine(lines, otherGroups, otherGroups, '', pair === undefined ? undefined : [-1, -1]);
  }

  #rankLine({ perRank, pair }: Line, rank: number): { waiting: number; lastIn: number; missing: number } | undefined {
    let about = perRank.get(rank);
    if (about !== undefined) return about;
    // The shared last line still has two sides, of whatever ranks.
    if (pair?.[0] === -1 || this.#rankLines >= limits.collectiveRankLinesMax) return undefined;
    this.#rankLines++;
    about = { waiting: 0, lastIn: 0, missing: 0 };
    perRank.set(rank, about);
    return about;
  }

  #keepRecord(total: number, { group, sequence, op, pair, parts }: MatchedCollective, timing: CollectiveTiming): void {
    const longest = this.#longest;
    if (longest.length === limits.collectiveRecordsMax && total <= (longest.at(-1)?.total as number)) return;
    const { time, entrySkew, lastIn, transfer, epsilon, isDistinguishable, bytes, bandwidth } = timing;
    const waiting = parts.map(({ rank }, place) => ({ rank, waiting: timing.waiting[place] as Nanos }));
    const bandwidths = { algorithmBandwidth: bandwidth?.algorithm, busBandwidth: bandwidth?.bus };
    const about = { time, entrySkew, waiting, lastIn, transfer, epsilon, isDistinguishable, bytes };
    const after = longest.findIndex((held) => held.total < total);
    longest.splice(after < 0 ? longest.length : after, 0, { total, record: { group, sequence, op, pair, ...about, ...bandwidths } });
    longest.length = Math.min(longest.length, limits.collectiveRecordsMax);
  }
}

function addLine(lines: Map<string, Line>, key: string, group: string, op: string, pair: readonly [number, number] | undefined): Line {
  const sketch = (): QuantileSketch => new QuantileSketch();
  const line: Line = {
    group,
    op,
    pair,
    counts: { count: 0, incomplete: 0, unfinished: 0, unaligned: 0, distinguishable: 0, violations: 0, bytes: 0 },
    spreads: { entrySkew: sketch(), transfer: sketch(), exitSpread: sketch(), algorithm: sketch(), bus: sketch() },
    perRank: new Map(),
    ranks: 0,
    epsilon: undefined,
    waiting: 0,
    withoutReceive: 0,
    withoutSend: 0,
  };
  lines.set(key, line);
  return line;
}

function lineSummary({ group, counts, spreads, epsilon }: Line): LineSummary {
  return {
    ...counts,
    group,
    entrySkew: spreadSummary(spreads.entrySkew),
    transfer: spreadSummary(spreads.transfer),
    epsilon: epsilon === undefined ? undefined : nanos(epsilon),
    algorithmBandwidth: spreadSummary(spreads.algorithm),
    busBandwidth: spreadSummary(spreads.bus),
  };
}

function collectiveLine(line: Line): CollectiveLine {
  const { op, ranks, spreads, waiting, perRank } = line;
  const rows = [...perRank].sort(([a], [b]) => a - b).map(([rank, about]) => ({ rank, ...about, waiting: nanos(about.waiting) }));
  return { ...lineSummary(line), op, ranks, exitSpread: spreadSummary(spreads.exitSpread), waiting: nanos(waiting), perRank: rows };
}

function sendLine(line: Line): SendLine {
  const { pair, perRank, withoutReceive, withoutSend } = line;
  const [source, destination] = pair as readonly [number, number];
  const waited = (rank: number): Nanos => nanos(perRank.get(rank)?.waiting ?? 0);
  const late = { lateSender: waited(destination), lateReceiver: waited(source) };
  return { ...lineSummary(line), source, destination, withoutReceive, withoutSend, ...late };
}

function spreadSummary(sketch: QuantileSketch): SpreadSummary | undefined {
  const [p50, p95] = sketch.quantiles([0.5, 0.95]) ?? [];
  const max = sketch.most;
  return p50 === undefined || p95 === undefined || max === undefined ? undefined : { count: sketch.count, p50, p95, max };
}
