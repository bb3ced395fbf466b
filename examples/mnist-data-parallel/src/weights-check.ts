// Verifies data-parallel training: all ranks hold the same weights, bit for bit.

import type { RingAllReduce } from './ring-all-reduce.ts';
import { TrainingError } from './training-error.ts';

/**
 * Compares the weights of all ranks by a checksum, which it returns as 8 hex digits.
 * @throws TrainingError `weights_differ`, on every rank
 */
export async function checkSameWeights(
  weights: Float32Array,
  ring: RingAllReduce,
  { rank, worldSize }: { rank: number; worldSize: number },
) {
  // An all-reduce in which each rank fills only its own place is an all-gather. Two halves, because a float32 holds 24 bits exactly.
  const own = checksum(weights);
  const gathered = new Float32Array(2 * worldSize);
  gathered.set([own >>> 16, own & 0xffff], 2 * rank);
  await ring.allReduce(gathered);
  const all = Array.from({ length: worldSize }, (_, other) => {
    const high = Math.round(gathered[2 * other]! * worldSize);
    const low = Math.round(gathered[2 * other + 1]! * worldSize);
    return (high * 0x10000 + low).toString(16).padStart(8, '0');
  });
  if (new Set(all).size > 1)
    throw new TrainingError('weights_differ', `The ranks ended with different weights: checksums ${all.join(', ')}`);
  return all[0]!;
}

/** FNV-1a over 32-bit words. */
function checksum(weights: Float32Array): number {
  let hash = 0x811c9dc5;
  for (const word of new Uint32Array(weights.buffer, weights.byteOffset, weights.length)) hash = Math.imul(hash ^ word, 0x01000193);
  return hash >>> 0;
}
