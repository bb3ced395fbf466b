// Bundles a TypeScript entry into one plain JavaScript file: child processes that a test kills cannot run inside vitest, and Node 20 runs no
// TypeScript. rolldown comes with vitest.

import { join } from 'node:path';
import { build } from 'rolldown';

/** Bundles `src/testing/<name>.ts` into `directory`; gives the path of the result. */
export async function bundle(name: string, directory: string): Promise<string> {
  const file = join(directory, `${name}.mjs`);
  await build({
    input: join(import.meta.dirname, `${name}.ts`),
    platform: 'node',
    resolve: { conditionNames: ['source', 'node', 'import', 'default'] },
    output: { file, format: 'esm', codeSplitting: false },
    logLevel: 'silent',
  });
  return file;
}
