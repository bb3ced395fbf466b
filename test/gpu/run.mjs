// The program of `npm run check:gpu`: what only a GPU can show of recording kernels. Each line says what was checked and what it gave, or why it could not
// be checked; without a GPU that is all of it, and no failure. `npm test` needs none of it, and runs it on a driver that plays a GPU (gpu-check.test.ts).
//
//   records   kernels counted = launched · copies and sets · kernel times against CUDA's events · their clock against the host's
//   steps     of a schedule's windows: each step has the kernels that it launched, where the host is far ahead of the device
//   cost      what recording adds to a launch, and to a step
//   torch     PyTorch's own profiler beside it; and in its place: the same kernels, copies and sets, at no higher cost
//   nccl      two ranks that share the first GPU: NCCL's plugin sees each all-reduce, at the times of its kernel
//
// Names of parts as arguments leave out the others.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { GpuRows, RingReader, rowKind } from '@ranktrace/gpu';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const testing = join(repository, 'packages/gpu/native/testing');
const cli = join(repository, 'packages/cli/dist/main.js');
const library = join(repository, `packages/gpu/dist/native/${process.platform}-${process.arch}/ranktrace-gpu.node`);
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-check-gpu-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

const plugin = join(library, '../libranktrace-nccl-profiler.so');
const python = process.env.RANKTRACE_TORCH_PYTHON ?? 'python3';
const parts = ['records', 'steps', 'cost', 'torch', 'nccl'].filter((part) => process.argv.length === 2 || process.argv.includes(part));

const eventsApartMax = 0.02;
const clockApartMaxNs = 10_000;
const callMoreMaxNs = 1000;
const kernelMoreMaxNs = 500;
const costTurns = 5;
const torchTurns = 3;
const pluginApartMaxNs = 10_000;
const allReduces = 200;
const launchesPerStep = 1000;

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

