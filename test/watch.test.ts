// `ranktrace watch`: torch.profiler's files into a running service, as they are written, each once, through a kill of the command.

import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { LiveMessage } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { gpuJob } from '../packages/trace/src/testing/gpu-job.ts';
import { type CommandResult, type StartedCommand, startCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { runLine } from './setup/warm-command.ts';

const run = 'watched';
let directory: string;
let port: number;
let started: StartedCommand[] = [];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-watch-'));
  mkdirSync(at('log'));
  port = await freePort();
  const serving = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', at('out')]);
  started = [serving];
  await serving.said('listening on http');
});
afterEach(async () => {
  for (const { child } of started) child.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  rmSync(directory, { recursive: true, force: true });
});

const at = (...parts: string[]): string => join(directory, ...parts);

async function startWatch(): Promise<StartedCommand> {
  const environment = { RANKTRACE_SPOOL_DIRECTORY: at('spool') };
  const watching = startCommand(['watch', at('log'), '--url', `ws://127.0.0.1:${port}`, '--run', run], environment);
  started.push(watching);
  await watching.said('watching');
  return watching;
}

async function end(watching: StartedCommand): Promise<CommandResult> {
  watching.child.kill('SIGTERM');
  return await watching.ended;
}

/** Steps and collectives of a run or of files, and whether anything was lost. */
async function contentsOf(...inputs: readonly string[]) {
  const { stdout } = await runLine(['report', ...inputs, '--json']);
  const { steps, collectives, findings } = JSON.parse(stdout) as {
    steps: unknown;
    collectives: { collectives: { group: string; op: string; count: number; incomplete: number }[] };
    findings: { kind: string }[];
  };
  const counts = collectives.collectives.map(({ group, op, count, incomplete }) => ({ group, op, count, incomplete }));
  return { steps, counts: counts.sort((a, b) => (a.group + a.op < b.group + b.op ? -1 : 1)), findings: findings.map(({ kind }) => kind) };
}

async function eventsOf(): Promise<readonly number[]> {
  const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as LiveMessage;
  return runs.find((one) => one.run === run)?.ranks.map(({ events }) => events) ?? [];
}

/** Texts of the files of four ranks, of six steps. */
const texts = (seed: number): readonly string[] => gpuJob({ seed, ranks: 4, steps: 6 }).files.map(({ text }) => text);

test('ships complete files alone, zipped or not, with the steps that they mark, and none of them twice', async () => {
  const files = texts(3);
  const watching = await startWatch();
  // Written as torch writes: piece by piece. Half of a file is none, although it has been quiet for long.
  const [first = '', ...others] = files;
  writeFileSync(at('log', 'rank0.json'), first.slice(0, first.length / 2));
  mkdirSync(at('log', 'deeper'));
  for (const [index, text] of others.entries()) writeFileSync(at('log', 'deeper', `rank${index + 1}.pt.trace.json.gz`), gzipSync(text));
  await watching.said('rank3.pt.trace.json.gz": shipped as rank 3, steps');
  expect(watching.output()).not.toContain('rank0.json": shipped');
  appendFileSync(at('log', 'rank0.json'), first.slice(first.length / 2));
  await watching.said('rank0.json": shipped as rank 0, steps');
  // Shipped batches lie in the spool until the service has them, and a command that ends waits for that only so long.
  const deeper = others.map((_, index) => at('log', 'deeper', `rank${index + 1}.pt.trace.json.gz`));
  const { counts } = await contentsOf(at('log', 'rank0.json'), ...deeper);
  await expect.poll(async () => (await contentsOf(at('out', run))).counts).toEqual(counts);
  expect(await end(watching)).toMatchObject({ code: 0 });
  const events = await eventsOf();

  // A later start knows them, and a file that was copied over itself is a new one.
  const again = await startWatch();
  writeFileSync(at('log', 'rank9.json'), files[0] ?? '');
  await again.said('rank9.json": shipped');
  expect(again.output()).not.toContain('rank3.pt.trace.json.gz');
  expect(await end(again)).toMatchObject({ code: 0 });
  expect((await eventsOf()).slice(1, 4)).toEqual(events.slice(1, 4));
});

test('a kill in the midst of a file: the next start finishes it, and the run is as the files are', async () => {
  const paths = texts(5).map((text, rank) => {
    writeFileSync(at('log', `rank${rank}.json`), text);
    return at('log', `rank${rank}.json`);
  });
  const journal = at('spool', `shipped-files-${run}.jsonl`);
  const isWhole = () => existsSync(journal) && (readFileSync(journal, 'utf8').match(/"shipped"/g) ?? []).length === 4;
  for (let kills = 0; kills < 3; kills++) {
    const lines = existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').length : 1;
    const watching = await startWatch();
    // The next line of the journal announces a file.
    while (!isWhole() && (!existsSync(journal) || readFileSync(journal, 'utf8').split('\n').length <= lines)) await wait(1);
    watching.child.kill('SIGKILL');
    await watching.ended;
  }
  const last = await startWatch();
  while (!isWhole()) await wait(20);
  const read = await contentsOf(...paths);
  await expect.poll(async () => (await contentsOf(at('out', run))).counts).toEqual(read.counts);
  expect(await end(last)).toMatchObject({ code: 0 });
  const stored = await contentsOf(at('out', run));
  expect(stored.steps).toEqual(read.steps);
  expect(stored.counts).toEqual(read.counts);
});
