// Blame of GPU recordings of others: the rank that their own figures show, and answers about single files.

import { expect, test } from 'vitest';
import { runLine } from '../setup/warm-command.ts';
import { recordingPath } from './recording.ts';

interface Report {
  readonly verdict: string;
  readonly findings: readonly {
    readonly kind: string;
    readonly ranks: readonly number[];
    readonly phase?: string;
    readonly shareOfStep: number;
    readonly evidence: readonly string[];
  }[];
}

async function reportOf(path: string): Promise<Report> {
  const { code, stdout, stderr } = await runLine(['report', recordingPath(path), '--json']);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

test('eight H100 ranks: the one whose GPU is busy least, and last into most of the waits, is to blame, as its host launches late', async () => {
  const { verdict, findings } = await reportOf('kineto/nanogpt-8rank');
  expect(verdict).toBe('straggler');
  expect(findings[0]).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'GPU idle, host late' });
  expect(findings[0]?.shareOfStep).toBeGreaterThan(0.1);
  expect(findings[0]?.evidence.join('\n')).toMatch(/CompiledFxGraph/);
});

test.each([
  ['kineto/nanogpt-8rank/rank1.chrome-trace.json.gz', 'host_bound', 1],
  ['kineto/nanogpt-8rank/rank3.chrome-trace.json.gz', 'communication_bound', 3],
  ['kineto/resnet50-v100/worker0.1623143089861.pt.trace.json.gz', 'host_bound', 0],
  ['kineto/hta/critical_path__alexnet', 'host_bound', 0],
])('%s alone: %s', async (path, verdict, rank) => {
  const report = await reportOf(path);
  expect(report.verdict).toBe(verdict);
  expect(report.findings[0]).toMatchObject({ kind: verdict, ranks: [rank] });
});

test('the same rules of the TensorBoard plugin fire on ResNet-50, with its figures', async () => {
  const { code, stdout } = await runLine([
    'report',
    recordingPath('kineto/resnet50-v100/worker0.1623143089861.pt.trace.json.gz'),
    '--json',
  ]);
  expect(code).toBe(0);
  const { recommendations } = JSON.parse(stdout).gpu as { recommendations: { rule: string; share: number }[] };
  const plugin = recommendations.filter(({ rule }) => !['host_late', 'launches'].includes(rule));
  expect(plugin.map(({ rule }) => rule).sort()).toEqual(['data_loader', 'tensor_cores']);
  expect(plugin.find(({ rule }) => rule === 'data_loader')?.share.toFixed(3)).toBe('0.334');
  expect(plugin.find(({ rule }) => rule === 'tensor_cores')?.share.toFixed(2)).toBe('0.68');
});

test('ResNet-50 waits for its data loader', async () => {
  const { findings } = await reportOf('kineto/resnet50-v100/worker0.1623143089861.pt.trace.json.gz');
  expect(findings[0]?.evidence.join('\n')).toMatch(/the host was in enumerate\(DataLoader\)/);
});
