import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { isSegment } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findLeftovers, processSpace } from './leftover-spools.ts';
import { limits } from './limits.ts';
import { Spool, spoolPath } from './spool.ts';

const plenty = 1e9;
let root: string;
let directory: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ranktrace-spool-test-'));
  directory = join(root, 'run', 'rank-0-a-1');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const bytes = (text: string, length = text.length): Uint8Array => Buffer.from(text.padEnd(length, '.'));
const readAll = (spool: Spool): string[] => {
  const texts: string[] = [];
  for (let frame = spool.read(); frame !== undefined; frame = spool.read())
    texts.push(Buffer.from(frame.bytes).toString().replace(/\.+$/, ''));
  return texts;
};
const files = (): string[] => readdirSync(directory).filter((name) => name.endsWith('.seg'));

test('what was appended is read back in order, also by another process after a kill', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  for (let index = 0; index < 20; index++) expect(spool.append(bytes(`batch ${index}`, 30), plenty)).toBeDefined();
  const expected = Array.from({ length: 20 }, (_, index) => `batch ${index}`);
  expect(readAll(spool)).toEqual(expected);
  expect(spool.caughtUp).toBe(true);
  expect(files().length).toBeGreaterThan(3);
  expect(isSegment(readFileSync(join(directory, '000000.seg')))).toBe(true);
  // Not closed: the kill left it so.
  expect(readAll(Spool.open(directory))).toEqual(expected);
});

test('a torn last frame is cut off and counted, and later segments are still read', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  for (let index = 0; index < 8; index++) spool.append(bytes(`batch ${index}`, 30), plenty);
  // Segments of three frames: the second loses part of its last one, the last the same.
  truncateSync(join(directory, '000001.seg'), 8 + 3 * 38 - 5);
  truncateSync(join(directory, '000002.seg'), 8 + 38 + 3);
  const again = Spool.open(directory);
  expect(readAll(again)).toEqual(['batch 0', 'batch 1', 'batch 2', 'batch 3', 'batch 4', 'batch 6']);
  expect(again.corruptFrames).toBe(2);
  expect(again.caughtUp).toBe(true);
  again.append(bytes('new'), plenty);
  expect(readAll(again)).toEqual(['new']);
});

test('a frame whose bytes changed is not given out', () => {
  Spool.open(directory).append(bytes('batch'), plenty);
  const file = join(directory, '000000.seg');
  const content = readFileSync(file);
  content[content.length - 1] = 1;
  writeFileSync(file, content);
  const again = Spool.open(directory);
  expect(readAll(again)).toEqual([]);
  expect(again.corruptFrames).toBe(1);
});

test('when full the new batch is refused, and acknowledging makes room', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  const ends = [];
  for (let index = 0; index < 50; index++) {
    const end = spool.append(bytes(`batch ${index}`, 30), 400);
    if (end !== undefined) ends.push(end);
  }
  expect(ends).toHaveLength(9);
  expect(spool.bytes).toBeLessThanOrEqual(400);
  const onDisk = files().reduce((sum, file) => sum + readFileSync(join(directory, file)).length, 0);
  expect(onDisk).toBe(spool.bytes);
  spool.acknowledge(ends[4] as (typeof ends)[0]);
  expect(files()[0]).toBe('000001.seg');
  expect(spool.append(bytes('more', 30), 400)).toBeDefined();
  expect(readAll(spool).slice(-2)).toEqual(['batch 8', 'more']);
});

test('a small spool that is acknowledged to its end always has room again', () => {
  const spool = Spool.open(directory, { segmentBytes: 1000 });
  for (let index = 0; index < 200; index++) {
    const end = spool.append(bytes(`batch ${index}`, 30), 120);
    expect(end).toBeDefined();
    if (end !== undefined) {
      spool.passOver(end);
      spool.acknowledge(end);
    }
  }
  expect(files()).toHaveLength(1);
});

test('acknowledged batches are not read again after a restart', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  const ends = Array.from({ length: 8 }, (_, index) => spool.append(bytes(`batch ${index}`, 30), plenty));
  spool.acknowledge(ends[3] as NonNullable<(typeof ends)[0]>);
  expect(readAll(Spool.open(directory))).toEqual(['batch 4', 'batch 5', 'batch 6', 'batch 7']);
});

test('a kept spool loses nothing to acknowledgements, and starts at its beginning', () => {
  const spool = Spool.open(directory, { segmentBytes: 100, keep: true });
  for (let index = 0; index < 8; index++) spool.acknowledge(spool.append(bytes(`batch ${index}`, 30), plenty) as never);
  spool.close();
  expect(readAll(Spool.open(directory))).toHaveLength(8);
  expect(existsSync(join(directory, 'acked'))).toBe(false);
});

