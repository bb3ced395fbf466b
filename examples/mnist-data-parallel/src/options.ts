// The environment and the command line: this process's rank, and the length of the training.
//
// The environment is torchrun's, so that `ranktrace run`, torchrun-like launchers and a plain shell loop all work.
// With no environment at all this process is rank 0 of 1.

import { parseArgs } from 'node:util';
import { TrainingError } from './training-error.ts';

/** This process's rank, and the address of rank 0. */
export interface Place {
  readonly rank: number;
  readonly worldSize: number;
  readonly masterAddress: string;
  readonly masterPort: number;
}

export interface Options extends Place {
  /** Passes over the training digits. */
  readonly epochs: number;
  /** Stop after this many steps, even within an epoch. */
  readonly maxSteps: number;
}

/**
 * Reads the options, the command line before the environment.
 * @throws TrainingError `bad_usage`, naming the flag or variable
 * @example readOptions(['--epochs', '2'], { RANK: '1', WORLD_SIZE: '4' })
 */
export function readOptions(args: readonly string[], environment: Readonly<Record<string, string | undefined>>): Options {
  const flags = readFlags(args);
  const worldSize = wholeNumber('WORLD_SIZE', environment.WORLD_SIZE ?? '1', { min: 1 });
  return {
    rank: wholeNumber('RANK', environment.RANK ?? '0', { min: 0, max: worldSize - 1 }),
    worldSize,
    masterAddress: environment.MASTER_ADDR ?? '127.0.0.1',
    masterPort: wholeNumber('MASTER_PORT', environment.MASTER_PORT ?? '29500', { min: 1, max: 65_535 }),
    epochs: wholeNumber('--epochs', flags.epochs ?? environment.EPOCHS ?? '10', { min: 1 }),
    maxSteps: flags['max-steps'] === undefined ? Infinity : wholeNumber('--max-steps', flags['max-steps'], { min: 1 }),
  };
}

function readFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: { epochs: { type: 'string' }, 'max-steps': { type: 'string' } } }).values;
  } catch (cause) {
    throw new TrainingError(
      'bad_usage',
      `Cannot read the command line: ${(cause as Error).message}; known are --epochs N and --max-steps N`,
      {
        cause,
      },
    );
  }
}

function wholeNumber(name: string, text: string, { min, max = Number.MAX_SAFE_INTEGER }: { min: number; max?: number }): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isSafeInteger(value) || value < min || value > max) {
    const wanted = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new TrainingError('bad_usage', `Cannot use ${name} "${text}": it must be a whole number ${wanted}`);
  }
  return value;
}
