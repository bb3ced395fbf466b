import { expect, it } from 'vitest';
import type { GpuSummary } from '../gpu/gpu-summary.ts';
import { traceProcess } from '../testing/trace-events.ts';
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
