// The program of `npm test`: build (code and page), format and lint, every test. The last line is always `N passed, N failed`; a build or a lint
// that fails counts as one failure each and shows the reason. Without recordings of others, one line states how many cases were not run.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { recordedData } from './recorded/recorded-data.mjs';

const repository = fileURLToPath(new URL('..', import.meta.url));
const bin = (name) => join(repository, 'node_modules/.bin', name);
const options = { cwd: repository, stdio: 'inherit' };

let passed = 0;
let failed = 0;

for (const [what, program, args] of [
  ['build', 'npm', ['run', '--silent', 'build']],
  ['format and lint', bin('biome'), ['check', '--max-diagnostics=50', '.']],
]) {
  const line = `${basename(program)} ${args.join(' ')}`;
  console.log(`${what}: ${line}`);
  const { status, error } = spawnSync(program, args, options);
  if (status === 0) continue;
  failed++;
  console.log(`FAILED ${what}: ${line} ended with ${error?.message ?? status}`);
}

const folder = mkdtempSync(join(tmpdir(), 'ranktrace-test-'));
const outputFile = join(folder, 'results.json');
const vitest = spawn(
  bin('vitest'),
  ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${outputFile}`, ...process.argv.slice(2)],
  {
    ...options,
    env: { ...process.env, RANKTRACE_TEST_NO_BUILD: '1' },
  },
);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => vitest.kill(signal));
const status = await new Promise((resolve) => vitest.once('exit', (code, signal) => resolve(code ?? signal)));

try {
  const results = JSON.parse(readFileSync(outputFile, 'utf8'));
  passed += results.numPassedTests;
  failed += results.numFailedTests;
  // A file that cannot be loaded has no tests to fail: it counts as one.
  const broken = results.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((one) => one.status === 'failed'),
  );
  for (const file of broken) console.log(`FAILED ${file.name}: ${file.message}`);
  failed += broken.length;
  // No test may skip, because a skipped test proves nothing. Only tests that need rights a machine may not give skip, and report it themselves.
  const impossible = results.testResults.flatMap((file) => file.assertionResults).filter(({ meta }) => meta?.impossibleHere !== undefined);
  for (const { fullName, meta } of impossible) console.log(`NOT TESTED on this machine: ${fullName}: ${meta.impossibleHere}`);
  const skipped = results.numPendingTests + results.numTodoTests - impossible.length;
  if (skipped > 0 && process.argv.length === 2) {
    console.log(`FAILED ${skipped} skipped: every test must run`);
    failed += skipped;
  }
  if (recordedData() === undefined && process.argv.length === 2) {
    const why = 'RANKTRACE_RECORDED_DATA names no folder, and shared/data does not lie beside the project';
    console.log(`NOT RUN: ${recordedCases()} cases on recordings of others (${why}): see test/recorded/README.md`);
  }
  if (status !== 0 && failed === 0) {
    console.log(`FAILED vitest ended with ${status}: an error outside of any test, see above`);
    failed++;
  }
} catch (error) {
  console.log(`FAILED vitest ended with ${status}, and its results cannot be read: ${error.message}`);
  failed++;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The number of cases, by collecting them. Throws if vitest cannot. */
function recordedCases() {
  const list = join(folder, 'recorded.json');
  const env = { ...process.env, RANKTRACE_TEST_NO_BUILD: '1', RANKTRACE_TEST_LIST_RECORDED: '1' };
  const { status, stderr } = spawnSync(bin('vitest'), ['list', '--project', 'recorded', `--json=${list}`], {
    ...options,
    env,
    stdio: 'pipe',
  });
  if (status !== 0) throw new Error(`the recorded cases cannot be counted: ${stderr}`);
  return JSON.parse(readFileSync(list, 'utf8')).length;
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
