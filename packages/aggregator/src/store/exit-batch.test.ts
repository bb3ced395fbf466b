import { decodeBatch, exitKey, stoppedKey } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { metadataOf } from '../live/batch-metadata.ts';
import { inflate } from '../model/inflate.ts';
import { makeBatch } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { exitBatches, type ProcessExit } from './exit-batch.ts';
import { RunStores } from './run-stores.ts';

const killed = 'was ended by SIGKILL';

const exitOf = (rank: number, about: Partial<ProcessExit> = {}): ProcessExit => ({
  ...{ rank, pid: 40 + rank, how: killed, isWell: false, isStopped: false },
  ...about,
});

/** The batches of these exits, for a store with ranks 0 and 1 of four, as processes 40 and 41. */
async function batchesOf(exits: readonly ProcessExit[], pids = [40, 41, 42, 43]) {
  using out = temporaryDirectory();
  const stores = new RunStores({ out: out.path, onNotice: () => {}, onOpen: () => {}, onClose: () => {} });
  const store = stores.get('demo');
  for (const rank of [0, 1]) {
    for (let sequence = 0; sequence < 3; sequence++) {
      const shape = { rank, pid: 40 + rank, sequence, last: rank === 0 && sequence === 2 };
      const bytes = makeBatch(shape);
      store.append(bytes, decodeBatch(bytes, inflate).header);
    }
  }
  const processes = pids.map((pid, rank) => ({ rank, pid }));
  const batches = exitBatches(store.sources(), exits, processes).map((bytes) => decodeBatch(bytes, inflate));
  await stores.close();
  return batches.map((batch) => {
    const { rank, pid, sequence, last, incarnation } = batch.header;
    return { rank, pid, sequence, last, incarnation, how: [...metadataOf(batch, exitKey)], stopped: [...metadataOf(batch, stoppedKey)] };
  });
}

test('how a process ended is the last batch of its rank, which says goodbye no more and no less than before', async () => {
  expect(await batchesOf([exitOf(1), exitOf(0, { how: 'ended with exit code 3', isStopped: true })])).toEqual([
    { rank: 1, pid: 41, sequence: 3, last: false, incarnation: '0001', how: [killed], stopped: [] },
    { rank: 0, pid: 40, sequence: 3, last: true, incarnation: '0001', how: ['ended with exit code 3'], stopped: ['true'] },
  ]);
});

test('nothing is said of one that ended well, or of another process with the number of a rank', async () => {
  expect(await batchesOf([exitOf(0, { isWell: true }), exitOf(1, { pid: 7 }), exitOf(4)])).toEqual([]);
});

test('one that ended well, but without a goodbye, was not killed', async () => {
  const how = 'ended with exit code 0';
  expect(await batchesOf([exitOf(0, { how, isWell: true }), exitOf(1, { how, isWell: true })])).toMatchObject([
    { rank: 1, sequence: 3, last: false, how: [how] },
  ]);
});

test('a rank that was never heard of has ended if other ranks are such processes, and it was not on its way to begin', async () => {
  const [unheard] = await batchesOf([exitOf(3)]);
  expect(unheard).toMatchObject({ rank: 3, pid: 43, sequence: 0, last: false, how: [killed] });
  expect(await batchesOf([exitOf(3, { isStopped: true })])).toEqual([]);
  // A shell around each rank: the process of the rank is another one.
  expect(await batchesOf([exitOf(3)], [50, 51, 52, 43])).toEqual([]);
});
