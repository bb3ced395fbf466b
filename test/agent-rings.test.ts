// Collectives that NCCL's plugin writes into shared memory, through the agent into a service: matched across ranks, and late ones named. A program in Python
// writes the rings, by their layout alone.

import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { AgentJob } from './setup/agent-job.ts';
import { runLine } from './setup/warm-command.ts';

const program = [process.env.PYTHON_BIN ?? 'python3', '-I', 'test/programs/ring_rank.py'] as const;

test('collectives of two ranks are read while they train, matched, and gone with their process', async () => {
  await using job = await AgentJob.start();
  const rings = job.at('rings');
  mkdirSync(rings);
  const ranks = [0, 1].map((rank) => job.rank(rank, 2, program, { daemon: false, environment: { RANKTRACE_GPU_DIR: rings } }));
  await Promise.all(ranks.map((rank) => rank.said('training')));
  const agent = await job.agent(job.address, 'socket', '0-1');
  await job.untilRanks((known) => known.length === 2 && known.every(({ events }) => events > 200));
  for (const { child } of ranks) child.kill('SIGTERM');
  await agent.said(`rank 1 of run "${job.run}" ended with its run`);
  agent.child.kill('SIGTERM');
  await agent.ended;
  expect(readdirSync(rings)).toEqual([]);

  const { stdout } = await runLine(['report', job.at('out'), '--run', job.run, '--json']);
  interface Reported {
    readonly collectives: {
      readonly collectives: readonly { group: string; op: string; count: number; incomplete: number; violations: number }[];
    };
  }
  const [collective, ...others] = (JSON.parse(stdout) as Reported).collectives.collectives;
  expect(others).toEqual([]);
  expect(collective).toMatchObject({ group: 'dp AllReduce', op: 'all_reduce', violations: 0 });
  expect(collective?.count).toBeGreaterThan(50);
  const { stdout: text } = await runLine(['report', job.at('out'), '--run', job.run]);
  expect(text).toContain('nothing was lost');
  const { stdout: dump } = await runLine(['dump', job.at('out'), '--run', job.run]);
  const [first, second] = ['0', '1'].map(
    (rank) =>
      new Set(
        [...dump.matchAll(/rank (\d) {2}NCCL dp {2}SPAN AllReduce .*sequence=(\d+)/g)]
          .filter((of) => of[1] === rank)
          .map((of) => Number(of[2])),
      ),
  ) as [Set<number>, Set<number>];
  // Only one rank has those before the agent found the other, and those after the end of the first process: of all between, none is missing.
  const both = [...first].filter((sequence) => second.has(sequence)).sort((a, b) => a - b);
  expect(both).toEqual(Array.from({ length: both.length }, (_, index) => (both[0] as number) + index));
  expect(both.length).toBeGreaterThan(50);
  expect(collective?.incomplete).toBe(first.size + second.size - 2 * both.length);
  expect(dump).toMatch(/rank 1 {2}NCCL dp {2}SPAN AllReduce .*\[collective\]/);
});

test('what two rings and the rank itself say of it is one rank: kernels in its steps and phases, collectives by their names', async () => {
  await using job = await AgentJob.start();
  const rings = job.at('rings');
  mkdirSync(rings);
  const sending = { RANKTRACE_URL: job.address, RANKTRACE_RUN: job.run, RANKTRACE_SPOOL_DIRECTORY: job.at('spool-of-ranks') };
  const environment = { ...sending, RANKTRACE_GPU_DIR: rings, PYTHONPATH: 'clients/python', STEPS: '150' };
  const python = process.env.PYTHON_BIN ?? 'python3';
  const ranks = [0, 1].map((rank) => job.rank(rank, 2, [python, 'test/programs/gpu_ring_rank.py'], { daemon: false, environment }));
  await Promise.all(ranks.map((rank) => rank.said('training')));
  const agent = await job.agent(job.address, 'socket', '0-1');
  await agent.said(`rank 1 of run "${job.run}" ended with its run`);
  agent.child.kill('SIGTERM');
  await agent.ended;

  const { stdout } = await runLine(['report', job.at('out'), '--run', job.run, '--json']);
  interface Reported {
    readonly verdict: string;
    readonly findings: readonly { kind: string; ranks: number[]; phase: string; evidence: string[] }[];
    readonly gpu: { ranks: { rank: number; steps: unknown[]; overlap: { group: string; kernels: number }[] }[] };
  }
  const { findings, gpu } = JSON.parse(stdout) as Reported;
  expect(gpu.ranks.map(({ rank }) => rank)).toEqual([0, 1]);
  for (const { steps, overlap } of gpu.ranks) {
    // Those before the agent found the rank have no kernels, or only their ends.
    expect(steps.length).toBeGreaterThan(30);
    expect(overlap.find(({ group }) => group === 'dp AllReduce')?.kernels).toBeGreaterThan(30);
  }
  const [worst] = findings;
  expect(worst, JSON.stringify(findings)).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'GPU idle, host late' });
  expect(worst?.evidence.join('\n')).toMatch(/the host was in augment/);
  const { stdout: text } = await runLine(['report', job.at('out'), '--run', job.run]);
  expect(text).toContain('nothing was lost');
});

test('a ring that its process reads itself is left alone', async () => {
  await using job = await AgentJob.start();
  const rings = job.at('rings');
  mkdirSync(rings);
  job.rank(0, 1, program, { daemon: false, environment: { RANKTRACE_GPU_DIR: rings, INSIDE: '1' } });
  while (readdirSync(rings).length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  await job.agent(job.address, 'socket', '0');
  await job.untilRanks(([rank]) => (rank?.batches ?? 0) > 3);
  const [ring = ''] = readdirSync(rings);
  const positions = readFileSync(`${rings}/${ring}`);
  // Rows are there, and none of them was read.
  expect(positions.readBigUInt64LE(64)).toBeGreaterThan(3n);
  expect(positions.readBigUInt64LE(128)).toBe(0n);
});

test('a file that is no ring is named once, and nothing else of the rank is missing', async () => {
  await using job = await AgentJob.start();
  const rings = job.at('rings');
  mkdirSync(rings);
  job.rank(0, 1, program, { daemon: false, environment: { RANKTRACE_GPU_DIR: rings, BROKEN: '1' } });
  while (readdirSync(rings).length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  const agent = await job.agent(job.address, 'socket', '0');
  await agent.said('it is no ring');
  const [{ batches: before } = { batches: 0 }] = await job.ranks();
  await job.untilRanks(([rank]) => (rank?.batches ?? 0) > before + 2);
  expect(agent.output().match(/it is no ring/g)).toHaveLength(1);
  expect(existsSync(rings)).toBe(true);
});
