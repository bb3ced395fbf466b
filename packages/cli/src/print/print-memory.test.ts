import type { ProfileMemory } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { formatMemory } from './print-memory.ts';

const peak = (of: ProfileMemory['of']): ProfileMemory => ({
  ...{ rank: 0, device: 'GPU 0', of, peak: 2 ** 20, peakAt: 7, allocations: 2, reserved: null, curve: [] },
  kinds: [['activations', 2 ** 20]],
  holders: [{ kind: 'activations', place: 'forward', name: 'Relu', bytes: 2 ** 20, allocations: 2 }],
});

test('a peak has its category and its op, and the table says whose bytes they are', () => {
  const ofAllocator = formatMemory([peak('allocator')]);
  expect(ofAllocator).toMatch(/rank 0, GPU 0 +1\.00 MiB +activations 100\.0 % +Relu in forward 1\.00 MiB$/);
  expect(formatMemory([peak('tensors')])).toBe(
    `${ofAllocator}\nbytes of tensors, as TensorFlow.js makes and frees them: memory that its library reserved is not among them (of a GPU it is in the counter "memory used")`,
  );
});
