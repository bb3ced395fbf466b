// A container may have a time namespace, whose monotonic clock is ahead of its host's: its processes are no ranks of the same clock.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { readRun } from './setup/trace-events.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-clock-namespace-'));
afterAll(() => rmSync(directory, { recursive: true }));

const ways = [
  ['the service', ['node', '-e', `import('${root}packages/aggregator/dist/model/host-id.js').then((of) => console.log(of.hostId()))`]],
  ['the Python client', ['python3', '-c', 'import ranktrace; print(ranktrace._host_id())']],
] as const;

const hostBy = (command: readonly string[], around: readonly string[] = []): string => {
  const [program = '', ...args] = [...around, ...command];
  return execFileSync(program, args, { encoding: 'utf8', env: { ...process.env, PYTHONPATH: `${root}clients/python` } }).trim();
};
const ahead = (seconds: number): string[] => ['unshare', '--time', '--monotonic', `${seconds}`];

/** The host that a rank of the SDK records. */
async function recordedHost(name: string, around: readonly string[] = []): Promise<string | undefined> {
  const [program = '', ...args] = [...around, 'node', `${root}test/programs/steps.mjs`, '3', '1'];
  const env = { ...process.env, RANKTRACE_DIRECTORY: directory, RANKTRACE_RUN: name, RANK: '0', WORLD_SIZE: '1' };
  execFileSync(program, args, { env });
  return (await readRun(join(directory, name), name)).processes[0]?.host;
}

test('a clock with an offset is a host of its own, by the same name for all that read it', async (context) => {
  if (spawnSync('unshare', ['--time', '--monotonic', '1', 'true']).status !== 0) {
    context.task.meta.impossibleHere = 'a time namespace cannot be made here (unshare --time)';
    return context.skip();
  }
  const outside = new Set([...ways.map(([, command]) => hostBy(command)), await recordedHost('outside')]);
  const inside = new Set([...ways.map(([, command]) => hostBy(command, ahead(500))), await recordedHost('inside', ahead(500))]);
  expect([outside.size, inside.size]).toEqual([1, 1]);
  expect([...inside]).toEqual([...outside].map((host) => `${host}+500.0`));
  expect(hostBy(ways[0][1], ahead(0))).toBe([...outside][0]);
  expect(hostBy(ways[0][1], ahead(20))).not.toBe([...inside][0]);
});
