import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunModel } from '@ranktrace/protocol';
import { simulatedCluster } from '@ranktrace/trace/simulate';
import { afterAll, expect, it } from 'vitest';
import { aggregatorLimits as limits } from './model/limits.ts';
import { ViewClient } from './view/view-client.ts';
import { startViewer } from './viewer.ts';

const page = mkdtempSync(join(tmpdir(), 'ranktrace-viewer-'));
writeFileSync(join(page, 'index.html'), '<!doctype html>');
afterAll(() => rmSync(page, { recursive: true }));

const { sources } = simulatedCluster({ seed: 1, ranks: 2, hosts: 1, steps: 5, rpcsPerSecond: 0 });

it.each([
  { count: limits.viewRunsMax, said: [] },
  { count: limits.viewRunsMax + 3, said: ['19 runs: the first 16 are indexed now, each other one when it is opened'] },
])('shows $count runs, whichever of them a page opens', async ({ count, said }) => {
  const inputs = Array.from({ length: count }, (_, index) => ({ run: `run-${index}`, sources }));
  const notices: string[] = [];
  await using viewer = await startViewer({ inputs, page, onNotice: (notice) => notices.push(notice) });
  await viewer.indexed;
  expect(notices).toEqual(said);
  using client = await ViewClient.connect(viewer.address, { token: undefined });
  for (const { run } of [...inputs].reverse()) {
    const model = await client.ask<RunModel>({ type: 'open', run });
    expect(model.run).toBe(run);
    await client.ask({ type: 'close', run });
  }
});
