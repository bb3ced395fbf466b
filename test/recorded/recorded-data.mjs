// The place of recordings of others, if this machine has them: tests and benchmarks use them beside the project's own data, never instead of it.
// JavaScript, because tests read it from source and benchmarks from `bench/dist`.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const beside = fileURLToPath(new URL('../../../shared/data', import.meta.url));

/** The folder named by RANKTRACE_RECORDED_DATA, else `shared/data` beside the project; undefined if neither exists. */
export function recordedData() {
  const named = process.env.RANKTRACE_RECORDED_DATA;
  if (named === undefined || named === '') return existsSync(join(beside, 'README.md')) ? beside : undefined;
  if (existsSync(named)) return named;
  throw new Error(`RANKTRACE_RECORDED_DATA must name a folder, got "${named}"`);
}
