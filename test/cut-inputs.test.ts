// Traces that were cut, or in which bytes changed: every command that takes them says so in a line, or refuses them in one. None hangs, prints a
// stack, or ends with 0 as if nothing were missing.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { Random } from '../packages/trace/src/simulate/random.ts';
import { inspectorLogs } from '../packages/trace/src/testing/inspector-logs.ts';
import { timelineOf } from '../packages/trace/src/testing/ndtimeline-timeline.ts';
import { pipelineJob } from '../packages/trace/src/testing/pipeline-job.ts';
import { type CommandResult, startCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-cut-'));
const at = (name: string): string => join(directory, name);
afterAll(() => rmSync(directory, { recursive: true }));

/** Steps of one rank, as torch.profiler writes them. */
function torchText(steps: number): string {
  const of = { ph: 'X', cat: 'user_annotation', pid: 7, tid: 7 };
  const traceEvents = Array.from({ length: steps }, (_, step) => [
    { ...of, name: `ProfilerStep#${step}`, ts: step * 1000.5, dur: 1000 },
    { ...of, name: 'forward', ts: step * 1000.5 + 10, dur: 400 + step },
    { ...of, cat: 'cpu_op', name: 'aten::mm', ts: step * 1000.5 + 20, dur: 100, args: { 'External id': step, note: `${step * 7919}` } },
  ]).flat();
  return JSON.stringify({ schemaVersion: 1, distributedInfo: { rank: 0, world_size: 1 }, traceEvents });
}

/** Horovod's timeline: a list that is never closed. */
function horovodText(steps: number): string {
  const lines = Array.from({ length: steps }, (_, step) => [
    { ph: 'B', name: 'ALLREDUCE', ts: 1000 * step, pid: 1 },
    { ph: 'B', name: 'NCCL_ALLREDUCE', ts: 1000 * step + 1, pid: 1 },
    { ph: 'E', ts: 1000 * step + 40, pid: 1 },
    { ph: 'E', ts: 1000 * step + 41, pid: 1, args: { dtype: 'float32' } },
  ]).flat();
  return `[\n${lines.map((line) => `${JSON.stringify(line)},\n`).join('')}`;
}

/** NCCL Inspector's log of one process. */
const inspectorText = (): string => [...inspectorLogs({ ranks: 1, collectives: 40 }).values()].join('');

let store: string;
const files: Record<string, () => Buffer> = {
  'torch.json': () => Buffer.from(torchText(24)),
  'torch.json.gz': () => gzipSync(torchText(220)),
  'horovod.json': () => Buffer.from(horovodText(30)),
  'horovod.json.gz': () => gzipSync(horovodText(400)),
  'timeline.json': () => Buffer.from(timelineOf(pipelineJob({ seed: 11, stages: 2, replicas: 1 }).csv).slice(0, 8000)),
  'timeline.json.gz': () => gzipSync(timelineOf(pipelineJob({ seed: 11, stages: 2, replicas: 1 }).csv)),
  'node-0-pid4000.log': () => Buffer.from(inspectorText()),
  'node-0-pid4000.log.gz': () => gzipSync(inspectorText()),
  'trace.pftrace': () => gunzipSync(readFileSync(at('whole.pftrace.gz'))),
  'trace.pftrace.gz': () => readFileSync(at('whole.pftrace.gz')),
};

const commands: readonly (readonly [name: string, args: (input: string) => string[]])[] = [
  ['report', (input) => ['report', input]],
  ['table', (input) => ['table', input]],
  ['merge', (input) => ['merge', input, '-o', at('merged.json')]],
  ['check', (input) => ['check', input, '--save', at('saved.json')]],
  ['export', (input) => ['export', input, '--to', 'csv', '-o', at('exported')]],
  ['diff', (input) => ['diff', input, input]],
];

beforeAll(async () => {
  store = at('runs');
  const simulated = await runLine(['simulate', '--out', store, '--run', 'one', '--ranks', '2', '--hosts', '1', '--steps', '6']);
  if (simulated.code !== 0) throw new Error(simulated.stderr);
  const merged = await runLine(['merge', join(store, 'one'), '-o', at('whole.pftrace.gz')]);
  if (merged.code !== 0) throw new Error(merged.stderr);
});

/** The fault of an answer about a file that lacks something; '' if there is none. */
function wrongWith({ code, stdout, stderr }: CommandResult, path: string): string {
  if (/\n\s+at .*:\d+/.test(stderr + stdout)) return `a stack:\n${stderr}`;
  if (code !== 0 && code !== 1 && code !== 2) return `code ${code}:\n${stderr}`;
  if (!stderr.includes(path)) return `code ${code}, and no line names the file:\n${stderr}${stdout}`;
  if (code !== 2 && !/read only its beginning|left out|ends/.test(stderr))
    return `code ${code}, and no line says what is missing:\n${stderr}`;
  return '';
}

describe('bytes that changed', () => {
  it.each(Object.keys(files))('%s', async (name) => {
    const whole = (files[name] as () => Buffer)();
    const path = at(name);
    const wrong: string[] = [];
    const random = new Random(1, name);
    for (let round = 0; round < 12; round++) {
      const bytes = Buffer.from(whole);
      for (let change = 0; change < 1 + (round % 3); change++) bytes[random.whole(bytes.length)] = random.whole(256);
      writeFileSync(path, bytes);
      const [command, args] = commands[round % commands.length] as (typeof commands)[number];
      const result = await runLine(args(path));
      // A digit that became another is a sound file: nothing can be missed there.
      const why = result.code === 2 || result.stderr.includes(path) ? wrongWith(result, path) : '';
      if (why !== '' || /\n\s+at .*:\d+/.test(result.stderr)) wrong.push(`${command}, round ${round}: ${why}`);
    }
    expect(wrong.join('\n')).toBe('');
  });
});

test.each(Object.keys(files))('view shows what is left of %s, or refuses it', async (name) => {
  const whole = (files[name] as () => Buffer)();
  const path = at(name);
  writeFileSync(path, whole.subarray(0, Math.floor(whole.length * 0.8)));
  const view = startCommand(['view', path, '--no-open']);
  await view.said('indexed in').catch(() => undefined);
  view.child.kill('SIGINT');
  const result = await view.ended;
  expect(wrongWith(result, path)).toBe('');
});

describe('cut at every kilobyte', () => {
  it.each(Object.keys(files))('%s', async (name) => {
    const whole = (files[name] as () => Buffer)();
    const path = at(name);
    const wrong: string[] = [];
    for (let end = 1024; end < whole.length; end += 1024) {
      writeFileSync(path, whole.subarray(0, end));
      for (const [command, args] of commands) {
        const why = wrongWith(await runLine(args(path)), path);
        if (why !== '') wrong.push(`${command}, ${end} of ${whole.length} bytes: ${why}`);
      }
    }
    expect(wrong.slice(0, 12).join('\n')).toBe('');
  });
});
