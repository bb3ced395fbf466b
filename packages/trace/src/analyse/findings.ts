// What a merge knows about its own completeness, as sentences a person can act on: findings of kind `data_loss`, `detail_shed`,
// `rank_lost`, `clock_unaligned`. Blame for slow steps rests on these: a verdict over incomplete data has to say so.

import { type Nanos, shedKey } from '@ranktrace/protocol';
import type { EventCounts, ProcessTotals, TraceHeader } from '../trace-sink.ts';

export interface Finding {
  readonly kind: 'data_loss' | 'detail_shed' | 'rank_lost' | 'rank_missing' | 'clock_unaligned';
  readonly ranks: readonly number[];
  readonly text: string;
}

const spanKinds: ReadonlySet<string> = new Set(['span', 'collective', 'rpc']);

/** The findings of one merged run, in a fixed order. */
export function findCompleteness(header: TraceHeader, totals: readonly ProcessTotals[]): readonly Finding[] {
  const findings: Finding[] = [];
  const shed = new Map<string, { ranks: readonly number[]; why: string }>();
  for (const { process, missing, dropped, late, ended, counts, recorded } of totals) {
    const { rank } = process;
    const lost = [
      [missing, 'batches missing in its sequence'],
      [dropped.events, 'events dropped because the ring was full'],
      [dropped.batches, 'batches dropped because the spool was full or they were refused'],
      [dropped.arguments, 'arguments cut by a limit'],
      [dropped.names, 'events under a stand-in name because there were too many names'],
      [late, 'events later than their watermark'],
    ] as const;
    for (const [count, what] of lost) {
      if (count > 0) findings.push({ kind: 'data_loss', ranks: [rank], text: `rank ${rank}: ${count} ${what}` });
    }
    // Against what the recorder counted: a loss that no counter on the way knows of is the worst kind.
    for (const kind of Object.keys(counts) as (keyof EventCounts)[]) {
      const wanted = recorded?.[kind] ?? counts[kind];
      // A span may be there that was not counted: it began in detail that was pulled, and ended in detail that was not.
      if (counts[kind] === wanted || (counts[kind] > wanted && spanKinds.has(kind))) continue;
      findings.push({
        kind: 'data_loss',
        ranks: [rank],
        text: `rank ${rank}: ${wanted} events of kind ${kind} were recorded, ${counts[kind]} arrived`,
      });
    }
    for (const [key, why] of process.metadata) {
      if (!key.startsWith(shedKey)) continue;
      const what = key.slice(shedKey.length);
      const before = shed.get(what);
      shed.set(what, { ranks: [...(before?.ranks ?? []), rank], why: before?.why ?? why });
    }
    if (!ended)
      findings.push({ kind: 'rank_lost', ranks: [rank], text: `rank ${rank} (pid ${process.pid}) stopped without saying goodbye` });
    if (process.alignment.method === 'unaligned') {
      const text = `rank ${rank}: the clock of host ${process.hostName} is not aligned to the others; its times are its wall clock's`;
      findings.push({ kind: 'clock_unaligned', ranks: [rank], text });
    }
  }
  // The ranks of a job do the same work, so they shed the same: once for all of them.
  for (const [what, { ranks, why }] of shed) {
    findings.push({ kind: 'detail_shed', ranks, text: `${what} were not recorded to the end on ${rankList(ranks)}: ${why}` });
  }
  const seen = new Set(header.processes.map((process) => process.rank));
  const absent = Array.from({ length: header.worldSize }, (_, rank) => rank).filter((rank) => !seen.has(rank));
  if (absent.length > 0) findings.push({ kind: 'rank_missing', ranks: absent, text: `nothing was heard of ${rankList(absent)}` });
  return findings;
}

/** The worst bound of all aligned processes, ns; undefined when none is aligned. */
export function worstBound(header: TraceHeader): Nanos | undefined {
  let worst: Nanos | undefined;
  for (const { alignment } of header.processes) {
    if (alignment.bound !== undefined && (worst === undefined || alignment.bound > worst)) worst = alignment.bound;
  }
  return worst;
}

function rankList(ranks: readonly number[]): string {
  const shown = ranks.slice(0, 8).join(', ');
  return `rank${ranks.length === 1 ? '' : 's'} ${shown}${ranks.length > 8 ? ` and ${ranks.length - 8} more` : ''}`;
}
