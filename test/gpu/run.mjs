// The program of `npm run check:gpu`: what only a GPU can show of recording kernels. Each line says what was checked and what it gave, or why it could not
// be checked; without a GPU that is all of it, and no failure. `npm test` needs none of it, and runs it on a driver that plays a GPU (gpu-check.test.ts).
//
//   records   kernels counted = launched · copies and sets · kernel times against CUDA's events · their clock against the host's
//   cost      what recording adds to a launch, and to a step
//   torch     PyTorch's own profiler beside it
//
// Names of parts as arguments leave out the others.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const testing = join(repository, 'packages/gpu/native/testing');
const cli = join(repository, 'packages/cli/dist/main.js');
const library = join(repository, `packages/gpu/dist/native/${process.platform}-${process.arch}/ranktrace-gpu.node`);
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-check-gpu-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

const parts = ['records', 'cost', 'torch'].filter((part) => process.argv.length === 2 || process.argv.includes(part));

const eventsApartMax = 0.02;
const clockApartMaxNs = 10_000;
const callMoreMaxNs = 1000;
const stepMoreMax = 0.01;
const costTurns = 5;

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const percent = (share) => `${(100 * share).toFixed(2)} %`;
const microseconds = (ns) => `${(ns / 1000).toFixed(2)} µs`;

function checked(isGood, what) {
  console.log(`${isGood ? 'ok         ' : 'MISSED     '} ${what}`);
  if (!isGood) process.exitCode = 1;
}
const notChecked = (what, why) => console.log(`NOT CHECKED ${what}: ${why}`);

/** Runs the training loop as a rank of a run of its own; returns what it said it did, or why it did not. */
function train(name, mode, environment = {}) {
  const program = [join(repository, 'test/gpu/cuda-training.mjs'), join(folder, 'cuda-launches.node'), join(testing, 'kernels.ptx'), mode];
  const args = [cli, 'run', '--gpu', '--name', name, '--out', folder, '--', process.execPath, ...program];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: repository,
    encoding: 'utf8',
    env: { ...process.env, RANKTRACE_OVERHEAD_BUDGET: '1', ...environment },
  });
  const line = stdout.split('\n').find((text) => text.includes('{"device"'));
  const refused = /no kernels are recorded: .*/.exec(stderr)?.[0];
  if (status === 0 && line !== undefined) return { done: JSON.parse(line.slice(line.indexOf('{'))), refused };
  return { why: /Error: (.*)/.exec(stderr)?.[1] ?? stderr.trim().split('\n').at(-1) ?? `exit code ${status}` };
}

/** Spans of the run on the rank's clock: name, start and length in ns, what is said of it. */
function spansOf(name) {
  const { stdout } = spawnSync(process.execPath, [cli, 'dump', folder, '--run', name], { encoding: 'utf8', maxBuffer: 1 << 30 });
  const lines = stdout.matchAll(/^ +([\d.]+) ms {2}rank 0 {2}(.+?) {2}SPAN (.+?) {2}([\d.]+) ms(.*)$/gm);
  return [...lines].map(([, start, track, span, length, rest]) => ({ track, name: span, start: 1e6 * start, length: 1e6 * length, rest }));
}

