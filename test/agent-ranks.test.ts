// Which processes of a host `ranktrace agent` takes for ranks: real processes with the environments of launchers, and an agent beside them.

import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { needsRoot } from '../packages/agent/src/testing/needs-root.ts';
import { AgentJob } from './setup/agent-job.ts';
import { repository, type StartedCommand, startProgram } from './setup/ranktrace-command.ts';

/** A program that starts two ranks as torchrun does, and waits for them; as a file with this name. */
function launcher(job: AgentJob, name: string): string {
  mkdirSync(job.at('bin'), { recursive: true });
  const path = job.at('bin', name);
  const rank = "WORLD_SIZE=4 LOCAL_RANK=$local RANK=$((2 + local)) sh -c 'echo started; exec sleep 600' &";
  writeFileSync(path, `#!/bin/sh\nsleep \${LAUNCH_AFTER_S:-0}\nfor local in 0 1; do ${rank} done\nwait\n`);
  chmodSync(path, 0o755);
  return path;
}

/** Ends with its children. */
function start(program: string, environment: Record<string, string>): Disposable & StartedCommand {
  const started = startProgram(program, [], { cwd: repository, env: { ...process.env, ...environment }, ownGroup: true });
  const { pid } = started.child;
  return { ...started, [Symbol.dispose]: () => pid !== undefined && process.kill(-pid, 'SIGKILL') };
}

/** As Slurm places the task of a node. */
const task = { SLURM_STEP_ID: '0', SLURM_PROCID: '1', SLURM_NTASKS: '2', SLURM_LOCALID: '0' };

test("torchrun under Slurm is no rank, nor is the job's script", async () => {
  await using job = await AgentJob.start();
  const { SLURM_STEP_ID: _, ...batch } = { ...task, SLURM_PROCID: '0' };
  using script = start(launcher(job, 'batch-script'), { ...job.job, ...batch, LAUNCH_AFTER_S: '600' });
  using torchrun = start(launcher(job, 'torchrun'), { ...job.job, ...task });
  await torchrun.said('started');
  const agent = await job.agent(job.address, 'socket', '0-3');
  await job.untilRanks(({ length }) => length === 2);
  expect((await job.ranks()).map(({ rank }) => rank)).toEqual([2, 3]);
  expect(agent.output()).not.toMatch(new RegExp(`process (${script.child.pid}|${torchrun.child.pid})\\b`));
});

test('a launcher that nobody knows is a rank until its ranks come', async () => {
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-3');
  using launching = start(launcher(job, 'my-launcher'), { ...job.job, ...task, LAUNCH_AFTER_S: '12' });
  await agent.said(`rank 1 of 2 of run "${job.run}": process ${launching.child.pid}`);
  await Promise.all([2, 3].map((rank) => agent.said(`rank ${rank} of 4 of run`)));
  await agent.said(`rank 1 of run "${job.run}" is gone`);
});

test('a shell is the rank, not the command that it runs, also where that has a lower number', async (context) => {
  await using job = await AgentJob.start();
  // As where the system's numbers have come to their end, and start again.
  const shell = job.rank(1, 2, ['sh', '-c', 'echo 300 > /proc/sys/kernel/ns_last_pid; sleep 600 & echo "started $!"; wait']);
  await shell.said('started');
  const child = Number(/started (\d+)/.exec(shell.output())?.[1]);
  if (child > (shell.child.pid ?? 0)) {
    Object.assign(context.task.meta, { impossibleHere: 'this user may not choose the number of the next process' });
    return context.skip();
  }
  const agent = await job.agent(job.address, 'socket', '0-3');
  await agent.said('rank 1 of 2 of run');
  process.kill(child);
  expect(agent.output()).toContain(`rank 1 of 2 of run "${job.run}": process ${shell.child.pid},`);
});

test("a second process in a rank's place is left alone", async () => {
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-3');
  const program = [process.env.PYTHON_BIN ?? 'python3', '-I', 'test/programs/kineto_rank.py'] as const;
  const first = job.rank(1, 2, program);
  await agent.said('rank 1 of 2 of run');
  const second = job.rank(1, 2, program);
  await agent.said(`process ${second.child.pid} says that it is rank 1 of run "${job.run}", as process ${first.child.pid} does`);
});

test("a user's agent takes that user's processes alone", async (context) => {
  needsRoot(context);
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-3', {}, 54_321);
  const program = ['sh', '-c', 'echo started; exec sleep 600'] as const;
  await job.rank(0, 2, program).said('started');
  const theirs = job.rank(1, 2, program, { uid: 54_321 });
  await agent.said(`rank 1 of 2 of run "${job.run}": process ${theirs.child.pid}`);
  expect(agent.output()).not.toContain('rank 0 of 2');
});

test("an agent that a job of Slurm started takes that job's ranks alone", async () => {
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-3');
  const program = ['sh', '-c', 'echo started; exec sleep 600'] as const;
  await job.rank(0, 2, program, { environment: { SLURM_JOB_ID: 'another' } }).said('started');
  job.rank(1, 2, program);
  await agent.said('rank 1 of 2 of run');
  expect(agent.output()).not.toContain('rank 0 of 2');
});
