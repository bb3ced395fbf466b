import { appendFileSync, copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 as zlibCrc32 } from 'node:zlib';
import { crc32, decodeBatchHeader, encodeFrameHeader, segmentMagic } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fullDisk } from '../testing/full-disk.ts';
import { type BatchShape, makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import type { RunBatches } from './batch-index.ts';
import { openBatchLog } from './batch-log.ts';
import { RunStore } from './run-store.ts';

/** Everything a reader sees: `rank/incarnation: sequences (missing)`, after checking that the bytes are those of that batch. */
function contents(batches: RunBatches): string[] {
  return batches.sources().map((source) => {
    const sequences = Array.from({ length: source.count }, (_, index) => {
      const header = decodeBatchHeader(source.read(index) as Uint8Array);
      expect([header.rank, header.incarnation, header.sequence]).toEqual([source.rank, source.incarnation, source.sequence(index)]);
      return header.sequence;
    });
    return `${source.rank}/${source.incarnation}: ${sequences.join(' ')} (${source.missing})`;
  });
}

const append = (store: RunStore, shape: BatchShape): string => store.append(makeBatch(shape), makeHeader(shape));

test('the checksum of frames is the one of the protocol', () => {
  const bytes = makeBatch();
  expect(zlibCrc32(bytes)).toBe(crc32(bytes));
});

test('holds every batch once and in order, whatever came in which order, and the same after reopening and for a reader', async () => {
  const shape = fc.record({
    rank: fc.nat(2),
    incarnation: fc.constantFrom('0001', '0002'),
    sequence: fc.nat(12),
    spans: fc.nat(30),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(shape, { maxLength: 60 }), fc.constantFrom(600, 2000, 1e6), async (shapes, segmentBytesMax) => {
      using directory = temporaryDirectory();
      const expected = new Map<string, Set<number>>();
      let before: string[];
      {
        await using store = new RunStore(directory.path, 'demo', { segmentBytesMax });
        for (const each of shapes) {
          const key = `${each.rank}/${each.incarnation}`;
          const sequences = expected.get(key) ?? new Set();
          expect(append(store, each)).toBe(sequences.has(each.sequence) ? 'duplicate' : 'stored');
          expected.set(key, sequences.add(each.sequence));
        }
        before = contents(store);
        using live = openBatchLog(directory.path);
        expect(contents(live.run('demo'))).toEqual(before);
      }
      const wanted = [...expected].sort().map(([key, set]) => {
        const sequences = [...set].sort((a, b) => a - b);
        return `${key}: ${sequences.join(' ')} (${(sequences.at(-1) as number) + 1 - sequences.length})`;
      });
      expect(before).toEqual(wanted);
      await using reopened = new RunStore(directory.path, 'demo', { segmentBytesMax });
      expect(contents(reopened)).toEqual(before);
    }),
    { seed: 2, numRuns: 40 },
  );
});

test('cuts a torn last frame off, torn at any byte, and goes on behind it', async () => {
  using directory = temporaryDirectory();
  const out = join(directory.path, 'whole');
  const frameEnds: number[] = [];
  const segment = (path: string): string => join(path, 'demo', 'segments', '000001.seg');
  {
    await using store = new RunStore(out, 'demo');
    for (let sequence = 0; sequence < 3; sequence++) {
      append(store, { sequence });
      frameEnds.push(statSync(segment(out)).size);
    }
  }
  const [, second = 0, third = 0] = frameEnds;
  for (let size = 0; size <= third; size++) {
    if (size > segmentMagic.length + 2 && size < second - 1) continue;
    const torn = join(directory.path, `torn-${size}`);
    mkdirSync(join(torn, 'demo', 'segments'), { recursive: true });
    copyFileSync(segment(out), segment(torn));
    truncateSync(segment(torn), size);
    const there = frameEnds.filter((end) => end <= size).length;
    if (there > 0) {
      using log = openBatchLog(segment(torn));
      expect(log.run('demo').sources()[0]?.count).toBe(there);
      expect(log.notices.length).toBe(frameEnds.includes(size) ? 0 : 1);
      expect(statSync(segment(torn)).size).toBe(size);
    }
    await using store = new RunStore(torn, 'demo');
    expect(store.sources()[0]?.count ?? 0).toBe(there);
    for (let sequence = there; sequence < 4; sequence++) expect(append(store, { sequence })).toBe('stored');
    using log = openBatchLog(torn);
    expect(contents(log.run('demo'))).toEqual(['0/0001: 0 1 2 3 (0)']);
  }
});

test('skips a damaged frame in the middle, never cuts what may be good, and says so', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'demo', 'segments', '000001.seg');
  {
    await using store = new RunStore(directory.path, 'demo');
    for (let sequence = 0; sequence < 5; sequence++) append(store, { sequence });
  }
  const bytes = readFileSync(path);
  const first = segmentMagic.length + 8 + bytes.readUInt32LE(segmentMagic.length);
  bytes[first + 30] = (bytes[first + 30] as number) ^ 1;
  writeFileSync(path, bytes);
  const notices: string[] = [];
  {
    await using store = new RunStore(directory.path, 'demo', { onNotice: (notice) => notices.push(notice) });
    expect(contents(store)).toEqual(['0/0001: 0 2 3 4 (1)']);
    append(store, { sequence: 1 });
  }
  // Two megabytes without a frame are not one torn frame: the store leaves them alone and begins a new segment.
  appendFileSync(path, Buffer.alloc(2 << 20));
  const size = statSync(path).size;
  await using store = new RunStore(directory.path, 'demo', { onNotice: (notice) => notices.push(notice) });
  append(store, { sequence: 5 });
  expect(contents(store)).toEqual(['0/0001: 0 1 2 3 4 5 (0)']);
  expect(statSync(path).size).toBe(size);
  expect(notices.map((notice) => notice.replace(/^".*": /, ''))).toEqual([
    '1 damaged batches were left out',
    '1 damaged batches were left out',
    '2097152 bytes at the end cannot be read and were left alone',
  ]);
});

