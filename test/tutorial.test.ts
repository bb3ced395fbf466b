// Compares docs/tutorial.md with its sources and commands:
//
//   <!-- from: FILE -->       the code below is in this file of the example, verbatim
//   <!-- file: NAME -->       the code below is a program; it is written to an empty folder …
//   <!-- run: NAME -->        … and these commands are run there, in the order of the page
//   <!-- printed: NAME -->    what was printed, up to <!-- end -->: written by UPDATE_GOLDEN=1
//
// Times differ from run to run and from machine to machine, so printed tables are compared by their columns. The text's claims are
// checked on this run's output and on the page's, by inequalities that no load can reverse.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type PageBlock, pageBlocks } from './setup/page-blocks.ts';
import { commandPath, repository } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { readRun } from './setup/trace-events.ts';

const pagePath = `${repository}docs/tutorial.md`;
const example = `${repository}examples/mask-indices`;
const stages = [1, 2, 3] as const;

interface Facts {
  readonly timeMs: number;
  readonly timeShare: number;
  readonly memoryBytes: number;
  readonly copiedBytes: number;
}

interface StageFacts {
  readonly stage: number;
  readonly values: number;
  readonly found: number;
  readonly maskIndices: Facts;
  readonly linearPass: Facts;
}

interface TraceEvent {
  readonly name: string;
  readonly cat?: string;
  readonly ts: number;
  readonly dur?: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

const page = (): string => readFileSync(pagePath, 'utf8');

const blocks = (): PageBlock[] => pageBlocks(page());

const printedMark = /^<!-- printed: ([^\n]+) -->\n([\s\S]*?)^<!-- end -->$/gm;

/** The output on the page, by name. */
const printedOnPage = (): Map<string, string> =>
  new Map([...page().matchAll(printedMark)].map(([, name = '', text = '']) => [name, text.trim()]));

let folder: string;
/** The output of this run, by name, in the page's form. */
const printed = new Map<string, string>();
let facts: readonly StageFacts[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ranktrace-tutorial-'));
  symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));

  const copied: string[] = [];
  for (const stage of stages) {
    const text = await ok(runExample('--stage', `${stage}`, '--out', join(folder, 'ranktrace-out')));
    const [, byTime = '', byMemory = '', bytes = ''] =
      text.match(/\nby time\n([\s\S]*?)\n\nby memory\n([\s\S]*?)\n\nfound .*; copied in MASK INDICES: (\d+) bytes\n/) ?? [];
    printed.set(`stage ${stage} by time`, fenced(byTime));
    printed.set(`stage ${stage} by memory`, fenced(byMemory));
    copied.push(bytes);
  }
  facts = (await ok(runExample('--json', '--out', join(folder, 'json'))))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as StageFacts);
  printed.set('machine', machine());
  printed.set('stages compared', comparison(copied));
  const copy = trace(1).findLast(({ name }) => name === 'tensor.dataSync');
  printed.set('the large copy', fenced(JSON.stringify({ name: copy?.name, dur: copy?.dur, args: copy?.args }, undefined, 1), 'json'));

  for (const { kind, name, code } of blocks()) {
    if (kind === 'file') writeFileSync(join(folder, name), code);
    if (kind !== 'run') continue;
    const output = await ok(shell(code));
    if (name !== '') printed.set(name, fenced(output));
  }

  if (process.env.UPDATE_GOLDEN === '1') {
    const updated = page().replaceAll(
      printedMark,
      (_, name: string) => `<!-- printed: ${name} -->\n${printed.get(name) ?? ''}\n<!-- end -->`,
    );
    writeFileSync(pagePath, updated);
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the page', () => {
  test('has the code of the example, verbatim', () => {
    const quoted = blocks().filter(({ kind }) => kind === 'from');
    expect(quoted.length).toBeGreaterThanOrEqual(7);
    for (const { name, code } of quoted) expect(readFileSync(join(repository, name), 'utf8'), name).toContain(code);
  });

  test('shows everything that is printed, and nothing else', () => {
    expect([...printedOnPage().keys()].sort()).toEqual([...printed.keys()].sort());
    expect([...printedOnPage()].filter(([, text]) => text === '')).toEqual([]);
  });

  test('its tables have the columns of the tables that are printed now', () => {
    const isTable = ([name]: [string, string]) => /by time|by memory|^table of/.test(name);
    const headings = (all: Map<string, string>) =>
      Object.fromEntries([...all].filter(isTable).map(([name, text]) => [name, columnsOf(text)]));
    expect(headings(printedOnPage())).toEqual(headings(printed));
  });

  // This run is not judged, because other load may come at any moment; a page that was written under load must be written again.
  test('has times of a run in which each stage took less than the one before', () => {
    const cells = [...(printedOnPage().get('stages compared') ?? '').matchAll(/^\| \d \| ([\d.]+)ms /gm)];
    const times = cells.map(([, time]) => Number(time));
    expect(times).toHaveLength(3);
    expect(times).toEqual(times.toSorted((one, other) => other - one));
  });

  test('counts the bytes that are counted now', () => {
    const copied = (text = '') => [...text.matchAll(/([\d ]+) \|$/gm)].map(([, bytes = '']) => Number(bytes.replaceAll(' ', '')));
    const onPage = copied(printedOnPage().get('stages compared'));
    expect(onPage).toHaveLength(3);
    for (const [at, bytes] of onPage.entries()) expect(near(bytes, facts[at]?.maskIndices.copiedBytes ?? -1), `stage ${at + 1}`).toBe(true);
  });
});

