import { readFileSync } from 'node:fs';
import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { collectiveKind } from '../match/collective-kind.ts';
import { exact, sampled, traceEvent, traceHeader, traceLane, traceProcess, unaligned } from '../testing/trace-events.ts';
import type { Alignment, TraceEvent, TraceHeader, TraceProcess } from '../trace-sink.ts';
import { type CollectiveLine, CollectiveSink, type CollectiveSummary, otherGroups } from './collectives.ts';

const us = 1e3;
const ms = 1e6;

/** Ranks 0, 1, … each on a host of its own, or all on one where there is one alignment. */
function headerOf(ranks: number, alignments: readonly Alignment[] = [exact]): TraceHeader {
  const processes = Array.from({ length: ranks }, (_, rank) => {
    const host = `boot-${alignments.length === 1 ? 0 : rank}`;
    const alignment = alignments[rank] ?? (alignments[0] as Alignment);
    return traceProcess({ index: rank + 1, rank, host, hostName: host, alignment });
  });
  return traceHeader(processes);
}

interface Part {
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

function eventOf(header: TraceHeader, { rank, op, group, sequence, entry, exit, bytes = 0, peer = -1 }: Part): TraceEvent {
  const process = header.processes[rank] as TraceProcess;
  return traceEvent({
    ...{ kind: 'collective', state: exit === undefined ? 'open' : 'whole', name: op, category: 'collective' },
    ...{ lane: traceLane({ index: rank + 1, process }), start: traceTime(entry), length: nanos((exit ?? entry) - entry) },
    ...{ group, sequence, bytes, peerRank: peer },
  });
}

function summaryOf(header: TraceHeader, parts: readonly Part[]): CollectiveSummary {
  const sink = new CollectiveSink();
  sink.begin(header);
  for (const part of [...parts].sort((a, b) => a.entry - b.entry)) sink.event(eventOf(header, part));
  sink.end();
  return sink.summary;
}

const at = (rank: number, entry: number, exit: number | undefined, about: Partial<Part> = {}): Part => ({
  ...{ rank, op: 'all_reduce', group: 'world', sequence: 0 },
  ...{ entry: entry * ms, exit: exit === undefined ? undefined : exit * ms },
  ...about,
});

describe('one collective', () => {
  it('says who waited how long for whom, and how fast the data went', () => {
    const { collectives, longest } = summaryOf(headerOf(3), [
      at(0, 0, 12, { bytes: 1e6 }),
      at(1, 4, 12.5, { bytes: 1e6 }),
      at(2, 10, 13, { bytes: 1e6 }),
    ]);
    const record = { group: 'world', sequence: 0, entrySkew: 10 * ms, transfer: 2 * ms, lastIn: 2, epsilon: 0, isDistinguishable: true };
    expect(longest).toHaveLength(1);
    expect(longest[0]).toMatchObject({ ...record, algorithmBandwidth: 5e8, bytes: 1e6 });
    expect(longest[0]?.busBandwidth).toBeCloseTo((5e8 * 4) / 3);
    expect(longest[0]?.waiting.map(({ waiting }) => waiting / ms)).toEqual([10, 6, 0]);
    expect(collectives).toHaveLength(1);
    expect(collectives[0]).toMatchObject({ op: 'all_reduce', ranks: 3, count: 1, waiting: 16 * ms, violations: 0, bytes: 3e6 });
    expect(collectives[0]?.exitSpread).toEqual({ count: 1, p50: ms, p95: ms, max: ms });
    expect(collectives[0]?.perRank).toEqual([
      { rank: 0, waiting: 10 * ms, lastIn: 0, missing: 0 },
      { rank: 1, waiting: 6 * ms, lastIn: 0, missing: 0 },
      { rank: 2, waiting: 0, lastIn: 1, missing: 0 },
    ]);
  });

  it('is not distinguishable where its transfer is within the clocks’ error', () => {
    const parts = [at(0, 0, 1.0003), at(1, 1, 1.0005), at(2, 0.5, 1.0004)];
    const of = (...alignments: Alignment[]) => summaryOf(headerOf(3, alignments), parts).longest[0];
    expect(of(exact)).toMatchObject({ transfer: 300, epsilon: 0, isDistinguishable: true });
    expect(of(exact, sampled(100), sampled(150))).toMatchObject({ epsilon: 250, isDistinguishable: true });
    // The two hosts that are known least decide.
    expect(of(sampled(100), sampled(150), sampled(150))).toMatchObject({ epsilon: 300, isDistinguishable: false, busBandwidth: undefined });
  });

  it('names nobody as last in where clocks do not tell', () => {
    const clocks = [sampled(0), sampled(40 * us), sampled(70 * us)];
    const lastIn = (header: TraceHeader, entry: number) =>
      summaryOf(header, [at(0, 0, 12), at(1, 4, 12), at(2, entry, 12)]).longest[0]?.lastIn;
    expect(lastIn(headerOf(3, clocks), 4.1)).toBeUndefined();
    expect(lastIn(headerOf(3, clocks), 4.12)).toBe(2);
    expect(lastIn(headerOf(3), 4.001)).toBe(2);
    expect(
      summaryOf(headerOf(3, clocks), [at(0, 0, 12), at(1, 4, 12), at(2, 4.1, 12)]).collectives[0]?.perRank.every(
        (rank) => rank.lastIn === 0,
      ),
    ).toBe(true);
  });

  it('is counted and not timed where a host is not aligned', () => {
    const { collectives, longest } = summaryOf(headerOf(2, [exact, unaligned]), [at(0, 0, 2), at(1, 1, 2)]);
    expect(collectives[0]).toMatchObject({ count: 1, unaligned: 1, entrySkew: undefined, epsilon: undefined });
    expect(longest).toEqual([]);
  });

  it('does not count as waiting what a rank of a broadcast did not wait', () => {
    const { longest, collectives } = summaryOf(headerOf(3), [
      at(0, 0, 1, { op: 'broadcast' }),
      at(1, 5, 6, { op: 'broadcast' }),
      at(2, 9, 9.5, { op: 'MPI_Bcast' }),
    ]);
    expect(longest[0]).toMatchObject({ transfer: -8 * ms, isDistinguishable: false });
    expect(longest[0]?.waiting.map(({ waiting }) => waiting / ms)).toEqual([1, 1, 0]);
    expect(collectives[0]).toMatchObject({ op: 'broadcast', violations: 0 });
  });

  it('counts what is left before the last rank has entered', () => {
    expect(summaryOf(headerOf(2), [at(0, 0, 1), at(1, 1.1, 2)]).collectives[0]).toMatchObject({ violations: 1 });
  });

  it('is not timed with a part missing, and says whose', () => {
    const parts = [0, 1, 2].flatMap((rank) => [0, 1, 2].map((sequence) => at(rank, sequence * 10, sequence * 10 + 1, { sequence })));
    const { collectives } = summaryOf(
      headerOf(3),
      parts.filter(({ rank, sequence }) => rank !== 1 || sequence !== 1),
    );
    expect(collectives[0]).toMatchObject({ count: 2, incomplete: 1, ranks: 3 });
    expect(collectives[0]?.perRank.map(({ missing }) => missing)).toEqual([0, 1, 0]);
  });

  it('has no transfer while a rank is inside', () => {
    const { collectives, longest } = summaryOf(headerOf(2), [at(0, 0, undefined), at(1, 1, 2)]);
    expect(collectives[0]).toMatchObject({ count: 1, unfinished: 1, transfer: undefined, exitSpread: undefined });
    expect(longest[0]).toMatchObject({ entrySkew: ms, transfer: undefined, isDistinguishable: false });
  });

  it('ends at its close', () => {
    const header = headerOf(2);
    const sink = new CollectiveSink();
    sink.begin(header);
    for (const rank of [0, 1]) sink.event(eventOf(header, at(rank, rank, undefined)));
    for (const rank of [0, 1]) sink.event({ ...eventOf(header, at(rank, rank, 7)), state: 'close' });
    sink.end();
    expect(sink.summary.longest[0]).toMatchObject({ transfer: 6 * ms });
    expect(sink.summary.collectives[0]).toMatchObject({ unfinished: 0 });
  });
});

describe('sends', () => {
  const send = (entry: number, exit: number, about: Partial<Part> = {}): Part =>
    at(0, entry, exit, { op: 'send', peer: 1, bytes: 1000, ...about });
  const recv = (entry: number, exit: number, about: Partial<Part> = {}): Part =>
    at(1, entry, exit, { op: 'recv', peer: 0, bytes: 1000, ...about });

  it('tells late senders from late receivers', () => {
    const { sends, collectives } = summaryOf(headerOf(2), [
      send(5, 5.1),
      recv(0, 6),
      send(10, 13, { sequence: 1 }),
      recv(12, 14, { sequence: 1 }),
      send(20, 20.1, { sequence: 2 }),
      recv(30, 31, { sequence: 3 }),
    ]);
    expect(collectives).toEqual([]);
    expect(sends).toHaveLength(1);
    expect(sends[0]).toMatchObject({ source: 0, destination: 1, count: 2, lateSender: 5 * ms, lateReceiver: 2 * ms });
    expect(sends[0]).toMatchObject({ incomplete: 2, withoutReceive: 1, withoutSend: 1, violations: 0, bytes: 4000 });
    // From when both are there to when the receiver has it; the sender may be done long before.
    expect(sends[0]?.transfer).toMatchObject({ p50: 1.5 * ms, max: 2 * ms });
    expect(sends[0]?.busBandwidth?.max).toBeCloseTo(1e6);
  });

  it('counts what was received before it was sent', () => {
    expect(summaryOf(headerOf(2), [send(5, 6), recv(0, 4)]).sends[0]).toMatchObject({ violations: 1 });
  });
});

describe('bounds', () => {
  it('puts what comes after the last line onto one, and keeps the longest of all', () => {
    const parts: Part[] = [];
    for (let group = 0; group < 3000; group++) {
      for (const rank of [0, 1]) parts.push({ ...at(rank, rank * (group + 1), 9000, { group: `g${group}` }) });
    }
    const { collectives, leftOut, longest, parts: counted } = summaryOf(headerOf(2), parts);
    expect(collectives).toHaveLength(1024);
    expect(collectives.find(({ group }) => group === otherGroups)).toMatchObject({ count: 3000 - 1023, op: '' });
    expect(leftOut).toBe(3000 - 1023);
    expect(longest).toHaveLength(100);
    expect(longest.map(({ entrySkew }) => entrySkew / ms)).toEqual(Array.from({ length: 100 }, (_, index) => 3000 - index));
    expect(counted).toEqual({ added: 6000, duplicates: 0, overflow: 0 });
  });
});

/** Rows of a CSV file of ../shared/data; only the last field may hold commas, in quotes. */
function rowsOf(path: string): string[][] {
  const text = readFileSync(new URL(`../../../../../shared/data/${path}`, import.meta.url), 'utf8');
  return text
    .trim()
    .split(/\r?\n/)
    .slice(1)
    .map((line) => [...line.matchAll(/"([^"]*)"|([^,"]+)|(?<=,)(?=,|$)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ''));
}

