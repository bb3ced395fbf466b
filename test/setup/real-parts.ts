// Before any test: builds dist and the page once (child processes, worker threads and browsers run them) and finds the real programs of the suite.
//
// As root on Debian or Ubuntu, a missing part is installed; anywhere else the run stops with one line
// that names it. A test never skips because a part is missing.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findProgram, type RealProgram, realPrograms } from './real-programs.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));

export default function setup(): void {
  build();
  // A shell warns on stderr of a locale that is not installed, as one of a user who came by SSH may be.
  process.env.LC_ALL = 'C.UTF-8';
  for (const program of realPrograms) process.env[program.variable] = findProgram(program.variable) ?? install(program);
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

function install(program: RealProgram): string {
  if (process.getuid?.() === 0 && isDebian()) {
    try {
      const options = { stdio: 'pipe', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } } as const;
      execFileSync('apt-get', ['update', '-qq'], options);
      execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', program.package], options);
      // Debian starts the service it installs; it does no harm, because the tests start their own servers on free ports.
      const path = findProgram(program.variable);
      if (path !== undefined) return path;
    } catch {
      // The error below names the remedy.
    }
  }
  throw new Error(
    `Cannot start the tests: ${program.names[0]} is missing; install it (Debian: apt-get install ${program.package}) or set ${program.variable}`,
  );
}

function isDebian(): boolean {
  return existsSync('/etc/os-release') && /^ID(_LIKE)?=.*\b(debian|ubuntu)\b/m.test(readFileSync('/etc/os-release', 'utf8'));
}
