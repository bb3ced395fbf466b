// Several incarnations of ranks on one host: at the same time in one process, one after another, killed; each has its own name and its own spool.

import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRanks } from './setup/rank-programs.ts';
import { startCommand } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-lives-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function runProgram(program: string, environment: Record<string, string>): Promise<string> {
  const [rank] = await startRanks(1, ['--input-type=module', '-e', program], { RANKTRACE_RUN: 'run', ...environment });
  const ended = await rank?.ended;
  expect(ended?.code, ended?.output).toBe(0);
  return ended?.output ?? '';
}

/** A program that runs `body` in so many threads; when all are done it ends. */
const inThreads = (threads: number, body: string): string => `
  import { once } from 'node:events';
  import { Worker } from 'node:worker_threads';
  const url = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(body)}));
  await Promise.all(Array.from({ length: ${threads} }, () => once(new Worker(url), 'exit')));`;

const sdk = JSON.stringify(new URL('../packages/sdk/dist/index.js', import.meta.url).href);

test('two profiles that begin in one ms lose nothing of each other', async () => {
  const body = `
    import { profile, recordFunction } from ${sdk};
    Date.now = () => 1_790_000_000_000;
    const prof = profile().start();
    for (let span = 0; span < 1000; span++) recordFunction('part', () => {});
    await prof.stop();`;
  await runProgram(inThreads(2, body), { RANKTRACE_DIRECTORY: directory });
  const { events, findings, processes } = await readRun(directory, 'run');
  expect(processes).toHaveLength(2);
  expect(events.filter(({ name }) => name === 'part')).toHaveLength(2000);
  expect(findings).toEqual([]);
});

test('of a killed rank of which all was acknowledged nothing stays after the next start, of whichever run', async () => {
  const spool = join(directory, 'spool');
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', join(directory, 'out')]);
  await service.said('listening on');
  const url = `ws://${/listening on (?:http:\/\/)?([\d.:]+)/.exec(service.output())?.[1]}`;
  const environment = { RANKTRACE_URL: url, RANKTRACE_SPOOL_DIRECTORY: spool };
  const [killed] = await startRanks(1, ['test/programs/steps.mjs', '100000', '2'], { ...environment, RANKTRACE_RUN: 'killed' });
  const acknowledged = (): boolean =>
    existsSync(join(spool, 'killed')) &&
    readdirSync(join(spool, 'killed')).some((name) => existsSync(join(spool, 'killed', name, 'acked')));
  while (!acknowledged()) await new Promise((resolve) => setTimeout(resolve, 20));
  // Once stopped, it sends nothing more; its sent batches are acknowledged or not.
  killed?.child.kill('SIGKILL');
  await killed?.ended;
  const before = readdirSync(join(spool, 'killed'));
  expect(before).toHaveLength(1);
  const isDone = await runProgram(
    `import { isAcknowledged } from '${new URL('../packages/sdk/dist/ship/spool.js', import.meta.url).href}';
     console.log('acknowledged', isAcknowledged('${join(spool, 'killed', before[0] ?? '')}'));`,
    {},
  );
  await runProgram(`import { profile } from ${sdk}; await profile().start().stop();`, environment);
  // A kill between sending and the answer leaves a batch that only the same rank of that run may ship.
  expect(existsSync(join(spool, 'killed'))).toBe(isDone.includes('acknowledged false'));
  await runProgram(`import { profile } from ${sdk}; await profile({ run: 'killed' }).start().stop();`, environment);
  expect(readdirSync(spool)).toEqual([]);
  service.child.kill('SIGINT');
  await service.ended;
});