test('leftovers are those of dead processes of the same run and rank, oldest first', () => {
  const child = spawnSync(process.execPath, ['-e', '']);
  const dead = (child.pid as number).toString(36);
  const alive = process.ppid.toString(36);
  const self = process.pid.toString(36);
  const names = [
    `rank-0-b-${dead}`,
    `rank-0-a-${dead}`,
    `rank-0-c-${alive}`,
    `rank-1-a-${dead}`,
    `rank-0-d-${self}`,
    `rank-0-e-${self}`,
    'rank-0-f-+',
  ];
  for (const name of names) mkdirSync(join(root, 'run', name), { recursive: true });
  const owner = processSpace('host');
  for (const name of names) writeFileSync(join(root, 'run', name, 'owner'), owner);
  const identity = { run: 'run', rank: 0, incarnation: `e-${self}` };
  expect(findLeftovers(root, identity, owner)).toEqual(
    [`rank-0-a-${dead}`, `rank-0-b-${dead}`, `rank-0-d-${self}`].map((name) => join(root, 'run', name)),
  );
  expect(findLeftovers(root, { ...identity, run: 'other' }, owner)).toEqual([]);
  expect(spoolPath(root, identity)).toBe(join(root, 'run', `rank-0-e-${self}`));
});

test('a spool of another host or container is left alone until nothing has been written to it for a while', () => {
  const spool = Spool.open(directory, { owner: processSpace('another host') });
  spool.append(bytes('batch'), plenty);
  const identity = { run: 'run', rank: 0, incarnation: 'b-1' };
  expect(findLeftovers(root, identity, processSpace('host'))).toEqual([]);
  const longAgo = new Date(Date.now() - 2 * limits.leftoverQuietMs);
  for (const name of readdirSync(directory)) utimesSync(join(directory, name), longAgo, longAgo);
  utimesSync(directory, longAgo, longAgo);
  expect(findLeftovers(root, identity, processSpace('host'))).toEqual([directory]);
});

test('removing takes the empty run folder along and leaves that of other ranks', () => {
  const [own, other] = [Spool.open(directory), Spool.open(join(root, 'run', 'rank-1-a-1'))];
  own.append(bytes('batch'), plenty);
  own.remove();
  expect(readdirSync(join(root, 'run'))).toEqual(['rank-1-a-1']);
  other.remove();
  expect(existsSync(join(root, 'run'))).toBe(false);
});

test('a directory that cannot be used is named', () => {
  writeFileSync(join(root, 'file'), '');
  expect(() => Spool.open(join(root, 'file', 'x'))).toThrow(/Cannot use spool ".*file\/x".*ENOTDIR/);
});

test('a directory that is tidied away under a running process costs what was in it and nothing more', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  for (let index = 0; index < 6; index++) spool.append(bytes(`batch ${index}`, 30), plenty);
  rmSync(directory, { recursive: true });
  expect(spool.append(bytes('new'), plenty)).toBeDefined();
  expect(readAll(spool)).toEqual(['new']);
  expect(spool.corruptFrames).toBe(2);
});

test('a write that the disk cut short costs that batch alone', () => {
  // A bound on the size of a file cuts a write off as a full disk does: 5008 + 3184 of 5008 bytes, then room for 1008.
  const program = `
    import { Spool } from '${new URL('../dist/spool.js', import.meta.url).href}';
    const spool = Spool.open('${directory}', {});
    const appended = [5000, 5000, 1000].map((length) => spool.append(Buffer.alloc(length, 1), 1e9) !== undefined);
    process.stdout.write(JSON.stringify(appended));`;
  const node = `${process.execPath} --input-type=module`;
  const { stdout } = spawnSync('bash', ['-c', `ulimit -f 8; exec ${node}`], { input: program, encoding: 'utf8' });
  expect(JSON.parse(stdout)).toEqual([true, false, true]);
  const again = Spool.open(directory);
  expect([again.read()?.bytes.length, again.read()?.bytes.length]).toEqual([5000, 1000]);
  expect(again.corruptFrames).toBe(0);
});

test('ranks that start at the same moment make the same folders', async () => {
  const turns = 300;
  const gate = new SharedArrayBuffer(4);
  const program = `
    import { workerData } from 'node:worker_threads';
    import { checkSpoolRoot } from ${JSON.stringify(new URL('../dist/spool.js', import.meta.url).href)};
    const gate = new Int32Array(workerData.gate);
    for (let turn = 1; turn <= workerData.turns; turn++) {
      // All of them are here: go.
      if (Atomics.add(gate, 0, 1) === turn * workerData.threads - 1) Atomics.notify(gate, 0);
      for (let seen = Atomics.load(gate, 0); seen < turn * workerData.threads; seen = Atomics.load(gate, 0)) Atomics.wait(gate, 0, seen, 50);
      checkSpoolRoot(workerData.root + '/' + turn + '/a/b/c', false);
    }`;
  const threads = 4;
  const url = new URL(`data:text/javascript,${encodeURIComponent(program)}`);
  const ended = Array.from({ length: threads }, () => {
    const worker = new Worker(url, { workerData: { gate, root, turns, threads }, execArgv: [] });
    return new Promise((resolve, reject) => worker.once('error', reject).once('exit', resolve));
  });
  expect(await Promise.all(ended)).toEqual([0, 0, 0, 0]);
});
