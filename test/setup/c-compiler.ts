// A C compiler, as `npm run build` finds one, for tests of the native code of packages/gpu.

import { execFileSync, spawnSync } from 'node:child_process';
import type { TestContext } from 'vitest';
import { repository } from './ranktrace-command.ts';

/** Where the native sources lie. */
export const native = `${repository}packages/gpu/native/`;

/** CUDA's own headers; undefined where there are none. */
export const cudaHeaders: string | undefined = [
  `${process.env.CUDA_HOME ?? ''}/include`,
  '/usr/local/cuda/include',
  '/usr/local/cuda-13.0/include',
].find((folder) => spawnSync('test', ['-e', `${folder}/cupti.h`]).status === 0);

const compiler = [process.env.CC, 'cc', 'gcc', 'clang'].find(
  (name) => name && spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0,
);

export const hasCompiler: boolean = process.platform === 'linux' && compiler !== undefined;

/** Skips the test where there is no compiler, or this is not Linux. */
export function needsCompiler(context: TestContext): void {
  if (hasCompiler) return;
  context.task.meta.impossibleHere = 'no C compiler is found on this machine, or it is not Linux';
  context.skip();
}

/** Compiles sources of `native`, each warning an error, into `out`. */
export function compile(out: string, sources: readonly string[], ...flags: readonly string[]): void {
  const warnings = ['-std=c11', '-g', '-O1', '-Wall', '-Wextra', '-Werror'];
  const paths = sources.map((source) => native + source);
  execFileSync(compiler as string, [...warnings, ...flags, ...paths, '-o', out, '-ldl', '-lpthread'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}