test('one writer at a time; a lock of a dead process is taken over', async () => {
  using directory = temporaryDirectory();
  const lock = join(directory.path, 'demo', 'lock');
  {
    await using store = new RunStore(directory.path, 'demo');
    append(store, {});
    expect(() => new RunStore(directory.path, 'demo')).toThrow(
      expect.objectContaining({ code: 'store_locked', message: expect.stringContaining(`process ${process.pid} writes it`) }),
    );
    const left = readFileSync(lock, 'utf8');
    await store.sync(new Date());
    await store.close();
    // Same pid, other start: a container's service is pid 1 in every life.
    writeFileSync(lock, left.replace(/"started":"\d+"/, '"started":"1"'));
  }
  await using store = new RunStore(directory.path, 'demo');
  expect(contents(store)).toEqual(['0/0001: 0 (0)']);
  expect(readdirSync(join(directory.path, 'demo')).sort()).toEqual(['lock', 'run.json', 'segments']);
});

test('a lock from a place that cannot be asked holds while it is touched', async () => {
  using directory = temporaryDirectory();
  mkdirSync(join(directory.path, 'demo'));
  const lock = join(directory.path, 'demo', 'lock');
  writeFileSync(lock, JSON.stringify({ pid: 1, started: '1', place: 'elsewhere' }));
  expect(() => new RunStore(directory.path, 'demo')).toThrow(expect.objectContaining({ code: 'store_locked' }));
  const { utimesSync } = await import('node:fs');
  utimesSync(lock, 1, 1);
  await using store = new RunStore(directory.path, 'demo');
  append(store, {});
});

test('a lock that was taken away is noticed at the next sync', async () => {
  using directory = temporaryDirectory();
  await using store = new RunStore(directory.path, 'demo');
  writeFileSync(join(directory.path, 'demo', 'lock'), 'somebody else');
  await expect(store.sync(new Date())).rejects.toMatchObject({ code: 'store_locked' });
  expect(() => append(store, {})).toThrow('another process took its lock');
});

test('reads spools, several inputs and single files as one', async () => {
  using directory = temporaryDirectory();
  const frame = (shape: BatchShape): Buffer => {
    const bytes = makeBatch(shape);
    return Buffer.concat([encodeFrameHeader(bytes), bytes]);
  };
  const spool = (rank: number, file: string, ...shapes: BatchShape[]): string => {
    const path = join(directory.path, 'spool', 'demo', `rank-${rank}-0001`);
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, file), Buffer.concat([segmentMagic, ...shapes.map((shape) => frame({ rank, ...shape }))]));
    return path;
  };
  spool(0, '000001.seg', { sequence: 0 }, { sequence: 1 });
  spool(0, '000002.seg', { sequence: 1 }, { sequence: 2 });
  const rank1 = spool(1, '000001.seg', { sequence: 3 });
  const check = (input: string | string[], wanted: string[]): void => {
    using log = openBatchLog(input);
    expect(log.runs).toEqual(['demo']);
    expect(contents(log.run('demo'))).toEqual(wanted);
  };
  const all = ['0/0001: 0 1 2 (0)', '1/0001: 3 (3)'];
  check(join(directory.path, 'spool'), all);
  check(join(directory.path, 'spool', 'demo'), all);
  check(rank1, all.slice(1));
  check(join(rank1, '000001.seg'), all.slice(1));
  const out = join(directory.path, 'out');
  {
    await using store = new RunStore(out, 'demo');
    append(store, { rank: 1, sequence: 0 });
  }
  check([out, rank1], ['1/0001: 0 3 (2)']);
});

