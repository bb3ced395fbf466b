// Logs of NCCL Inspector as input of commands, made up in its documented formats.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type InspectorLogOptions, inspectorLogs } from '../packages/trace/src/testing/inspector-logs.ts';
import { startCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-inspector-'));
const at = (...names: string[]): string => join(directory, ...names);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function folder(name: string, options: InspectorLogOptions = {}, isZipped = false): string {
  mkdirSync(at(name));
  for (const [file, text] of inspectorLogs(options)) {
    if (isZipped) writeFileSync(at(name, `${file}.gz`), gzipSync(text));
    else writeFileSync(at(name, file), text);
  }
  return at(name);
}

let logs: string;
beforeAll(() => {
  logs = folder('logs', { collectives: 60, lateRank: 2, lateMicros: 3000, isLost: (rank, sequence) => rank === 1 && sequence === 7 });
});

it('reports the rank that the others waited for, and what Inspector lost', async () => {
  const { code, stdout, stderr } = await runLine(['report', logs]);
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^run nccl-inspector: 4 of 4 ranks/);
  expect(stdout).toMatch(/^ {2}left_out: rank 1: left out of its files: 1 operations that NCCL Inspector lost/m);
  expect(stderr).toContain('NCCL Inspector lost 1 operations: other ranks have them, or it counts them');
  const { collectives, openWork } = JSON.parse((await runLine(['report', logs, '--json'])).stdout);
  const line = collectives.collectives.find(({ group }: { group: string }) => group === 'world AllReduce');
  // 59 of 60: one is lost.
  expect(line).toMatchObject({ op: 'all_reduce', count: 59, incomplete: 0, ranks: 4 });
  const { lastIn } = line.perRank.find(({ rank }: { rank: number }) => rank === 2);
  expect(lastIn).toBeGreaterThan(50);
  expect(openWork.collectives).toEqual([]);
});

it('merges and shows them: a directory, its files, zipped ones, those of older formats', async () => {
  const inputs = [
    [logs],
    [...inspectorLogs().keys()].map((name) => join(logs, name)),
    [folder('zipped', { collectives: 60 }, true)],
    [folder('old', { collectives: 60, format: 'v4.0' })],
  ];
  for (const input of inputs) {
    const { code, stdout, stderr } = await runLine(['merge', ...input, '-o', at('out.json')]);
    expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/^trace: .*out\.json/m)]);
    const { traceEvents } = JSON.parse(readFileSync(at('out.json'), 'utf8')) as { traceEvents: { name?: string; ph: string }[] };
    expect(traceEvents.filter(({ name = '', ph }) => ph !== 'M' && /^AllGather/.test(name)).length).toBeGreaterThanOrEqual(80);
    const view = startCommand(['view', ...input, '--no-open']);
    await view.said('indexed in');
    view.child.kill('SIGINT');
    expect((await view.ended).code).toBe(0);
  }
});

it('leaves out a log of a directory that is cut to nothing or is another, and says so; a named one is an error', async () => {
  const mixed = at('mixed');
  cpSync(logs, mixed, { recursive: true });
  writeFileSync(join(mixed, 'node-9-pid1.log'), '{"coll_perf": broken\n');
  writeFileSync(join(mixed, 'slurm.log'), 'started\n');
  const { code, stdout, stderr } = await runLine(['report', mixed]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^run nccl-inspector: 4 of 4 ranks/);
  expect(stderr).toMatch(/left out ".*node-9-pid1\.log": it must hold records of NCCL Inspector, one a line, got none/);
  const named = await runLine(['report', join(mixed, 'node-9-pid1.log')]);
  expect([named.code, named.stderr.trim().split('\n').length]).toEqual([2, 1]);
});

it('reads a log that is cut to its last whole line', async () => {
  const cut = folder('cut', { collectives: 60 });
  const name = join(cut, 'node-1-pid4003.log');
  const text = readFileSync(name);
  writeFileSync(name, text.subarray(0, text.length - 100));
  writeFileSync(`${name}.gz`, gzipSync(text).subarray(0, 2000));
  rmSync(name);
  const { code, stdout, stderr } = await runLine(['report', cut]);
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(/node-1-pid4003\.log\.gz": read only its beginning: unexpected end of file/);
  expect(stdout).toMatch(
    /rank 3: left out of its files: 1 events without a usable name, process, time or length \(.*\), \d+ operations that NCCL Inspector lost/,
  );
});

it('says which variable records times where no log has them', async () => {
  const { code, stdout, stderr } = await runLine(['report', folder('plain', { isVerbose: false })]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/their records must have times, got \d+ without: NCCL_INSPECTOR_DUMP_VERBOSE=1 records them\n$/);
});

it('refuses the logs of two jobs that ran one after the other', async () => {
  const both = folder('both');
  for (const [file, text] of inspectorLogs({ world: '0x1234', firstPid: 5000, afterMicros: 10_000_000 }))
    writeFileSync(join(both, file), text);
  const { code, stdout, stderr } = await runLine(['report', both]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(
    /no communicator connects pid 4000 on "node-0" and pid 5000 on "node-0", and one had ended before the other began/,
  );
});

it('numbers the ranks where no communicator has them all', async () => {
  const { code, stdout, stderr } = await runLine(['report', folder('pairs', { world: '' })]);
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^run nccl-inspector: 4 of 4 ranks/);
  expect(stderr).toContain('no communicator of these logs numbers all processes: ranks are numbered by host and pid');
});
