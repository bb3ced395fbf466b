import { expect, it } from 'vitest';
import { collectiveKind, isBarrierLike } from './collective-kind.ts';

it.each([
  ['all_reduce', 'all_reduce'],
  ['allreduce', 'all_reduce'],
  ['AllReduce', 'all_reduce'],
  ['gloo:all_reduce', 'all_reduce'],
  ['MPI_Allreduce', 'all_reduce'],
  ['allreduce_coalesced', 'all_reduce'],
  ['c10d::allreduce_', 'all_reduce'],
  ['ncclDevKernel_AllReduce_Sum_f32_RING_LL', 'all_reduce'],
  ['_allgather_base', 'all_gather'],
  ['all_gather_into_tensor', 'all_gather'],
  ['ncclDevKernel_AllGather_RING_LL', 'all_gather'],
  ['reduce_scatter_tensor', 'reduce_scatter'],
  ['_reduce_scatter_base', 'reduce_scatter'],
  ['ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL', 'reduce_scatter'],
  ['all_to_all_single', 'all_to_all'],
  ['broadcast', 'broadcast'],
  ['MPI_Bcast', 'broadcast'],
  ['reduce', 'reduce'],
  ['MPI_Gather', 'gather'],
  ['scatter', 'scatter'],
  ['barrier', 'barrier'],
  ['send', 'send'],
  ['isend', 'send'],
  ['MPI_Ssend', 'send'],
  ['irecv', 'recv'],
  ['MPI_Irecv', 'recv'],
  ['recv_any_source', 'recv'],
  ['ncclDevKernel_SendRecv', undefined],
  ['descend', undefined],
  ['', undefined],
  ['x'.repeat(1e6), undefined],
] as const)('%.40s is %s', (op, kind) => {
  expect(collectiveKind(op)).toBe(kind);
});

it('knows which collectives nobody leaves before all have come', () => {
  expect(isBarrierLike('reduce_scatter')).toBe(true);
  expect(isBarrierLike('broadcast')).toBe(false);
  expect(isBarrierLike('my_own')).toBe(false);
  // Starts a collective on a device, and returns at once.
  expect(isBarrierLike('nccl:all_reduce')).toBe(false);
  expect(isBarrierLike('gloo:all_reduce')).toBe(true);
});
