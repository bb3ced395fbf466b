import { describe, expect, it } from 'vitest';
import type { Alignment, TraceHeader } from '../model/trace-sink.ts';
import { eventOf, headerOf, onlyLine, type Part, summaryOf } from '../testing/collective-parts.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { exact, sampled, unaligned } from '../testing/trace-events.ts';
import { CollectiveSink, otherGroups } from './collectives.ts';

const us = 1e3;
const ms = 1e6;

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
    // The two hosts with the worst bounds decide.
    expect(of(sampled(100), sampled(150), sampled(150))).toMatchObject({ epsilon: 300, isDistinguishable: false, busBandwidth: undefined });
  });

  it('names no rank as last in where clocks do not show it', () => {
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
    sink.end([]);
    expect(sink.summary.longest[0]).toMatchObject({ transfer: 6 * ms });
    expect(sink.summary.collectives[0]).toMatchObject({ unfinished: 0 });
  });
});

describe('sends', () => {
  const send = (entry: number, exit: number, about: Partial<Part> = {}): Part =>
    at(0, entry, exit, { op: 'send', peer: 1, bytes: 1000, ...about });
  const recv = (entry: number, exit: number, about: Partial<Part> = {}): Part =>
    at(1, entry, exit, { op: 'recv', peer: 0, bytes: 1000, ...about });

  it('distinguishes late senders from late receivers', () => {
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
    // From the moment both are there until the receiver has the data; the sender may be done long before.
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

describe('calls of MPI', () => {
  /** A rank's call of `region` in `communicator`, µs. */
  const call = (rank: number, region: string, communicator: string, entry: number, exit: number): Part => ({
    ...{ rank, op: region, group: communicator, sequence: 0, entry: entry * us, exit: exit * us },
  });

  it('a barrier is left by 8 ranks within what lies between the first and the last exit', () => {
    const exits = [41.2, 40.9, 41.6, 41.05, 40.7, 41.3, 41.55, 41.1];
    const line = onlyLine(
      summaryOf(
        headerOf(8),
        exits.map((exit, rank) => call(rank, 'MPI_Barrier', '1', 3 * rank, exit)),
      ),
    );
    expect(line).toMatchObject({ op: 'barrier', group: '1', ranks: 8, count: 1, violations: 0 });
    expect((line.exitSpread?.max ?? 0) / us).toBeCloseTo(0.9, 9);
  });

  it('all-reduces of two communicators at once are two, with the spread of each', () => {
    const exits = [20.4, 20.1, 20.67, 20.3, 22.5, 23.55, 22.16, 23.0];
    const parts = (groupOf: (rank: number) => string): Part[] =>
      exits.map((exit, rank) => call(rank, 'MPI_Allreduce', groupOf(rank), rank, exit));
    const together = onlyLine(
      summaryOf(
        headerOf(8),
        parts(() => 'all'),
      ),
    );
    expect(together).toMatchObject({ op: 'all_reduce', ranks: 8, violations: 0 });
    expect((together.exitSpread?.max ?? 0) / us).toBeCloseTo(3.45, 9);
    const { collectives } = summaryOf(
      headerOf(8),
      parts((rank) => (rank < 4 ? '2' : '4')),
    );
    const spreads = collectives.map(({ group, perRank, exitSpread }) => [group, perRank.map(({ rank }) => rank), exitSpread?.max]);
    expect(spreads.sort().map(([group, ranks, max]) => [group, ranks, ((max as number) / us).toFixed(2)])).toEqual([
      ['2', [0, 1, 2, 3], '0.57'],
      ['4', [4, 5, 6, 7], '1.39'],
    ]);
  });

  it('the root of a gather leaves last, which is no violation, nor is that others leave before it has come', () => {
    const line = onlyLine(
      summaryOf(headerOf(4), [
        call(0, 'MPI_Gather', '1', 5, 9.2),
        call(1, 'MPI_Gather', '1', 1, 1.4),
        call(2, 'MPI_Gather', '1', 2, 2.5),
        call(3, 'MPI_Gather', '1', 4, 5),
      ]),
    );
    expect(line).toMatchObject({ op: 'gather', ranks: 4, count: 1, violations: 0 });
    expect((line.exitSpread?.max ?? 0) / us).toBeCloseTo(7.8, 9);
  });

  it('a synchronous send meets the receive that waits for it', () => {
    const about = { group: '1', sequence: 0, bytes: 4 };
    const { sends } = summaryOf(headerOf(2), [
      { ...about, rank: 0, peer: 1, op: 'MPI_Ssend', entry: 12.5 * us, exit: 20 * us },
      { ...about, rank: 1, peer: 0, op: 'MPI_Irecv', entry: 0.4 * us, exit: 19.75 * us },
    ]);
    expect(sends).toHaveLength(1);
    expect(sends[0]).toMatchObject({ source: 0, destination: 1, count: 1, violations: 0, distinguishable: 1, lateReceiver: 0 });
    expect((sends[0]?.lateSender ?? 0) / us).toBeCloseTo(12.1, 9);
    expect((sends[0]?.transfer?.max ?? 0) / us).toBeCloseTo(7.25, 9);
  });
});

it.each([1, 2, 3])('NCCL kernels of a simulated job have the exits of the truth, and no violation (seed %i)', (seed) => {
  const truth = gpuJob({ seed }).collectives.filter(({ group }) => group === '0');
  const parts = truth.map(
    ({ rank, kernel, fromEnd, entry, exit }): Part => ({ ...{ rank, op: kernel, group: 'nccl', sequence: 100 + fromEnd }, entry, exit }),
  );
  const { collectives, parts: counted } = summaryOf(headerOf(8), parts);
  expect(counted).toEqual({ added: parts.length, duplicates: 0, overflow: 0 });
  expect(collectives.map(({ op }) => op).sort()).toEqual(['all_gather', 'reduce_scatter']);
  const total = (key: 'count' | 'incomplete' | 'violations'): number => collectives.reduce((sum, line) => sum + line[key], 0);
  // The windows of ranks 2 and 5 begin a step later, those of 1, 4 and 7 in the middle of one.
  const common = Math.min(...Array.from({ length: 8 }, (_, rank) => parts.filter((part) => part.rank === rank).length));
  const all = new Set(parts.map(({ sequence }) => sequence)).size;
  expect([total('count'), total('incomplete'), total('violations')]).toEqual([common, all - common, 0]);
  const spreads = Array.from({ length: common }, (_, index) => {
    const exits = parts.filter(({ sequence }) => sequence === 99 - index).map(({ exit = 0 }) => exit);
    return Math.max(...exits) - Math.min(...exits);
  }).sort((a, b) => a - b);
  expect(Math.max(...collectives.map(({ exitSpread }) => exitSpread?.max ?? 0))).toBe(spreads.at(-1));
  const barrier = summaryOf(
    headerOf(8),
    parts.map((part) => ({ ...part, op: 'barrier' })),
  );
  const p50 = onlyLine(barrier).exitSpread?.p50 ?? 0;
  expect(Math.abs(p50 / (spreads[spreads.length >> 1] as number) - 1)).toBeLessThan(0.1);
});
