// Names of files as torch, launchers and users make them.

import { expect, test } from 'vitest';
import { rankInName } from './file-place.ts';

test.each([
  ['rank3.json', 3, 3],
  ['worker3.1790000.pt.trace.json', 3, 3],
  ['nccl_trace_rank_12', 12, 12],
  ['worker3_nccl_trace_rank_0', 0, 0],
  ['frank2-worker7_rank-5.json.gz', 5, 5],
  ['rank1_of_job.rank=4.pickle', 4, 4],
  // PyTorch appends the rank to the name that is set for dumps.
  ['worker3_dump_17', 3, 17],
  ['fr_8.json.gz', undefined, 8],
  ['gpu-worker-2.host', 2, 2],
  ['rank12345678', undefined, undefined],
  ['trace.json', undefined, undefined],
] as const)('the rank in the name %s', (name, rank, atEnd) => {
  expect([rankInName(name), rankInName(name, true)]).toEqual([rank, atEnd]);
});