function checkSteps() {
  const [wait, warmup, active, repeat] = [30, 1, 5, 2];
  const schedule = `wait=${wait},warmup=${warmup},active=${active},repeat=${repeat}`;
  const { done, why } = train('ahead', 'ahead', { RANKTRACE_SCHEDULE: schedule });
  if (done === undefined) return checked(false, `steps of a schedule's windows: ${why}`);
  const wanted = Array.from({ length: repeat * active }, (_, at) => {
    const step = Math.floor(at / active) * (wait + warmup + active) + wait + warmup + (at % active);
    return `${step}: ${done.counts[step]}`;
  });
  const { stdout } = spawnSync(process.execPath, [cli, 'report', folder, '--run', 'ahead', '--json'], {
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  });
  const found = JSON.parse(stdout).gpu.ranks.flatMap(({ steps }) =>
    steps.map(({ step, compute }) => `${step}: ${Math.round(compute / done.kernelNs)}`),
  );
  const spans = spansOf('ahead').toSorted((a, b) => a.start - b.start);
  const launched = spans.filter(({ track, name }) => track === 'main' && name === 'cuLaunchKernel');
  const ran = spans.filter(({ track, name }) => track.startsWith('GPU ') && name === 'spin');
  const late = median(ran.map(({ start }, at) => start - (launched[at]?.start ?? Number.NaN)));
  checked(
    found.join() === wanted.join() && ran.length === launched.length,
    `steps of a schedule's windows, ${(late / 1e6).toFixed(1)} ms before their work runs: ${found.filter((step, at) => step === wanted[at]).length} of ${wanted.length} have their kernels, ${ran.length} for ${launched.length} launches`,
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
  const kernelMoreNs = (1e6 * more('stepMs')) / launchesPerStep;
  checked(
    kernelMoreNs <= kernelMoreMaxNs,
    `a kernel of 5 µs takes the device ${microseconds(kernelMoreNs)} longer (≤ ${microseconds(kernelMoreMaxNs)}), a step of 1,000 of them, ${step.toFixed(2)} ms, ${percent(more('stepMs') / step)}`,
  );
}

/** A program's last line as JSON, or why there is none. */
function runPython(program, args, environment = {}) {
  const path = join(repository, 'test/gpu', program);
  const { status, stdout, stderr } = spawnSync(python, [path, ...args], { encoding: 'utf8', env: { ...process.env, ...environment } });
  if (status === 0) return { said: JSON.parse(stdout.trim().split('\n').at(-1)) };
  return { why: (stderr ?? '').trim().split('\n').at(-1) || `${python} cannot be run` };
}

/** All rows of a ring: kind, name, start and end on the monotonic clock, ns, and for collectives which of their two rows. */
function rowsOf(path) {
  const reader = new RingReader(path, 0n, process.getuid());
  const rows = new GpuRows();
  const found = [];
  for (let more = true; more; ) {
    more = reader.read(rows, true);
    for (let row = 0; row < rows.length; row++) {
      const [kind, detail, start, end] = [rows.kind[row], rows.detail[row], rows.start[row], rows.end[row]];
      found.push({ kind, detail, start, end, name: reader.names.get(rows.name[row]) ?? '' });
    }
  }
  const { dropped, droppedRecords, unknownRecords } = reader.state;
  reader.close();
  return { rows: found, lost: dropped + droppedRecords + unknownRecords };
}

/** A folder for rings, which are those that it holds in the end. */
function ringFolder(name) {
  const path = join(folder, name);
  mkdirSync(path);
  return {
    path,
    rings: (kind) =>
      readdirSync(path)
        .filter((file) => file.startsWith(`${kind}-`))
        .map((file) => rowsOf(join(path, file))),
  };
}

const kernelsBeside = 'PyTorch beside it: its own profiler sees its kernels';
const kernelsInPlace = "PyTorch's kernels, copies and sets recorded in place of its profiler";

function checkTorch() {
  const beside = runPython('torch-kernels.py', [], { CUDA_INJECTION64_PATH: library, RANKTRACE_GPU_DIR: ringFolder('beside').path });
  if (beside.why !== undefined) return notChecked(kernelsBeside, beside.why);
  checked(beside.said >= 100, `${kernelsBeside}: ${beside.said} of 100 at least`);
  const theirs = runPython('known-launches.py', ['torch']);
  const place = ringFolder('in-place');
  const forced = { RANKTRACE_GPU: 'force', CUDA_INJECTION64_PATH: library, RANKTRACE_GPU_DIR: place.path };
  const ours = runPython('known-launches.py', ['plain'], forced);
  const why = theirs.why ?? ours.why;
  if (why !== undefined) return notChecked(kernelsInPlace, why);
  const [ring = { rows: [], lost: 0 }] = place.rings('gpu');
  const isWork = ({ kind }) => kind === rowKind.kernel || kind === rowKind.copy || kind === rowKind.set;
  const inside = ring.rows.filter((row) => isWork(row) && row.start >= ours.said.began && row.end <= ours.said.ended);
  const wanted = Object.values(theirs.said.counts).reduce((sum, count) => sum + count, 0);
  checked(inside.length === wanted && ring.lost === 0, `${kernelsInPlace}: ${inside.length} of ${wanted}`);
  const named = new Map();
  for (const { kind, name } of inside) if (kind === rowKind.kernel) named.set(name, (named.get(name) ?? 0) + 1);
  const different = [...named].filter(([name, count]) => theirs.said.counts[name] !== count);
  checked(
    different.length === 0,
    `names of kernels and how often each ran: ${named.size - different.length} of ${named.size} as torch.profiler has them`,
  );
}

function checkTorchCost() {
  const what = 'a step of PyTorch takes no longer than under torch.profiler of the device alone';
  const place = ringFolder('cost');
  const recording = { RANKTRACE_GPU: 'force', CUDA_INJECTION64_PATH: library, RANKTRACE_GPU_DIR: place.path };
  const turns = Array.from({ length: torchTurns }, () => [
    runPython('torch-cost.py', ['plain']),
    runPython('torch-cost.py', ['plain'], recording),
    runPython('torch-cost.py', ['torch']),
  ]);
  const why = turns.flat().find((turn) => turn.why !== undefined)?.why;
  if (why !== undefined) return notChecked(what, why);
  const [alone, ours, theirs] = [0, 1, 2].map((state) => median(turns.map((turn) => turn[state].said.ms)));
  const launches = turns[0][2].said.launches;
  checked(
    ours <= theirs,
    `${what}: ${ours.toFixed(2)} ms, ${theirs.toFixed(2)} ms; ${alone.toFixed(2)} ms alone (${Math.round(launches)} launches, ${microseconds((1e6 * (ours - alone)) / launches)} each)`,
  );
}

async function checkNccl() {
  const what = "NCCL's plugin sees each all-reduce of two ranks";
  const place = ringFolder('nccl');
  const common = { WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: '29599', COUNT: `${allReduces}`, RANKTRACE_GPU_DIR: place.path };
  const recording = {
    NCCL_PROFILER_PLUGIN: plugin,
    RANKTRACE_NCCL_MASK: 'coll,p2p,kernel',
    RANKTRACE_GPU: 'force',
    CUDA_INJECTION64_PATH: library,
  };
  const ranks = [0, 1].map(
    (rank) =>
      new Promise((resolve) => {
        const env = { ...process.env, ...common, ...recording, RANK: `${rank}`, LOCAL_RANK: `${rank}` };
        const child = spawn(python, [join(repository, 'test/gpu/nccl-ranks.py')], { env });
        const said = { stdout: '', stderr: '' };
        for (const stream of ['stdout', 'stderr']) child[stream].on('data', (text) => (said[stream] += text));
        child.on('error', () => resolve({ why: `${python} cannot be run` }));
        child.on('close', (code) =>
          resolve(
            code === 0 ? { done: JSON.parse(said.stdout.trim().split('\n').at(-1)) } : { why: said.stderr.trim().split('\n').at(-1) },
          ),
        );
      }),
  );
  const [first, second] = await Promise.all(ranks);
  const why = first.why ?? second.why;
  if (why !== undefined) return notChecked(what, why);
  const ran = place.rings('nccl').map(({ rows }) => rows.filter(({ name, detail }) => name === 'AllReduce' && detail === 2));
  const counts = ran.map(({ length }) => length);
  checked(
    counts.length === 2 && counts.every((count) => count === allReduces),
    `${what} (NCCL ${first.done.nccl}): ${counts.join(' and ')} of ${allReduces}`,
  );
  const kernels = place.rings('gpu').map(({ rows }) => rows.filter(({ name }) => name.startsWith('ncclDevKernel_AllReduce')));
  // Rings have their process's number: those of one process are at the same place.
  const apart = ran.flatMap((rows, at) =>
    rows.flatMap(({ start, end }, row) => {
      const kernel = kernels[at]?.[row];
      return kernel === undefined ? [] : [Math.abs(start - kernel.start), Math.abs(end - kernel.end)];
    }),
  );
  const [usual, most] = [median(apart), Math.max(...apart)];
  checked(
    usual <= pluginApartMaxNs,
    `its times against those of the kernels: ${microseconds(usual)} apart (≤ ${microseconds(pluginApartMaxNs)}), at most ${microseconds(most)}`,
  );
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
  if (parts.includes('steps')) checkSteps();
  if (parts.includes('cost')) checkCost();
}

if (parts.some((part) => part === 'records' || part === 'steps' || part === 'cost')) checkKernels();
if (parts.includes('torch')) {
  checkTorch();
  checkTorchCost();
}
if (parts.includes('nccl')) await checkNccl();
