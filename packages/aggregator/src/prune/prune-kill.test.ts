import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { decodeBatch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { inflate } from '../model/inflate.ts';
import { openBatchLog } from '../store/batch-log.ts';
import { RunStore } from '../store/run-store.ts';
import { bundle } from '../testing/bundle.ts';
import { makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';

const batches = 600;

/** Every step that is readable, and how many batches are missing. */
function stepsIn(out: string): { steps: number[]; missing: number } {
  using log = openBatchLog(out);
  const [source] = log.run('demo').sources();
  const steps: number[] = [];
  for (let index = 0; index < (source?.count ?? 0); index++) {
    const { columns, length } = decodeBatch(source?.read(index) as Uint8Array, inflate).tables.steps;
    steps.push(...columns.step.subarray(0, length));
  }
  return { steps, missing: source?.missing ?? -1 };
}

test('a pruning killed at any moment leaves a store with every step once, and the next one finishes it', { timeout: 600_000 }, async () => {
  using directory = temporaryDirectory();
  const program = await bundle('prune-forever', directory.path);
  const out = `${directory.path}/out`;
  {
    await using store = new RunStore(out, 'demo', { segmentBytesMax: 8192 });
    for (let sequence = 0; sequence < batches; sequence++) store.append(makeBatch({ sequence, spans: 40 }), makeHeader({ sequence }));
  }
  const folder = join(out, 'demo', 'segments');
  const before = readdirSync(folder).length;
  cpSync(out, `${out}-unpruned`, { recursive: true });
  expect(before).toBeGreaterThan(20);
  const expected = { steps: Array.from({ length: batches }, (_, step) => step), missing: 0 };
  let killed = 0;
  for (let kill = 0; kill < 100 && killed < 5; kill++) {
    const child = spawn(process.execPath, [program, out], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    const ended = once(child, 'close');
    await once(child.stdout, 'data');
    // Waits for events, not times: kills when this many more summaries are on disk.
    const summaries = (): number => readdirSync(folder).filter((name) => name.endsWith('.summary.seg')).length;
    const wanted = summaries() + (kill % 3);
    while (summaries() < wanted && child.exitCode === null) await new Promise((resolve) => setImmediate(resolve));
    child.kill('SIGKILL');
    await ended;
    expect(stepsIn(out)).toEqual(expected);
    if (!text.includes('done')) killed++;
    else {
      // A starved test comes too late: from the begin again.
      rmSync(out, { recursive: true });
      cpSync(`${out}-unpruned`, out, { recursive: true });
    }
  }
  expect(killed).toBe(5);
  const last = spawn(process.execPath, [program, out], { stdio: 'inherit' });
  await once(last, 'close');
  expect(stepsIn(out)).toEqual(expected);
  // Nothing of the killed prunings is left.
  expect(readdirSync(folder).filter((name) => !name.endsWith('.summary.seg'))).toEqual([]);
  expect(readdirSync(folder)).toHaveLength(before);
});
