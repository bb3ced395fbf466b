// Recorded and simulated jobs, replayed batch by batch through a service: the service blames the same ranks as a report of the files.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAggregator } from '@ranktrace/aggregator';
import { ReadBudget } from '@ranktrace/trace';
import { afterAll, describe, expect, it } from 'vitest';
import { inputsOf } from '../packages/cli/src/inputs/input-kinds.ts';
import { openTorchJob } from '../packages/cli/src/inputs/torch-job.ts';
import { pipelineJob } from '../packages/trace/src/testing/pipeline-job.ts';
import { repository } from './setup/ranktrace-command.ts';
import { encoded, type Report, replayed, reportOf } from './setup/replayed-jobs.ts';

const kineto = join(repository, 'test/data/kineto/ddp-4rank');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-blame-'));
afterAll(() => rmSync(directory, { recursive: true }));

const kindsOf = ({ findings }: Report) => findings.map(({ kind, ranks, phase }) => ({ kind, ranks, phase }));

describe('four ranks of PyTorch', () => {
  it.each(['balanced', 'rank1_forward', 'rank2_data_load'])('%s', async (job) => {
    const run = job;
    await using aggregator = await startAggregator({ out: directory });
    for (const source of (await openTorchJob(inputsOf([join(kineto, job)]), false, new ReadBudget())).sources(run)) {
      for (let index = 0; index < source.count; index++) {
        const batch = source.batch(index);
        if (batch === undefined) throw new Error(`batch ${index} of rank ${source.rank} cannot be read`);
        // Four processes of one host, as test/data/README.md says; their files do not name it.
        const header = { ...batch.header, host: 'vm', hostName: 'vm' };
        expect(aggregator.ingest(encoded({ ...batch, header })).result).toBe('stored');
      }
    }
    const [live, recorded] = [await reportOf(join(directory, run)), await reportOf(join(kineto, job))];
    const truth = JSON.parse(readFileSync(join(kineto, job, 'truth.json'), 'utf8')) as {
      fault: { rank: number; phase: string; ms: number }[];
    };
    const [fault] = truth.fault;
    expect(live.verdict).toBe(recorded.verdict);
    expect(live.verdict).toBe(fault === undefined ? 'balanced' : 'straggler');
    if (fault === undefined) return;
    const [worst] = live.findings;
    expect(worst).toMatchObject({ kind: 'straggler', ranks: [fault.rank], phase: fault.phase });
    expect(kindsOf(live)[0]).toEqual(kindsOf(recorded)[0]);
    expect(Math.abs((worst?.costMsPerStep ?? 0) / fault.ms - 1)).toBeLessThan(0.25);
    expect(Math.abs((worst?.costMsPerStep ?? 0) / (recorded.findings[0]?.costMsPerStep ?? 0) - 1)).toBeLessThan(0.02);
  });
});

describe('a simulated job of 4 stages and 4 replicas (seed 1)', () => {
  it('a worker that computes 2.35 times as long is found, with what it costs in truth', async () => {
    const slow = { stage: 0, dp: 0, factor: 2.35 };
    const job = pipelineJob({ seed: 1, slow });
    const { verdict, findings, blame } = await replayed(directory, 'slow-worker', job.csv);
    expect(verdict).toBe('straggler');
    expect(findings[0]).toMatchObject({ kind: 'straggler', ranks: [0], phase: 'backward-compute' });
    const [whatIf] = blame.whatIf;
    expect(whatIf?.ranks).toEqual([0]);
    const truth = job.stepSeconds / pipelineJob({ seed: 1 }).stepSeconds;
    expect(Math.abs((whatIf?.slowdown ?? 0) / truth - 1)).toBeLessThan(0.01);
  });

  it('of sequences of unequal length no worker is, though some worker in each step', async () => {
    const { verdict, findings } = await replayed(directory, 'lengths', pipelineJob({ seed: 1, replicas: 8, lengths: 0.15 }).csv);
    expect(verdict).toBe('rotating_imbalance');
    expect(findings.map(({ kind }) => kind)).not.toContain('straggler');
  });
});
