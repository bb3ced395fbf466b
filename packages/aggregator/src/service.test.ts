import { expect, test } from 'vitest';
import { startAggregator } from './service.ts';
import { makeBatch } from './testing/make-batch.ts';
import { temporaryDirectory } from './testing/temporary-directory.ts';

test('a run that is not there is refused with the names of those that are, the first few of many', async () => {
  using directory = temporaryDirectory();
  await using aggregator = await startAggregator({ out: directory.path });
  const refusal = (): string => {
    try {
      aggregator.store('nope');
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(refusal()).toBe('Cannot open run "nope": there is no run yet');
  aggregator.ingest(makeBatch({ run: 'first' }));
  expect(refusal()).toBe('Cannot open run "nope": the only run is first');
  for (let more = 0; more < 9; more++) aggregator.ingest(makeBatch({ run: `run-${more}` }));
  expect(refusal()).toBe('Cannot open run "nope": the runs are first, run-0, run-1, run-2, run-3, run-4, run-5, run-6 and 2 more');
});
