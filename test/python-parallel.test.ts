// Parallel training with gloo under `python -m ranktrace`; which rank is slow, and where, is planted. DistributedDataParallel reduces gradients below Python, and
// backward waits for that: for how long, it says itself. Sharded parameters are gathered by calls in Python. Stages of a pipeline wait in sends and receives.
// Asynchronous collectives are waited for later.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loaderWorkersKey } from '@ranktrace/protocol';
import { afterAll, expect, type TestContext, test } from 'vitest';
import { repository, runCommand } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';
import { readRun } from './setup/trace-events.ts';
import { runLine } from './setup/warm-command.ts';

const torch = findTorch();
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-parallel-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const steps = 60;

interface Reported {
  readonly findings: readonly { kind: string; ranks: number[]; phase: string; costMsPerStep: number; evidence: string[] }[];
  readonly blame: { readonly basis: string; readonly breakdown: readonly { readonly waits: readonly { rank: number }[] }[] };
}

/** Runs the program with ranktrace's client; returns what its ranks printed, and its report. */
async function run(name: string, ranks: number, program: string, args: readonly string[], context: TestContext) {
  if (torch === undefined) {
    context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
    return context.skip();
  }
  const line = [torch.python, '-m', 'ranktrace', join(repository, 'test/programs', program), ...args];
  const environment = { PYTHONPATH: join(repository, 'clients/python') };
  const { code, stdout, stderr } = await runCommand(
    ['run', '--ranks', `${ranks}`, '--name', name, '--out', directory, '--', ...line],
    environment,
  );
  expect(code, stderr).toBe(0);
  const { stdout: text } = await runLine(['report', directory, '--run', name, '--json']);
  return { stdout, report: JSON.parse(text) as Reported };
}

/** Ranks at fault for at least 5 ms a step, half of what is planted: a busy machine adds less to one rank, or stops it in single steps. */
const blamed = ({ findings }: Reported) =>
  findings
    .filter(({ kind, ranks, costMsPerStep }) => kind !== 'long_steps' && ranks.length > 0 && costMsPerStep >= 5)
    .map(({ kind, ranks, phase }) => ({ kind, ranks, phase }));

test.for([
  [2, 'forward', 'forward'],
  [3, 'backward', 'backward'],
  [2, 'optimizer', 'other'],
  // A loop without a DataLoader is in its forward pass from an optimizer's step to the next backward.
  [3, 'after', 'forward'],
  [2, 'none', ''],
] as const)(
  'of %i ranks, the last is slow in %s: it is named, and gradients are reduced once a step',
  async ([ranks, place, phase], context) => {
    const { stdout, report } = await run(place, ranks, 'torch_data_parallel.py', [`${steps}`, place], context);
    expect(blamed(report)).toEqual(place === 'none' ? [] : [{ kind: 'straggler', ranks: [ranks - 1], phase }]);
    expect(report.blame.basis).toBe('pieces');

    const { events } = await readRun(join(directory, place), place);
    for (let rank = 0; rank < ranks; rank++) {
      const [, said = ''] = new RegExp(`^\\[rank ${rank}\\] reduced (.*)$`, 'm').exec(stdout) ?? [];
      const reduced = JSON.parse(said) as number[];
      const seen = events.filter(({ kind, group, rank: of }) => kind === 'collective' && group === 'DDP' && of === rank);
      expect(seen.map(({ sequence }) => sequence)).toEqual(reduced.map((_, step) => step));
      // A busy machine may stop a rank between the two readings of the clock, but not in most steps.
      const apart = seen.map(({ length }, step) => Math.abs(length / 1e6 - (reduced[step] as number))).sort((a, b) => a - b);
      expect(apart[steps >> 1]).toBeLessThan(2);
    }
  },
);

