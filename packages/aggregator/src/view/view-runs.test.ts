import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { simulatedCluster } from '@ranktrace/trace/simulate';
import { expect, it } from 'vitest';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { makeAlert } from '../testing/make-alert.ts';
import { FileRuns } from './view-runs.ts';

const nothing = { begin: () => {}, lane: () => {}, event: () => {}, end: () => {} };

it('merges a run for as many comparisons and downloads at a time as the limit says, and again when one has ended', async () => {
  const { sources } = simulatedCluster({ seed: 1, ranks: 2, hosts: 1, steps: 5, rpcsPerSecond: 0 });
  await using runs = new FileRuns([{ run: 'demo', sources }], () => undefined);
  using view = await runs.open('demo');
  const begun = Array.from({ length: limits.viewMergesMax }, () => view.merge(nothing));
  for (const merge of begun) merge.next();
  expect(() => view.merge(nothing).next()).toThrow(`${limits.viewMergesMax} comparisons and downloads are under way already`);
  begun[0]?.return(undefined);
  let events = 0;
  for (const _ of view.merge({ ...nothing, event: () => events++ }));
  expect(events).toBeGreaterThan(0);
  // The sum is the same each time: nothing is used up.
  let again = 0;
  for (const _ of view.merge({ ...nothing, event: () => again++ }));
  expect(again).toBe(events);
});

it('has the alerts that a run was stored with among its findings', async () => {
  const { sources } = simulatedCluster({ seed: 1, ranks: 2, hosts: 1, steps: 5, rpcsPerSecond: 0 });
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-view-'));
  try {
    const hang = { rule: 'hang', state: 'resolved', step: 4, resolvedAt: '2026-02-03T04:15:06.000Z', resolution: 'the run ended' } as const;
    writeFileSync(join(directory, 'alerts.jsonl'), `${JSON.stringify(makeAlert({ ...hang, summary: 'it hangs' }))}\n`);
    await using runs = new FileRuns([{ run: 'demo', sources, directory }], () => undefined);
    using view = await runs.open('demo');
    await expect
      .poll(() => view.overview({ bins: 10 }).findings.map(({ kind, severity, text }) => [kind, severity, text])[0])
      .toEqual(['hang', 'alert', 'it hangs (over: the run ended)']);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