describe('the example', () => {
  test.for(stages)('stage %i: MASK INDICES is the largest part, printed now and on the page', (stage) => {
    const { maskIndices, linearPass } = factsOf(stage);
    expect(maskIndices.timeShare).toBeGreaterThan(0.5);
    expect(maskIndices.memoryBytes).toBeGreaterThan(100 * linearPass.memoryBytes);
    for (const text of [printed, printedOnPage()]) {
      const rows = averages(text.get(`stage ${stage} by time`));
      const maskShare = rows.get('MASK INDICES')?.['CPU total %'];
      // Load may put five rows before it, by their own time, in what is printed now.
      if (text !== printed || maskShare !== undefined) expect(Number.parseFloat(maskShare ?? '')).toBeGreaterThan(50);
      // If it is not among the five rows, each of those is larger.
      expect(Number.parseFloat(rows.get('LINEAR PASS')?.['CPU total %'] ?? '0')).toBeLessThan(50);
    }
  });

  test('stage 1 copies the mask as float32 and is topped by a cast of 64 MB', () => {
    expect(factsOf(1).maskIndices.copiedBytes).toBeGreaterThan(4 * factsOf(1).values);
    for (const text of [printed, printedOnPage()]) {
      expect([...averages(text.get('stage 1 by memory')).values()][0]).toMatchObject({ Name: 'Cast', 'Self CPU Mem': '64.00 MB' });
    }
  });

  test('stage 2 halves the memory, or better, and copies a quarter', () => {
    expect(factsOf(2).maskIndices.memoryBytes * 2).toBeLessThan(factsOf(1).maskIndices.memoryBytes);
    expect(factsOf(2).maskIndices.copiedBytes * 2).toBeLessThan(factsOf(1).maskIndices.copiedBytes);
    for (const text of [printed, printedOnPage()]) expect(text.get('stage 2 by memory')).not.toMatch(/\bCast\b/);
    expect(trace(2).map(({ name }) => name)).not.toContain('Cast');
  });

  test('stage 3 copies nothing, and takes no more memory', () => {
    expect(factsOf(3).maskIndices.copiedBytes).toBe(0);
    expect(factsOf(3).maskIndices.memoryBytes).toBeLessThan(factsOf(2).maskIndices.memoryBytes);
    expect(trace(3).filter(({ cat }) => cat === 'data_copy')).toEqual([]);
    expect(trace(2).filter(({ cat }) => cat === 'data_copy').length).toBeGreaterThan(0);
    for (const text of [printed, printedOnPage()]) {
      expect(text.get('stage 3 by time')).not.toMatch(/tensor\.(dataSync|upload)/);
      expect(text.get('stage 3 by memory')).not.toMatch(/tensor\.(dataSync|upload)/);
    }
  });

  test('all stages find the same values', () => {
    expect(facts.map(({ stage }) => stage)).toEqual([...stages]);
    expect(new Set(facts.map(({ found, values }) => `${found} of ${values}`)).size).toBe(1);
    expect(factsOf(1).found).toBeGreaterThan(0);
  });

  test('its tables have torch’s columns', () => {
    const columns = 'Name|Self CPU %|Self CPU|CPU total %|CPU total|CPU time avg|CPU Mem|Self CPU Mem|# of Calls|Source Location';
    for (const stage of stages) {
      for (const sort of ['time', 'memory']) {
        expect(columnsOf(printed.get(`stage ${stage} by ${sort}`) ?? '').join('|')).toBe(columns);
      }
    }
  });

  test('a source location is a line of the TypeScript source', () => {
    for (const stage of stages) {
      const table = printed.get(`stage ${stage} by time`) ?? '';
      const places = [...table.matchAll(/([\w-]+\.\w+)\((\d+)\): \S+/g)];
      expect(places.length).toBeGreaterThan(0);
      for (const [place, file = '', line = ''] of places) {
        expect(file, place).toMatch(/\.ts$/);
        expect(lineOf(join(example, 'src', file), Number(line)), place).toMatch(/\S/);
      }
      const stack = String(trace(stage).find(({ name }) => name === 'Greater')?.args?.['Call stack']);
      const [, file = '', line = ''] = stack.match(/^(.+?)\((\d+)\): search/) ?? [];
      expect(file).toBe(join(example, 'src/searches.ts'));
      expect(lineOf(file, Number(line))).toContain('tf.greater(');
    }
    // The text names the line.
    const line = page().match(/line (\d+) of `searches\.ts`/)?.[1];
    expect(lineOf(join(example, 'src/searches.ts'), Number(line))).toContain("tf.cast(tf.greater(mask, threshold), 'float32')");
  });

  test('--stage runs one, and what is no stage is reported', async () => {
    const one = await ok(runExample('--stage', '3', '--json', '--out', join(folder, 'one')));
    expect(one.trim().split('\n')).toHaveLength(1);
    expect(JSON.parse(one)).toMatchObject({ stage: 3 });
    for (const [args, message] of [
      [['--stage', '4'], 'Cannot use --stage "4": it must be 1, 2 or 3'],
      [['--stages'], 'known are --stage N, --json and --out DIR'],
      [['--out', ''], 'Cannot use --out ""'],
    ] as const) {
      const { code, stdout, stderr } = await runExample(...args);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(message);
    }
  });
});

