// DistributedDataParallel under `python -m ranktrace`, on CPUs: gradients are reduced below Python, and backward waits for that. Which rank is slow, and where,
// is planted; for how long gradients were reduced, DistributedDataParallel says itself.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { repository, runCommand } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';
import { readRun } from './setup/trace-events.ts';
import { runLine } from './setup/warm-command.ts';

const torch = findTorch();
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-data-parallel-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const steps = 60;

interface Reported {
  readonly findings: readonly { kind: string; ranks: number[]; phase: string; costMsPerStep: number }[];
  readonly blame: { readonly basis: string };
}

test.for([
  [2, 'forward', 'forward'],
  [3, 'backward', 'backward'],
  [2, 'optimizer', 'other'],
  // What lies between an optimizer's step and the next backward is the forward pass, for a loop without a DataLoader.
  [3, 'after', 'forward'],
  [2, 'none', ''],
] as const)(
  'of %i ranks, the last is slow in %s: it is named, and gradients are reduced once a step',
  async ([ranks, place, phase], context) => {
    if (torch === undefined) {
      context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
      return context.skip();
    }
    const program = [torch.python, '-m', 'ranktrace', join(repository, 'test/programs/torch_data_parallel.py'), `${steps}`, place];
    const out = join(directory, place);
    const environment = { PYTHONPATH: join(repository, 'clients/python') };
    const { code, stdout, stderr } = await runCommand(
      ['run', '--ranks', `${ranks}`, '--name', place, '--out', out, '--', ...program],
      environment,
    );
    expect(code, stderr).toBe(0);

    const { stdout: text } = await runLine(['report', out, '--json']);
    const { findings, blame } = JSON.parse(text) as Reported;
    const stragglers = findings.filter(({ kind }) => kind === 'straggler');
    expect(stragglers.map(({ ranks: of, phase: where }) => [of, where])).toEqual(place === 'none' ? [] : [[[ranks - 1], phase]]);
    if (place !== 'none') expect(Math.abs((stragglers[0]?.costMsPerStep ?? 0) - 20)).toBeLessThan(5);
    expect(blame.basis).toBe('pieces');

    const { events } = await readRun(join(out, place), place);
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
