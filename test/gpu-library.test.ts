// packages/gpu's C library in real processes, with a libcupti that plays back scripts instead of a GPU: every record arrives, faults are counted, and
// training goes on whatever happens. The real libcupti, where it is found, is refused for want of a driver.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GpuRows, libraryPath, RingReader, rowKind } from '@ranktrace/gpu';
import * as layout from '@ranktrace/gpu/layout';
import { beforeAll, beforeEach, expect, onTestFinished, type TestContext, test } from 'vitest';
import { compile, cudaHeaders, hasCompiler, needsCompiler } from './setup/c-compiler.ts';
import { repository } from './setup/ranktrace-command.ts';

const tools = mkdtempSync(join(tmpdir(), 'ranktrace-gpu-tools-'));
const [fake, oldFake, injected] = ['libcupti-fake.so', 'libcupti-old.so', 'injected'].map((name) => join(tools, name)) as [
  string,
  string,
  string,
];
const uid = process.getuid?.() ?? -1;
let folder: string;

beforeAll(() => {
  if (hasCompiler) {
    compile(fake, ['testing/fake-cupti.c'], '-fPIC', '-shared');
    compile(oldFake, ['testing/fake-cupti.c'], '-fPIC', '-shared', '-DFAKE_CUPTI_OLD');
    compile(injected, ['testing/injected.c']);
  }
  return () => rmSync(tools, { recursive: true });
});

