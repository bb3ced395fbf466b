import { collectiveKind } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { bandwidthOf } from './bus-bandwidth.ts';

// Expected values: nccl-tests, doc/PERFORMANCE.md, for 8 ranks and 1 ms. Its sizes are a rank's buffer for all-reduce and broadcast, and the
// sum over all ranks for the others.
it.each([
  ['AllReduce', 1e6, 1e9, 1.75e9],
  ['_allgather_base', 125_000, 1e9, 0.875e9],
  ['reduce_scatter_tensor', 1e6, 1e9, 0.875e9],
  ['all_to_all_single', 1e6, 1e9, 0.875e9],
  ['gather', 125_000, 1e9, 0.875e9],
  ['scatter', 1e6, 1e9, 0.875e9],
  ['broadcast', 1e6, 1e9, 1e9],
  ['reduce', 1e6, 1e9, 1e9],
  ['isend', 1e6, 1e9, 1e9],
  ['irecv', 1e6, 1e9, 1e9],
] as const)('%s', (op, bytes, algorithm, bus) => {
  expect(bandwidthOf(collectiveKind(op), 8, bytes, 1e6)).toEqual({ algorithm, bus });
});

it('is not reported of what moves nothing, takes no time, or nobody knows', () => {
  expect(bandwidthOf('barrier', 8, 4, 1e6)).toBeUndefined();
  expect(bandwidthOf('all_reduce', 8, 0, 1e6)).toBeUndefined();
  expect(bandwidthOf('all_reduce', 8, 4, 0)).toBeUndefined();
  expect(bandwidthOf('all_reduce', 8, 4, -5)).toBeUndefined();
  expect(bandwidthOf('all_reduce', 8, Number.NaN, 5)).toBeUndefined();
  expect(bandwidthOf(undefined, 8, 4, 5)).toBeUndefined();
  expect(bandwidthOf('all_reduce', 1, 4, 1)?.bus).toBe(0);
});