test.for([
  [2, 'data', 'data'],
  [3, 'data', 'data'],
  [3, 'before', 'forward'],
  [4, 'before', 'forward'],
] as const)(
  'of %i ranks whose buffers rank 0 broadcasts in forward, rank 1 is slow in %s: it is named, and no other',
  async ([ranks, place, phase], context) => {
    const name = `buffers-${ranks}-${place}`;
    const { report } = await run(name, ranks, 'torch_buffers.py', [`${steps}`, place], context);
    expect(blamed(report)).toEqual([{ kind: 'straggler', ranks: [1], phase }]);
    const { events } = await readRun(join(directory, name), name);
    const collectives = events.filter(({ kind }) => kind === 'collective');
    const broadcasts = collectives.filter(({ name: op, group }) => op === 'broadcast' && group === 'world');
    for (let rank = 0; rank < ranks; rank++) {
      // Its parameters and buffers when the model is made, then its buffers once a step.
      const sequences = broadcasts.filter(({ rank: of }) => of === rank).map(({ sequence }) => sequence);
      expect(sequences).toEqual(Array.from({ length: 1 + steps }, (_, at) => at));
    }
    expect(broadcasts.every(({ bytes }) => (bytes ?? 0) > 0)).toBe(true);
    // The buckets of gradients, in the second step.
    expect(collectives.filter(({ group }) => group === 'DDP buckets')).toHaveLength(ranks);
  },
);

test('of 2 ranks with sharded parameters, the last is slow in forward: it is named, and every gather and scatter is there', async (context) => {
  const { report } = await run('sharded', 2, 'torch_sharded.py', [`${steps}`], context);
  expect(blamed(report)).toEqual([{ kind: 'straggler', ranks: [1], phase: 'forward' }]);
  expect(report.blame.basis).toBe('pieces');
  const { events } = await readRun(join(directory, 'sharded'), 'sharded');
  const [first, last] = [0, 1].map((of) =>
    events
      .filter(({ kind, rank }) => kind === 'collective' && rank === of)
      .map(({ name, group, sequence, bytes }) => ({ name, group, sequence, bytes })),
  );
  expect(last).toEqual(first);
  for (const name of ['all_gather', 'reduce_scatter']) {
    const of = first?.filter((each) => each.name === name) ?? [];
    expect(of.length).toBeGreaterThanOrEqual(2 * steps);
    expect(of.every(({ bytes }) => (bytes ?? 0) > 0)).toBe(true);
  }
});

test.for([2, 3])(
  'of %i ranks that wait for their gradients later, the last is slow in forward: it is named, and no other',
  async (ranks, context) => {
    const name = `gradients-${ranks}`;
    const { report } = await run(name, ranks, 'torch_async.py', [`${steps}`, 'gradients'], context);
    expect(blamed(report)).toEqual([{ kind: 'straggler', ranks: [ranks - 1], phase: 'forward' }]);
    expect(report.blame.basis).toBe('pieces');
    const { events } = await readRun(join(directory, name), name);
    // Eight gradients a step, each where it is waited for, and what is polled where it is enqueued.
    for (let rank = 0; rank < ranks; rank++) {
      const seen = events.filter(({ kind, rank: of }) => kind === 'collective' && of === rank);
      expect(seen.every(({ name: op, state }) => op === 'all_reduce' && state === 'whole')).toBe(true);
      expect(seen.map(({ sequence }) => sequence).sort((a, b) => a - b)).toEqual(Array.from({ length: 9 * steps }, (_, at) => at));
    }
  },
);

test('collectives of a group are those of its members alone, and each has the bytes that a rank puts in', async (context) => {
  const ranks = 3;
  const { report } = await run('groups', ranks, 'torch_groups.py', [`${5}`], context);
  expect(report.blame.basis).toBe('pieces');
  const { events } = await readRun(join(directory, 'groups'), 'groups');
  const seenBy = (of: number) =>
    events
      .filter(({ kind, rank }) => kind === 'collective' && rank === of)
      .map(({ name, group, sequence, bytes }) => ({ name, group: group === 'world' ? group : 'part', sequence, bytes }));
  for (let rank = 0; rank < ranks; rank++) {
    const counts = { world: 0, part: 0 };
    const expected = Array.from({ length: 5 }, () => {
      const count = (name: string, group: 'world' | 'part', bytes: number) => ({ name, group, sequence: counts[group]++, bytes });
      const part = rank < 2 ? [count('all_reduce', 'part', 400), count('broadcast', 'part', 400), count('barrier', 'part', 0)] : [];
      const gathers = [count('all_gather', 'world', 40), count('all_gather', 'world', 40), count('all_gather', 'world', 40)];
      const scatters = [count('reduce_scatter', 'world', 120), count('reduce_scatter', 'world', 120)];
      const rooted = [count('gather', 'world', 40), count('scatter', 'world', rank === 0 ? 120 : 40)];
      return [...part, ...gathers, ...scatters, ...rooted, count('all_to_all', 'world', 120), count('all_reduce', 'world', 400)];
    }).flat();
    expect(seenBy(rank)).toEqual(expected);
  }
});