beforeEach((context) => {
  needsCompiler(context as TestContext);
  folder = mkdtempSync(join(tmpdir(), 'ranktrace-gpu-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
});

function scriptOf(...lines: readonly string[]): Record<string, string> {
  const path = join(folder, 'script');
  writeFileSync(path, `${lines.join('\n')}\n`);
  return { FAKE_CUPTI_SCRIPT: path, RANKTRACE_CUPTI_LIBRARY: fake };
}

/** A Node process that records into a ring, until `end` is called. */
async function record(environment: Record<string, string>, capacity = 4096) {
  const path = join(folder, 'own.ring');
  const child = spawn(process.execPath, [join(repository, 'test/programs/gpu-rank.mjs'), path, `${capacity}`], {
    env: { ...process.env, ...environment },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { began, why } = JSON.parse(String(line)) as { began: string; why: string };
  const end = async (): Promise<number> => {
    child.stdin.end();
    const [code] = (await once(child, 'exit')) as [number];
    return code;
  };
  return { path, began: BigInt(began), why, end, child, errors: () => errors };
}

interface Taken {
  readonly rows: string[];
  readonly reader: RingReader;
}

/** All rows of a ring, in words. */
function take(path: string, epoch: bigint, isOver = false): Taken {
  const reader = new RingReader(path, epoch, uid);
  onTestFinished(() => reader.close());
  const rows = new GpuRows();
  const texts: string[] = [];
  for (let more = true; more; ) {
    more = reader.read(rows, isOver);
    for (let row = 0; row < rows.length; row++) texts.push(textOf(rows, row, reader));
  }
  return { rows: texts, reader };
}

function textOf(rows: GpuRows, row: number, { names }: RingReader): string {
  const kind = Object.keys(rowKind)[(rows.kind[row] as number) - 1];
  const length = (rows.end[row] as number) - (rows.start[row] as number);
  const about: string[] = [];
  if (kind === 'kernel')
    about.push(
      `grid ${rows.grid.slice(3 * row, 3 * row + 3)} block ${rows.block.slice(3 * row, 3 * row + 3)} registers ${rows.registers[row]} shared ${rows.sharedBytes[row]}`,
    );
  if (kind === 'copy' || kind === 'set') about.push(`${rows.bytes[row]} B ${rows.source[row]}→${rows.destination[row]}`);
  if (kind === 'copy') about.push(`to ${rows.peer[row]}`);
  const name = names.get(rows.name[row] as number);
  return [
    kind,
    `${rows.detail[row]}`,
    `${rows.device[row]}/${rows.stream[row]}`,
    `#${rows.correlation[row]}`,
    `${length} ns`,
    ...about,
    ...(name === undefined ? [] : [name]),
  ].join(' ');
}

const longName = `void gemm<${'float, '.repeat(300)}128>`;

test('each record becomes a row: kernels, copies, sets, syncs and calls of several threads, devices and streams, on the rank’s own clock', async () => {
  const script = scriptOf(
    'call runtime 1000 3000 501 1 211',
    'call driver 1100 2900 501 1 307',
    'kernel 5000 9000 0 7 1 gemm<float>',
    'buffer',
    'call runtime 4000 4500 502 2 41',
    'copy 6000 8000 1 14 2 1048576 1',
    'peer 9000 9500 0 1 7 3 4096',
    'set 9600 9700 1 14 4 512',
    'sync 10000 12000 7 5 3',
    `kernel 13000 13500 1 14 6 ${longName}`,
    'kernel 14000 14500 1 14 7 gemm<float>',
    'call runtime 15000 15100 502 9 20',
    `overhead 16000 17000 ${1 << 17}`,
  );
  const rank = await record(script);
  expect(rank.why).toBe('');
  expect(await rank.end()).toBe(0);
  const { rows, reader } = take(rank.path, rank.began);
  expect(rows).toEqual([
    'call 1 65535/501 #1 2000 ns cudaLaunchKernel',
    'call 2 65535/501 #1 1800 ns cuLaunchKernel',
    'kernel 0 0/7 #1 4000 ns grid 4,2,1 block 128,1,1 registers 32 shared 64 gemm<float>',
    'call 1 65535/502 #2 500 ns cudaMemcpyAsync',
    'copy 1 1/14 #2 2000 ns 1048576 B 1→3 to 1',
    'copy 10 0/7 #3 500 ns 4096 B 3→3 to 1',
    'set 0 1/14 #4 100 ns 512 B 0→3',
    'sync 3 65535/7 #5 2000 ns',
    `kernel 0 1/14 #6 500 ns grid 4,2,1 block 128,1,1 registers 32 shared 64 ${longName.slice(0, layout.nameBytesMax)}`,
    'kernel 0 1/14 #7 500 ns grid 4,2,1 block 128,1,1 registers 32 shared 64 gemm<float>',
    'overhead 0 65535/0 #0 1000 ns CUPTI flushes a buffer',
  ]);
  expect(reader.state).toMatchObject({ state: 'ended', message: '', library: 130001, dropped: 0, droppedRecords: 0, unknownRecords: 0 });
  expect(reader).toMatchObject({ source: 'cupti', malformed: 0, unpublished: 0 });
});

test('times are on the monotonic clock, with and without CUPTI’s question for it', async () => {
  for (const library of [fake, oldFake]) {
    const rank = await record({ ...scriptOf('kernel 0 1000 0 7 1 first'), RANKTRACE_CUPTI_LIBRARY: library });
    expect(await rank.end()).toBe(0);
    const ended = process.hrtime.bigint();
    const reader = new RingReader(rank.path, rank.began, uid);
    const rows = new GpuRows();
    reader.read(rows);
    reader.close();
    // The old one's own clock is a second ahead.
    expect(rows.start[0]).toBeGreaterThanOrEqual(-1e8);
    expect(rows.start[0]).toBeLessThan(Number(ended - rank.began));
    rmSync(rank.path);
  }
});

test('a process that reads its ring itself says so to others', async () => {
  const rank = await record(scriptOf('kernel 1 2 0 7 1 first'));
  const [inside, other] = [0, 0].map(() => new RingReader(rank.path, rank.began, uid)) as [RingReader, RingReader];
  onTestFinished(() => {
    for (const reader of [inside, other]) reader.close();
  });
  expect(other.isReadInside).toBe(false);
  inside.keepInside();
  expect(other.isReadInside).toBe(true);
  expect(await rank.end()).toBe(0);
});

test('only calls that are shown are asked for; an old libcupti reports all', async () => {
  const calls = ['call runtime 1000 3000 501 1 211', 'call runtime 4000 4100 501 2 20', 'call driver 5000 5100 501 3 307'];
  for (const [library, left] of [
    [fake, 1],
    [oldFake, 0],
  ] as const) {
    const rank = await record({ ...scriptOf(...calls), RANKTRACE_CUPTI_LIBRARY: library });
    expect(await rank.end()).toBe(0);
    expect(rank.errors()).toContain(`${left} calls left out that nobody asked for`);
    const { rows } = take(rank.path, rank.began);
    expect(rows).toEqual(['call 1 65535/501 #1 2000 ns cudaLaunchKernel', 'call 2 65535/501 #3 100 ns cuLaunchKernel']);
    rmSync(rank.path);
  }
});

test('C++ names are those of the source; what is none stays', async () => {
  const names = [
    '_ZN2at6native4gemmIfLi4EEEvPT_',
    '_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE',
    '_Zbroken',
    'gemm_kernel',
  ];
  const rank = await record(scriptOf(...[...names, names[0]].map((name, at) => `kernel 1 2 0 7 ${at} ${name}`)));
  expect(await rank.end()).toBe(0);
  const { rows } = take(rank.path, rank.began);
  const gemm = 'void at::native::gemm<float, 4>(float*)';
  expect(rows.map((row) => row.replace(/.* shared \d+ /, ''))).toEqual([
    ...[gemm, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)', '_Zbroken', 'gemm_kernel', gemm],
  ]);
});

test('what is not known, cut short or dropped is counted, and the rest arrives', async () => {
  const rank = await record(scriptOf('unknown', 'kernel 1 2 0 7 1 a', 'short', 'dropped 17', 'kernel 3 4 0 7 2 b'));
  expect(await rank.end()).toBe(0);
  const { rows, reader } = take(rank.path, rank.began);
  expect(rows.map((row) => row.at(-1))).toEqual(['a', 'b']);
  expect(reader.state).toMatchObject({ unknownRecords: 2, droppedRecords: 17, dropped: 0 });
});

test('a full ring drops rows and counts them: nothing waits', async () => {
  const rank = await record(scriptOf('repeat 1000', 'kernel 1 2 0 7 1 same'), 64);
  expect(await rank.end()).toBe(0);
  const { rows, reader } = take(rank.path, rank.began);
  // Two rows hold the name.
  expect(rows).toHaveLength(62);
  expect(reader.state.dropped).toBe(1000 - 62);
});

test('names beyond the limit are counted, and their kernels arrive without', async () => {
  const kernels = Array.from({ length: 16_400 }, (_, at) => `kernel 1 2 0 7 1 kernel ${at}`);
  const rank = await record(scriptOf(...kernels), 2 ** 16);
  expect(await rank.end()).toBe(0);
  const { rows, reader } = take(rank.path, rank.began);
  expect(rows).toHaveLength(16_400);
  expect(rows.slice(-16).every((row) => row.endsWith('shared 64'))).toBe(true);
  expect(reader.state.droppedNames).toBe(16);
});

test.each([
  [
    'another profiler',
    { FAKE_CUPTI_REFUSE: 'subscribe:39' },
    /^another profiler of this process uses CUPTI \(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39\)$/,
  ],
  ['no permission', { FAKE_CUPTI_REFUSE: 'enable:35' }, /^this user may not profile: .* \(CUPTI_ERROR, 35\)$/],
  ['no driver', { FAKE_CUPTI_REFUSE: 'enable:999' }, /^CUDA's driver is not there, or finds no GPU/],
  ['no libcupti', { RANKTRACE_CUPTI_LIBRARY: '/nowhere/libcupti.so' }, /^RANKTRACE_CUPTI_LIBRARY cannot be opened$/],
  ['another library', { RANKTRACE_CUPTI_LIBRARY: 'libm.so.6' }, /^this libcupti is too old: it has no cuptiGetVersion$/],
  ['switched off', { RANKTRACE_GPU: '0' }, /^RANKTRACE_GPU=0$/],
])('refused with its reason, in the ring, too, while training goes on: %s', async (_, environment, why) => {
  const rank = await record({ ...scriptOf('kernel 1 2 0 7 1 a'), ...environment });
  expect(rank.why).toMatch(why);
  expect(await rank.end()).toBe(0);
  const { rows, reader } = take(rank.path, rank.began);
  expect(rows).toEqual([]);
  expect(reader.state).toMatchObject({ state: 'refused', message: rank.why });
});

test('refused where PyTorch is loaded: its own profiler would see nothing any more', async () => {
  const torch = join(folder, 'libtorch_cuda.so');
  compile(torch, ['testing/fake-cupti.c'], '-fPIC', '-shared', '-Wl,-soname,libtorch_cuda.so');
  const environment = { ...scriptOf('kernel 1 2 0 7 1 a'), LD_PRELOAD: torch, RANKTRACE_CUPTI_LIBRARY: fake };
  const rank = await record(environment);
  expect(rank.why).toMatch(/^PyTorch is loaded/);
  expect(await rank.end()).toBe(0);
});

test('a ring that cannot be made is refused with its reason: its place is taken, or there is no room', async () => {
  writeFileSync(join(folder, 'own.ring'), 'mine');
  const rank = await record(scriptOf('kernel 1 2 0 7 1 a'));
  expect(rank.why).toMatch(/^the ring ".*own.ring" cannot be made: File exists$/);
  expect(await rank.end()).toBe(0);
});

test('the real libcupti without a driver is refused with its reason', async (context) => {
  const real = cudaHeaders?.replace(/include$/, 'lib/libcupti.so');
  if (real === undefined || !existsSync(real) || existsSync('/dev/nvidiactl')) {
    context.task.meta.impossibleHere = 'there is no libcupti here, or a GPU beside it (npm run check:gpu)';
    context.skip();
    return;
  }
  const rank = await record({ RANKTRACE_CUPTI_LIBRARY: real });
  expect(rank.why).toMatch(/^CUDA's driver is not there, or finds no GPU \(CUPTI_ERROR_\w+, \d+\)$/);
  expect(await rank.end()).toBe(0);
});

test('injected by CUDA’s driver it records into the folder, and the end of the process brings the rest', () => {
  const environment = { ...scriptOf('kernel 1 2 0 7 1 a', 'flush', 'repeat 5000', 'kernel 3 4 0 7 2 b'), RANKTRACE_GPU_DIR: folder };
  execFileSync(injected, [libraryPath('ranktrace-gpu.node') ?? '', 'exit'], { env: { ...process.env, ...environment }, stdio: 'pipe' });
  const [ring = ''] = readdirSync(folder).filter((name) => /^gpu-\d+-\d+\.ring$/.test(name));
  const { rows, reader } = take(join(folder, ring), 0n);
  expect(rows).toHaveLength(5001);
  expect(reader.state).toMatchObject({ state: 'ended', dropped: 0 });
});

test('injected where it can make no ring it says why on stderr, once, and a folder that is sticky is as good as an own one', () => {
  const environment = scriptOf('kernel 1 2 0 7 1 a');
  const library = libraryPath('ranktrace-gpu.node') ?? '';
  const run = (directory: string, before = 'true'): string => {
    const env = { ...process.env, ...environment, RANKTRACE_GPU_DIR: directory };
    const { status, stderr } = spawnSync('sh', ['-c', `${before}; exec "$0" "$1" exit`, injected, library], { env, encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    return stderr.replace('training\n', '');
  };
  expect(run('')).toBe('');
  expect(run('rings')).toBe('ranktrace records no kernels: RANKTRACE_GPU_DIR=rings: it must be an absolute path\n');
  expect(run(join(folder, 'none'))).toMatch(/^ranktrace records no kernels: RANKTRACE_GPU_DIR=.*\/none: No such file or directory\n$/);
  const taken = run(folder, 'touch "$RANKTRACE_GPU_DIR/gpu-$$-$(cut -d " " -f 22 /proc/$$/stat).ring"');
  expect(taken).toMatch(/^ranktrace records no kernels: the ring ".*" cannot be made: File exists\n$/);
  if (uid !== 0) return;
  const others = join(folder, 'others');
  mkdirSync(others);
  chownSync(others, 12_345, 12_345);
  expect(run(others)).toMatch(/others: it must be this user's own, or sticky \(mode 1777\)\n$/);
  chmodSync(others, 0o1777);
  expect(run(others)).not.toContain('ranktrace');
  expect(readdirSync(others)).toEqual([expect.stringMatching(/^gpu-\d+-\d+\.ring$/)]);
});

test('after a fork the child has no part in the ring', () => {
  const environment = { ...scriptOf('kernel 1 2 0 7 1 a', 'flush', 'kernel 3 4 0 7 2 b'), RANKTRACE_GPU_DIR: folder };
  execFileSync(injected, [libraryPath('ranktrace-gpu.node') ?? '', 'fork'], { env: { ...process.env, ...environment }, stdio: 'pipe' });
  const rings = readdirSync(folder).filter((name) => name.endsWith('.ring'));
  const parent = rings.map((name) => take(join(folder, name), 0n)).find(({ reader }) => reader.state.state === 'ended');
  expect(parent?.rows.map((row) => row.at(-1))).toEqual(['a', 'b']);
});

test('a process that is killed in the midst leaves all that it had written', async () => {
  const rank = await record(scriptOf('repeat 200000', 'kernel 1 2 0 7 1 same'), 2 ** 18);
  const [, signal] = await Promise.all([rank.child.kill('SIGKILL'), once(rank.child, 'exit')]);
  expect((signal as unknown[])[1]).toBe('SIGKILL');
  const { rows, reader } = take(rank.path, rank.began, true);
  expect(rows.length + reader.unpublished).toBeLessThanOrEqual(200_000);
  expect(reader.unpublished).toBeLessThanOrEqual(35);
  expect(new Set(rows).size).toBeLessThanOrEqual(1);
});

test.each([
  ['address,undefined', 'exit'],
  ['address,undefined', 'fork'],
  ['thread', 'exit'],
])('the sanitizers find nothing: %s, %s', (sanitizers, mode) => {
  const program = join(folder, 'sanitized');
  compile(
    program,
    ['testing/injected.c', 'entry.c', 'cupti-recorder.c', 'ring.c'],
    '-DLINKED',
    `-fsanitize=${sanitizers}`,
    '-fno-sanitize-recover=all',
  );
  const lines = [
    'unknown',
    'repeat 3000',
    'kernel 1 2 0 7 1 a',
    `kernel 3 4 0 7 2 ${longName}`,
    'flush',
    'short',
    'copy 5 6 0 7 3 64 1',
    'call runtime 1 2 5 1 211',
  ];
  const environment = { ...scriptOf(...lines), RANKTRACE_GPU_DIR: folder, TSAN_OPTIONS: 'halt_on_error=1', ASAN_OPTIONS: 'detect_leaks=0' };
  execFileSync(program, ['', mode], { env: { ...process.env, ...environment }, stdio: 'pipe' });
  const rings = readdirSync(folder).filter((name) => name.endsWith('.ring'));
  expect(rings.map((name) => take(join(folder, name), 0n).rows.length)).toContain(3003);
});

test('eight threads that write at once lose no row and tear none, under the sanitizer for threads', () => {
  const program = join(folder, 'sanitized');
  compile(
    program,
    ['testing/injected.c', 'entry.c', 'cupti-recorder.c', 'ring.c'],
    '-DLINKED',
    '-fsanitize=thread',
    '-fno-sanitize-recover=all',
  );
  execFileSync(program, ['', 'threads', '8'], {
    env: { ...process.env, RANKTRACE_GPU_DIR: folder, TSAN_OPTIONS: 'halt_on_error=1' },
    stdio: 'pipe',
  });
  const { rows, reader } = take(join(folder, 'threads.ring'), 0n);
  expect(rows).toHaveLength(8 * 20_000);
  expect(new Set(rows).size).toBe(8 * 20_000);
  expect(reader.names.size).toBe(500);
});

test('the layouts that TypeScript and C have are the same', () => {
  const program = join(folder, 'layouts');
  const source = join(folder, 'layouts.c');
  const { kernel, copy, sync, collective, group, nameRow, ...row } = layout.rowOffsets;
  const headerFields = {
    pidStart: 'pid_start',
    droppedRecords: 'dropped_records',
    unknownRecords: 'unknown_records',
    droppedNames: 'dropped_names',
    isReadInside: 'is_read_inside',
  };
  const unionFields: Record<string, string> = { sharedBytes: 'shared_bytes', peerDevice: 'peer_device', isAsync: 'is_async' };
  const checks = [
    ...Object.entries(layout.headerOffsets).map(([name, at]) => [
      `offsetof(struct rt_header, ${headerFields[name as 'pidStart'] ?? name})`,
      at,
    ]),
    ...Object.entries(row).map(([name, at]) => [`offsetof(struct rt_row, ${name})`, at]),
    ...Object.entries({ kernel, copy, sync, collective, group, name: nameRow }).flatMap(([part, fields]) =>
      Object.entries(fields).map(([name, at]) => [`offsetof(struct rt_row, u.${part}.${unionFields[name] ?? name})`, at]),
    ),
    ['RT_HEADER_BYTES', layout.headerBytes],
    ['RT_ROW_BYTES', layout.rowBytes],
    ['RT_NAME_BYTES_PER_ROW', layout.nameBytesPerRow],
    ['RT_NAME_BYTES_MAX', layout.nameBytesMax],
    ['RT_RING_VERSION', layout.ringVersion],
    ['RT_ROW_KERNEL', layout.rowKind.kernel],
    ['RT_ROW_GROUP', layout.rowKind.group],
    ['sizeof(((struct rt_header *)0)->message)', layout.messageBytes],
  ] as const;
  const lines = checks.map(([text]) => `printf("%ld\\n", (long)(${text}));`).join('\n');
  writeFileSync(source, `#include <stddef.h>\n#include <stdio.h>\n#include "ring.h"\nint main(void) {\n${lines}\nreturn 0; }\n`);
  compile(program, [], source, `-I${repository}packages/gpu/native`);
  const printed = execFileSync(program, { encoding: 'utf8' }).trim().split('\n').map(Number);
  expect(Object.fromEntries(checks.map(([text], at) => [text, printed[at]]))).toEqual(Object.fromEntries(checks));
});

test('our layouts of CUPTI’s records are those of the headers here', (context) => {
  if (cudaHeaders === undefined) {
    context.task.meta.impossibleHere = "CUDA's headers are not found on this machine";
    context.skip();
    return;
  }
  compile(join(folder, 'layouts.o'), ['cupti-layouts.c'], '-c', `-I${cudaHeaders}`);
});
