// The program of `npm run build`: the packages, unchanged ones from turbo's cache; the C libraries; and what lies outside of packages (tests, benchmarks).
// Prints what fails, and nothing else.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('.', import.meta.url));
const program = (name) => join(root, 'node_modules/.bin', name);
const options = { cwd: root, env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1' } };

const packages = spawnSync(program('turbo'), ['run', 'build', '--output-logs=errors-only'], { ...options, encoding: 'utf8' });
const [libraries, others] = [
  [process.execPath, 'packages/gpu/build.mjs'],
  [program('tsc'), '--build'],
].map(([path, ...args]) => spawnSync(path, args, { ...options, stdio: 'inherit' }));
// What tsc finds wrong in a package it has just said.
if (packages.status !== 0 && others.status === 0) process.stderr.write(packages.error?.message ?? `${packages.stdout}${packages.stderr}`);
process.exitCode = [packages, libraries, others].every(({ status }) => status === 0) ? 0 : 1;