test('says clearly what an input is not', () => {
  using directory = temporaryDirectory();
  const path = (name: string): string => join(directory.path, name);
  const check = (name: string, code: string, message: string): void => {
    expect(() => openBatchLog(path(name))).toThrow(expect.objectContaining({ code, message: expect.stringContaining(message) }));
  };
  check('nothing', 'store_missing', 'there is no such file or directory');
  mkdirSync(path('empty'));
  check('empty', 'store_not_a_run', 'it must be a run directory (with run.json), a spool directory, or a .seg file');
  writeFileSync(path('text.seg'), 'not a segment at all');
  check('text.seg', 'store_not_a_run', 'is not a segment file');
  const bytes = makeBatch();
  writeFileSync(path('cut.seg'), Buffer.concat([segmentMagic, encodeFrameHeader(bytes), bytes.subarray(0, 50)]));
  check('cut.seg', 'store_truncated', 'ends inside a batch: 0 batches could be read, the last 58 bytes not');
  mkdirSync(path('future'));
  writeFileSync(join(path('future'), 'run.json'), '{"format":3,"run":"demo"}');
  check('future', 'store_format', 'its format must be 1 or 2, got 3; use the ranktrace version that wrote it');
});

test('what was asked for does not change under a reader while batches arrive', async () => {
  using directory = temporaryDirectory();
  await using store = new RunStore(directory.path, 'demo');
  for (const sequence of [0, 1, 5]) append(store, { sequence });
  const before = { run: 'demo', worldSize: 4, sources: () => sources };
  const sources = store.sources();
  for (let sequence = 2; sequence < 40; sequence++) append(store, { sequence });
  expect(contents(before)).toEqual(['0/0001: 0 1 5 (3)']);
  expect(contents(store)).toEqual([`0/0001: ${Array.from({ length: 40 }, (_, sequence) => sequence).join(' ')} (0)`]);
});

test('goes on by itself when a full disk has room again, also where a new segment was due', async () => {
  using directory = temporaryDirectory();
  const openFiles = (): number => readdirSync('/proc/self/fd').length;
  await using store = new RunStore(directory.path, 'demo', { segmentBytesMax: 600 });
  expect(append(store, { sequence: 0 })).toBe('stored');
  const before = openFiles();
  {
    using _full = fullDisk();
    for (let attempt = 0; attempt < 5; attempt++) {
      expect(() => append(store, { sequence: 1 })).toThrow(expect.objectContaining({ code: 'store_write_failed' }));
      expect(() => new RunStore(directory.path, 'other')).toThrow(expect.objectContaining({ code: 'store_write_failed' }));
    }
  }
  expect(openFiles()).toBe(before);
  for (const sequence of [1, 2]) expect(append(store, { sequence })).toBe('stored');
  expect(contents(store)).toEqual(['0/0001: 0 1 2 (0)']);
  expect(readdirSync(join(directory.path, 'demo', 'segments'))).toEqual(['000001.seg', '000002.seg', '000003.seg']);
  expect(readdirSync(join(directory.path, 'other'))).toEqual(['segments']);
  await using other = new RunStore(directory.path, 'other');
  expect(append(other, {})).toBe('stored');
  expect(readdirSync(join(directory.path, 'other')).sort()).toEqual(['lock', 'run.json', 'segments']);
});

test('puts segments that are full on the disk with the next sync, and closes them', async () => {
  using directory = temporaryDirectory();
  const openFiles = (): number => readdirSync('/proc/self/fd').length;
  await using store = new RunStore(directory.path, 'demo', { segmentBytesMax: 600 });
  append(store, { sequence: 0 });
  await store.sync(new Date());
  const before = openFiles();
  for (const sequence of [1, 2, 3]) append(store, { sequence });
  await store.sync(new Date());
  expect(readdirSync(join(directory.path, 'demo', 'segments'))).toHaveLength(4);
  // Descriptors for reading may stay open, those for writing may not: one is.
  expect(openFiles()).toBe(before);
});
