// `ranktrace agent` beside ranks of PyTorch: a real agent and service, over both transports. The ranks speak Kineto's messages as torch does
// (test/programs/kineto_rank.py); test/agent-torch.test.ts has real torch. The tests wait most of their time: they run side by side, each with a job of
// its own.

import { mkdirSync, readdirSync } from 'node:fs';
import type { CaptureResult } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { AgentJob } from './setup/agent-job.ts';
import { startNatsServer } from './setup/nats-server.ts';
import { runLine } from './setup/warm-command.ts';

const program = [process.env.PYTHON_BIN ?? 'python3', '-I', 'test/programs/kineto_rank.py'] as const;

test.concurrent('records a window of all ranks at one moment, and matches collectives that files of unequal length count differently', async () => {
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-3');
  const ranks = [0, 1, 2, 3].map((rank) => job.rank(rank, 4, program));
  await job.untilRanks(({ length }) => length === 4);
  const result = await job.wholeCapture('--seconds', '1');
  expect(result).toMatchObject({ run: job.run, ranks: [0, 1, 2, 3], late: [], dead: [] });
  expect(result.window).toMatchObject({ seconds: 1 });
  // 50 in a second; the files end up to 7 of them early.
  const collectives = await job.collectivesOf(result.path);
  expect(collectives).toMatchObject({ ranks: 4, violations: 0, incomplete: 6 });
  expect(collectives?.count).toBeGreaterThan(35);
  // The agent removes what it has read.
  for (const folder of readdirSync(job.at('tmp'))) expect(readdirSync(job.at('tmp', folder))).toEqual([]);

  // Steps: none is known, so it is a window of two seconds.
  expect(await job.wholeCapture('--steps', '3')).toMatchObject({ ranks: [0, 1, 2, 3], window: { seconds: 2 } });

  for (const { child } of ranks) child.kill('SIGTERM');
  await agent.said('rank 3 of run "torch-job" ended with its run');
  agent.child.kill('SIGTERM');
  expect(await agent.ended).toMatchObject({ code: 0 });
  expect(await job.report()).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was lost') });
});

test.concurrent('names each rank that has no part, with the reason, and waits for none of them', async () => {
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-6');
  const modes = ['normal', 'killed', 'late', 'silent', 'link', 'cut', 'once', 'huge'];
  const started = modes.map((mode, rank) =>
    job.rank(rank, 8, program, { daemon: mode !== 'silent', environment: { MODE: mode, ASK_S: mode === 'once' ? '3600' : '0.5' } }),
  );
  await started[modes.indexOf('once')]?.said('has asked');
  // The last one is another agent's, which is not there.
  await job.untilRanks(({ length }) => length === 7);
  const before = performance.now();
  const captured = await job.capture('--seconds', '1');
  expect(performance.now() - before).toBeLessThan(60_000);
  expect(captured.code).toBe(1);
  const { ranks, late, dead, notes } = JSON.parse(captured.stdout) as CaptureResult;
  expect(ranks).toEqual([0]);
  expect([...late, ...dead].sort()).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(notes).toEqual([
    expect.stringMatching(/^rank 1 .*it ended before its file was complete/),
    expect.stringMatching(/^rank 2 .*has not loaded torch yet/),
    expect.stringMatching(/^rank 3 .*its environment has no KINETO_USE_DAEMON=1/),
    expect.stringMatching(/^rank 4 .*Cannot read ".*": it is a link/),
    expect.stringMatching(/^rank 5 .*it ended before its file was complete/),
    expect.stringMatching(/^rank 6 .*it did not ask in time, last \d+\.\d s ago: its process may be stopped/),
    expect.stringMatching(/^rank 7: nothing came from it yet/),
  ]);
  expect(agent.output()).toContain('rank 4 of run "torch-job" has no part in the window');
});

test.concurrent('ships files that its ranks write into a folder, and leaves those of other processes to their own agents', async () => {
  await using job = await AgentJob.start();
  const log = job.at('log');
  mkdirSync(log);
  const agent = await job.agent(job.address, 'socket', '0-1', {}, undefined, ['--watch', log]);
  // Rank 2 is another agent's.
  const ranks = [0, 1, 2].map((rank) => job.rank(rank, 3, program, { environment: { LOG: log } }));
  await Promise.all([0, 1].map((rank) => agent.said(`shipped as rank ${rank}`)));
  await agent.said('waits until it is known which rank wrote it');
  expect(agent.output()).not.toContain('shipped as rank 2');
  for (const { child } of ranks) child.kill('SIGTERM');
  await agent.said(`rank 1 of run "${job.run}" ended with its run`);
  agent.child.kill('SIGTERM');
  await agent.ended;
  const { stdout } = await job.report();
  expect(stdout).toContain('2 of 3 ranks on 1 host');
  const { stdout: dumped } = await runLine(['dump', job.at('out'), '--run', job.run]);
  for (const rank of [0, 1]) expect(dumped.match(new RegExp(`rank ${rank} .*SPAN aten::mm`, 'g'))?.length).toBeGreaterThan(50);
});

