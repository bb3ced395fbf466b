// How far ranks came in their collectives, as sources outside of their training loops report it while a hang is suspected.
//
//   Flight Recorder   single collectives: who is inside, who never entered
//   NCCL's RAS        counts of launched collectives: who launched fewer. Where the counts agree it says nothing: it has called a hung job healthy
//
// A rank that waits inside a collective is missing in those that come after it; it is not to blame for them.
//
// Invariant: a source names ranks only where all that it reports agrees on them, and several sources name only the ranks that each of them names.
// Invariant: memory is bounded: `alertGroupsMax` groups a source, one entry for each rank and group.

import type { CollectiveReport } from '@ranktrace/protocol';
import { calledOperation } from '../match/called-operation.ts';
import { collectiveText } from '../match/collective-number.ts';
import { alertLimits as limits } from './alert-limits.ts';
import { nameText, ranksText } from './alert-text.ts';
import type { StuckCollective } from './open-collectives.ts';

export type ReportSource = CollectiveReport['source'];

/** Ranks that one source holds responsible: what the ranks announce themselves, or a report. */
export interface Accusation {
  readonly source: 'ranks' | ReportSource;
  readonly ranks: readonly number[];
  readonly text: string;
}

interface Progress {
  readonly entered: number;
  readonly open: { readonly op: string; readonly sequence: number; readonly sinceMs: number } | undefined;
  /** When `entered` was first reported, and the newest report. */
  readonly sinceMs: number;
  readonly reportedMs: number;
}

type Groups = Map<string, Map<number, Progress>>;

const sourceNames: Readonly<Record<ReportSource, string>> = { flight_recorder: 'Flight Recorder', nccl_ras: 'NCCL RAS' };

export class CollectiveReports {
  readonly #sources: Readonly<Record<ReportSource, Groups>> = { flight_recorder: new Map(), nccl_ras: new Map() };
  #progressMs = Number.NaN;
  #newestMs = Number.NaN;
  #longestPauseMs = 0;

  /** When a rank was last seen to have entered a further collective; NaN before the first report. */
  get progressMs(): number {
    return this.#progressMs;
  }

