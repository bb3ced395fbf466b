// Before any test: builds dist and the page once (child processes, worker threads and browsers run them) and finds the real programs of the suite.
//
// As root on Debian or Ubuntu, a missing part is installed; anywhere else the run stops with one line
// that names it. A test never skips because a part is missing.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { findProgram, installPrograms, realPrograms } from './real-programs.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));

export default function setup(): void {
  build();
  installPrograms();
  for (const { variable } of realPrograms) process.env[variable] = findProgram(variable);
}

/**
 * `npm run build`, unless the caller has just done it (test/run.mjs sets RANKTRACE_TEST_NO_BUILD=1). A type error is shown but does not stop
 * the run: tsc writes dist all the same, so dist is never stale, and `npm test` and `npm run check` count the error as a failure. The SDK, the page
 * and the command are then bundled here: that needs no types.
 */
function build(): void {
  if (process.env.RANKTRACE_TEST_NO_BUILD === '1') return;
  const options = { cwd: repository, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'build'], options);
  if (status === 0) return;
  process.stderr.write(`npm run build ended with ${status} before the tests; dist was written with these errors:\n${stdout}${stderr}`);
  for (const bundled of ['packages/sdk', 'packages/viewer', 'packages/cli']) {
    spawnSync('node_modules/.bin/vite', ['build', bundled], { ...options, stdio: 'inherit' });
  }
}
