import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { commandOf, processLife } from './process-table.ts';
import { placeOf } from './rank-environment.ts';
import { RankFinder } from './rank-finder.ts';

it.each([
  ['/run/kineto', '/run/kineto', /has not loaded torch yet/],
  ['/run/kineto/', '/run/kineto', /has not loaded torch yet/],
  ['/run/kineto', '/run/./kineto/', /has not loaded torch yet/],
  ['/run/other', '/run/kineto', /^it asks in the folder "\/run\/other", and this agent answers in "\/run\/kineto": --socket-dir$/],
  [undefined, '/run/kineto', /^it asks by abstract name \(no KINETO_IPC_SOCKET_DIR\), and this agent answers in "\/run\/kineto"/],
])('says why a rank is silent that asks in %s, of an agent that answers in %s', (asks, answers, why) => {
  const environment = { RANK: '0', WORLD_SIZE: '1', KINETO_USE_DAEMON: '1', ...(asks !== undefined && { KINETO_IPC_SOCKET_DIR: asks }) };
  const place = placeOf(environment, {}, 'job');
  const life = processLife(process.pid);
  if (place === undefined || 'wrong' in place || life === undefined) expect.unreachable();
  const [found, gone, notice] = [() => {}, () => {}, () => {}];
  const finder = new RankFinder({ environment: {}, run: 'job', isWanted: () => true, socketFolder: answers, found, gone, notice });
  expect(finder.whySilent({ place, life, uid: 0, ownPid: life.pid, seenAt: 0, askedAt: undefined })).toMatch(why);
});

const slurm = { SLURM_PROCID: '1', SLURM_STEP_ID: '0', SLURM_NTASKS: '2', SLURM_LOCALID: '1' };
const pod = { RANK: '1', WORLD_SIZE: '2' };

it.each<[command: string, variables: Readonly<Record<string, string>>, isRank: boolean]>([
  ['train.py --strategy deepspeed', slurm, true],
  ['-u train.py deepspeed', slurm, true],
  ['torchrun train.py', slurm, false],
  ['train.py --strategy deepspeed', pod, true],
  ['torchrun train.py', pod, false],
  ['-u torchrun --nproc-per-node=8 train.py', pod, false],
])('of python %s with the variables %o it says whether it is a rank', async (command, variables, isRank) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-finder-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ['train.py', 'torchrun']) writeFileSync(join(folder, name), 'import time; time.sleep(600)');
  // No child of ours: the agent's own programs are no ranks.
  const start = `python3 ${command.replace(/torchrun|train\.py/, `${folder}/$&`)} >/dev/null 2>&1 & echo $!`;
  const environment = { SLURM_JOB_ID: randomUUID() };
  const pid = Number(
    execFileSync('sh', ['-c', start], { env: { PATH: process.env.PATH, ...environment, ...variables }, encoding: 'utf8' }),
  );
  onTestFinished(() => void process.kill(pid));
  const found: number[] = [];
  const parts = { environment, run: 'job', isWanted: () => true, socketFolder: undefined, gone: () => {}, notice: () => {} };
  const finder = new RankFinder({ ...parts, found: ({ place }) => found.push(place.options.rank) });
  await expect.poll(() => commandOf(pid)[0]).toMatch(/python3$/);
  finder.scan();
  expect(found).toEqual(isRank ? [1] : []);
});
