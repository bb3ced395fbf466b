import { expect, test } from 'vitest';
import { isWaitingPhase } from './waiting-phase.ts';

test.each([
  'all_reduce',
  'AllGather',
  'wait for peers',
  'cuda sync',
  'dp comm',
  'pipeline bubble',
  'ncclDevKernel_AllReduce_Sum_f32_RING_LL',
])('%s is waiting', (name) => expect(isWaitingPhase(name)).toBe(true));

test.each(['forward', 'backward', 'optimizer', 'data', 'async copy', 'other', ''])('%s is work', (name) =>
  expect(isWaitingPhase(name)).toBe(false),
);
