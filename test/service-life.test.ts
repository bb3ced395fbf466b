// How `ranktrace serve` ends while ranks go on, starts where another one runs, and goes on with jobs that are started again.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { waitUntil } from '../packages/aggregator/src/testing/wait-until.ts';
import { startNatsServer } from './setup/nats-server.ts';
import { startRanks } from './setup/rank-programs.ts';
import { type StartedCommand, startCommand } from './setup/ranktrace-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-service-'));
afterAll(() => rmSync(directory, { recursive: true }));
const addressOf = (service: StartedCommand): string => /http:\/\/127\.0\.0\.1:\d+/.exec(service.output())?.[0] ?? '';

it('says of a rank that is alive when the service ends that it goes on, and not that it is lost', async () => {
  const out = join(directory, 'going');
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]);
  await service.said('storing in');
  const [rank] = await startRanks(1, ['test/programs/steps.mjs', '1000000', '5'], {
    RANKTRACE_URL: addressOf(service).replace('http', 'ws'),
    RANKTRACE_RUN: 'going',
    RANKTRACE_SPOOL_DIRECTORY: join(out, 'spool'),
  });
  await waitUntil('its batches are stored', () => existsSync(join(out, 'going', 'segments', '000001.seg')));
  service.child.kill('SIGTERM');
  const { stderr } = await service.ended;
  rank?.child.kill('SIGKILL');
  await rank?.ended;
  expect(stderr).toContain('run going: rank 0 goes on: the trace holds what came by now');
  expect(stderr).not.toContain('rank_lost');
});

it('a second service that reads NATS for the same directory is refused in one line; one after a killed service is not', async () => {
  await using server = await startNatsServer();
  const line = ['serve', '--listen', '127.0.0.1:0', '--nats', server.url, '--out', join(directory, 'one reader')];
  const first = startCommand(line);
  await first.said('storing in');
  const second = await startCommand(line).ended;
  expect(second).toMatchObject({ code: 2 });
  expect(second.stderr).toMatch(
    /^ranktrace: Cannot read NATS for ".*one reader": process \d+ does so already; stop that one, or choose another --out\n$/,
  );
  first.child.kill('SIGKILL');
  await first.ended;
  const third = startCommand(line);
  await third.said('storing in');
  third.child.kill('SIGTERM');
  expect((await third.ended).code).toBe(0);
  expect(existsSync(join(directory, 'one reader', 'nats.lock'))).toBe(false);
});

it('writes the trace of a job that was started again with fewer ranks once, however long others go on', async () => {
  const out = join(directory, 'fewer');
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]);
  await service.said('storing in');
  const play = async (run: string, count: number, steps: string): Promise<void> => {
    const environment = {
      RANKTRACE_URL: addressOf(service).replace('http', 'ws'),
      RANKTRACE_RUN: run,
      RANKTRACE_SPOOL_DIRECTORY: join(out, `spool-${count}`),
    };
    const ranks = await startRanks(count, ['test/programs/steps.mjs', steps, '5'], environment);
    for (const rank of ranks) expect((await rank.ended).code).toBe(0);
  };
  const written = (): number => service.output().split('run fewer: ').length - 1;
  await play('fewer', 2, '20');
  await service.said('of 2 ranks in');
  await play('fewer', 1, '20');
  await service.said('of 2 ranks in 3 lives');
  // On a busy machine it is written before its last batches come, and once more with them.
  await play('other', 1, '100');
  await service.said('run other: ');
  const before = written();
  await play('another', 1, '400');
  await service.said('run another: ');
  expect(written()).toBe(before);
  service.child.kill('SIGTERM');
  expect((await service.ended).code).toBe(0);
});
