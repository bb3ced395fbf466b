import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { isSegment } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../model/limits.ts';
import { findLeftovers, sweepSpools } from './leftover-spools.ts';
import { Spool } from './spool.ts';
import { checkSpoolRoot } from './spool-folders.ts';
import { isWriterDead, processSpace } from './spool-owner.ts';

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
  // Not closed, as after a kill.
  expect(readAll(Spool.open(directory))).toEqual(expected);
});

test('a torn last frame is cut off and counted, and later segments are still read', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  for (let index = 0; index < 8; index++) spool.append(bytes(`batch ${index}`, 30), plenty);
  // Segments of three frames: cut the last frame of the second segment, and that of the last one.
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

const refused: string[] = [];
const leftovers = (rank = 0, run = 'run', space = processSpace('host')): string[] => {
  refused.length = 0;
  const found = findLeftovers(root, { run, rank, incarnation: 'z-1' }, space, (line) => refused.push(line));
  return found.map((path) => path.slice(root.length + 1));
};

/** The spool of a dead process: `appends` batches, of which `acknowledged` are. */
function leaveSpool(name: string, appends: number, acknowledged = 0): void {
  const program = `
    import { Spool } from '${new URL('../../dist/ship/spool.js', import.meta.url).href}';
    import { processSpace } from '${new URL('../../dist/ship/spool-owner.js', import.meta.url).href}';
    const spool = Spool.open('${join(root, name)}', { owner: processSpace('host') });
    for (let index = 0; index < ${appends}; index++) {
      const end = spool.append(Buffer.from('batch ' + index), 1e9);
      if (index < ${acknowledged}) spool.acknowledge(end);
    }
    process.kill(process.pid, 'SIGKILL');`;
  const { signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  expect(signal, stderr).toBe('SIGKILL');
}

test('leftovers are those of dead writers of the same run and rank, oldest first', () => {
  for (const name of ['run/rank-0-b-1', 'run/rank-0-a-1', 'run/rank-1-a-1', 'other/rank-0-a-1']) leaveSpool(name, 1);
  // Two of this very process: one in use, one not any more.
  const living = Spool.open(join(root, 'run', 'rank-0-c-1'), { owner: processSpace('host') });
  const closed = Spool.open(join(root, 'run', 'rank-0-d-1'), { owner: processSpace('host') });
  closed.append(bytes('batch'), plenty);
  closed.close();
  mkdirSync(join(root, 'run', 'rank-0-e'), { mode: 0o700 });
  expect(leftovers()).toEqual(['run/rank-0-a-1', 'run/rank-0-b-1', 'run/rank-0-d-1']);
  expect(leftovers(0, 'nobody')).toEqual([]);
  expect(refused).toEqual([]);
  living.remove();
});

test('a spool of another thread of this process is alive as long as that thread', async () => {
  const program = `
    import { parentPort } from 'node:worker_threads';
    import { Spool } from ${JSON.stringify(new URL('../../dist/ship/spool.js', import.meta.url).href)};
    import { processSpace } from ${JSON.stringify(new URL('../../dist/ship/spool-owner.js', import.meta.url).href)};
    Spool.open(${JSON.stringify(directory)}, { owner: processSpace('host') }).append(Buffer.from('batch'), 1e9);
    parentPort.postMessage('written');
    parentPort.on('message', () => {});`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`), { execArgv: [] });
  await new Promise((resolve, reject) => worker.once('error', reject).once('message', resolve));
  expect(leftovers()).toEqual([]);
  await worker.terminate();
  // The system may list a thread a moment longer than others wait for it.
  await expect.poll(() => leftovers()).toEqual(['run/rank-0-a-1']);
});

test('a process id that came again is no sign of life', () => {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const space = processSpace('host');
  const thread = readFileSync('/proc/thread-self/stat', 'latin1').split(' ', 1)[0];
  writeFileSync(join(directory, 'owner'), `${space}\n${process.pid} ${thread} 12\n`);
  expect(isWriterDead(directory, space)).toBe(true);
  for (const garbage of ['x', '-1 2 3', `${process.pid}`, '99999999999']) {
    writeFileSync(join(directory, 'owner'), `${space}\n${garbage}\n`);
    expect(isWriterDead(directory, space), garbage).toBe(false);
  }
});

test('what dead ranks of any run left goes when all of it is acknowledged, and nothing else', () => {
  leaveSpool('run/rank-3-a-1', 5, 5);
  leaveSpool('old/rank-0-a-1', 5, 5);
  leaveSpool('old/rank-1-a-1', 5, 4);
  leaveSpool('empty/rank-0-a-1', 0);
  const living = Spool.open(join(root, 'run', 'rank-0-c-1'), { owner: processSpace('host') });
  const end = living.append(bytes('batch'), plenty);
  if (end !== undefined) living.acknowledge(end);
  mkdirSync(join(root, 'mine'));
  writeFileSync(join(root, 'mine', 'rank-0-of-mine'), '');
  sweepSpools(root, processSpace('host'));
  expect(readdirSync(root).sort()).toEqual(['mine', 'old', 'run']);
  expect(readdirSync(join(root, 'old'))).toEqual(['rank-1-a-1']);
  expect(readdirSync(join(root, 'run'))).toEqual(['rank-0-c-1']);
  living.close();
});

test('a start looks at so many folders, however many there are', () => {
  const count = limits.sweptFoldersMax + 10;
  for (let index = 0; index < count; index++) {
    const spool = Spool.open(join(root, 'run', `rank-${index}-a-1`), { owner: processSpace('host') });
    spool.close();
  }
  sweepSpools(root, processSpace('host'));
  // One of those folders is the run's.
  expect(readdirSync(join(root, 'run'))).toHaveLength(11);
});

test('a spool folder that others could have planted is refused, and says so', () => {
  const mode = (path: string, bits: number): void => chmodSync(join(root, path), bits);
  leaveSpool('run/rank-0-a-1', 1);
  leaveSpool('run/rank-0-b-1', 1);
  mode('run/rank-0-a-1', 0o777);
  expect(leftovers()).toEqual(['run/rank-0-b-1']);
  expect(refused).toEqual([
    expect.stringMatching(/rank-0-a-1": it must be a directory of user \d+ that no other user can write.* mode 777/),
  ]);
  symlinkSync(join(root, 'run', 'rank-0-b-1'), join(root, 'run', 'rank-0-c-1'));
  mode('run/rank-0-a-1', 0o720);
  expect(leftovers()).toEqual(['run/rank-0-b-1']);
  expect(refused.sort()).toEqual([expect.stringMatching(/mode 720/), expect.stringMatching(/got a symbolic link/)]);

  for (const bits of [0o777, 0o770, 0o1777]) {
    mode('run', bits);
    expect(() => checkSpoolRoot(join(root, 'run'), false)).toThrow(`mode ${bits.toString(8)}`);
    expect(() => Spool.open(join(root, 'run', 'rank-0-z-1'))).toThrow(/must be a directory of user/);
  }
  mode('run', 0o700);
  mode('', 0o777);
  expect(() => checkSpoolRoot(join(root, 'run'), false)).toThrow(`Cannot use spool "${root}"`);
  checkSpoolRoot(join(root, 'run'), true);
  mode('', 0o700);
  checkSpoolRoot(join(root, 'run'), false);
  // A link of one's own to the root of all spools is a way to choose a disk.
  symlinkSync(root, `${root}-link`);
  checkSpoolRoot(join(`${root}-link`, 'run'), false);
  rmSync(`${root}-link`);
});

test('a spool folder of another user is refused', (context) => {
  // Only root can give a folder away.
  if (process.getuid?.() !== 0) return context.skip('the tests do not run as root');
  leaveSpool('run/rank-0-a-1', 1);
  chownSync(join(root, 'run', 'rank-0-a-1'), 12345, 12345);
  expect(leftovers()).toEqual([]);
  expect(refused).toEqual([expect.stringMatching(/got one of user 12345 with mode 700/)]);
  sweepSpools(root, processSpace('host'));
  expect(existsSync(join(root, 'run', 'rank-0-a-1'))).toBe(true);
  chownSync(root, 12345, 12345);
  expect(() => checkSpoolRoot(join(root, 'run'), false)).toThrow(/user 12345/);
});

test('a spool of another host or container is left alone until nothing has been written to it for a while', () => {
  const spool = Spool.open(directory, { owner: processSpace('another host') });
  spool.append(bytes('batch'), plenty);
  expect(leftovers()).toEqual([]);
  const longAgo = new Date(Date.now() - 2 * limits.leftoverQuietMs);
  for (const name of readdirSync(directory)) utimesSync(join(directory, name), longAgo, longAgo);
  utimesSync(directory, longAgo, longAgo);
  expect(leftovers()).toEqual(['run/rank-0-a-1']);
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
  expect(() => Spool.open(join(root, 'file', 'x'))).toThrow(/Cannot use spool ".*file\/x".*EEXIST/);
});

test('a directory that is tidied away under a running process costs what was in it and nothing more', () => {
  const spool = Spool.open(directory, { segmentBytes: 100 });
  for (let index = 0; index < 6; index++) spool.append(bytes(`batch ${index}`, 30), plenty);
  rmSync(directory, { recursive: true });
  expect(spool.append(bytes('new'), plenty)).toBeDefined();
  expect(readAll(spool)).toEqual(['new']);
  expect(spool.corruptFrames).toBe(2);
});

/** A bound on the size of a file cuts a write off as a full disk does: 5008 + 3184 of 5008 bytes, then room for 1008. */
function appendCutShort(settings: string): { appended: boolean[]; shortage: unknown; lost: number } {
  const program = `
    import { Spool } from '${new URL('../../dist/ship/spool.js', import.meta.url).href}';
    const spool = Spool.open('${directory}', ${settings});
    const appended = [5000, 9000, 1000].map((length) => spool.append(Buffer.alloc(length, 1), 1e9) !== undefined);
    process.stdout.write(JSON.stringify({ appended, shortage: spool.shortage, lost: spool.saveMemory() }));`;
  const node = `${process.execPath} --input-type=module`;
  const { stdout } = spawnSync('bash', ['-c', `ulimit -f 8; exec ${node}`], { input: program, encoding: 'utf8' });
  return JSON.parse(stdout);
}

test('a write that the disk cut short leaves nothing behind, and its batch is held in memory', () => {
  expect(appendCutShort('{}')).toEqual({ appended: [true, true, true], lost: 1 });
  const again = Spool.open(directory);
  expect([again.read()?.bytes.length, again.read()?.bytes.length, again.read()]).toEqual([5000, 1000, undefined]);
  expect(again.corruptFrames).toBe(0);
});

test('where the spool is the output, such a write costs that batch alone', () => {
  expect(appendCutShort('{ keep: true }')).toEqual({ appended: [true, false, true], lost: 0 });
  const again = Spool.open(directory);
  expect([again.read()?.bytes.length, again.read()?.bytes.length, again.read()]).toEqual([5000, 1000, undefined]);
});

test('ranks that start at the same moment make the same folders', async () => {
  const turns = 300;
  const gate = new SharedArrayBuffer(4);
  const program = `
    import { workerData } from 'node:worker_threads';
    import { checkSpoolRoot } from ${JSON.stringify(new URL('../../dist/ship/spool-folders.js', import.meta.url).href)};
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