describe('your own loop', () => {
  test('the schedule’s two cycles are two traces of three steps each, with what the options ask for', () => {
    const traces = readdirSync(join(folder, 'log')).sort();
    expect(traces).toHaveLength(2);
    const steps = traces.map((name) => {
      expect(name).toMatch(/^worker_0\.\d+\.pt\.trace\.json$/);
      const events = readTrace(join(folder, 'log', name));
      const matMul = events.find((event) => event.name === 'BatchMatMul');
      expect(matMul?.args?.['Input Dims']).toEqual([
        [32, 20],
        [20, 1],
      ]);
      expect(String(matMul?.args?.['Call stack'])).toContain(`${join(folder, 'train.mjs')}(`);
      expect(events.filter((event) => event.name === '[memory]').length).toBeGreaterThan(0);
      return events.map((event) => event.name).filter((event) => event.startsWith('ProfilerStep#'));
    });
    const names = (...numbers: number[]) => numbers.map((number) => `ProfilerStep#${number}`);
    expect(steps).toEqual([names(2, 3, 4), names(7, 8, 9)]);
  });

  test('the table of a cycle has its steps and the parts that were named', () => {
    for (const text of [printed, printedOnPage()]) {
      const rows = averages(text.get('table of the first cycle'));
      expect(rows.get('ProfilerStep*')).toMatchObject({ '# of Calls': '3' });
      expect(rows.get('update')).toMatchObject({ '# of Calls': '3' });
    }
  });

  test('the plain program’s steps and ops are recorded', () => {
    for (const text of [printed, printedOnPage()]) {
      const table = text.get('table of the plain program') ?? '';
      expect(table).toMatch(/^ProfilerStep\S* +step +12 /m);
      expect(table).toMatch(/^\w+ +span +\d+ /m);
    }
  });

  test('two ranks are two processes of one trace', async () => {
    const { processes } = await readRun(join(folder, 'ranktrace-out/two'), 'two');
    expect(processes.map(({ rank }) => rank).sort()).toEqual([0, 1]);
    expect(statSync(join(folder, 'ranktrace-out/two/trace.pftrace')).size).toBeGreaterThan(1000);
  });

  test('a training of two epochs of eight batches has sixteen steps, and a table', async () => {
    const { events } = await readRun(join(folder, 'ranktrace-out/fit'), 'fit');
    expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(16);
    expect(events.map(({ name }) => name)).toEqual(expect.arrayContaining(['epoch 0', 'epoch 1', 'loss']));
    for (const text of [printed, printedOnPage()]) expect(averages(text.get('table of the fit')).size).toBe(6);
    expect(statSync(join(folder, 'fit.pftrace')).size).toBeGreaterThan(1000);
  });
});

describe('four ranks', () => {
  test('wait for a gradient that comes in pieces', async () => {
    const code = blocks().find(({ kind, name }) => kind === 'file' && name === 'four-ranks.mjs')?.code ?? '';
    writeFileSync(join(folder, 'pieces.mjs'), code.replace('[steps, batchSize, size] = [800,', '[steps, batchSize, size] = [3,'));
    const port = await freePort();
    const ranks = shell(`MASTER_ADDR=127.0.0.1 MASTER_PORT=${port} RANK=0 WORLD_SIZE=2 RANKTRACE_RUN=pieces node pieces.mjs`);
    await Promise.all([ok(ranks), sendInPieces(port, 3)]);
  });
});

