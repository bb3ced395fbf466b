// The SDK in real processes with real threads: however a process ends, its events are on disk. The cases stay together because all of them run programs in one
// way, and read what these left.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inflateRawSync } from 'node:zlib';
import {
  type Batch,
  decodeBatch,
  decodeFrameHeader,
  endedByKey,
  failedKey,
  frameHeaderBytes,
  isSegment,
  segmentMagic,
  spanState,
} from '@ranktrace/protocol';
import { build } from 'vite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { metadataOf } from '../packages/aggregator/src/live/batch-metadata.ts';
import { repository } from './setup/ranktrace-command.ts';

const sdk = new URL('../packages/sdk/dist/index.js', import.meta.url).href;
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-sdk-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Runs `body` (JavaScript, with `profile`, `recordFunction`, `sleep`, `block` and a started `prof`) in a process of its own. */
function start(body: string, environment: Record<string, string> = {}): ChildProcess {
  const file = join(directory, 'program.mjs');
  const preamble = `
    import { writeSync } from 'node:fs';
    import { setTimeout as sleep } from 'node:timers/promises';
    import { Worker } from 'node:worker_threads';
    import { profile, recordFunction } from '${sdk}';
    const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    const say = (line) => writeSync(1, line + '\\n');
    const thread = (code, workerData) => new Worker(new URL('data:text/javascript,' + encodeURIComponent(
      "import { recordFunction } from '${sdk}'; import { setTimeout as sleep } from 'node:timers/promises'; import { parentPort, workerData } from 'node:worker_threads';" + code)), { workerData });
  `;
  writeFileSync(file, preamble + body);
  return spawn(process.execPath, [file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // Only events of the program itself are counted, no garbage collections.
    env: {
      ...process.env,
      RANKTRACE_DIRECTORY: join(directory, 'out'),
      RANKTRACE_RUN: 'test',
      RANKTRACE_SAMPLE_INTERVAL_MS: '0',
      ...environment,
    },
  });
}

interface Ending {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

function ending(child: ChildProcess): Promise<Ending> {
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (data) => (stdout += data));
  child.stderr?.on('data', (data) => (stderr += data));
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr })));
}

const run = (body: string, environment?: Record<string, string>) => ending(start(body, environment));

async function said(child: ChildProcess, line: string): Promise<void> {
  for await (const data of child.stdout ?? []) if (String(data).includes(line)) return;
}

function readBatches(): Batch[] {
  const batches: Batch[] = [];
  if (!existsSync(join(directory, 'out'))) return batches;
  for (const name of readdirSync(join(directory, 'out'), { recursive: true }) as string[]) {
    const path = join(directory, 'out', name);
    if (!statSync(path).isFile()) continue;
    const bytes = readFileSync(path);
    if (!isSegment(bytes)) continue;
    for (let offset = segmentMagic.length; offset + frameHeaderBytes <= bytes.length; ) {
      const { length } = decodeFrameHeader(bytes, offset);
      offset += frameHeaderBytes;
      if (offset + length > bytes.length) break; // Torn: its writer was killed, or is still writing.
      batches.push(decodeBatch(bytes.subarray(offset, offset + length), (body, max) => inflateRawSync(body, { maxOutputLength: max })));
      offset += length;
    }
  }
  return batches.sort((a, b) => a.header.sequence - b.header.sequence);
}

/** Resolves when a shipper has sent its first batch: before it listens, a signal ends the process at once. */
const shipped = (): Promise<void> => expect.poll(() => readBatches().length, { timeout: 100_000 }).toBeGreaterThan(0);

interface Span {
  readonly name: string;
  readonly track: number;
  readonly start: number;
  readonly length: number;
  readonly state: number;
}

function spansOf(batches: readonly Batch[]): Span[] {
  return batches.flatMap(({ strings, tables: { spans } }) =>
    Array.from({ length: spans.length }, (_, row) => ({
      name: strings[spans.columns.name[row] ?? 0] ?? '',
      track: spans.columns.track[row] ?? -1,
      start: spans.columns.start[row] ?? -1,
      length: spans.columns.length[row] ?? -1,
      state: spans.columns.state[row] ?? -1,
    })),
  );
}

