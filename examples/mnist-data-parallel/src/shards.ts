// Assigns digits to ranks, in order. Pure: the same arguments give the same order on every rank.
//
// An epoch's shuffled order is cut into global batches, and each global batch into one piece per rank:
//
//   order:  | rank 0 | rank 1 | rank 2 | rank 3 | rank 0 | rank 1 | …
//           |------------- step 0 --------------|------ step 1 ------
//
// So N ranks with batches of B take the very steps that one rank would take with batches of N × B.
//
// Invariant: every rank gets the same number of batches (the rest at the end is dropped): a rank with one step more would wait without end in
// its all-reduce.

import { TrainingError } from './training-error.ts';

/** A shuffled copy of `numbers`, in an order that depends on their count and on `seed` alone (Fisher–Yates). */
export function shuffled(numbers: Uint32Array, seed: number): Uint32Array {
  const random = mulberry32(seed);
  const order = numbers.slice();
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}

/**
 * One rank's batches of an epoch, as views into `order`: 8000 digits in batches of 32 are 62 steps for each of 4 ranks.
 * @throws TrainingError `bad_usage` when there is not one batch for every rank
 * @example batchesOf(shuffled(digits.train, epoch), { rank: 0, worldSize: 4, batchSize: 32 })
 */
export function batchesOf(order: Uint32Array, about: { rank: number; worldSize: number; batchSize: number }): Uint32Array[] {
  const { rank, worldSize, batchSize } = about;
  const steps = Math.floor(order.length / (worldSize * batchSize));
  if (steps === 0) {
    const wanted = worldSize * batchSize;
    throw new TrainingError(
      'bad_usage',
      `Cannot train on ${worldSize} ranks: one step takes ${wanted} digits, and there are ${order.length}`,
    );
  }
  return Array.from({ length: steps }, (_, step) => {
    const start = (step * worldSize + rank) * batchSize;
    return order.subarray(start, start + batchSize);
  });
}

/** A small seeded generator of numbers in [0, 1): Tommy Ettinger's mulberry32. `Math.random` cannot be seeded. */
function mulberry32(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
