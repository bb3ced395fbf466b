// Recorded jobs, replayed batch by batch through a service: what is blamed there is what is blamed on the files.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { startAggregator } from '@ranktrace/aggregator';
import { encodeBatch } from '@ranktrace/protocol';
import { afterAll, expect, it } from 'vitest';
import { kinetoFilesOf, openKinetoFiles } from '../packages/cli/src/kineto-inputs.ts';
import { repository, runCommand } from './setup/ranktrace-command.ts';

const data = join(repository, '../shared/data/kineto/ddp-4rank');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-blame-'));
afterAll(() => rmSync(directory, { recursive: true }));

interface Report {
  readonly verdict: string;
  readonly findings: readonly { kind: string; ranks: number[]; phase?: string; costMsPerStep: number }[];
}

async function reportOf(path: string): Promise<Report> {
  const { code, stdout, stderr } = await runCommand(['report', path, '--json']);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

const kindsOf = ({ findings }: Report) => findings.map(({ kind, ranks, phase }) => ({ kind, ranks, phase }));

it.each(['balanced', 'rank1_forward', 'rank2_data_load'])('%s', async (job) => {
  const run = job;
  await using aggregator = await startAggregator({ out: directory });
  for (const source of await openKinetoFiles(kinetoFilesOf([join(data, job)]) ?? [], run)) {
    for (let index = 0; index < source.count; index++) {
      const batch = source.batch(index);
      if (batch === undefined) throw new Error(`batch ${index} of rank ${source.rank} cannot be read`);
      // Four processes of one host, as the README of the recordings says; their files do not name it.
      const header = { ...batch.header, host: 'vm', hostName: 'vm' };
      const taken = aggregator.ingest(encodeBatch({ ...batch, header }, (body) => deflateRawSync(body)));
      expect(taken.result).toBe('stored');
    }
  }
  const [live, recorded] = [await reportOf(join(directory, run)), await reportOf(join(data, job))];
  const truth = JSON.parse(readFileSync(join(data, job, 'truth.json'), 'utf8')) as { fault: { rank: number; phase: string; ms: number }[] };
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
