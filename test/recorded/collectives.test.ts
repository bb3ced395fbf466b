// Collectives of MPI programs and of a GPU job that others recorded: the order of entries and exits.

import { describe, expect, it } from 'vitest';
import { collectiveKind } from '../../packages/protocol/src/collective-kind.ts';
import { headerOf, onlyLine, type Part, summaryOf } from '../../packages/trace/src/testing/collective-parts.ts';
import { recordingRows as rowsOf } from './recording.ts';

const us = 1e3;

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

describe('recorded collectives', () => {
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
