import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BatchHeader, decodeBatchHeader, decodeFrameHeader, frameHeaderBytes, segmentMagic } from '@ranktrace/protocol';
import { resolveOptions } from '@ranktrace/sdk/shipping';
import { type KinetoTable, kinetoExtent } from '@ranktrace/trace/torch';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readKinetoFile } from '../files/read-kineto.ts';
import { agentLimits as limits } from '../model/limits.ts';
import { descendantsOf, numbersOf, type ProcessLife, processLife } from '../ranks/process-table.ts';
import { environmentOf, placeOf } from '../ranks/rank-environment.ts';
import type { SeenRank } from '../ranks/rank-finder.ts';
import { RemoteClocks, WallClocks } from '../ship/host-time.ts';
import { RankSession } from '../ship/rank-session.ts';
import { needsRoot } from '../testing/needs-root.ts';
import { ProcessRings } from './process-rings.ts';

let folder: string;
let session: RankSession;
let notices: string[];
const self = processLife(process.pid) as ProcessLife;
const capacity = 1024;
const children: ChildProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ranktrace-rings-'));
  notices = [];
  const options = resolveOptions({ run: 'job', rank: 0, worldSize: 1, directory: join(folder, 'out') }, {});
  const clock = { wallClocks: new WallClocks(process.hrtime.bigint), remoteClocks: new RemoteClocks('host') };
  session = new RankSession({ options, pid: process.pid, facts: {}, ...clock, notice: () => {} });
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await session.close(true);
  rmSync(folder, { recursive: true });
});

/** A ring of kernels, by native/ring.h. */
function ring(name: string, pid: number, start: number, rows = 3): string {
  const bytes = Buffer.alloc(4096 + 64 * capacity);
  bytes.write('RGPURING', 0, 'latin1');
  for (const [at, number] of [1, capacity, pid, 1, 1].entries()) bytes.writeUInt32LE(number, 8 + 4 * at);
  bytes.writeBigUInt64LE(BigInt(start), 32);
  bytes.writeBigUInt64LE(BigInt(rows), 64);
  for (let row = 0; row < rows; row++) {
    const at = 4096 + 64 * row;
    bytes.writeUInt32LE(1, at);
    bytes[at + 4] = 1;
    bytes.writeBigUInt64LE(session.now() + BigInt(1000 * row), at + 8);
    bytes.writeBigUInt64LE(session.now() + BigInt(1000 * row + 500), at + 16);
  }
  const path = join(folder, name);
  writeFileSync(path, bytes, { mode: 0o600 });
  return path;
}

