// The ring over real sockets: four ranks in one process, on the loopback address.

import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Cluster, joinCluster } from './join-cluster.ts';
import { connectToPeer } from './peer-connection.ts';
import { PeerListener } from './peer-listener.ts';
import { chunkOf } from './ring-all-reduce.ts';
import { checkSameWeights } from './weights-check.ts';

async function joinRanks(worldSize: number): Promise<Cluster[]> {
  const masterPort = await freePort();
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank);
  return Promise.all(ranks.map((rank) => joinCluster({ rank, worldSize, masterAddress: '127.0.0.1', masterPort })));
}

/** A port below those that systems hand out, so that no other test gets it meanwhile. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(10_000 * Math.random());
    try {
      using listener = await PeerListener.open('127.0.0.1', port);
      return listener.port;
    } catch {
      // Another one.
    }
  }
}

function leave(clusters: readonly Cluster[]): void {
  for (const cluster of clusters) cluster[Symbol.dispose]();
}

const haveSameBits = (a: Float32Array, b: Float32Array) => Buffer.compare(Buffer.from(a.buffer), Buffer.from(b.buffer)) === 0;

/** Small whole numbers, different on every rank: their sums and quarters are exact in a float32, whatever the order of the additions. */
const valuesOf = (rank: number, length: number) => Float32Array.from({ length }, (_, i) => ((i * 7 + rank * 13) % 101) - 50);

function meanOf(arrays: readonly Float32Array[]): Float32Array {
  return arrays[0]!.map((_, i) => arrays.reduce((sum, values) => sum + values[i]!, 0) / arrays.length);
}

// 101 770 values are all gradients of the network.
test.each([0, 1, 3, 4, 7, 10, 101_770])('four ranks end with the exact mean of %i values, step after step', async (length) => {
  const clusters = await joinRanks(4);
  const inputs = clusters.map((_, rank) => valuesOf(rank, length));
  const expected = meanOf(inputs);
  for (let step = 0; step < 3; step++) {
    const arrays = inputs.map((values) => values.slice());
    await Promise.all(clusters.map(({ ring }, rank) => ring.allReduce(arrays[rank]!)));
    for (const array of arrays) expect(haveSameBits(array, expected)).toBe(true);
  }
  leave(clusters);
});

test.each([1, 2, 3, 5])('%i ranks end with the same bits where the mean is not exact', async (worldSize) => {
  const clusters = await joinRanks(worldSize);
  const arrays = clusters.map((_, rank) => Float32Array.from({ length: 1001 }, (_, i) => Math.sin(i + 1000 * rank) * 10 ** (i % 7)));
  await Promise.all(clusters.map(({ ring }, rank) => ring.allReduce(arrays[rank]!)));
  for (const array of arrays) expect(haveSameBits(array, arrays[0]!)).toBe(true);
  const checks = clusters.map(({ ring }, rank) => checkSameWeights(arrays[rank]!, ring, { rank, worldSize }));
  expect(new Set(await Promise.all(checks)).size).toBe(1);
  leave(clusters);
});

test('one different bit in the weights of one rank is found by every rank', async () => {
  const clusters = await joinRanks(4);
  const weights = clusters.map(() => Float32Array.of(1, 2, 3));
  weights[2]![1] = 2 + 2 ** -22;
  const checks = clusters.map(({ ring }, rank) => checkSameWeights(weights[rank]!, ring, { rank, worldSize: 4 }));
  for (const check of await Promise.allSettled(checks)) {
    expect(check).toMatchObject({ status: 'rejected', reason: { code: 'weights_differ' } });
  }
  leave(clusters);
});

test('the ranks wait for a slow one', async () => {
  const clusters = await joinRanks(4);
  const arrays = clusters.map((_, rank) => valuesOf(rank, 10));
  const order: string[] = [];
  await Promise.all(
    clusters.map(async ({ ring }, rank) => {
      if (rank === 2) {
        await sleep(100);
        order.push('slow rank begins');
      }
      await ring.allReduce(arrays[rank]!);
      order.push('done');
    }),
  );
  expect(order).toEqual(['slow rank begins', 'done', 'done', 'done', 'done']);
  expect(arrays[0]).toEqual(meanOf([0, 1, 2, 3].map((rank) => valuesOf(rank, 10))));
  leave(clusters);
});

test('a rank that ends during the all-reduce ends it on all ranks, with an error that names the neighbour', async () => {
  const clusters = await joinRanks(4);
  const running = [0, 1, 3].map(async (rank) => {
    try {
      await clusters[rank]!.ring.allReduce(valuesOf(rank, 101_770));
      return 'finished';
    } catch (error) {
      clusters[rank]![Symbol.dispose](); // As a process would that ends with this error.
      return (error as Error).message;
    }
  });
  clusters[2]![Symbol.dispose]();
  const [onRank0, onRank1, onRank3] = await Promise.all(running);
  expect(onRank3).toBe('Cannot finish the all-reduce on rank 3 of 4. Lost rank 2: its connection was closed by the other end');
  expect(onRank0).toMatch(/^Cannot finish the all-reduce on rank 0 of 4\. Lost rank 3: /);
  expect(onRank1).toMatch(/^Cannot finish the all-reduce on rank 1 of 4\. Lost rank (0|2): /);
});

test('a stranger at the meeting point is ignored', async () => {
  const masterPort = await freePort();
  const master = joinCluster({ rank: 0, worldSize: 2, masterAddress: '127.0.0.1', masterPort });
  using stranger = await connectToPeer({ host: '127.0.0.1', port: masterPort, peer: 'rank 0' });
  await stranger.send(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
  const worker = joinCluster({ rank: 1, worldSize: 2, masterAddress: '127.0.0.1', masterPort });
  leave(await Promise.all([master, worker]));
});

test.each([
  [10, 4, [2, 3, 2, 3]],
  [3, 4, [0, 1, 1, 1]],
  [4, 4, [1, 1, 1, 1]],
  [0, 2, [0, 0]],
])('%i values in %i chunks', (length, chunkCount, lengths) => {
  const values = Float32Array.from({ length }, (_, i) => i);
  const chunks = lengths.map((_, index) => chunkOf(values, index, chunkCount));
  expect(chunks.map((chunk) => chunk.length)).toEqual(lengths);
  expect(chunks.flatMap((chunk) => [...chunk])).toEqual([...values]); // Every value once, in order.
  expect(chunkOf(values, -1, chunkCount)).toEqual(chunks.at(-1));
});
