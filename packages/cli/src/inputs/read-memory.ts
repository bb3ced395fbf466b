// The memory bound for reading: `--memory`, or an amount by the size of the files, at most half of the machine's.

import { statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { ReadBudget, TraceError } from '@ranktrace/trace';
import { Option } from 'commander';
import { sizeIn } from '../options/retention-options.ts';
import type { Input } from './input-kinds.ts';

/** Share of the machine's (or the container's) memory; the analysis of the files needs the rest. */
const hostShare = 0.5;

/** `--memory`. */
export const memoryOption = (): Option =>
  new Option(
    '--memory <size>',
    'what reading files may take of memory (500M, 8G); default: 100 times their size on disk, 512M at least and half of the machine at most',
  ).argParser(sizeIn);

/** The bound for `inputs`, all of them together. A run store is read in pieces, so its size does not matter. */
export function readBudget(inputs: readonly Input[], memory: number | undefined): ReadBudget {
  if (memory !== undefined) return new ReadBudget(memory);
  const half = hostShare * hostBytes();
  const isStored = inputs.some(({ kind }) => kind === 'store');
  const sizes = inputs.flatMap(({ files }) => files).map((path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0);
  return isStored
    ? new ReadBudget(half)
    : ReadBudget.forFiles(
        sizes.reduce((sum, size) => sum + size, 0),
        half,
      );
}

function hostBytes(): number {
  // Without a limit it is 0, or more than the machine has.
  const constrained = process.constrainedMemory?.() ?? 0;
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/** `error` with the name of its file; if memory was short, with advice. */
export function ofFile(path: string, error: TraceError): TraceError {
  const remedy = error.code === 'memory' ? '; if this is no fault of the file, --memory 8G allows more' : '';
  return new TraceError(error.code, `"${path}": ${error.message}${remedy}`, { cause: error });
}
