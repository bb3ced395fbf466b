// `ranktrace report --json`, and the required content of reports on files of other programs.

import { expect } from 'vitest';
import { runLine } from './warm-command.ts';

// biome-ignore lint/suspicious/noExplicitAny: the report as JSON has it, asked by tests for what they expect.
export async function report(...inputs: readonly string[]): Promise<any> {
  const { stdout, stderr, code } = await runLine(['report', ...inputs, '--json']);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

/** A PyTorch job's files in `folder`, on one clock: the number of collectives that all ranks have, and the largest distance of their exits. */
export async function expectPyTorchReport(
  folder: string,
  expected: { readonly count: number; readonly exitSpreadNs: number },
): Promise<void> {
  const { collectives, clocks } = await report(folder);
  const lines: { count: number; incomplete: number; violations: number; exitSpreadNs?: { max: number } }[] = collectives.collectives;
  expect(lines.reduce((sum, { count }) => sum + count, 0)).toBe(expected.count);
  expect(lines.reduce((sum, { violations }) => sum + violations, 0)).toBe(0);
  expect(Math.max(...lines.map(({ exitSpreadNs }) => exitSpreadNs?.max ?? 0)) / expected.exitSpreadNs).toBeCloseTo(1, 2);
  expect(new Set(clocks.ranks.map(({ method }: { method: string }) => method))).toEqual(new Set(['exact', 'shared']));
  const { stdout } = await runLine(['report', folder]);
  expect(stdout).toContain('clocks: as recorded: nothing contradicts that all ranks read one clock');
}

/** A Zipkin file: no call arrives before it was sent. Returns the number of calls with both sides. */
export async function expectZipkinReport(path: string): Promise<number> {
  const { remoteCalls } = await report(path);
  const matched = remoteCalls.routes.filter(({ networkNs }: { networkNs?: object }) => networkNs !== undefined);
  expect(matched.length).toBeGreaterThan(0);
  for (const { outNs, backNs, reversed } of matched) {
    expect(reversed).toBe(0);
    expect(outNs.p50).toBeGreaterThanOrEqual(0);
    expect(backNs.p50).toBeGreaterThanOrEqual(0);
  }
  return matched.reduce((sum: number, { networkNs }: { networkNs: { count: number } }) => sum + networkNs.count, 0);
}
