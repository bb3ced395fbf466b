import { besideOf, type RunProfile } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import type { GpuRank, GpuSummary } from '../gpu/gpu-summary.ts';
import { traceProcess } from '../testing/trace-events.ts';
import { analyseLimits as limits } from './analyse-limits.ts';
import type { RankOps } from './op-sums.ts';
import { RunProfiles } from './run-profile.ts';

const noGpus: GpuSummary = { recommendations: [], ranks: [], path: undefined, worth: [], leftOut: 0, htaCompatible: false };

/** One life of a rank, which allocated so many bytes. */
const lifeOf = (rank: number, incarnation: string, bytes: number): RankOps => ({
  process: traceProcess({ rank, incarnation }),
  ops: new Map(),
  rest: { calls: 0, self: 0 },
  memory: new Map(),
  allocators: new Map([['new', { name: 'new', device: 'CPU', allocations: 1, bytes, largest: bytes, largestAt: 0 }]]),
});

it('has the last life of a rank that was started again, and names the rank', () => {
  const profiles = new RunProfiles(noGpus, [lifeOf(0, 'a', 5), lifeOf(1, 'b', 10), lifeOf(1, 'c', 20), lifeOf(2, 'd', 40)]);
  const shown = (rank?: number) => {
    const { restarted = [], allocators } = profiles.of(rank) ?? {};
    return [restarted, allocators?.lines.map(({ bytes }) => bytes)];
  };
  expect([shown(), shown(0), shown(1)]).toEqual([
    [[1], [65]],
    [[], [5]],
    [[1], [20]],
  ]);
});

it('has what an agent recorded beside a rank among its tables, and takes it for no life of it', () => {
  const opsOf = (name: string, isOp: boolean) => {
    const sum = { name, isOp, calls: 1, total: 7, self: 7, longest: 7, longestAt: 0 };
    return new Map([[name, sum]]);
  };
  const beside = { ...lifeOf(1, besideOf('a'), 10), ops: opsOf('aten::mm', true) };
  const own = { ...lifeOf(1, 'a', 20), ops: opsOf('forward', false) };
  const at = (one: RankOps, index: number): RankOps => ({ ...one, process: { ...one.process, index } });
  const { restarted, operators, allocators } = new RunProfiles(noGpus, [at(beside, 0), at(own, 1)]).of(1) as RunProfile;
  expect(restarted).toEqual([]);
  expect(operators.lines.map(({ name }) => name)).toEqual(['aten::mm']);
  expect(allocators.lines.map(({ allocations, bytes, largest }) => [allocations, bytes, largest])).toEqual([[2, 30, 20]]);
});

it('names the life of a memory, where a rank had several', () => {
  const held = { held: { kinds: [], holders: [] } };
  const memory = { device: 'CPU', peak: 9, peakAt: 0, allocations: 1, reserved: 0, curve: { points: [] }, held };
  const hosts = ['c', 'b'].map((incarnation, index): RankOps => {
    const of = lifeOf(1, incarnation, 1);
    return { ...of, process: { ...of.process, index }, memory: new Map([['CPU', memory]]) } as unknown as RankOps;
  });
  expect([new RunProfiles(noGpus, hosts).of()?.firstStep, new RunProfiles(noGpus, hosts, 7).of(1)?.firstStep]).toEqual([null, 7]);
  expect(new RunProfiles(noGpus, hosts).of()?.memory.map(({ rank, life }) => [rank, life])).toEqual([
    [1, 2],
    [1, undefined],
  ]);
});

const nothing = { lines: [], rest: { lines: 0, count: 0, total: 0 } };

/** A rank of which nothing but its device was recorded. */
const idleRank = (rank: number, utilisation: number) => ({
  ...{ rank, incarnation: `a${rank}`, ops: nothing, kernels: { byName: nothing, byModule: nothing, byPhase: nothing } },
  ...{ idle: { places: [], placesLeftOut: 0 }, copies: [], sequences: [], overlap: [], steps: [] as readonly number[] },
  ...{ launches: {}, queues: [], devices: [{ device: 0, utilisation }] },
});

it('has the devices and the memory of every rank, and of all ranks those that its tables have on top', () => {
  const many = limits.profileRanksMax + 10;
  const ranks = Array.from({ length: many }, (_, rank) => idleRank(rank, 1 - rank / many));
  const hosts = ranks.map(({ rank, incarnation }): RankOps => {
    const held = { held: { kinds: [], holders: [] } };
    const memory = { device: 'CPU', peak: rank, peakAt: 0, allocations: 1, reserved: 0, curve: { points: [] }, held };
    return { ...lifeOf(rank, incarnation, 1), memory: new Map([['CPU', memory]]) } as unknown as RankOps;
  });
  const profiles = new RunProfiles({ ...noGpus, ranks: ranks as unknown as readonly GpuRank[] }, hosts);
  for (const rank of [0, many - 1]) {
    const { devices, memory } = profiles.of(rank) as RunProfile;
    expect([devices.map((one) => one.rank), memory.map((one) => one.rank)]).toEqual([[rank], [rank]]);
  }
  const { devices, devicesLeftOut, memory, memoryLeftOut } = profiles.of() as RunProfile;
  expect([devices.length, devicesLeftOut, memory.length, memoryLeftOut]).toEqual([many - 10, 10, many - 10, 10]);
  expect([devices[0]?.rank, memory[0]?.rank]).toEqual([many - 1, many - 1]);
});

it('has the time of the places of idle time that it leaves out, so that shares are of all of it', () => {
  const places = [{ cause: 'hostLate', phase: '', op: 'aten::mm', time: 30, gaps: 3 }] as const;
  const idle = { places, placesLeftOut: 2, byCause: { hostLate: 60, launch: 5, dependency: 0, other: 0 } };
  const ranks = [0, 1].map((rank) => ({ ...idleRank(rank, 0.5), idle }));
  const profiles = new RunProfiles({ ...noGpus, ranks: ranks as unknown as readonly GpuRank[] }, []);
  expect(profiles.of(1)?.idle).toEqual({ lines: places, rest: { lines: 2, count: 0, total: 35 } });
  expect(profiles.of()?.idle).toEqual({ lines: [{ ...places[0], time: 60, gaps: 6 }], rest: { lines: 4, count: 0, total: 70 } });
});
