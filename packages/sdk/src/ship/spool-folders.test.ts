import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { makeSpoolFolder } from './spool-folders.ts';

test("a rank's folder is made while others remove the run's at any moment", async () => {
  const root = mkdtempSync(join(tmpdir(), 'ranktrace-spool-folders-'));
  const run = join(root, 'run');
  const remover = new Worker(
    `const { rmdirSync } = require('node:fs');
     const { workerData: run } = require('node:worker_threads');
     const pause = new Int32Array(new SharedArrayBuffer(4));
     for (;; Atomics.wait(pause, 0, 0, 0.05)) try { rmdirSync(run); } catch {}`,
    { eval: true, workerData: run },
  );
  onTestFinished(async () => {
    await remover.terminate();
    rmSync(root, { recursive: true, force: true });
  });
  const until = performance.now() + 500;
  const failures: unknown[] = [];
  for (let rank = 0; performance.now() < until && failures.length === 0; rank++) {
    const directory = join(run, `rank-${rank}`);
    try {
      makeSpoolFolder(directory, false);
    } catch (error) {
      failures.push(error);
    }
    rmSync(directory, { recursive: true, force: true });
  }
  expect(failures).toEqual([]);
});
