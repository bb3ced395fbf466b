// A PyTorch job hangs beside `ranktrace agent`: NCCL's RAS and Flight Recorder's dumps say who never entered which collective, and the alert names it.
// A server of our own plays RAS, and dumps that real torch wrote play Flight Recorder; where torch is found, real ranks hang, too.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Alert } from '@ranktrace/protocol';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { rasStatus } from '../packages/agent/src/testing/ras-status.ts';
import { AgentJob } from './setup/agent-job.ts';
import type { StartedCommand } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';
import { runLine } from './setup/warm-command.ts';

const ranks = [0, 1, 2, 3];
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ranktrace-hang-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
});

/** A service that reports hangs after 6 s. */
function startJob(): Promise<AgentJob> {
  const config = join(folder, 'alerts.yml');
  writeFileSync(config, 'rules: { hang: { after: 6s } }\n');
  return AgentJob.start('--config', config);
}

/** RAS of a job with these processes, by rank. */
async function serveRas(launchedBy: (rank: number) => number, processes: readonly StartedCommand[]): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      if (!`${chunk}`.includes('STATUS')) return;
      const status = processes.map(({ child }, rank) => ({ pid: child.pid ?? 0, AllReduce: launchedBy(rank) }));
      socket.end(`OK\n${rasStatus([{ hash: '0x1f', ranks: status }])}`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
}

/** Ranks whose Flight Recorder has the dumps of a job in which rank 2 never entered the fourth all_reduce; `withDumps`: and can be asked for them. */
async function watchedRanks(job: AgentJob, withDumps: boolean): Promise<StartedCommand[]> {
  const started = ranks.map((rank) => {
    const dump = `test/data/flight-recorder/nccl_trace_rank_${rank}`;
    const paths = { TORCH_NCCL_DEBUG_INFO_PIPE_FILE: join(folder, 'fr'), TORCH_FR_DUMP_TEMP_FILE: join(folder, 'dump') };
    const program = [process.env.PYTHON_BIN ?? 'python3', '-I', 'test/programs/watched_rank.py', dump] as const;
    return job.rank(rank, 4, program, {
      daemon: false,
      environment: { ...paths, ...(withDumps ? {} : { TORCH_NCCL_DEBUG_INFO_PIPE_FILE: '' }) },
    });
  });
  if (withDumps) await Promise.all(started.map((rank) => rank.said('watching')));
  return started;
}

async function untilHang(job: AgentJob, isSo: (alert: Alert) => boolean = () => true): Promise<Alert> {
  for (;;) {
    const { stdout } = await runLine(['alerts', '--url', `http://127.0.0.1:${job.port}`, '--json']);
    const { alerts } = JSON.parse(stdout) as { alerts: Alert[] };
    const found = alerts.find((alert) => alert.rule === 'hang' && isSo(alert));
    if (found !== undefined) return found;
    await wait(500);
  }
}

test('counts that stop raise a suspicion; dumps and counts name the same rank, and the alert does', async () => {
  await using job = await startJob();
  const started = await watchedRanks(job, true);
  const ras = await serveRas((rank) => (rank === 2 ? 899 : 900), started);
  await job.agent(job.address, 'socket', '0-3', {}, undefined, ['--nccl-ras', ras]);
  const alert = await untilHang(job, ({ summary }) => summary.includes('NCCL RAS'));
  expect(alert).toMatchObject({ ranks: [2], severity: 'critical' });
  expect(alert.summary).toMatch(
    /^Flight Recorder: ranks 0, 1, 3 are inside of all_reduce 4 of group world for .* s; rank 2 never entered it; NCCL RAS: rank 2 launched 899 collectives of communicator 0x1f, others 900/,
  );
});

test('counts that contradict the dumps: the alert says both, and names nobody', async () => {
  await using job = await startJob();
  const started = await watchedRanks(job, true);
  const ras = await serveRas((rank) => (rank === 1 ? 899 : 900), started);
  await job.agent(job.address, 'socket', '0-3', {}, undefined, ['--nccl-ras', ras]);
  const disputed = await untilHang(job, ({ summary }) => summary.includes('contradict'));
  expect(disputed).toMatchObject({ ranks: [] });
  expect(disputed.summary).toMatch(
    /rank 2 never entered it; NCCL RAS: rank 1 launched 899 .*; these contradict each other, so no rank is named/,
  );
});

test('counts that agree name nobody, and without any word of the ranks themselves there is no alert', async () => {
  await using job = await startJob();
  const started = await watchedRanks(job, false);
  let asked = 0;
  const ras = await serveRas((rank) => {
    if (rank === 0) asked++;
    return 900;
  }, started);
  await job.agent(job.address, 'socket', '0-3', {}, undefined, ['--nccl-ras', ras]);
  // Once by the agent itself, then by requests of the service, which suspects a hang.
  while (asked < 4) await wait(200);
  const { stdout } = await runLine(['alerts', '--url', `http://127.0.0.1:${job.port}`, '--json']);
  expect((JSON.parse(stdout) as { alerts: Alert[] }).alerts).toEqual([]);
});

const torch = findTorch();

if (torch === undefined) {
  test('a hang of real PyTorch ranks', (context) => {
    context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
    context.skip();
  });
} else {
  test(`a rank of torch ${torch.version} that stays away from a collective is named by its own dump`, async () => {
    await using job = await startJob();
    const paths = { TORCH_NCCL_DEBUG_INFO_PIPE_FILE: join(folder, 'fr'), TORCH_FR_DUMP_TEMP_FILE: join(folder, 'dump') };
    const sending = { RANKTRACE_URL: job.address, RANKTRACE_RUN: job.run, RANKTRACE_SPOOL_DIRECTORY: join(folder, 'spool') };
    const environment = { ...paths, ...sending, PYTHONPATH: 'clients/python', TORCH_FR_BUFFER_SIZE: '2000' };
    const program = [torch.python, '-m', 'ranktrace', 'test/programs/torch_hang.py'] as const;
    const started = ranks.map((rank) => job.rank(rank, 4, program, { environment }));
    await job.agent(job.address, 'socket', '0-3', {}, undefined, ['--no-nccl-ras']);
    await Promise.all(started.map((rank) => rank.said('training')));
    const alert = await untilHang(job, ({ summary }) => summary.includes('Flight Recorder'));
    expect(alert).toMatchObject({ ranks: [2] });
    expect(alert.summary).toMatch(/Flight Recorder: (.*; )?rank 2 never entered /);
  });

  test(`a rank of torch ${torch.version} that others wait for before there is a process group is named`, async () => {
    await using job = await startJob();
    const environment = {
      ...{ RANKTRACE_URL: job.address, RANKTRACE_RUN: job.run, RANKTRACE_SPOOL_DIRECTORY: join(folder, 'spool-of-meeting') },
      PYTHONPATH: 'clients/python',
    };
    const program = [torch.python, '-m', 'ranktrace', 'test/programs/torch_away.py'] as const;
    for (const rank of ranks) job.rank(rank, 4, program, { environment });
    const alert = await untilHang(job, ({ summary }) => summary.includes('init_process_group'));
    expect(alert).toMatchObject({ ranks: [2] });
    expect(alert.summary).toMatch(/^ranks 0, 1, 3 are inside of init_process_group .*; rank 2 never entered it$/);
  });
}
