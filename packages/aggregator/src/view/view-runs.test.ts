import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeBatch } from '@ranktrace/protocol';
import { simulatedCluster } from '@ranktrace/trace/simulate';
import { expect, it } from 'vitest';
import { LiveState } from '../live/live-state.ts';
import { inflate } from '../model/inflate.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { pruneStore } from '../prune/prune-store.ts';
import { RunStore } from '../store/run-store.ts';
import { RunStores } from '../store/run-stores.ts';
import { makeAlert } from '../testing/make-alert.ts';
import { makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { FileRuns, StoredRuns } from './view-runs.ts';

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

it('looks at the state of all ranks once for a list of runs', async () => {
  using directory = temporaryDirectory();
  let looks = 0;
  class CountedState extends LiveState {
    override status(...given: Parameters<LiveState['status']>) {
      looks++;
      return super.status(...given);
    }
  }
  const live = new CountedState();
  const stores = new RunStores({ out: directory.path, onNotice: () => {}, onOpen: () => {}, onClose: () => {} });
  for (const run of ['a', 'b', 'c']) {
    stores.get(run);
    live.update(decodeBatch(makeBatch({ run }), inflate), { batches: 1, missing: 0, isLatest: true });
  }
  await using runs = new StoredRuns(directory.path, stores, live, () => undefined);
  expect(runs.list().map(({ run, live }) => [run, live])).toEqual(['a', 'b', 'c'].map((run) => [run, true]));
  expect(looks).toBe(1);
  await stores.close();
});

it('ends a merge with an error where retention prunes what it reads, and merges what is left the next time', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  {
    await using store = new RunStore(out, 'demo', { segmentBytesMax: 8192 });
    for (let sequence = 0; sequence < 60; sequence++) {
      const shape = { sequence, worldSize: 1, spans: 400 };
      expect(store.append(makeBatch(shape), makeHeader(shape))).toBe('stored');
    }
  }
  const live = new LiveState();
  const stores = new RunStores({ out, onNotice: () => {}, onOpen: () => {}, onClose: () => {} });
  // An open store closes what was pruned; a closed run's files stay readable as long as they are open.
  stores.get('demo');
  await using runs = new StoredRuns(out, stores, live, () => undefined);
  using view = await runs.open('demo');
  const merge = view.merge(nothing);
  merge.next();
  const { pruned } = await pruneStore(out, { keepDetailMs: 0 }, { now: new Date(Date.now() + 1000), open: (run) => stores.peek(run) });
  expect(pruned.length).toBeGreaterThan(1);
  expect(() => {
    for (const _ of merge);
  }).toThrow(expect.objectContaining({ code: 'store_missing' }));
  let steps = 0;
  for (const _ of view.merge({ ...nothing, event: ({ kind }) => (steps += kind === 'step' ? 1 : 0) }));
  expect(steps).toBe(60);
  await stores.close();
});

it('shows a run whose directory was renamed, and merges it', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  {
    await using store = new RunStore(out, 'demo');
    for (const sequence of [0, 1, 2]) store.append(makeBatch({ sequence, worldSize: 1 }), makeHeader({ sequence, worldSize: 1 }));
  }
  renameSync(join(out, 'demo'), join(out, 'demo-before'));
  const notices: string[] = [];
  const stores = new RunStores({ out, onNotice: () => {}, onOpen: () => {}, onClose: () => {} });
  await using runs = new StoredRuns(out, stores, new LiveState(), (notice) => notices.push(notice));
  expect(runs.list().map(({ run }) => run)).toEqual(['demo-before']);
  using view = await runs.open('demo-before');
  await expect.poll(() => [view.overview({ bins: 10 }).steps, notices]).toEqual([3, []]);
  let steps = 0;
  for (const _ of view.merge({ ...nothing, event: ({ kind }) => (steps += kind === 'step' ? 1 : 0) }));
  expect(steps).toBe(3);
  await stores.close();
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