/** The headers of all batches in the segments below a folder. */
function headersIn(out: string): BatchHeader[] {
  const headers: BatchHeader[] = [];
  for (const name of readdirSync(out, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.seg')) continue;
    const bytes = readFileSync(join(out, name));
    for (let at = segmentMagic.length; at < bytes.length; ) {
      const begin = at + frameHeaderBytes;
      at = begin + decodeFrameHeader(bytes, at).length;
      headers.push(decodeBatchHeader(bytes.subarray(begin, at)));
    }
  }
  return headers;
}

const rowsRead = (path: string): number => Number(readFileSync(path).readBigUInt64LE(128));

function seen(life: ProcessLife = self, ownPid = life.pid): SeenRank {
  const place = placeOf({ RANK: '0', WORLD_SIZE: '1', RANKTRACE_GPU_DIR: folder }, {}, 'job');
  if (place === undefined || 'wrong' in place) throw new Error('no place');
  return { place, life, uid: process.getuid?.() ?? 0, ownPid, seenAt: performance.now(), askedAt: undefined };
}

const ringsOf = (rank: SeenRank): ProcessRings => new ProcessRings(rank, session, (line) => notices.push(line));

it('reads the rings of a process by its number and start, and those of libraries that do not say its start', () => {
  const paths = [ring(`nccl-${self.pid}-${self.start}.ring`, self.pid, self.start), ring(`gpu-${self.pid}.ring`, self.pid, 0)];
  ringsOf(seen()).drain();
  expect(paths.map(rowsRead)).toEqual([3, 3]);
  expect(notices).toEqual([]);
});

it('leaves a ring alone that an earlier process with its number, or one of another container, left or holds', () => {
  const own = ring(`gpu-1-${self.start}.ring`, 1, self.start);
  const others = [ring('gpu-1-12345.ring', 1, 12345), ring('nccl-1.ring', 1, 12345)];
  const rings = ringsOf(seen(self, 1));
  for (let turn = 0; turn < 3; turn++) rings.drain();
  rings.drain(true);
  expect(others.map(rowsRead)).toEqual([0, 0]);
  expect(readdirSync(folder)).not.toContain(own.slice(folder.length + 1));
  expect(notices).toEqual([`rank 0 of run "job": the ring "${others[1]}" is left alone: another process with the number 1 made it`]);
});

/** A process, and the one that it starts. */
async function startWithin(command: string, ...options: string[]): Promise<readonly [ProcessLife, ProcessLife]> {
  const child = spawn(command, options, { env: { RANK: '0', WORLD_SIZE: '1' }, stdio: ['pipe', 'ignore', 'inherit'] });
  children.push(child);
  for (;;) {
    const life = processLife(child.pid ?? 0);
    const [within] = life === undefined ? [] : descendantsOf(life.pid);
    if (life !== undefined && within !== undefined) return [life, within];
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Its input ends with this process.
const shell = ['sh', '-c', 'cat; true'] as const;

it('reads the rings of the program that a shell runs, and of the next one', async () => {
  const [life, within] = await startWithin(...shell);
  const other = ring(`gpu-${self.pid}-${self.start}.ring`, self.pid, self.start);
  const path = ring(`gpu-${within.pid}-${within.start}.ring`, within.pid, within.start);
  const rings = ringsOf(seen(life));
  rings.drain();
  expect([rowsRead(path), rowsRead(other)]).toEqual([3, 0]);
  children[0]?.stdin?.end();
  while (processLife(within.pid) !== undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  rings.drain();
  expect(readdirSync(folder)).not.toContain(`gpu-${within.pid}-${within.start}.ring`);
  expect(notices).toEqual([]);
});

it('reads the rings of a process in a container, which has another number there', async (context) => {
  needsRoot(context);
  const [life, within] = await startWithin('unshare', '--pid', '--fork', 'cat');
  expect(numbersOf(within.pid)).toEqual([within.pid, 1]);
  const path = ring(`nccl-1-${within.start}.ring`, 1, within.start);
  for (const rank of [seen(life), seen(within)]) {
    ringsOf(rank).drain();
    expect(rowsRead(path)).toBe(3);
    ring(`nccl-1-${within.start}.ring`, 1, within.start);
  }
});

it('leaves the rings of another rank alone that the process started', async () => {
  const [life, within] = await startWithin('sh', '-c', 'RANK=1 WORLD_SIZE=2 cat; true');
  while (environmentOf(within.pid)?.RANK !== '1') await new Promise((resolve) => setTimeout(resolve, 20));
  const path = ring(`gpu-${within.pid}-${within.start}.ring`, within.pid, within.start);
  ringsOf(seen(life)).drain();
  expect(rowsRead(path)).toBe(0);
});

it('says once that a rank with a folder for rings has none', () => {
  const rings = ringsOf({ ...seen(), seenAt: performance.now() - limits.silentRankMs });
  for (let turn = 0; turn < 3; turn++) rings.drain();
  expect(notices).toEqual([
    expect.stringMatching(/^rank 0 of run "job": process \d+ has RANKTRACE_GPU_DIR, and no ring in ".*" so far: CUDA or NCCL/),
  ]);
});

/** A file of torch.profiler with so many ops. */
async function fileOf(ops: number): Promise<KinetoTable> {
  const events = Array.from({ length: ops }, (_, at) => `{"ph":"X","cat":"cpu_op","name":"op","pid":7,"tid":7,"ts":${20 * at},"dur":9}`);
  const path = join(folder, 'file.json');
  writeFileSync(path, `{"baseTimeNanoseconds":${Date.now()}000000,"traceEvents":[${events}]}`);
  return readKinetoFile(path, { keep: 'all', isGzip: false });
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it('leaves rows in the ring while a file with numbers in a row is shipped, and sends them between the parts of another', async () => {
  const table = await fileOf(20_000);
  const path = ring(`gpu-${self.pid}-${self.start}.ring`, self.pid, self.start);
  const rings = ringsOf(seen());
  const journaled = session.shipFile('file.json', table, kinetoExtent(table).first, { filesAfter: 1, begins: () => {} });
  await turn();
  expect(session.isBusy).toBe(true);
  rings.drain();
  expect(rowsRead(path)).toBe(0);
  await journaled;
  const window = session.shipFile('file.json', table, kinetoExtent(table).first, { filesAfter: 1 });
  await turn();
  rings.drain();
  expect(rowsRead(path)).toBe(3);
  await window;
  expect(session.lost).toBe(0);
});

it('counts events that are too many for a batch, and goes on', () => {
  const builder = session.builderAt(0);
  const [name, category] = [builder.string('kernel'), builder.string('kernel')];
  for (let at = 0; at < 70_000; at++) builder.appendSpan(at, 1, 1, name, category, 0, 0, 0);
  builder.recorded.span = 70_000;
  session.flush();
  expect(session.lost).toBe(70_000);
});

it('sends the last collective of a communicator when nobody reads its ring any more, and leaves the ring to its process', () => {
  const path = ring(`nccl-${self.pid}-${self.start}.ring`, self.pid, self.start, 0);
  const bytes = readFileSync(path);
  bytes.writeUInt32LE(2, 20);
  bytes.writeBigUInt64LE(2n, 64);
  for (const [row, kind] of [9, 7].entries()) {
    bytes.writeUInt32LE(1, 4096 + 64 * row);
    bytes[4096 + 64 * row + 4] = kind;
  }
  // The communicator's number; the collective's work, its times, number and communicator.
  bytes.writeUInt32LE(1, 4096 + 48);
  bytes[4096 + 64 + 5] = 2;
  for (const [at, value] of [session.now(), session.now() + 1000n].entries()) bytes.writeBigUInt64LE(value, 4096 + 64 + 8 + 8 * at);
  bytes.writeBigUInt64LE(1n, 4096 + 64 + 40);
  bytes.writeUInt32LE(1, 4096 + 64 + 56);
  writeFileSync(path, bytes);
  const rings = ringsOf(seen());
  const collectives = (): number => session.builderAt(Number.MAX_SAFE_INTEGER).recorded.collective;
  rings.drain();
  expect([rowsRead(path), collectives()]).toEqual([2, 0]);
  rings.drain(false, true);
  expect(collectives()).toBe(1);
});

it('leaves a ring alone whose positions make no sense, and keeps no descriptor of it', () => {
  const path = ring(`gpu-${self.pid}.ring`, self.pid, 0);
  const bytes = readFileSync(path);
  bytes.writeBigUInt64LE(2n ** 63n, 64);
  writeFileSync(path, bytes);
  const rings = ringsOf(seen());
  const isOpen = (): boolean =>
    readdirSync('/proc/self/fd').some((descriptor) => {
      try {
        return readlinkSync(`/proc/self/fd/${descriptor}`) === path;
      } catch {
        return false;
      }
    });
  rings.drain();
  rings.drain();
  expect(isOpen()).toBe(false);
  expect(notices).toEqual([`rank 0 of run "job": Cannot read the ring "${path}": its positions were changed by somebody else`]);
});

it('takes no count of losses that no batch can state', () => {
  const path = ring(`gpu-${self.pid}.ring`, self.pid, 0);
  const bytes = readFileSync(path);
  bytes.writeBigUInt64LE(2n ** 64n - 1n, 192);
  writeFileSync(path, bytes);
  ringsOf(seen()).drain();
  session.flush();
  const [header] = headersIn(join(folder, 'out')).slice(-1);
  expect(header?.dropped.events).toBe(Number.MAX_SAFE_INTEGER);
});
