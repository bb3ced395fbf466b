// Python: what the client in Python takes of the training thread, against PyTorch's own record_function, in turns in one process; and what
// `python -m ranktrace` adds to the steps of a program, in alternating runs.
//
// PYTHON_BIN names a Python with PyTorch; without PyTorch two clock readings are the baseline, and there is no target.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Figure, figure, median, type NotMeasured } from './figure.ts';
import { progress } from './turns.ts';

const program = fileURLToPath(new URL('../src/python_cost.py', import.meta.url));

interface Costs {
  readonly span: number;
  readonly step: number;
  readonly clocks: number;
  readonly torchSpan: number | null;
}

const training = fileURLToPath(new URL('../../test/programs/digest_rank.py', import.meta.url));
const client = fileURLToPath(new URL('../../clients/python', import.meta.url));
const rounds = 5;
const steps = 600;
/** A short step, of which the client's share is stated. */
const stepMs = 20;

/** Alternating runs of one program, without and with the client: a step of fixed work, whose excess is the client's. */
function overhead(command: string): Figure | NotMeasured {
  const name = `what python -m ranktrace adds to a step, of ${stepMs} ms`;
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-python-'));
  try {
    const medians = { without: [] as number[], with: [] as number[] };
    const digests = new Set<string>();
    for (let round = 0; round < 2 * rounds; round++) {
      const way = round % 2 === 0 ? 'without' : 'with';
      progress(`python: training ${way} the client, ${1 + (round >> 1)} of ${rounds}`);
      const env = { ...process.env, STEPS: `${steps}`, RANKTRACE_DIRECTORY: join(directory, `${round}`), PYTHONPATH: client };
      const { status, stdout, stderr } = spawnSync(command, [...(way === 'with' ? ['-m', 'ranktrace'] : []), training], {
        encoding: 'utf8',
        env,
      });
      if (status !== 0) return { notMeasured: name, why: `${command} ended with ${status}: ${stderr.slice(-200)}` };
      const { medianMs, digest } = JSON.parse(stdout) as { medianMs: number; digest: string };
      medians[way].push(medianMs);
      digests.add(digest);
    }
    if (digests.size !== 1) throw new Error('The training had another result with the client');
    const added = median(medians.with) - median(medians.without);
    return figure({ name, value: (100 * added) / stepMs, unit: '%', target: { at: 'most', value: 0.5, of: 'value' } });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

export function python(): (Figure | NotMeasured)[] {
  const command = process.env.PYTHON_BIN ?? 'python3';
  const { status, stdout, stderr, error } = spawnSync(command, ['-I', program], { encoding: 'utf8' });
  if (status !== 0)
    return [{ notMeasured: 'the Python client', why: `${command} ended with ${error?.message ?? `${status}: ${stderr.slice(-200)}`}` }];
  const { span, step, clocks, torchSpan } = JSON.parse(stdout) as Costs;
  if (torchSpan === null) {
    const baseline = { name: 'two clock readings', value: clocks };
    return [
      figure({ name: 'a span in Python', value: span, unit: 'ns', baseline }),
      figure({ name: 'a step in Python', value: step, unit: 'ns', baseline }),
      {
        notMeasured: "the Python client against PyTorch's record_function",
        why: `${command} has no PyTorch (PYTHON_BIN names another Python)`,
      },
    ];
  }
  const baseline = { name: "PyTorch's record_function without a profiler", value: torchSpan };
  return [
    figure({ name: 'a span in Python', value: span, unit: 'ns', baseline, target: { at: 'most', value: 0.5, of: 'ratio' } }),
    figure({ name: 'a step in Python', value: step, unit: 'ns', baseline, target: { at: 'most', value: 1, of: 'ratio' } }),
    overhead(command),
  ];
}