/** Promises of the format that every sequence of batches keeps. */
function checkBatches(batches: readonly Batch[]): void {
  let watermark = 0;
  batches.forEach(({ header, tables: { spans } }, sequence) => {
    expect(header.sequence).toBe(sequence);
    for (let row = 0; row < spans.length; row++) {
      if (spans.columns.state[row] !== spanState.close) expect(spans.columns.start[row]).toBeGreaterThanOrEqual(header.since ?? watermark);
    }
    expect(header.watermark).toBeGreaterThanOrEqual(watermark);
    watermark = header.watermark;
    expect(header.dropped).toEqual({ events: 0, arguments: 0, names: 0, batches: 0 });
  });
}

/** Each span once: what a batch had as open, for a busy machine may pause a thread inside a span, a later one has as ended. */
function names(batches: readonly Batch[]): string[] {
  const spans = spansOf(batches);
  const key = ({ track, start }: Span) => `${track} ${start}`;
  const ended = new Set(spans.filter(({ state }) => state !== spanState.open).map(key));
  return spans.filter((span) => span.state !== spanState.open || !ended.has(key(span))).map(({ name }) => name);
}

test('a loop that stops in good order leaves a last batch with every step', async () => {
  const { code, stderr } = await run(`
    const prof = profile().start();
    for (let i = 0; i < 50; i++) {
      recordFunction('forward', () => block(2));
      await recordFunction('allreduce', () => prof.collective({ op: 'all_reduce' }, () => sleep(2)));
      prof.step();
    }
    await prof.stop();
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const batches = readBatches();
  checkBatches(batches);
  expect(batches.at(-1)?.header.last).toBe(true);
  const steps = batches.flatMap(({ tables: { steps } }) => [...steps.columns.step.subarray(0, steps.length)]);
  expect(steps).toEqual(Array.from({ length: 50 }, (_, step) => step));
  const forward = spansOf(batches).filter(({ name }) => name === 'forward');
  expect(forward.filter(({ state }) => state !== spanState.open)).toHaveLength(50);
});

test('a thread that is busy after it has called stop reports no cut', async () => {
  const { code, stderr } = await run(`
    const prof = profile({ exitDeadlineMs: 100 }).start();
    recordFunction('work', () => 1);
    await sleep(100);
    // Timers follow, that of the deadline first, and messages of threads after them.
    await new Promise(setImmediate);
    const stopped = prof.stop();
    block(5000);
    await stopped;
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(readBatches().at(-1)?.header.last).toBe(true);
});

test('process.exit right after start loses nothing', async () => {
  const program = `
    profile().start();
    recordFunction('only', () => 1);
    process.exit(7);
  `;
  const { code } = await run(program);
  expect(code).toBe(7);
  expect(names(readBatches())).toEqual(['only']);
  expect(readBatches().at(-1)?.header.last).toBe(true);
});

test('an uncaught exception ends the process as always, with what was recorded', async () => {
  const { code, stderr } = await run(`
    profile().start();
    recordFunction('work', () => { throw new Error('mine'); });
  `);
  expect(code).toBe(1);
  expect(stderr).toContain('Error: mine');
  expect(names(readBatches())).toEqual(['work']);
  expect(readBatches().flatMap((batch) => [...metadataOf(batch, failedKey)])).toEqual(['Error: mine']);
});

test.each([
  ['process.exit(7)', 7, ['exit code 7']],
  ['process.exitCode = 3', 3, ['exit code 3']],
  ["process.on('uncaughtException', () => process.exit(5)); throw new Error('its own way')", 5, ['exit code 5']],
  // A shell's code for SIGTERM: the program was asked to end.
  ['process.exit(143)', 143, []],
  ['process.exit(0)', 0, []],
  ['process.exit(-1)', 255, ['exit code 255']],
  ['process.exit(193)', 193, ['exit code 193']],
  // As where a peer is gone, and what waits for it never settles.
  ['await new Promise(() => {})', 13, ['exit code 13']],
  ['process.exit()', 0, []],
  ["process.on('exit', function handleProcessExit() {})", 0, []],
])('an exit code of an error is one: %s', async (end, wanted, errors) => {
  const { code } = await run(`profile().start(); recordFunction('work', () => 1); ${end};`);
  expect(code).toBe(wanted);
  expect(readBatches().flatMap((batch) => [...metadataOf(batch, failedKey)])).toEqual(errors);
});

test.each([
  ['finally, with await', 'try { await work(); } finally { await prof.stop(); }'],
  ['finally, without await', 'try { await work(); } finally { prof.stop(); }'],
  ['using', 'try { work(); } finally { prof[Symbol.dispose](); }'],
  ['await using', 'try { work(); } finally { await prof[Symbol.asyncDispose](); }'],
  ['a rejection', 'const main = async () => { try { await work(); } finally { await prof.stop(); } }; main(); await sleep(5000);'],
])('an error that ends the program behind %s is recorded, and the flight recorder sent', async (_, end) => {
  const { code, stderr } = await run(`
    Symbol.dispose ??= Symbol.for('Symbol.dispose');
    Symbol.asyncDispose ??= Symbol.for('Symbol.asyncDispose');
    const prof = profile({ schedule: { wait: 1000, warmup: 1, active: 1 } }).start();
    const work = () => recordFunction('work', () => recordFunction('inner', () => { throw new Error('mine'); }));
    for (let step = 0; step < 3; step++) { recordFunction('train', () => recordFunction('inside', () => 1)); prof.step(); }
    ${end}
  `);
  expect(code).toBe(1);
  expect(stderr).toMatch(/Error: mine/);
  expect(stderr).not.toMatch(/^ranktrace/m);
  const batches = readBatches();
  checkBatches(batches);
  expect(batches.at(-1)?.header.last).toBe(true);
  expect(batches.flatMap((batch) => [...metadataOf(batch, failedKey)])).toEqual(['Error: mine']);
  expect(names(batches).toSorted()).toEqual(['inner', 'inside', 'inside', 'inside', 'train', 'train', 'train', 'work']);
});

test('a program that fails after it stopped its profile, in a later turn, or not at all, adds no batch', async () => {
  const { code } = await run(`
    const prof = profile().start();
    await prof.stop();
    await sleep(50);
    throw new Error('later');
  `);
  expect(code).toBe(1);
  const batches = readBatches();
  expect(batches.filter(({ header }) => header.last)).toHaveLength(1);
  expect(batches.flatMap((batch) => [...metadataOf(batch, failedKey)])).toEqual([]);
});

test('no span stays open after a stack overflow that the program catches', async () => {
  const { code, stdout } = await run(`
    const prof = profile().start();
    const deep = () => recordFunction('deep', deep);
    for (let round = 0; round < 10; round++) {
      try { deep(); } catch (error) { say(error.name); }
      recordFunction('after', () => recordFunction('inside', () => 1));
      prof.step();
    }
    await prof.stop();
    for (const { name, cpuParent } of prof.events()) if (name !== 'deep') say(name + ' in ' + cpuParent?.name);
  `);
  expect(code).toBe(0);
  const lines = stdout.split('\n');
  const count = (line: string): number => lines.filter((other) => other === line).length;
  expect([count('RangeError'), count('after in undefined'), count('inside in after')]).toEqual([10, 10, 10]);
});

test('an exception that the program handles itself is no failure', async () => {
  const { code } = await run(`
    process.on('uncaughtException', () => {});
    profile().start();
    setTimeout(() => recordFunction('work', () => { throw new Error('mine'); }), 1);
    await sleep(50);
  `);
  expect(code).toBe(0);
  expect(names(readBatches())).toEqual(['work']);
  expect(readBatches().flatMap((batch) => [...metadataOf(batch, failedKey)])).toEqual([]);
});

test('a rejection that nobody handles still ends the process', async () => {
  const { code } = await run(`
    profile().start();
    recordFunction('work', async () => { throw new Error('mine'); });
    await sleep(5000);
  `);
  expect(code).toBe(1);
  expect(names(readBatches())).toEqual(['work']);
});

test('a process whose event loop is empty ends at once', async () => {
  await run(`profile().start(); recordFunction('work', () => 1);`);
  expect(names(readBatches())).toEqual(['work']);
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s without a listener: flushed, and ended by the signal', async (signal) => {
  const child = start(`profile().start(); recordFunction('work', () => 1); say('ready'); setInterval(() => {}, 1000);`);
  const end = ending(child);
  await said(child, 'ready');
  await shipped();
  child.kill(signal);
  expect((await end).signal).toBe(signal);
  expect(names(readBatches())).toEqual(['work']);
  expect(readBatches().flatMap((batch) => [...metadataOf(batch, endedByKey)])).toEqual([signal]);
});

test("the user's own signal listener decides, also one registered with once", async () => {
  const child = start(`
    process.once('SIGTERM', async () => { await sleep(50); recordFunction('cleanup', () => 1); process.exit(3); });
    profile().start(); say('ready'); setInterval(() => {}, 1000);
  `);
  const end = ending(child);
  await said(child, 'ready');
  child.kill('SIGTERM');
  expect((await end).code).toBe(3);
  expect(names(readBatches())).toEqual(['cleanup']);
  expect(readBatches().flatMap((batch) => [...metadataOf(batch, endedByKey)])).toEqual([]);
});

test('a killed process whose event loop was blocked shows what it was inside of', async () => {
  const child = start(`profile().start(); recordFunction('stuck', () => { say('ready'); block(60000); });`);
  const end = ending(child);
  await said(child, 'ready');
  // Its first batch, and a heartbeat.
  await expect.poll(() => readBatches().length, { timeout: 100_000 }).toBeGreaterThan(1);
  child.kill('SIGKILL');
  await end;
  const batches = readBatches();
  expect(spansOf(batches).map(({ name, state }) => ({ name, state }))).toEqual([{ name: 'stuck', state: spanState.open }]);
  // Heartbeats went on, so it was alive.
  expect(batches.length).toBeGreaterThan(1);
});

test('threads started before and after the profile have tracks of their own, on the same clock', async () => {
  const { code, stderr } = await run(`
    const endOf = (worker) => new Promise((resolve) => worker.on('exit', resolve));
    const work = "for (let i = 0; GOES_ON; i++) { recordFunction('NAME', () => 1); await sleep(5); }";
    const untilTold = "let isOver = false; parentPort.once('message', () => { isOver = true; }); ";
    const early = thread(untilTold + work.replace('NAME', 'early').replace('GOES_ON', '!isOver'));
    const earlyEnd = endOf(early);
    await sleep(150);
    const prof = profile().start();
    const late = thread(work.replace('NAME', 'late').replace('GOES_ON', 'i < 100'));
    recordFunction('main', () => block(100));
    await endOf(late);
    early.postMessage('over');
    await earlyEnd;
    await prof.stop();
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const batches = readBatches();
  checkBatches(batches);
  const spans = spansOf(batches);
  // One that is open at a flush comes again when it has ended.
  expect(spans.filter(({ name, state }) => name === 'late' && state !== spanState.open)).toHaveLength(100);
  expect(spans.filter(({ name }) => name === 'early').length).toBeGreaterThan(10);
  expect(new Set(spans.map(({ track }) => track)).size).toBe(3);
  // Both ran while the main thread did, or after it: no thread's clock is off by its own start.
  const end = batches.at(-1)?.header.watermark ?? 0;
  for (const { start, length } of spans) {
    expect(start).toBeGreaterThanOrEqual(0);
    expect(start + length).toBeLessThanOrEqual(end);
  }
  const tids = batches.flatMap(({ tables: { tracks } }) => [...tracks.columns.tid.subarray(0, tracks.length)]);
  expect(new Set(tids).size).toBe(3);
});

test('process.exit inside another exit handler loses nothing', async () => {
  const { code, stderr } = await run(`
    process.on('exit', () => process.exit(4));
    profile().start();
    recordFunction('work', () => 1);
  `);
  expect({ code, stderr }).toEqual({ code: 4, stderr: '' });
  expect(names(readBatches())).toEqual(['work']);
});

test('two profiles that overlap: a signal still ends the process', async () => {
  const child = start(`
    const first = profile({ url: 'ws://127.0.0.1:1', spoolDirectory: '${join(directory, 'spool')}', exitDeadlineMs: 3000 }).start();
    void first.stop();
    profile().start();
    recordFunction('work', () => 1);
    say('ready');
    setInterval(() => {}, 1000);
  `);
  const end = ending(child);
  await said(child, 'ready');
  await shipped();
  child.kill('SIGTERM');
  // The first one still waits for its aggregator, for 3 s.
  const timer = setTimeout(() => child.kill('SIGKILL'), 100_000);
  expect((await end).signal).toBe('SIGTERM');
  clearTimeout(timer);
  expect(names(readBatches())).toContain('work');
});

test('a second profile at once, one that was stopped, and a directory that cannot be written are refused by name', async () => {
  writeFileSync(join(directory, 'file'), '');
  const { code, stdout } = await run(`
    const refused = (start) => { try { start(); say('started'); } catch (error) { say(error.name + ' ' + error.code); } };
    refused(() => profile({ directory: '${join(directory, 'file')}' }).start());
    refused(() => profile({ directory: '/proc' }).start());
    const prof = profile().start();
    refused(() => profile().start());
    await prof.stop();
    refused(() => prof.start());
  `);
  expect(code).toBe(0);
  expect(stdout.split('\n')).toEqual([
    'SdkError spool_unusable',
    'SdkError spool_unusable',
    'SdkError already_running',
    'SdkError already_stopped',
    '',
  ]);
});

/** Runs a program of one file as `node -e` does. */
function evaluate(program: string, args: readonly string[]): { stdout: string; stderr: string; status: number | null } {
  return spawnSync(process.execPath, [...args, '-e', program], { encoding: 'utf8', cwd: repository });
}

test('a program of CommonJS records, too', () => {
  const program = `
    const { profile, recordFunction } = require('@ranktrace/sdk');
    const prof = profile({ run: 'test', directory: '${join(directory, 'out')}', sampleIntervalMs: 0 }).start();
    recordFunction('work', () => 7);
    prof.step();
    prof.stop();`;
  const { status, stderr } = evaluate(program, ['--input-type=commonjs']);
  // Versions of Node differ in whether they call this an experiment.
  expect(stderr.replaceAll(/^.*(ExperimentalWarning|trace-warnings).*\n/gm, '')).toBe('');
  expect(status).toBe(0);
  expect(names(readBatches())).toContain('work');
});

test.each(['Deno', 'Bun'])('%s is refused in one line', (runtime) => {
  const program = `
    import { profile } from '@ranktrace/sdk';
    Object.defineProperty(process, 'versions', { value: { ...process.versions, ${runtime.toLowerCase()}: '2.9.6' } });
    try { profile({ directory: '${directory}' }).start(); } catch (error) { console.log(error.name, error.code, error.message); }`;
  const { stdout, stderr } = evaluate(program, ['--input-type=module']);
  expect(stderr).toBe('');
  expect(stdout).toMatch(/^SdkError runtime_unsupported Cannot start the profile: .*; run the program with Node 20.19 or later\n$/);
  expect(stdout).toContain(`in ${runtime} each `);
});

test('where no worker thread may be started, `start` says so in one line, and the program can go on', async () => {
  const program = `
    import { profile, recordFunction } from '${new URL('../packages/sdk/dist/index.js', import.meta.url).href}';
    const prof = profile({ directory: '${directory}' });
    try { prof.start(); } catch (error) { console.log(error.name, error.code, error.message); }
    console.log(recordFunction('work', () => 7), prof.collective({ op: 'all_reduce' }, () => 8));
    prof.step();
    await prof.stop();`;
  // Node 20 knows it by its first name alone, Node 24 by its last.
  const permission = process.allowedNodeEnvironmentFlags.has('--permission') ? '--permission' : '--experimental-permission';
  const allowed = [permission, '--allow-fs-read=*', '--allow-fs-write=*', '--no-warnings'];
  const { stdout, stderr } = evaluate(program, [...allowed, '--input-type=module']);
  expect(stderr).toBe('');
  const message = 'Cannot start the profile: it needs a worker thread, and this process may start none (ERR_ACCESS_DENIED)';
  expect(stdout).toBe(`SdkError threads_refused ${message}\n7 8\n`);
});

test.each(['es', 'cjs'] as const)(
  'a program into which a bundler packed the SDK (%s) is told at the start to leave it out',
  async (format) => {
    const input = join(directory, 'program.js');
    const entryFileNames = format === 'es' ? 'packed.mjs' : 'packed.cjs';
    writeFileSync(
      input,
      `import { profile, recordFunction } from '${fileURLToPath(sdk)}';
    const prof = profile({ directory: '${directory}' });
    try { prof.start(); } catch (error) { console.log(error.name, error.code, error.message); }
    console.log(recordFunction('work', () => 7));
    prof.step();
    void prof.stop().then(() => console.log('stopped'));`,
    );
    await build({
      configFile: false,
      logLevel: 'silent',
      build: { ssr: input, outDir: join(directory, 'dist'), rolldownOptions: { output: { format, entryFileNames } } },
      ssr: { noExternal: true },
    });
    const { stdout } = spawnSync(process.execPath, [join(directory, 'dist', entryFileNames)], { encoding: 'utf8' });
    const where = format === 'es' ? ` in "${join(directory, 'dist')}"` : '.*';
    expect(stdout).toMatch(
      new RegExp(
        `^SdkError worker_missing Cannot start the profile: there is no shipper-worker.js${where}, as where a bundler packs the SDK into the program; leave @ranktrace/sdk out of the bundle \\(external\\), and install it beside the program\n7\nstopped\n$`,
      ),
    );
  },
);

test.each(['await prof.stop()', 'prof[Symbol.dispose]()', 'process.exit()'])(
  '%s says what it leaves behind, and the rest once',
  async (stop) => {
    const { stderr } = await run(
      `const prof = profile({ spoolDirectory: '${join(directory, 'spool')}', exitDeadlineMs: 5000 }).start(); ${stop};`,
      { RANKTRACE_RUN: '', WORLD_SIZE: '2', RANK: '0', RANKTRACE_URL: 'ws://127.0.0.1:1' },
    );
    const lines = stderr.trim().split('\n');
    expect(lines.filter((line) => line.includes('no run name'))).toHaveLength(1);
    expect(lines.filter((line) => line.includes('not everything was acknowledged'))).toHaveLength(1);
  },
);

test('a thread that outlived one session records in the next, however late it begins', async () => {
  const { code, stderr } = await run(`
    const first = profile().start();
    const late = thread("parentPort.once('message', async () => { for (let i = 0; i < 600; i++) { recordFunction('late', () => 1); await sleep(5); } process.exit(); });");
    await new Promise((resolve) => late.once('online', resolve));
    await first.stop();
    const second = profile().start();
    await sleep(300);
    const ended = new Promise((resolve) => late.on('exit', resolve));
    late.postMessage('go');
    await ended;
    await second.stop();
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(names(readBatches())).toContain('late');
});

test.each([
  [
    'an engine of TensorFlow.js that takes no hooks',
    'globalThis._tfengine = Object.freeze({ runKernelFunc() {} });',
    /ops of TensorFlow\.js are not recorded/,
    1,
  ],
  [
    'no memory for its ring',
    "globalThis.SharedArrayBuffer = class { constructor() { throw new RangeError('none left'); } };",
    /none left/,
    0,
  ],
])('a thread with %s goes on', async (_what, code, reason, recorded) => {
  const { stdout, stderr } = await run(`
    const prof = profile().start();
    const worker = thread(${JSON.stringify(`${code} parentPort.postMessage(recordFunction('short', () => 'its result'));`)});
    worker.once('message', (result) => say(result));
    await new Promise((resolve) => worker.once('exit', resolve));
    await prof.stop();
  `);
  expect(stdout).toBe('its result\n');
  expect(stderr).toMatch(reason);
  expect(names(readBatches()).filter((name) => name === 'short')).toHaveLength(recorded);
});

test('a thread that came and went while the main thread was busy is recorded, however early', async () => {
  const { code, stderr } = await run(`
    for (let round = 0; round < 4; round++) {
      const prof = profile().start();
      const done = new Int32Array(new SharedArrayBuffer(4));
      const worker = thread("recordFunction('short', () => 1); Atomics.store(workerData, 0, 1); Atomics.notify(workerData, 0);", done);
      Atomics.wait(done, 0, 0, 60_000);
      await prof.stop();
      await worker.terminate();
    }
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(names(readBatches()).filter((name) => name === 'short')).toHaveLength(4);
});

test('where worker threads are ranks, a thread records in the rank that started it, and one that has stopped in no other', async () => {
  const { code, stderr } = await run(`
    const { isMainThread, workerData } = await import('node:worker_threads');
    const begin = (workerData) => new Promise((resolve) => new Worker(new URL(import.meta.url), { workerData }).on('exit', resolve));
    const record = async (name) => { for (let n = 0; n < 40; n++) { recordFunction(name, () => {}); await sleep(10); } };
    if (isMainThread) await Promise.all([0, 1, 2].map((rank) => begin({ rank })));
    else if (workerData.of !== undefined) await record('helper of ' + workerData.of);
    else {
      const { rank } = workerData;
      const prof = profile({ rank, worldSize: 3 }).start();
      for (let helpers = 0; helpers <= rank; helpers++) await begin({ of: rank });
      await prof.stop();
      await record('after the end of ' + rank);
    }
  `);
  expect([code, stderr]).toEqual([0, '']);
  const batches = readBatches();
  for (const rank of [0, 1, 2]) {
    const own = names(batches.filter(({ header }) => header.rank === rank));
    expect(own).toEqual(Array.from({ length: 40 * (rank + 1) }, () => `helper of ${rank}`));
  }
});

test('threads that are terminated are forgotten', async () => {
  const { code } = await run(`
    const prof = profile().start();
    const worker = thread("recordFunction('short', () => 1); parentPort.postMessage('recorded'); setInterval(() => {}, 1000);");
    await new Promise((resolve) => worker.once('message', resolve));
    await sleep(500);
    await worker.terminate();
    // A starved shipper looks for it late.
    await sleep(10_000);
    await prof.stop();
  `);
  expect(code).toBe(0);
  const batches = readBatches();
  expect(names(batches)).toContain('short');
  expect(batches.at(-1)?.tables.tracks.length).toBe(1);
});

test('the README example records its steps', async () => {
  const readme = readFileSync(new URL('../packages/sdk/README.md', import.meta.url), 'utf8');
  const example = /```ts\n([\s\S]*?)```/.exec(readme)?.[1]?.replace(/^import .*\n/, '');
  const spool = join(directory, 'out');
  const { code, stderr } = await run(`const batches = [1, 2, 3]; const train = () => block(1); ${example}`, {
    RANKTRACE_SPOOL_DIRECTORY: spool,
    // Nobody answers at the example's address, so it waits all of this.
    RANKTRACE_EXIT_DEADLINE_MS: '8000',
  });
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('away from ws://head:7400') });
  const steps = readBatches().flatMap(({ tables: { steps } }) => [...steps.columns.step.subarray(0, steps.length)]);
  expect(steps).toEqual([0, 1, 2]);
});

test('a profile can follow another one, and `dispose` stops without the event loop', async () => {
  const { code, stderr } = await run(`
    for (const name of ['first', 'second']) {
      const prof = profile().start();
      recordFunction(name, () => 1);
      prof[Symbol.dispose]();
      await sleep(5);
    }
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const batches = readBatches();
  expect(new Set(names(batches))).toEqual(new Set(['first', 'second']));
  expect(new Set(batches.map(({ header }) => header.incarnation)).size).toBe(2);
});
