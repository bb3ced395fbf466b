// Before any test: builds dist and the page once (child processes, worker threads and browsers run them) and finds the real parts the suite stands on.
//
// A part that is missing is installed where that is ours to do (root on Debian or Ubuntu); anywhere else the run stops with one line
// that names what to install. A test never skips because a part is missing.

import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));

interface Part {
  /** Environment variable that names the program; set for the tests once it is found. */
  readonly variable: string;
  readonly names: readonly string[];
  /** Folders beside PATH. */
  readonly folders: readonly string[];
  /** Debian and Ubuntu package. */
  readonly package: string;
}

const parts: readonly Part[] = [
  { variable: 'NATS_SERVER_BIN', names: ['nats-server'], folders: ['/usr/sbin', '/usr/local/bin'], package: 'nats-server' },
  { variable: 'CHROMIUM_BIN', names: ['chromium', 'chromium-browser', 'google-chrome'], folders: ['/usr/bin'], package: 'chromium' },
  { variable: 'PROMTOOL_BIN', names: ['promtool'], folders: ['/usr/bin', '/usr/local/bin'], package: 'prometheus' },
  {
    variable: 'ALERTMANAGER_BIN',
    names: ['prometheus-alertmanager', 'alertmanager'],
    folders: ['/usr/bin', '/usr/local/bin'],
    package: 'prometheus-alertmanager',
  },
  { variable: 'PYTHON_BIN', names: ['python3'], folders: ['/usr/bin', '/usr/local/bin'], package: 'python3' },
];

export default function setup(): void {
  build();
  for (const part of parts) process.env[part.variable] = find(part) ?? install(part);
}

/**
 * `npm run build`, unless the caller has just done it (test/run.mjs sets RANKTRACE_TEST_NO_BUILD=1). A type error is shown but does not stop
 * the run: tsc writes dist all the same, so dist is never stale, and `npm test` and `npm run check` count the error as a failure. The page is
 * then built here: it needs no types.
 */
function build(): void {
  if (process.env.RANKTRACE_TEST_NO_BUILD === '1') return;
  const options = { cwd: repository, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'build'], options);
  if (status === 0) return;
  process.stderr.write(`npm run build ended with ${status} before the tests; dist was written with these errors:\n${stdout}${stderr}`);
  spawnSync('node_modules/.bin/vite', ['build', 'packages/viewer'], { ...options, stdio: 'inherit' });
}

/** The program's path: from its variable, from PATH, from its usual folders. */
function find(part: Part): string | undefined {
  const named = process.env[part.variable];
  if (named !== undefined && named !== '') {
    if (isProgram(named)) return realpathSync(named);
    throw new Error(`Cannot start the tests: ${part.variable} must name a program, got "${named}"`);
  }
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), ...part.folders]) {
    for (const name of part.names) {
      const path = join(folder, name);
      if (folder !== '' && isProgram(path)) return path;
    }
  }
  return undefined;
}

function install(part: Part): string {
  if (process.getuid?.() === 0 && isDebian()) {
    try {
      const options = { stdio: 'pipe', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } } as const;
      execFileSync('apt-get', ['update', '-qq'], options);
      execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', part.package], options);
      // Debian starts the service it installs; the tests start their own servers on free ports, so that one does no harm.
      const path = find(part);
      if (path !== undefined) return path;
    } catch {
      // The line below says what to do.
    }
  }
  throw new Error(
    `Cannot start the tests: ${part.names[0]} is missing; install it (Debian: apt-get install ${part.package}) or set ${part.variable}`,
  );
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function isDebian(): boolean {
  return existsSync('/etc/os-release') && /^ID(_LIKE)?=.*\b(debian|ubuntu)\b/m.test(readFileSync('/etc/os-release', 'utf8'));
}
