// Python: what the client in Python takes of the training thread, against PyTorch's own record_function, in turns in one process.
//
// PYTHON_BIN names a Python with PyTorch; without PyTorch two clock readings are the baseline, and there is no target.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Figure, figure, type NotMeasured } from './figure.ts';

const program = fileURLToPath(new URL('../src/python_cost.py', import.meta.url));

interface Costs {
  readonly span: number;
  readonly step: number;
  readonly clocks: number;
  readonly torchSpan: number | null;
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
  ];
}
