// Ring all-reduce: the mean of an array over all ranks, with each rank sending only 2 (N − 1) / N of the array, whatever N is.
//
// Each rank sends to the next and receives from the previous one. The array is cut into N chunks. First the sums travel once round the
// ring (reduce-scatter), then the finished chunks do (all-gather). With 4 ranks, rank r does this to its chunks (all indices mod 4):
//
//   round            0               1               2               (then divides chunk r+1 by N)
//   reduce-scatter   send r          send r−1        send r−2
//                    add to r−1      add to r−2      add to r−3 = r+1, which is now the sum over all ranks
//   all-gather       send r+1        send r          send r−1
//                    replace r       replace r−1     replace r−2
//
// Invariants:
//  - All ranks end with the same bits: every chunk is summed and divided in one place, and copied from there.
//  - Every rank calls with the same length, in the same order, one call at a time. A slow rank makes the others wait.
//  - Values travel in the hosts' byte order, which is little-endian wherever Node runs today except on s390x.

import type { PeerConnection } from './peer-connection.ts';
import { TrainingError } from './training-error.ts';

/** This rank's two neighbours in the ring. With two ranks they are the same rank, over two connections. */
export interface Neighbours {
  readonly previous: PeerConnection;
  readonly next: PeerConnection;
}

export class RingAllReduce {
  readonly #rank: number;
  readonly #worldSize: number;
  readonly #neighbours: Neighbours | undefined;

  /** @param neighbours the connections round the ring; `undefined` for a rank that is alone. The caller closes them. */
  constructor(rank: number, worldSize: number, neighbours: Neighbours | undefined) {
    this.#rank = rank;
    this.#worldSize = worldSize;
    this.#neighbours = neighbours;
  }

  /**
   * Replaces `values` by their mean over all ranks.
   * @throws TrainingError `peer_lost` or `peer_silent` when a neighbour fails; `values` is then worthless
   */
  async allReduce(values: Float32Array): Promise<void> {
    const neighbours = this.#neighbours;
    if (neighbours === undefined) return;
    const rank = this.#rank;
    const worldSize = this.#worldSize;
    const chunk = (index: number) => chunkOf(values, index, worldSize);
    const received = new Float32Array(Math.ceil(values.length / worldSize));
    try {
      for (let round = 0; round < worldSize - 1; round++) {
        const sum = chunk(rank - round - 1);
        const arrived = received.subarray(0, sum.length);
        await exchange(neighbours, chunk(rank - round), arrived);
        for (let i = 0; i < sum.length; i++) sum[i]! += arrived[i]!;
      }
      const finished = chunk(rank + 1);
      for (let i = 0; i < finished.length; i++) finished[i]! /= worldSize;
      for (let round = 0; round < worldSize - 1; round++) {
        await exchange(neighbours, chunk(rank + 1 - round), chunk(rank - round));
      }
    } catch (cause) {
      if (!(cause instanceof TrainingError)) throw cause;
      // The neighbour may have ended only because it lost a neighbour itself: the failure travels round the ring.
      throw new TrainingError(cause.code, `Cannot finish the all-reduce on rank ${rank} of ${worldSize}. ${cause.message}`, { cause });
    }
  }
}

/**
 * The view of one of `chunkCount` nearly equal parts of `values`; `index` is taken modulo `chunkCount`. Lengths differ by at most one,
 * and are 0 for some when there are fewer values than chunks.
 */
export function chunkOf(values: Float32Array, index: number, chunkCount: number): Float32Array {
  const chunk = ((index % chunkCount) + chunkCount) % chunkCount;
  return values.subarray(Math.floor((values.length * chunk) / chunkCount), Math.floor((values.length * (chunk + 1)) / chunkCount));
}

/** Sends to the next rank while receiving from the previous one: one after the other would deadlock once the kernel's buffers are full. */
async function exchange({ previous, next }: Neighbours, outgoing: Float32Array, incoming: Float32Array): Promise<void> {
  const [arrived] = await Promise.all([previous.receive(incoming.byteLength), next.send(bytesOf(outgoing))]);
  bytesOf(incoming).set(arrived);
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
