import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createPipeline } from '../pipeline.ts';
import { makeBatch } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { RunStores } from './run-stores.ts';

const open = (out: string): RunStores =>
  new RunStores({ out, onNotice: () => undefined, onOpen: () => undefined, onClose: () => undefined });

test('an output directory that takes no folders is an error, at once', () => {
  if (!existsSync('/proc/self')) return; // Linux alone has such folders
  for (const out of ['/proc/x', '/proc/x/y/z', '/proc/self/x/y']) expect(() => open(out), out).toThrow(/^Cannot write "\/proc\/.*ENOENT/);
});

test('an output directory is made with what is missing above it; a file in its place is an error', async () => {
  using directory = temporaryDirectory();
  const out = join(directory.path, 'a/b/c');
  await open(out).close();
  await open(out).close();
  mkdirSync(join(out, 'd'));
  writeFileSync(join(out, 'file'), '');
  expect(() => open(join(out, 'file'))).toThrow(/EEXIST/);
  expect(() => open(join(out, 'file/below'))).toThrow(/ENOTDIR/);
});

test('a bad batch is counted once, however often its run is opened again', async () => {
  using directory = temporaryDirectory();
  const { ingest, stores, quarantine } = createPipeline({ out: directory.path, onNotice: () => undefined });
  expect(ingest(makeBatch()).result).toBe('stored');
  const bad = makeBatch({ sequence: 1 });
  bad.fill(0xff, bad.length - 20);
  expect(ingest(bad).result).toBe('refused');
  expect(stores.quarantined).toBe(1);
  const lock = join(directory.path, 'demo', 'lock');
  for (let sequence = 2; sequence < 4; sequence++) {
    // Another process took the lock, and is gone.
    writeFileSync(lock, readFileSync(lock, 'utf8').replace(/"pid":\d+/, '"pid":4194305'));
    await stores.sync(new Date());
    expect([stores.peek('demo'), stores.quarantined]).toEqual([undefined, 1]);
    await expect.poll(() => ingest(makeBatch({ sequence })).result).toBe('stored');
    expect(stores.quarantined).toBe(1);
  }
  await stores.close();
  quarantine.close();
});

test('three hundred runs at once are open together, and each batch is taken the first time', async () => {
  using directory = temporaryDirectory();
  const opened: string[] = [];
  const { ingest, stores, quarantine } = createPipeline({ out: directory.path, onNotice: (notice) => opened.push(notice) });
  for (let sequence = 0; sequence < 3; sequence++) {
    for (let run = 0; run < 300; run++) expect(ingest(makeBatch({ run: `run-${run}`, sequence, spans: 1 })).result).toBe('stored');
  }
  expect(stores.runs()).toHaveLength(300);
  for (let run = 0; run < 300; run++) expect(stores.peek(`run-${run}`)?.source({ rank: 0, incarnation: '0001' })?.count).toBe(3);
  await stores.sync(new Date());
  await stores.close();
  quarantine.close();
  expect(opened).toEqual([]);
});
