// A Python that has torch: named by RANKTRACE_TORCH_PYTHON, or the first that can import it.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './ranktrace-command.ts';

/** Path of the interpreter, and torch's version; undefined where there is none. Takes seconds: it loads torch. */
export function findTorch(): { readonly python: string; readonly version: string } | undefined {
  const own = ['.venv', 'venv'].map((folder) => join(repository, folder, 'bin', 'python'));
  const candidates = [process.env.RANKTRACE_TORCH_PYTHON, ...own, process.env.PYTHON_BIN ?? 'python3'];
  for (const python of candidates) {
    if (!python || (python.includes('/') && !existsSync(python))) continue;
    const { status, stdout } = spawnSync(python, ['-c', 'import torch; print(torch.__version__)'], { encoding: 'utf8', timeout: 60_000 });
    if (status === 0) return { python, version: stdout.trim() };
  }
  return undefined;
}
