// Recorded jobs, replayed batch by batch through a service: what is blamed there is what is blamed on the files.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync, gunzipSync } from 'node:zlib';
import { startAggregator } from '@ranktrace/aggregator';
import { type Batch, encodeBatch } from '@ranktrace/protocol';
import { blameOfWindow } from '@ranktrace/trace';
import { afterAll, describe, expect, it } from 'vitest';
import { inputsOf } from '../packages/cli/src/inputs/input-kinds.ts';
import { openTorchJob } from '../packages/cli/src/inputs/torch-job.ts';
import { ndtimelineBatches } from '../packages/trace/src/testing/ndtimeline-batches.ts';
import { readNdtimeline } from '../packages/trace/src/testing/ndtimeline-recording.ts';
import { ndtimelineWindow } from '../packages/trace/src/testing/ndtimeline-window.ts';
import { repository, runCommand } from './setup/ranktrace-command.ts';

const data = join(repository, '../shared/data');
const kineto = join(data, 'kineto/ddp-4rank');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-blame-'));
afterAll(() => rmSync(directory, { recursive: true }));

interface Report {
  readonly verdict: string;
  readonly findings: readonly { kind: string; ranks: number[]; phase?: string; costMsPerStep: number }[];
  readonly blame: { readonly whatIf: readonly { ranks: number[]; slowdown: number }[] };
}

async function reportOf(path: string): Promise<Report> {
  const { code, stdout, stderr } = await runCommand(['report', path, '--json']);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

const encoded = (batch: Batch): Uint8Array => encodeBatch(batch, (body) => deflateRawSync(body));
const kindsOf = ({ findings }: Report) => findings.map(({ kind, ranks, phase }) => ({ kind, ranks, phase }));

describe('four ranks of PyTorch', () => {
  it.each(['balanced', 'rank1_forward', 'rank2_data_load'])('%s', async (job) => {
    const run = job;
    await using aggregator = await startAggregator({ out: directory });
    for (const source of (await openTorchJob(inputsOf([join(kineto, job)]), false)).sources(run)) {
      for (let index = 0; index < source.count; index++) {
        const batch = source.batch(index);
        if (batch === undefined) throw new Error(`batch ${index} of rank ${source.rank} cannot be read`);
        // Four processes of one host, as the README of the recordings says; their files do not name it.
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

describe('production jobs of ByteDance', () => {
  async function replayed(job: string) {
    const csv = gunzipSync(readFileSync(join(data, `ndtimeline/${job}/trace-${job}.csv.gz`))).toString();
    {
      await using aggregator = await startAggregator({ out: directory });
      for (const batch of ndtimelineBatches(csv, job)) expect(aggregator.ingest(encoded(batch)).result).toBe('stored');
    }
    const live = await reportOf(join(directory, job));
    // The same recording without batches, store and merge.
    const direct = blameOfWindow(ndtimelineWindow(csv));
    expect(live.verdict).toBe(direct.verdict);
    const { workers } = readNdtimeline(csv);
    const named = live.findings.map((finding) => ({ ...finding, ranks: finding.ranks.map((worker) => workers[worker]?.rank) }));
    expect(named.map(({ kind, ranks, phase }) => ({ kind, ranks, phase }))).toEqual(
      direct.findings.map(({ kind, ranks, phase }) => ({ kind, ranks, phase })),
    );
    for (const [index, { costMsPerStep }] of direct.findings.entries()) {
      expect(Math.abs((live.findings[index]?.costMsPerStep ?? 0) / costMsPerStep - 1)).toBeLessThan(0.001);
    }
    return live;
  }

  it('AR: worker (stage 0, dp 0), which makes steps 1.97 times as long', async () => {
    const { verdict, findings, blame } = await replayed('AR');
    expect(verdict).toBe('straggler');
    expect(findings[0]).toMatchObject({ kind: 'straggler', ranks: [0], phase: 'backward-compute' });
    const [whatIf] = blame.whatIf;
    expect(whatIf?.ranks).toEqual([0]);
    expect(Math.abs((whatIf?.slowdown ?? 0) / 1.97 - 1)).toBeLessThan(0.03);
  });

  it('SE: no worker for long, but some worker in each step', async () => {
    const { verdict, findings } = await replayed('SE');
    expect(verdict).toBe('rotating_imbalance');
    expect(findings.map(({ kind }) => kind)).not.toContain('straggler');
  });
});
