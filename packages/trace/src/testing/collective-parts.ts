// Collectives written as each rank's part, in ns, and the sink's summary of them.

import { nanos, traceTime } from '@ranktrace/protocol';
import { expect } from 'vitest';
import { type CollectiveLine, CollectiveSink, type CollectiveSummary } from '../analyse/collectives.ts';
import type { Alignment, TraceEvent, TraceHeader, TraceProcess } from '../model/trace-sink.ts';
import { exact, traceEvent, traceHeader, traceLane, traceProcess } from './trace-events.ts';

/** Ranks 0, 1, … each on a host of its own, or all on one host if there is one alignment. */
export function headerOf(ranks: number, alignments: readonly Alignment[] = [exact]): TraceHeader {
  const processes = Array.from({ length: ranks }, (_, rank) => {
    const host = `boot-${alignments.length === 1 ? 0 : rank}`;
    const alignment = alignments[rank] ?? (alignments[0] as Alignment);
    return traceProcess({ index: rank + 1, rank, host, hostName: host, alignment });
  });
  return traceHeader(processes);
}

export interface Part {
  readonly rank: number;
  readonly op: string;
  readonly group: string;
  readonly sequence: number;
  /** ns. */
  readonly entry: number;
  readonly exit: number | undefined;
  readonly bytes?: number;
  readonly peer?: number;
}

export function eventOf(header: TraceHeader, { rank, op, group, sequence, entry, exit, bytes = 0, peer = -1 }: Part): TraceEvent {
  const process = header.processes[rank] as TraceProcess;
  return traceEvent({
    ...{ kind: 'collective', state: exit === undefined ? 'open' : 'whole', name: op, category: 'collective' },
    ...{ lane: traceLane({ index: rank + 1, process }), start: traceTime(entry), length: nanos((exit ?? entry) - entry) },
    ...{ group, sequence, bytes, peerRank: peer },
  });
}

/** The parts, on the processes of `header`, in order of entry. */
export function summaryOf(header: TraceHeader, parts: readonly Part[]): CollectiveSummary {
  const sink = new CollectiveSink();
  sink.begin(header);
  for (const part of [...parts].sort((a, b) => a.entry - b.entry)) sink.event(eventOf(header, part));
  sink.end([]);
  return sink.summary;
}

/** The one expected line. */
export const onlyLine = ({ collectives }: CollectiveSummary): CollectiveLine => {
  expect(collectives).toHaveLength(1);
  return collectives[0] as CollectiveLine;
};
