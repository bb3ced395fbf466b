// Sends the batches of jobs' workers through a service and reads its blame.

import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { startAggregator } from '@ranktrace/aggregator';
import { type Batch, encodeBatch } from '@ranktrace/protocol';
import { blameOfWindow } from '@ranktrace/trace/blame';
import { expect } from 'vitest';
import { ndtimelineBatches } from '../../packages/trace/src/testing/ndtimeline-batches.ts';
import { readNdtimeline } from '../../packages/trace/src/testing/ndtimeline-recording.ts';
import { ndtimelineWindow } from '../../packages/trace/src/testing/ndtimeline-window.ts';
import { runLine } from './warm-command.ts';

/** The blame in `ranktrace report --json`. */
export interface Report {
  readonly verdict: string;
  readonly findings: readonly { kind: string; ranks: number[]; phase?: string; costMsPerStep: number }[];
  readonly blame: { readonly whatIf: readonly { ranks: number[]; slowdown: number }[] };
}

export async function reportOf(path: string): Promise<Report> {
  const { code, stdout, stderr } = await runLine(['report', path, '--json']);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

export const encoded = (batch: Batch): Uint8Array => encodeBatch(batch, (body) => deflateRawSync(body));

/**
 * Sends the batches of the workers in NDTimeline's `csv` to a service that stores them in `out` as run `name`, and reports that run. The
 * blame must equal that of the same job without batches, store and merge.
 */
export async function replayed(out: string, name: string, csv: string): Promise<Report> {
  {
    await using aggregator = await startAggregator({ out });
    for (const batch of ndtimelineBatches(csv, name)) expect(aggregator.ingest(encoded(batch)).result).toBe('stored');
  }
  const live = await reportOf(join(out, name));
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