/** Parts of MPI collectives of one region: its Enter and Leave; `groupOf` the communicator, numbered in order per rank and group. */
function mpiParts(file: string, region: string, groupOf: (communicator: string) => string): Part[] {
  const cyclesPerNs = 3.2938;
  const entries = new Map<number, number>();
  const groups = new Map<number, string>();
  const counted = new Map<string, number>();
  const parts: Part[] = [];
  const rows = rowsOf(file);
  const origin = Number(rows[0]?.[0]);
  for (const [cycles, event, location, about] of rows) {
    const rank = Number(location);
    const time = (Number(cycles) - origin) / cyclesPerNs;
    if (event === 'Enter' && about === region) entries.set(rank, time);
    if (event === 'MpiCollectiveEnd') groups.set(rank, groupOf(/communicator = (\d+)/.exec(about ?? '')?.[1] ?? ''));
    if (event !== 'Leave' || about !== region) continue;
    const group = groups.get(rank) ?? '';
    const sequence = counted.get(`${rank} ${group}`) ?? 0;
    counted.set(`${rank} ${group}`, sequence + 1);
    parts.push({ rank, op: region, group, sequence, entry: entries.get(rank) ?? 0, exit: time });
  }
  return parts;
}

const onlyLine = ({ collectives }: CollectiveSummary): CollectiveLine => {
  expect(collectives).toHaveLength(1);
  return collectives[0] as CollectiveLine;
};