test('of 2 ranks with two networks in one backward, what the first waits for there is part of the collective', async (context) => {
  const { report } = await run('two-networks', 2, 'torch_two_models.py', [`${steps}`], context);
  expect(blamed(report)).toEqual([{ kind: 'straggler', ranks: [1], phase: 'forward' }]);
  expect(report.blame.basis).toBe('pieces');
});

test('models that different ranks share are reduced in groups of their own', async (context) => {
  const { report } = await run('two-models', 3, 'torch_ddp_groups.py', [`${steps}`], context);
  const { events } = await readRun(join(directory, 'two-models'), 'two-models');
  const seen = events.filter(({ kind, group }) => kind === 'collective' && group?.startsWith('DDP'));
  const [shared, alone] = [0, 2].map((of) => [...new Set(seen.flatMap(({ rank, group }) => (rank === of ? [group] : [])))].sort());
  expect([shared?.length, alone?.length]).toEqual([2, 2]);
  for (const group of shared ?? []) {
    const of = (rank: number) => seen.filter((event) => event.rank === rank && event.group === group).map(({ sequence }) => sequence);
    expect(alone).not.toContain(group);
    expect([of(1), of(0).length]).toEqual([of(0), group?.startsWith('DDP buckets') ? 1 : steps]);
  }
  // Nobody waits for the rank that is alone.
  expect(report.blame.breakdown.flatMap(({ waits }) => waits.map(({ rank }) => rank))).not.toContain(2);
});

test.for(['messages', 'tensors'])(
  'time in which ranks wait for %s that they enqueued is no work: nobody but the slow one is blamed',
  async (shape, context) => {
    const { report } = await run(shape, 2, 'torch_async.py', [`${steps}`, shape], context);
    const named = blamed(report);
    if (named.length > 0) expect(named).toEqual([{ kind: 'straggler', ranks: [1], phase: 'forward' }]);
    // Lengths of phases do not always show for whom ranks wait.
    else expect(report.findings.flatMap(({ evidence }) => evidence).join('\n')).toMatch(/^rank 1 waits least, /m);
  },
);

test.for([
  [2, 1],
  [3, 2],
] as const)('%i ranks split their layers, and wait for rank %i, which is named', async ([ranks, slow], context) => {
  const name = `tensors-${ranks}`;
  const { report } = await run(name, ranks, 'torch_tensor_parallel.py', [`${steps}`, `${slow}`], context);
  expect(blamed(report)).toContainEqual({ kind: 'straggler', ranks: [slow], phase: 'forward' });
  const { processes } = await readRun(join(directory, name), name);
  expect(processes.map(({ metadata }) => metadata.get('phase_role.synchronize'))).toEqual(Array(ranks).fill('collective'));
});

test.for([
  [2, 0],
  [3, 2],
  [3, -1],
] as const)('of %i stages, %i is slow: it is named, and every send has its receive', async ([ranks, slow], context) => {
  const name = `pipeline-${ranks}-${slow}`;
  const { report } = await run(name, ranks, 'torch_pipeline.py', [`${steps}`, `${slow}`], context);
  expect(blamed(report)).toEqual(slow < 0 ? [] : [{ kind: 'stage_imbalance', ranks: [slow], phase: 'forward' }]);

  const { events } = await readRun(join(directory, name), name);
  const sends = events.filter(({ kind: of, name: op }) => of === 'collective' && (op === 'send' || op === 'recv'));
  expect(sends.filter(({ peerRank, rank }) => Math.abs(peerRank - rank) === 1)).toHaveLength(4 * (ranks - 1) * steps);
});

test.for([
  ['equal', [25, 25]],
  ['one-slow', [5, 35]],
] as const)('of loaders that work ahead, only one that is slower than the others is to blame: %s', async ([name, lengths], context) => {
  const { report } = await run(name, 2, 'torch_loader.py', [`${steps}`, ...lengths.map(String)], context);
  expect(blamed(report)).toEqual(name === 'equal' ? [] : [{ kind: 'straggler', ranks: [1], phase: 'data' }]);
  if (name === 'equal') expect(report.findings.map(({ kind }) => kind)).toContain('data_loading');
  const { processes } = await readRun(join(directory, name), name);
  expect(processes.map(({ metadata }) => metadata.get(loaderWorkersKey))).toEqual(['1', '1']);
});
