// The profiler plugin under a harness that plays NCCL (native/testing/nccl-harness.c), built with sanitizers; the ring's rows against what was played.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { GpuRows } from './gpu-rows.ts';
import { type GpuGroup, RingReader, type RingState } from './ring-reader.ts';
import { rowKind } from './row-layout.ts';

const native = fileURLToPath(new URL('../native', import.meta.url));
const versions = [1, 2, 3, 4, 5, 6] as const;
const sanitizers = { addresses: 'address,undefined', threads: 'thread' } as const;
type Sanitizer = keyof typeof sanitizers;

const compile = (...parameters: readonly string[]) =>
  spawnSync('cc', ['-std=gnu11', '-O1', '-g', '-Wall', '-Wextra', '-Wconversion', '-Werror', ...parameters], { encoding: 'utf8' });

const hasCompiler = spawnSync('cc', ['--version']).status === 0;

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-nccl-'));
  if (!hasCompiler) return;
  for (const [name, sanitizer] of Object.entries(sanitizers)) {
    const checks = [`-fsanitize=${sanitizer}`, '-fno-sanitize-recover=all'];
    const sources = ['nccl-profiler.c', 'ring.c'].map((file) => join(native, file));
    const library = ['-fPIC', '-shared', '-fvisibility=hidden', '-Wl,-z,nodelete', '-o', join(directory, `${name}.so`)];
    const results = [
      compile(...checks, ...sources, ...library, '-lpthread'),
      compile(...checks, join(native, 'testing/nccl-harness.c'), '-o', join(directory, name), '-lpthread', '-ldl'),
    ];
    expect(results.map(({ stderr }) => stderr)).toEqual(['', '']);
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Collective {
  readonly detail: number;
  readonly group: number;
  readonly name: string | undefined;
  readonly sequence: number;
  readonly bytes: number;
  readonly peer: number;
  readonly start: number;
  readonly end: number;
}

interface Ring extends RingState {
  readonly source: string;
  readonly groups: ReadonlyMap<number, GpuGroup>;
  readonly collectives: readonly Collective[];
  /** Kinds of rows that are none of NCCL's. */
  readonly others: readonly number[];
}

function readRing(path: string): Ring {
  const reader = new RingReader(path, 0n, process.getuid?.() ?? -1);
  const rows = new GpuRows();
  const collectives: Collective[] = [];
  const others: number[] = [];
  for (let more = true; more; ) {
    more = reader.read(rows);
    for (let row = 0; row < rows.length; row++) {
      const of = (column: ArrayLike<number>): number => column[row] as number;
      if (of(rows.kind) !== rowKind.collective) others.push(of(rows.kind));
      else {
        expect(reader.groups.has(of(rows.group))).toBe(true);
        const { detail, group, sequence, bytes, peer, start, end } = rows;
        const numbers = { detail: of(detail), group: of(group), sequence: of(sequence), bytes: of(bytes), peer: of(peer) };
        collectives.push({ ...numbers, name: reader.names.get(of(rows.name)), start: of(start), end: of(end) });
      }
    }
  }
  const { source, groups, state } = reader;
  expect(reader).toMatchObject({ malformed: 0, unpublished: 0 });
  reader.close();
  return { ...state, source, groups, collectives, others };
}

interface Played {
  readonly communicator: string;
  readonly group: string;
  readonly rank: number;
  readonly name: string;
  readonly p2p: boolean;
  readonly sequence: number;
  readonly bytes: number;
  readonly peer: number;
  readonly before: number;
  readonly after: number;
  readonly ranStart: number;
  readonly ranEnd: number;
}

interface Run {
  readonly lines: readonly Record<string, unknown>[];
  readonly log: string;
  /** By pid. */
  readonly rings: ReadonlyMap<number, Ring>;
  /** The harness's own. */
  readonly ring: Ring | undefined;
}

/** Plays `scene` to its good end. `environment`: of the plugin, besides RANKTRACE_GPU_DIR. */
function play(sanitizer: Sanitizer, version: number, scene: string, environment: Readonly<Record<string, string>> = {}): Run {
  const out = mkdtempSync(join(directory, 'out-'));
  const { RANKTRACE_GPU: _, RANKTRACE_NCCL_MASK: __, ...outer } = process.env;
  const { pid, status, signal, stdout, stderr } = spawnSync(
    join(directory, sanitizer),
    [join(directory, `${sanitizer}.so`), `${version}`, ...scene.split(' ')],
    { encoding: 'utf8', env: { ...outer, RANKTRACE_GPU_DIR: out, ...environment }, maxBuffer: 1 << 26 },
  );
  expect({ status, signal, stderr: stderr.replaceAll(/^nccl log .*\n/gm, '') }).toEqual({ status: 0, signal: null, stderr: '' });
  const lines = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const files = readdirSync(out).map((file) => [Number(/^nccl-(\d+)-\d+\.ring$/.exec(file)?.[1]), readRing(join(out, file))] as const);
  const rings = new Map(files);
  return { lines, log: stderr, rings, ring: rings.get(pid) };
}

const enqueued = 1;
const ran = 2;
const p2p = 4;
const ended = 'ended';
const all = { RANKTRACE_NCCL_MASK: 'coll,p2p,kernel,proxy' };

/** Expects one row of each collective that was played when it was enqueued, and one of its work where `hasWork`. */
function expectPlayed({ lines, ring }: Run, version: number, hasWork: boolean): void {
  expect(ring).toMatchObject({
    source: 'nccl',
    state: ended,
    library: version,
    dropped: 0,
    droppedRecords: 0,
    unknownRecords: 0,
    others: [],
  });
  const { groups, collectives } = ring as Ring;
  const played = lines as unknown as readonly Played[];
  expect(collectives).toHaveLength(played.length * (hasWork ? 2 : 1));
  for (const of of played) {
    const [number, group] = [...groups].find(([, { communicator }]) => communicator === BigInt(`0x${of.communicator}`)) ?? [];
    const size = version >= 4 ? { ranks: 8, nodes: 2 } : { ranks: 0, nodes: 0 };
    expect(group).toEqual({ communicator: BigInt(`0x${of.communicator}`), name: of.group, rank: of.rank, ...size });
    const rows = collectives.filter((row) => row.group === number && row.sequence === of.sequence && row.bytes === of.bytes);
    const what = { group: number, name: of.name, peer: of.peer === -1 ? 0xffff : of.peer };
    const message = of.p2p ? p2p : 0;
    const [enqueue, work] = rows.filter((row) => row.name === of.name);
    expect(enqueue).toMatchObject({ ...what, detail: enqueued | message });
    expectOrder(of.before, enqueue?.start, enqueue?.end, of.after);
    if (!hasWork) continue;
    expect(work).toMatchObject({ ...what, detail: ran | message });
    expectOrder(of.ranStart, work?.start, work?.end, of.ranEnd);
    expect((work as Collective).end - (work as Collective).start).toBeGreaterThanOrEqual(20_000);
  }
}

function expectOrder(...times: readonly (number | undefined)[]): void {
  expect(times).toEqual(times.toSorted((a = -1, b = -1) => a - b));
}

describe('the profiler plugin of NCCL', { timeout: 300_000 }, () => {
  beforeEach((context) => {
    if (hasCompiler) return;
    context.task.meta.impossibleHere = 'no C compiler is found on this machine';
    context.skip();
  });

  test.each(versions)('writes each collective when it was enqueued (version %i)', (version) => {
    const run = play('addresses', version, 'legal 2 50');
    expectPlayed(run, version, false);
    expect(run.ring?.message).toContain('RANKTRACE_NCCL_MASK=coll,p2p,kernel');
  });

  test.each(versions)('writes the work of each collective from its proxy operations (version %i)', (version) => {
    expectPlayed(play('addresses', version, 'legal 2 50', { RANKTRACE_NCCL_MASK: 'coll,p2p,proxy' }), version, true);
  });

  test.each(versions)(
    'writes the work of each collective from the channels of its kernel, where the version has them (version %i)',
    (version) => {
      expectPlayed(play('addresses', version, 'legal 2 50', { RANKTRACE_NCCL_MASK: '0x46' }), version, version >= 3);
    },
  );

  test.each([3, 4, 6])('writes the work of a collective of which fewer channels came than NCCL announced (version %i)', (version) => {
    const { ring } = play('addresses', version, 'fewer', { RANKTRACE_NCCL_MASK: 'coll,p2p,kernel' });
    const worked = ring?.collectives.filter(({ detail }) => detail === ran);
    expect(worked?.map(({ sequence }) => sequence)).toEqual([0, 1, 2]);
    expect(ring).toMatchObject({ droppedRecords: 1, unknownRecords: 0 });
  });

  test('writes collectives of the copy engine where they are asked for', () => {
    const run = play('addresses', 6, 'legal 2 50', { RANKTRACE_NCCL_MASK: 'coll,p2p,ce' });
    expectPlayed(run, 6, false);
    expect(run.lines.some(({ name }) => name === 'ReduceScatter by copy engine')).toBe(true);
  });

  test.each([1, 3, 6])('keeps collectives of eight threads apart, without a data race (version %i)', (version) => {
    expectPlayed(play('threads', version, 'legal 8 60', all), version, true);
  });

  test.each(
    versions.flatMap((version) => (['addresses', 'threads'] as const).map((sanitizer) => ({ version, sanitizer, seed: 100 + version }))),
  )('survives any call with any handle: $sanitizer, version $version, seed $seed', ({ version, sanitizer, seed }) => {
    const { ring } = play(sanitizer, version, `hostile 4 5000 ${seed}`, all);
    expect(ring).toMatchObject({ state: ended, others: [] });
    expect(ring?.unknownRecords).toBeGreaterThan(1000);
    expect(ring?.collectives.length).toBeGreaterThan(100);
    for (const { detail, name } of ring?.collectives ?? []) {
      expect([enqueued, ran, enqueued | p2p, ran | p2p]).toContain(detail);
      expect(name).toMatch(/^[A-Z]\w+$/);
    }
  });

  test.each(versions.flatMap((version) => ['coll,p2p', 'coll,p2p,proxy'].map((mask) => ({ version, mask }))))(
    'ignores and counts each wrong call: version $version, mask $mask',
    ({ version, mask }) => {
      const { lines, ring } = play('addresses', version, 'misuse', { RANKTRACE_NCCL_MASK: mask });
      expect(ring).toMatchObject({ unknownRecords: lines[0]?.unknown, droppedRecords: lines[0]?.dropped });
      if (mask.includes('proxy')) expect(ring?.collectives.map(({ detail }) => detail)).toEqual([enqueued, ran]);
    },
  );

  test.each([1, 6])('leaves the ring of its parent alone in a child of a fork, which has its own (version %i)', (version) => {
    const { lines, rings, ring } = play('addresses', version, 'fork');
    expect(rings.size).toBe(2);
    expect(ring?.collectives).toHaveLength(2);
    expect(ring).toMatchObject({ state: ended, droppedRecords: 0, unknownRecords: 0 });
    const child = rings.get(Number(lines[0]?.child));
    expect(child?.collectives).toHaveLength(1);
    expect([...(child?.groups.values() ?? [])]).toMatchObject([{ communicator: 0xf1n }]);
    expect(child).toMatchObject({ state: ended, unknownRecords: 1 });
  });

  test('counts events beyond its slots, and says that there are more communicators than it holds', () => {
    const { lines, log, ring } = play('addresses', 6, 'crowd');
    expect(lines).toEqual([{ held: 1024, started: 16_384, masksKept: true, again: true }]);
    expect(ring?.droppedRecords).toBe(20_000 - 16_384);
    expect(ring?.collectives.length).toBeGreaterThan(16_000);
    expect(log.match(/more than 1024 communicators/g)).toHaveLength(1);
    expect(ring?.message).toContain('more than 1024 communicators');
  });

  test.each(versions)('goes on in the same ring when NCCL closes it and loads it again (version %i)', (version) => {
    const { rings, ring } = play('addresses', version, 'reload');
    expect(rings.size).toBe(1);
    expect(ring?.collectives).toHaveLength(1);
    // One event was open when its communicator ended, and was stopped later.
    expect(ring).toMatchObject({ state: ended, droppedRecords: 1, unknownRecords: 1 });
  });

  test('records nothing with RANKTRACE_GPU=0', () => {
    const { rings, log } = play('addresses', 6, 'hostile 2 1000 1', { RANKTRACE_GPU: '0' });
    expect(rings.size).toBe(0);
    expect(log).toBe('');
  });

  test.each([
    ['', 'RANKTRACE_GPU_DIR is not set'],
    ['/proc/nowhere', 'cannot make /proc/nowhere/nccl-'],
  ])('lets NCCL go on without it where the ring cannot be made: "%s"', (path, reason) => {
    const { rings, log } = play('addresses', 4, 'hostile 2 1000 1', { RANKTRACE_GPU_DIR: path });
    expect(rings.size).toBe(0);
    expect(log.match(/^nccl log 2: ranktrace records no collectives: .*$/gm)).toEqual([expect.stringContaining(reason)]);
  });

  test('says that RANKTRACE_NCCL_MASK is wrong, and records as without', () => {
    const { log, ring } = play('addresses', 6, 'legal 1 10', { RANKTRACE_NCCL_MASK: 'coll,everything' });
    expect(ring?.collectives).toHaveLength(10);
    expect(ring?.message).toContain('none of coll, p2p, proxy, kernel and ce');
    expect(log).toContain('none of coll, p2p, proxy, kernel and ce');
  });
});