  /** Whether reports come, and show no progress for `ms`. */
  isQuiet(ms: number, nowMs: number): boolean {
    return isFresh(this.#newestMs, nowMs) && nowMs - this.#progressMs >= ms;
  }

  /** The longest time, ms, without any progress that came to an end. */
  get longestPauseMs(): number {
    return this.#longestPauseMs;
  }

  add(rank: number, { source, groups }: CollectiveReport, nowMs: number): void {
    const known = this.#sources[source];
    this.#newestMs = nowMs;
    let hasMoved = Number.isNaN(this.#progressMs);
    for (const { group, entered, open } of groups) {
      let ranks = known.get(group);
      if (ranks === undefined) {
        if (known.size >= limits.alertGroupsMax) continue;
        ranks = new Map();
        known.set(group, ranks);
      }
      const before = ranks.get(rank);
      const isSame = before?.entered === entered;
      hasMoved ||= before !== undefined && !isSame;
      ranks.set(rank, {
        entered,
        open: open && { op: open.op, sequence: open.sequence, sinceMs: nowMs - open.insideMs },
        sinceMs: isSame ? before.sinceMs : nowMs,
        reportedMs: nowMs,
      });
    }
    if (!hasMoved) return;
    if (!Number.isNaN(this.#progressMs)) this.#longestPauseMs = Math.max(this.#longestPauseMs, nowMs - this.#progressMs);
    this.#progressMs = nowMs;
  }

  /** Forgets a rank that goes on, or was started again. */
  forget(rank: number): void {
    if (Number.isNaN(this.#newestMs)) return;
    let left = 0;
    for (const groups of Object.values(this.#sources)) {
      for (const ranks of groups.values()) {
        ranks.delete(rank);
        left += ranks.size;
      }
    }
    if (left === 0) this.#newestMs = this.#progressMs = Number.NaN;
  }

  /** The collective that Flight Recorder shows ranks inside of for longest, with the ranks that hold it up. */
  stuck(nowMs: number): StuckCollective | undefined {
    const waits = [...this.#waits(nowMs)].sort((a, b) => a.sinceMs - b.sinceMs);
    const waiting = new Set(waits.flatMap(({ inside }) => inside));
    const withCulprit = waits.filter(({ missing }) => missing.some((rank) => !waiting.has(rank)));
    const [first] = withCulprit.length > 0 ? withCulprit : waits;
    return (
      first && {
        ...first,
        missing: first.missing.filter((rank) => !waiting.has(rank)),
        elsewhere: first.missing.filter((rank) => waiting.has(rank)),
      }
    );
  }

  /** The ranks that launched fewer collectives than others, by NCCL's counts. */
  behind(nowMs: number): Accusation | undefined {
    let named: Accusation | undefined;
    for (const [group, ranks] of this.#sources.nccl_ras) {
      const fresh = freshOf(ranks, nowMs);
      const most = Math.max(...fresh.map(([, { entered }]) => entered));
      const late = fresh.filter(([, { entered }]) => entered < most);
      // A count that was reported once may still be moving.
      if (late.length === 0 || late.some(([, { sinceMs, reportedMs }]) => reportedMs - sinceMs < limits.alertReportsApartMs)) continue;
      const behind = late.map(([rank]) => rank).sort((a, b) => a - b);
      const common = named === undefined ? behind : behind.filter((rank) => named?.ranks.includes(rank));
      if (common.length === 0) return undefined;
      const counts = late.map(([, { entered }]) => entered);
      const launched = `launched ${[...new Set([Math.min(...counts), Math.max(...counts)])].join(' to ')} collectives of ${nameText(group)}, others ${most}`;
      named = { source: 'nccl_ras', ranks: common, text: `${sourceNames.nccl_ras}: ${ranksText(common)} ${launched}` };
    }
    return named;
  }

  /** What Flight Recorder says of the collective, as an accusation; undefined where it names nobody. */
  accused(stuck: StuckCollective | undefined): Accusation | undefined {
    if (stuck === undefined || stuck.missing.length === 0) return undefined;
    const name = collectiveText(nameText(stuck.op), nameText(stuck.group), stuck.sequence);
    const text = `${sourceNames.flight_recorder}: ${ranksText(stuck.missing)} never entered ${name}`;
    return { source: 'flight_recorder', ranks: stuck.missing, text };
  }

  /** Each group's first collective that a rank has not left. */
  *#waits(nowMs: number): Generator<StuckCollective> {
    const groups = this.#sources.flight_recorder;
    const reporting = new Set([...groups.values()].flatMap((ranks) => freshOf(ranks, nowMs).map(([rank]) => rank)));
    for (const [group, ranks] of groups) {
      const fresh = freshOf(ranks, nowMs);
      let oldest: Progress['open'];
      for (const [, { open }] of fresh)
        if (open !== undefined && open.sequence < (oldest?.sequence ?? Number.POSITIVE_INFINITY)) oldest = open;
      if (oldest === undefined) continue;
      const { sequence } = oldest;
      const parts = fresh.flatMap(([rank, { open }]) =>
        open?.sequence === sequence ? [{ rank, op: open.op, sinceMs: open.sinceMs }] : [],
      );
      const members = group === 'world' ? [...reporting] : fresh.map(([rank]) => rank);
      const missing = members.filter((rank) => (ranks.get(rank)?.entered ?? -1) < sequence).sort((a, b) => a - b);
      const inside = parts.map(({ rank }) => rank).sort((a, b) => a - b);
      const left = members.filter((rank) => !missing.includes(rank) && !inside.includes(rank)).sort((a, b) => a - b);
      const sinceMs = Math.min(...parts.map((part) => part.sinceMs));
      yield { group, sequence, ...calledOperation(parts), sinceMs, inside, missing, left };
    }
  }
}

/** The ranks that all accusations name, and whether they contradict each other: then none is named. */
export function namedByAll(accusations: readonly Accusation[]): { readonly ranks: readonly number[]; readonly isDisputed: boolean } {
  const [first, ...others] = accusations;
  const ranks = (first?.ranks ?? []).filter((rank) => others.every((other) => other.ranks.includes(rank)));
  return { ranks, isDisputed: ranks.length === 0 && accusations.length > 1 };
}

const freshOf = (ranks: ReadonlyMap<number, Progress>, nowMs: number): [number, Progress][] =>
  [...ranks].filter(([, { reportedMs }]) => isFresh(reportedMs, nowMs));

const isFresh = (reportedMs: number, nowMs: number): boolean => nowMs - reportedMs < limits.alertReportFreshMs;