describe('recorded by others (../shared/data)', () => {
  it('MPI: 8 ranks leave a barrier within 0.90 µs', () => {
    const line = onlyLine(
      summaryOf(
        headerOf(8),
        mpiParts('clock/mpi_allreduce_events.csv', 'MPI_Barrier', (name) => name),
      ),
    );
    expect(line).toMatchObject({ op: 'barrier', group: '1', ranks: 8, count: 1, violations: 0 });
    expect((line.exitSpread?.max ?? 0) / us).toBeCloseTo(0.9, 2);
  });

  it('MPI: all-reduces end within 3.45 µs, which are two groups of 4 ranks', () => {
    const file = 'clock/mpi_allreduce_events.csv';
    const together = onlyLine(
      summaryOf(
        headerOf(8),
        mpiParts(file, 'MPI_Allreduce', () => 'all'),
      ),
    );
    expect(together).toMatchObject({ op: 'all_reduce', ranks: 8, violations: 0 });
    expect((together.exitSpread?.max ?? 0) / us).toBeCloseTo(3.45, 2);
    const { collectives } = summaryOf(
      headerOf(8),
      mpiParts(file, 'MPI_Allreduce', (name) => name),
    );
    const spreads = collectives.map(({ group, perRank, exitSpread }) => [group, perRank.map(({ rank }) => rank), exitSpread?.max]);
    expect(spreads.sort().map(([group, ranks, max]) => [group, ranks, ((max as number) / us).toFixed(2)])).toEqual([
      ['2', [0, 1, 2, 3], '0.57'],
      ['4', [4, 5, 6, 7], '1.39'],
    ]);
  });

  it('MPI: the root of a gather leaves last, which is no violation', () => {
    const line = onlyLine(
      summaryOf(
        headerOf(4),
        mpiParts('clock/mpi_gather_events.csv', 'MPI_Gather', (name) => name),
      ),
    );
    expect(line).toMatchObject({ op: 'gather', ranks: 4, count: 1, violations: 0 });
    expect((line.exitSpread?.max ?? 0) / us).toBeCloseTo((31209484775898 - 31209484762044) / 3.2938 / us, 6);
  });

  it('MPI: a synchronous send meets the receive that waits for it', () => {
    const cyclesPerNs = 3.2938;
    const rows = rowsOf('clock/mpi_ssend_irecv_events.csv');
    const time = (event: string, region: string): number =>
      (Number(rows.find((row) => row[1] === event && row[3] === region)?.[0]) - Number(rows[0]?.[0])) / cyclesPerNs;
    const about = { group: '1', sequence: 0, bytes: 4 };
    const { sends } = summaryOf(headerOf(2), [
      { ...about, rank: 0, peer: 1, op: 'MPI_Ssend', entry: time('Enter', 'MPI_Ssend'), exit: time('Leave', 'MPI_Ssend') },
      { ...about, rank: 1, peer: 0, op: 'MPI_Irecv', entry: time('Enter', 'MPI_Irecv'), exit: time('Leave', 'MPI_Wait') },
    ]);
    expect(sends).toHaveLength(1);
    expect(sends[0]).toMatchObject({ source: 0, destination: 1, count: 1, violations: 0, distinguishable: 1, lateReceiver: 0 });
    expect((sends[0]?.lateSender ?? 0) / us).toBeCloseTo((15136453505184 - 15136453465221) / cyclesPerNs / us, 6);
    expect((sends[0]?.transfer?.max ?? 0) / us).toBeCloseTo((15136453529043 - 15136453505184) / cyclesPerNs / us, 6);
  });

  it('nanoGPT on 8 H100: 76 collectives, 0 violations, exit spread median 20.5 µs, at most 188 µs', () => {
    const rows = rowsOf('kineto/nanogpt-8rank/nccl_kernels.csv');
    const origin = 6_322_354_295_000;
    const parts = rows.map(([rank, sequence, name, start, end]): Part => {
      const [entry, exit] = [(Number(start) - origin) * us, (Number(end) - origin) * us];
      return { rank: Number(rank), op: name ?? '', group: 'nccl', sequence: Number(sequence), entry, exit };
    });
    const { collectives, parts: counted } = summaryOf(headerOf(8), parts);
    expect(counted).toEqual({ added: 608, duplicates: 0, overflow: 0 });
    expect(collectives.map(({ op }) => op).sort()).toEqual(['all_gather', 'reduce_scatter']);
    const total = (key: 'count' | 'incomplete' | 'violations'): number => collectives.reduce((sum, line) => sum + line[key], 0);
    expect([total('count'), total('incomplete'), total('violations')]).toEqual([76, 0, 0]);
    expect(Math.max(...collectives.map(({ exitSpread }) => exitSpread?.max ?? 0)) / us).toBeCloseTo(188.3, 1);
    // All as one kind, for the median of all.
    const barrier = summaryOf(
      headerOf(8),
      parts.map((part) => ({ ...part, op: collectiveKind(part.op) === undefined ? '?' : 'barrier' })),
    );
    expect((onlyLine(barrier).exitSpread?.p50 ?? 0) / us).toBeCloseTo(20.46, 2);
  });
});