/** Rank 1: sends the gradient of each step in two pieces, the second after a time, and reads the mean. */
async function sendInPieces(port: number, steps: number): Promise<void> {
  const gradient = new Uint8Array(8 * 4096);
  let socket = connect(port, '127.0.0.1');
  while (
    !(await once(socket, 'connect').then(
      () => true,
      () => false,
    ))
  ) {
    await sleep(20);
    socket = connect(port, '127.0.0.1');
  }
  socket.setNoDelay(true);
  let received = 0;
  socket.on('data', (bytes) => {
    received += bytes.length;
  });
  for (let step = 1; step <= steps; step++) {
    socket.write(gradient.subarray(0, 20_000));
    await sleep(100);
    socket.write(gradient.subarray(20_000));
    while (received < step * gradient.length) await once(socket, 'data');
  }
  socket.end();
}

interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, with no option of the environment. */
function run(program: string, args: readonly string[], cwd: string): Promise<Ending> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^RANKTRACE_|^RANK$|^WORLD_SIZE$/.test(name)));
  env.PATH = `${dirname(process.execPath)}:${env.PATH}`;
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...said }));
  });
}

const runExample = (...args: readonly string[]): Promise<Ending> =>
  run(process.execPath, [join(example, 'dist/main.js'), ...args], repository);

/** Runs commands of the page in the folder; `npx ranktrace` is the built command. */
const shell = (commands: string): Promise<Ending> =>
  run('bash', ['-e', '-c', `npx() { shift; node '${commandPath}' "$@"; }\n${commands}`], folder);

/** Its output; fails if it failed. */
async function ok(ending: Promise<Ending>): Promise<string> {
  const { code, stdout, stderr } = await ending;
  expect(code, stderr).toBe(0);
  return stdout;
}

function factsOf(stage: number): StageFacts {
  const found = facts.find((one) => one.stage === stage);
  if (found === undefined) throw new Error(`The example said nothing of stage ${stage}`);
  return found;
}

const readTrace = (path: string): readonly TraceEvent[] =>
  (JSON.parse(readFileSync(path, 'utf8')) as { readonly traceEvents: readonly TraceEvent[] }).traceEvents;

const trace = (stage: number): readonly TraceEvent[] => readTrace(join(folder, `ranktrace-out/mask-indices-${stage}.json`));

const lineOf = (path: string, line: number): string | undefined => readFileSync(path, 'utf8').split('\n')[line - 1];

/** A block of the page. Spaces at the ends of lines fill torch's last column. */
const fenced = (text: string, language = 'text'): string =>
  `\`\`\`${language}\n${text.replaceAll(repository, '').replaceAll(/ +$/gm, '').trimEnd()}\n\`\`\``;

/** Column names: in torch's table those between two rules, in ours the first line. Widths differ with the recorded names. */
function columnsOf(text: string): string[] {
  const heading = text.match(/^[- ]+\n(.*)\n[- ]+$/m)?.[1] ?? text.split('\n').find((line) => line.startsWith('name ')) ?? '';
  return heading.trim().split(/\s{2,}/);
}

/** Rows of torch's table by name, each by column; the first of several rows of a name. */
function averages(text = ''): Map<string, Readonly<Record<string, string>>> {
  const columns = columnsOf(text);
  const rows = new Map<string, Record<string, string>>();
  for (const line of text.split('\n')) {
    const cells = line.trim().split(/\s{2,}/);
    const [name = ''] = cells;
    if (cells.length < 6 || name === 'Name' || /^-+$/.test(name) || rows.has(name)) continue;
    rows.set(name, Object.fromEntries(cells.map((cell, at) => [columns[at] ?? '', cell])));
  }
  return rows;
}

/** The table of the stages: from the tables by time, and from the line about copies. */
function comparison(copied: readonly string[]): string {
  const lines = stages.map((stage, at) => {
    const row = averages(printed.get(`stage ${stage} by time`)).get('MASK INDICES');
    const bytes = copied[at]?.replaceAll(/\B(?=(\d{3})+$)/g, ' ');
    return `| ${stage} | ${row?.['CPU total']} | ${row?.['CPU Mem']} | ${bytes} |`;
  });
  return ['| stage | CPU total | CPU Mem | bytes copied |', '|---|---|---|---|', ...lines].join('\n');
}

function machine(): string {
  const { version } = JSON.parse(readFileSync(`${repository}node_modules/@tensorflow/tfjs/package.json`, 'utf8')) as { version: string };
  const cores = cpus();
  return `Printed on ${cores.length} × ${cores[0]?.model.trim()}, Node.js ${process.versions.node}, TensorFlow.js ${version}, wasm backend.`;
}

/** Within 1 %: the threshold is a float32, whose last bits differ between machines. */
const near = (one: number, other: number): boolean => Math.abs(one - other) <= 0.01 * Math.max(one, other);