test.concurrent('ships files of a program that a shell started, which asks for no work', async () => {
  await using job = await AgentJob.start();
  const log = job.at('log');
  mkdirSync(log);
  const agent = await job.agent(job.address, 'socket', '0', {}, undefined, ['--watch', log]);
  const shell = ['sh', '-c', `${program.join(' ')} & trap "kill $!" TERM; wait`] as const;
  const rank = job.rank(0, 1, shell, { daemon: false, environment: { LOG: log, MODE: 'silent' } });
  await agent.said('shipped as rank 0');
  rank.child.kill('SIGTERM');
  await rank.ended;
});

test.concurrent('what a rank sends itself and what is recorded of it beside are one rank, live and in captures of steps and of time', async () => {
  await using job = await AgentJob.start();
  const agent = await job.agent(job.address, 'socket', '0-1');
  const sending = { STEPS: '1', RANKTRACE_URL: job.address, RANKTRACE_RUN: job.run, RANKTRACE_SPOOL_DIRECTORY: job.at('spool', 'ranks') };
  const ranks = [0, 1].map((rank) => job.rank(rank, 2, program, { environment: sending }));
  await Promise.all([0, 1].map((rank) => agent.said(`rank ${rank} of 2 of run "${job.run}"`)));
  await job.untilRanks((known) => known.filter(({ step }) => step > 50).length === 2);
  const byStep = await job.wholeCapture('--steps', '5');
  expect(byStep).toMatchObject({ ranks: [0, 1], late: [], dead: [] });
  const report = async (path: string) => {
    const { stdout } = await runLine(['report', path, '--json']);
    return JSON.parse(stdout) as {
      steps: unknown[];
      collectives: { collectives: { count: number }[] };
      findings: { kind: string }[];
    };
  };
  const ofSteps = await report(byStep.path);
  expect(ofSteps.steps.length).toBeGreaterThanOrEqual(5);
  expect(ofSteps.collectives.collectives[0]?.count).toBeGreaterThan(5);

  const byTime = await job.wholeCapture('--seconds', '1');
  expect(byTime).toMatchObject({ ranks: [0, 1], late: [], dead: [], window: { seconds: 1 } });
  const ofTime = await report(byTime.path);
  // The windows end up to 7 collectives of 20 ms early.
  expect(ofTime.steps.length).toBeGreaterThan(10);
  expect(ofTime.collectives.collectives[0]?.count).toBeGreaterThan(20);

  const [before] = await job.ranks();
  for (const { child } of ranks) child.kill('SIGTERM');
  await job.untilRanks((known) => known.every(({ ended }) => ended));
  expect((await job.ranks())[0]?.step).toBeGreaterThanOrEqual(before?.step ?? Number.POSITIVE_INFINITY);
  await agent.said(`rank 1 of run "${job.run}" ended with its run`);
  agent.child.kill('SIGTERM');
  await agent.ended;
  const { code, stdout } = await job.report();
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was lost') });
  expect(stdout).toContain('2 of 2 ranks on 1 host');
});

test.concurrent('two hosts with clocks of their own, over NATS whose broker is killed in the midst: nothing is lost, nothing is there twice', async () => {
  await using server = await startNatsServer();
  await using job = await AgentJob.start('--nats', server.url);
  const clock = (offset: number, host: string) => ({ RANKTRACE_TEST_CLOCK: `offset_ns=${offset},drift_ppm=0,host=${host}` });
  const agents = await Promise.all([
    job.agent(server.url, 'a', '0-1', clock(7_000_000_000_000, 'host-a')),
    job.agent(server.url, 'b', '2-3', clock(90_000_000_000, 'host-b')),
  ]);
  const ranks = [0, 1, 2, 3].map((rank) => job.rank(rank, 4, program, { folder: rank < 2 ? 'a' : 'b' }));
  await job.untilRanks(({ length }) => length === 4);
  const capturing = job.capture('--seconds', '1');
  await Promise.all(ranks.map((rank) => rank.said('asked')));
  await server.kill9();
  await Promise.all(ranks.map((rank) => rank.said('written')));
  await server.restart();
  const result = JSON.parse((await capturing).stdout) as CaptureResult;
  expect(result).toMatchObject({ ranks: [0, 1, 2, 3], late: [], dead: [], notes: [] });
  // Of the files of unequal length.
  expect(result.window?.overlap).toBeGreaterThan(0.7);
  const collectives = await job.collectivesOf(result.path);
  expect(collectives).toMatchObject({ ranks: 4, violations: 0 });
  expect(collectives?.count).toBeGreaterThan(35);

  for (const { child } of ranks) child.kill('SIGTERM');
  for (const [index, agent] of agents.entries()) {
    await agent.said(`rank ${2 * index + 1} of run "${job.run}" ended with its run`);
    agent.child.kill('SIGTERM');
    expect(await agent.ended).toMatchObject({ code: 0 });
  }
  await job.untilRanks((known) => known.every(({ ended }) => ended));
  // Each rank's last batch says what it recorded: the report compares.
  expect(await job.report()).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was lost') });
});
