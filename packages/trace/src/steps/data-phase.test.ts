import { expect, it } from 'vitest';
import { isDataPhase } from './data-phase.ts';

it('knows the names of phases that get the next batch', () => {
  const data = ['data', 'data_load', 'dataLoader', 'load data', 'get_batch', 'nextBatch', 'input', 'dataloader.next', 'prefetch', 'fetch'];
  expect(data.filter((name) => !isDataPhase(name))).toEqual([]);
  const others = [
    'forward',
    'backward',
    'optimizer',
    'metadata',
    'update',
    'all_reduce',
    'database_gc',
    'DistributedDataParallel.forward',
    'other',
  ];
  expect(others.filter(isDataPhase)).toEqual([]);
});
