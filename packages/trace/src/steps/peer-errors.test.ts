// The words of errors as torch 2.11 to 2.13 raise them, on Gloo, NCCL and the store.

import { expect, it } from 'vitest';
import { peerErrorOf } from './peer-errors.ts';

const gloo = 'RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp';

it.each([
  [`${gloo}/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete`, 'timeout'],
  [`${gloo}/unbound_buffer.cc:129] Timed out waiting 6000ms for send operation to complete`, 'timeout'],
  [`${gloo}/pair.cc:537] Application timeout caused pair closure`, 'timeout'],
  ['DistStoreError: Timed out after 61 seconds waiting for clients. 2/3 clients joined.', 'timeout'],
  ['DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/rank_1', 'timeout'],
  ['DistBackendError: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)', 'timeout'],
  ['RuntimeError: Rank 1 failed to pass monitoredBarrier in 2000 ms', 'timeout'],
  [`${gloo}/pair.cc:553] Connection closed by peer [127.0.0.1]:15499. This is typically caused by a remote worker crashing.`, 'lost'],
  [`${gloo}/pair.cc:537] Read error [127.0.0.1]:45191: Connection reset by peer`, 'lost'],
  ['DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was a network error', 'lost'],
  ['RuntimeError: Connection closed by peer', 'lost'],
  ['ConnectionResetError: ("Connection broken", ConnectionResetError(104, \'Connection reset by peer\'))', undefined],
  ['BrokenPipeError: [Errno 32] Broken pipe', undefined],
  ['TimeoutError: Timed out waiting for the data server', undefined],
  ['ValueError: bad batch', undefined],
  ['exit code 1', undefined],
])('%s: %s', (error, told) => {
  expect(peerErrorOf(error)).toBe(told);
});
