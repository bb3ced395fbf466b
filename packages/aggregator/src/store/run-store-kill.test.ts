import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { decodeBatch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { inflate } from '../model/inflate.ts';
import { bundle } from '../testing/bundle.ts';
import { makeBatch } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { openBatchLog } from './batch-log.ts';
import { RunStore } from './run-store.ts';

/** Starts the child, lets it append, kills it with -9 after `ms`; gives the last sequence it acknowledged. */
async function appendUntilKilled(program: string, out: string, ms: number): Promise<number> {
  const child = spawn(process.execPath, [program, out, String(64 * 1024)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const ended = once(child, 'close');
  await once(child.stdout, 'data');
  await new Promise((resolve) => setTimeout(resolve, ms));
  child.kill('SIGKILL');
  await ended;
  // The kill may have cut the last line, so only whole lines count.
  return Number(text.slice(0, text.lastIndexOf('\n')).split('\n').at(-1));
}

test('a writer killed 20 times with -9 loses nothing it acknowledged and doubles nothing', { timeout: 120_000 }, async () => {
  using directory = temporaryDirectory();
  const program = await bundle('append-forever', directory.path);
  const out = `${directory.path}/out`;
  let acknowledged = -1;
  for (let kill = 0; kill < 20; kill++) {
    const last = await appendUntilKilled(program, out, (kill * 37) % 101);
    expect(last).toBeGreaterThan(acknowledged);
    acknowledged = last;
  }
  await using store = new RunStore(out, 'demo');
  const [source] = store.sources();
  expect(source?.missing).toBe(0);
  expect(source?.count).toBeGreaterThan(acknowledged);
  for (let index = 0; index < (source?.count ?? 0); index++) {
    const bytes = source?.read(index) ?? new Uint8Array();
    expect(decodeBatch(bytes, inflate).header.sequence).toBe(index);
    if (index % 97 === 0) expect(Buffer.compare(bytes, makeBatch({ sequence: index, spans: 1 + (index % 40) }))).toBe(0);
  }
});

test('a run can be read while another process writes it', async () => {
  using directory = temporaryDirectory();
  const program = await bundle('append-forever', directory.path);
  const out = `${directory.path}/out`;
  const child = spawn(process.execPath, [program, out, String(1 << 20)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  try {
    await once(child.stdout, 'data');
    child.stdout.resume();
    let before = 0;
    for (let reading = 0; reading < 20; reading++) {
      using log = openBatchLog(out);
      const [source] = log.run('demo').sources();
      const count = source?.count ?? 0;
      expect(count).toBeGreaterThanOrEqual(before);
      before = count;
      for (let index = 0; index < count; index++) {
        expect(decodeBatch(source?.read(index) ?? new Uint8Array(), inflate).header.sequence).toBe(index);
      }
    }
    expect(() => new RunStore(out, 'demo')).toThrow(expect.objectContaining({ code: 'store_locked' }));
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
});
