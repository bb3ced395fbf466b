// The command line as a module, for tests that run many lines in one process (warm-command.ts). Built before the tests of the project `cluster`, from the
// same sources and with the same settings as `packages/cli/dist/main.js`.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const repository = fileURLToPath(new URL('../..', import.meta.url));
// Below node_modules, where it finds the package that the bundle leaves out.
const outDir = join(repository, 'node_modules/.cache/ranktrace-test');

/** Exports `runProgram(argv, environment)`. */
export const programPath = join(outDir, 'program.js');

export default async function setup(): Promise<void> {
  await build({ root: join(repository, 'packages/cli'), build: { ssr: 'src/program.ts', outDir, license: false } });
}