function checkRecords(done, spans) {
  const named = (name) => spans.filter((span) => span.track.startsWith('GPU ') && span.name === name);
  const spins = named('spin');
  const [launched, counted] = [done.launches + done.events.length + done.told.length / 2, spins.length + named('until_told').length];
  checked(counted === launched, `kernels: ${counted} recorded of ${launched} launched`);

  const wanted = ['HtoD', 'DtoD', 'DtoH'].map((kind) => spans.filter((span) => span.name.startsWith(`Memcpy ${kind}`)));
  const sets = spans.filter((span) => span.name.startsWith('Memset'));
  const moved = [...wanted.flat(), ...sets].filter(({ rest }) => rest.includes(`bytes=${done.bytes}`));
  checked(
    moved.length === 4 && wanted.every((copies) => copies.length === 1),
    `copies to the device, on it and back, and a set: ${moved.length} of 4 with their bytes`,
  );

  // Those of 2 ms, in the order of their work.
  const timed = spins.toSorted((a, b) => a.start - b.start).slice(done.launches);
  const apart = timed.map(({ length }, at) => Math.abs(length / (1e6 * done.events[at]) - 1));
  if (apart.length === 0) checked(false, "times of kernels against CUDA's events: none was recorded");
  else
    checked(
      median(apart) <= eventsApartMax,
      `times of kernels against CUDA's events: ${percent(median(apart))} apart (≤ ${percent(eventsApartMax)})`,
    );

  // A span begins after the host's clock was read: the least delay is nearest to none.
  const anchors = spans.filter(({ name }) => name === 'anchor').toSorted((a, b) => a.start - b.start);
  const ahead = Math.min(...anchors.map(({ start }, at) => start - done.anchors[at]));
  const told = named('until_told').toSorted((a, b) => a.start - b.start);
  // It began before the host saw it, and ended after the host told it to.
  const errors = told.flatMap(({ start, length }, at) => [
    Math.abs(done.told[2 * at] + ahead - start),
    Math.abs(start + length - (done.told[2 * at + 1] + ahead)),
  ]);
  const error = errors.length === 0 ? Number.NaN : median(errors);
  checked(
    error <= clockApartMaxNs,
    `clock of kernels against the host's: ${microseconds(error)} apart, the way to the device included (≤ ${microseconds(clockApartMaxNs)})`,
  );
}

function checkCost() {
  const turns = Array.from({ length: costTurns }, (_, turn) =>
    ['on', 'off'].map((state) => train(`cost-${turn}-${state}`, 'cost', state === 'on' ? {} : { RANKTRACE_GPU: '0' }).done),
  );
  if (turns.flat().some((turn) => turn === undefined)) return checked(false, 'cost of a launch: a run of it failed');
  const more = (key) => median(turns.map(([on, off]) => on[key] - off[key]));
  const step = median(turns.map(([, off]) => off.stepMs));
  checked(more('callNs') <= callMoreMaxNs, `a launch takes ${microseconds(more('callNs'))} longer (≤ ${microseconds(callMoreMaxNs)})`);
  checked(
    more('stepMs') <= stepMoreMax * step,
    `a step of 1,000 launches, ${step.toFixed(2)} ms, takes ${percent(more('stepMs') / step)} longer (≤ ${percent(stepMoreMax)})`,
  );
}

function checkTorch() {
  const what = 'PyTorch beside it: its own profiler sees its kernels';
  const python = process.env.RANKTRACE_TORCH_PYTHON ?? 'python3';
  const env = { ...process.env, CUDA_INJECTION64_PATH: library, RANKTRACE_GPU_DIR: folder };
  const { status, stdout, stderr } = spawnSync(python, [join(repository, 'test/gpu/torch-kernels.py')], { encoding: 'utf8', env });
  if (status !== 0) return notChecked(what, (stderr ?? '').trim().split('\n').at(-1) || `${python} cannot be run`);
  checked(Number(stdout) >= 100, `${what}: ${stdout.trim()} of 100 at least`);
}

function checkKernels() {
  const compiler = [process.env.CC, 'cc', 'gcc', 'clang'].find((name) => name && spawnSync(name, ['--version']).status === 0);
  const build = ['-std=c11', '-O2', '-fPIC', '-shared', join(testing, 'cuda-launches.c'), '-o', join(folder, 'cuda-launches.node'), '-ldl'];
  if (compiler === undefined || spawnSync(compiler, build, { stdio: 'inherit' }).status !== 0)
    return notChecked('kernels', 'no C compiler is found (CC names one)');
  const { done, why, refused } = train('work', 'work');
  if (done === undefined) return notChecked('kernels', why);
  console.log(`on ${done.device}`);
  if (refused !== undefined) return checked(false, refused);
  if (parts.includes('records')) checkRecords(done, spansOf('work'));
  if (parts.includes('cost')) checkCost();
}

if (parts.includes('records') || parts.includes('cost')) checkKernels();
if (parts.includes('torch')) checkTorch();
