import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { createEventTables, decodeBatch, decodeBatchHeader, encodeBatch } from '@ranktrace/protocol';
import { dumpWriter, findCompleteness, type TraceHeader } from '@ranktrace/trace';
import { expect, test } from 'vitest';
import { inflate } from '../model/inflate.ts';
import type { RunBatches } from '../store/batch-index.ts';
import { openBatchLog } from '../store/batch-log.ts';
import { pruneSegment } from '../store/prune-segment.ts';
import { listSegments } from '../store/run-directory.ts';
import { RunStore, surveyRun } from '../store/run-store.ts';
import { mergeStored } from '../store/write-trace.ts';
import { bundle } from '../testing/bundle.ts';
import { fullDisk } from '../testing/full-disk.ts';
import { type BatchShape, makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { pruneStore, type Retention } from './prune-store.ts';

const day = 24 * 3600 * 1000;
const now = new Date('2026-06-15T12:00:00Z');
const append = (store: RunStore, shape: BatchShape): string => store.append(makeBatch(shape), makeHeader(shape));

/** A run of two ranks in several segments, last written to so many days ago. */
async function writeRun(out: string, run: string, ageDays: number, batches = 60): Promise<void> {
  await using store = new RunStore(out, run, { segmentBytesMax: 8192 });
  for (let sequence = 0; sequence < batches; sequence++) {
    for (const rank of [0, 1]) append(store, { run, rank, worldSize: 2, sequence, spans: 40, last: sequence === batches - 1 });
  }
  await store.close();
  age(join(out, run, 'segments'), ageDays);
}

function age(folder: string, days: number): void {
  const then = new Date(now.getTime() - days * day);
  for (const name of readdirSync(folder)) utimesSync(join(folder, name), then, then);
}

/** Per rank: steps, spans, missing batches. */
function contents(batches: RunBatches): string[] {
  return batches.sources().map((source) => {
    const steps: string[] = [];
    let spans = 0;
    for (let index = 0; index < source.count; index++) {
      const bytes = source.read(index);
      if (bytes === undefined) continue;
      const { tables } = decodeBatch(bytes, inflate);
      spans += tables.spans.length;
      const { columns, length } = tables.steps;
      for (let row = 0; row < length; row++) steps.push(`${columns.step[row]}:${columns.length[row]}`);
    }
    return `${source.rank}: ${spans} spans, missing ${source.missing}, ${steps.join(' ')}`;
  });
}

const allSteps = Array.from({ length: 60 }, (_, step) => `${step}:${1e6 + step}`).join(' ');
const logOf = (out: string, folder: string, run = folder): string[] => {
  using log = openBatchLog(join(out, folder));
  return contents(log.run(run));
};
const kinds = (out: string, run: string): string[] => [
  ...new Set(readdirSync(join(out, run, 'segments')).map((name) => name.replace(/^\d+/, ''))),
];

const bytesIn = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);

async function findingsOf(out: string, run: string): Promise<string[]> {
  using log = openBatchLog(join(out, run));
  let header: TraceHeader | undefined;
  const keep = { begin: (begun: TraceHeader) => (header = begun), lane: () => {}, event: () => {}, end: () => {} };
  const totals = await mergeStored(log.run(run).sources(), [keep as never]);
  return findCompleteness(header as unknown as TraceHeader, totals).map(({ kind, text }) => `${kind}: ${text}`);
}

test('detail goes by age and the time of each step stays; then steps go, and both are said', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'old', 8);
  await writeRun(out, 'new', 6);
  const before = logOf(out, 'new');
  const retention = { keepDetailMs: 7 * day, keepStepsMs: 30 * day };

  const dry = await pruneStore(out, retention, { now, dryRun: true });
  expect(kinds(out, 'old')).toEqual(['.seg']);
  const result = await pruneStore(out, retention, { now });
  expect(result).toEqual({ ...dry, pruned: result.pruned, bytesAfter: result.bytesAfter });
  expect(result.pruned.map(({ bytesAfter }) => bytesAfter)).toEqual(dry.pruned.map(({ bytesAfter }) => bytesAfter));
  expect(result.skipped).toEqual([]);
  expect(new Set(result.pruned.map(({ run, what }) => `${run} ${what}`))).toEqual(new Set(['old detail']));
  expect(result.bytesAfter).toBeLessThan(result.bytesBefore);
  expect(result.bytesAfter).toBe(bytesIn(out));
  expect(kinds(out, 'old')).toEqual(['.summary.seg']);
  expect(logOf(out, 'new')).toEqual(before);
  expect(logOf(out, 'old')).toEqual([`0: 0 spans, missing 0, ${allSteps}`, `1: 0 spans, missing 0, ${allSteps}`]);
  expect(await findingsOf(out, 'old')).toContain(
    'pruned: detail of steps 0–59 was pruned on 2026-06-15: the times of its steps and phases are left',
  );
  expect(JSON.parse(readFileSync(join(out, 'old', 'pruned.json'), 'utf8'))).toEqual({ detail: { steps: [0, 59], on: '2026-06-15' } });
  // A second look finds nothing to do.
  expect((await pruneStore(out, retention, { now })).pruned).toEqual([]);

  const later = new Date(now.getTime() + 23 * day);
  await pruneStore(out, retention, { now: later });
  expect(kinds(out, 'old')).toEqual(['.empty.seg']);
  expect(kinds(out, 'new')).toEqual(['.summary.seg']);
  expect(logOf(out, 'old')).toEqual(['0: 0 spans, missing 0, ', '1: 0 spans, missing 0, ']);
  expect(await findingsOf(out, 'old')).toContain('pruned: steps 0–59 were pruned on 2026-07-08: nothing is left');
});

test('a pruned run takes its batches as known, and new ones as new; an older version says that it cannot read it', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'night', 8);
  await pruneStore(out, { keepDetailMs: day }, { now });
  expect(JSON.parse(readFileSync(join(out, 'night', 'run.json'), 'utf8'))).toEqual({ format: 2, run: 'night' });
  await using store = new RunStore(out, 'night');
  expect(append(store, { run: 'night', rank: 1, sequence: 17 })).toBe('duplicate');
  expect(append(store, { run: 'night', rank: 1, sequence: 60 })).toBe('stored');
  expect(contents(store)[1]).toBe(`1: 8 spans, missing 0, ${allSteps} 60:1000060`);
});

test('in a store that is open, batches keep the index that readers know, and what was pruned is in the first of its place', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await using store = new RunStore(out, 'demo', { segmentBytesMax: 8192 });
  for (let sequence = 0; sequence < 60; sequence++) append(store, { sequence, spans: 40 });
  age(join(out, 'demo', 'segments'), 8);
  const [source] = store.sources();
  const sequenceAt = (index: number): number => decodeBatchHeader(source?.read(index) as Uint8Array).sequence;
  const before = Array.from({ length: 60 }, (_, index) => sequenceAt(index));
  const result = await pruneStore(out, { keepDetailMs: 7 * day }, { now, open: () => store });
  expect(result.pruned.length).toBeGreaterThan(2);
  expect(before).toEqual(Array.from({ length: 60 }, (_, index) => index));

  const [pruned] = store.sources();
  expect([pruned?.count, pruned?.missing]).toEqual([60, 0]);
  const steps: number[] = [];
  for (let index = 0; index < 60; index++) {
    const bytes = pruned?.read(index);
    if (bytes === undefined) continue;
    const { header, tables } = decodeBatch(bytes, inflate);
    expect(header.pruned?.from).toBe(index);
    steps.push(...tables.steps.columns.step.subarray(0, tables.steps.length));
  }
  expect(steps).toEqual(before);
  // The run continues: in a segment of its own, as the last one was ended.
  expect(append(store, { sequence: 60 })).toBe('stored');
  expect(append(store, { sequence: 3 })).toBe('duplicate');
  expect(contents(store)).toEqual([`0: 8 spans, missing 0, ${allSteps} 60:1000060`]);
  // Live and from the files it is the same trace.
  {
    const dump = async (batches: RunBatches): Promise<string> => {
      const text: string[] = [];
      await mergeStored(batches.sources(), [dumpWriter((chunk) => text.push(new TextDecoder().decode(chunk)))]);
      return text.join('');
    };
    using log = openBatchLog(join(out, 'demo'));
    expect(await dump(store)).toBe(await dump(log.run('demo')));
  }
  // Pruned again, as the rest of it gets old.
  age(join(out, 'demo', 'segments'), 40);
  await pruneStore(out, { keepStepsMs: 30 * day }, { now, open: () => store });
  expect(contents(store)).toEqual(['0: 0 spans, missing 0, ']);
  expect(append(store, { sequence: 61 })).toBe('stored');
  await store.close();
  expect(logOf(out, 'demo')).toEqual(['0: 8 spans, missing 0, 61:1000061']);
});

test('a run that is opened while another one is pruned keeps the segment that it appends to, in this look and until it is closed', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'first', 9, 4);
  await writeRun(out, 'second', 8, 4);
  const opened: RunStore[] = [];
  // The second run is looked up first for the survey, and then for its pruning: by then a batch came in for it.
  let lookups = 0;
  const open = (run: string): RunStore | undefined => {
    if (run === 'second' && ++lookups === 2) {
      opened.push(new RunStore(out, 'second'));
      for (const store of opened) expect(append(store, { run: 'second', sequence: 4 })).toBe('stored');
    }
    return run === 'second' ? opened[0] : undefined;
  };
  const result = await pruneStore(out, { keepDetailMs: 7 * day }, { now, open });
  const [store] = opened;
  expect([new Set(result.pruned.map(({ run }) => run)), result.skipped]).toEqual([new Set(['first']), []]);
  expect(store && append(store, { run: 'second', sequence: 5 })).toBe('stored');
  await store?.close();
  const steps = [0, 1, 2, 3, 4, 5].map((step) => `${step}:${1e6 + step}`).join(' ');
  expect(logOf(out, 'second')[0]).toBe(`0: ${4 * 40 + 2 * 8} spans, missing 0, ${steps}`);
});

test('a segment that is in use once its summary is ready stays', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'night', 8, 4);
  const before = readdirSync(join(out, 'night', 'segments'));
  const [segment] = listSegments(join(out, 'night'));
  if (segment === undefined) throw new Error('it has a segment');
  const options = { run: 'night', directory: join(out, 'night'), now, dryRun: false };
  await expect(pruneSegment(segment, 'detail', { ...options, isInUse: () => true })).rejects.toMatchObject({ code: 'store_locked' });
  expect(readdirSync(join(out, 'night', 'segments'))).toEqual(before);
});

test('a segment whose summary cannot be encoded is named and stays, and the others go', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  {
    // In µs these times lie close enough to be encoded; joined with steps in ns they do not.
    const header = makeHeader({ run: 'far', sequence: 0 });
    const tables = createEventTables();
    for (const start of [-9e15, 9e15]) tables.steps.append({ start, length: 1e6, track: 1, step: 0, overhead: 0 });
    await using store = new RunStore(out, 'far');
    expect(store.append(encodeBatch({ header, strings: [''], tables }, deflateRawSync), header)).toBe('stored');
    expect(append(store, { run: 'far', sequence: 1 })).toBe('stored');
  }
  age(join(out, 'far', 'segments'), 9);
  await writeRun(out, 'near', 8);
  const result = await pruneStore(out, { keepDetailMs: 7 * day }, { now });
  expect(result.skipped).toEqual([
    expect.stringMatching(/^Cannot prune ".*\/far\/segments\/000001\.seg": its summary cannot be encoded: /),
  ]);
  expect([readdirSync(join(out, 'far', 'segments')), kinds(out, 'near')]).toEqual([['000001.seg'], ['.summary.seg']]);
});

test('a full disk leaves no open file and no draft of a summary', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'night', 8);
  const segments = join(out, 'night', 'segments');
  const before = readdirSync(segments);
  // The lock is held already, as in a service: taking it needs room, too.
  await using store = new RunStore(out, 'night');
  const openFiles = (): number => readdirSync('/proc/self/fd').length;
  const opened = openFiles();
  const look = () => pruneStore(out, { keepDetailMs: day }, { now, open: () => store });
  {
    using _full = fullDisk();
    const { pruned, skipped } = await look();
    expect([pruned.length, skipped.length]).toEqual([0, before.length]);
  }
  // The segment that the store began with is ended, and closed.
  expect(openFiles()).toBeLessThanOrEqual(opened);
  expect(readdirSync(segments)).toEqual(before);
  expect((await look()).pruned.length).toBe(before.length);
});

test('what is missing stays missing', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  {
    await using store = new RunStore(out, 'demo');
    for (const sequence of [0, 1, 2, 5, 6, 9]) append(store, { sequence });
  }
  age(join(out, 'demo', 'segments'), 8);
  await pruneStore(out, { keepDetailMs: day }, { now });
  await using store = new RunStore(out, 'demo');
  const [source] = store.sources();
  expect([...(source?.gaps() ?? [])]).toEqual([
    { from: 3, to: 5 },
    { from: 7, to: 9 },
  ]);
  expect(append(store, { sequence: 4 })).toBe('stored');
  expect(append(store, { sequence: 5 })).toBe('duplicate');
});

test('a copy of a run under another name is pruned as what it is', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'night', 8);
  cpSync(join(out, 'night'), join(out, 'copy'), { recursive: true, preserveTimestamps: true });
  await using store = new RunStore(out, 'night');
  const result = await pruneStore(out, { keepDetailMs: day }, { now, open: (run) => (run === 'night' ? store : undefined) });
  expect(result.skipped).toEqual([]);
  expect([kinds(out, 'night'), kinds(out, 'copy')]).toEqual([['.summary.seg'], ['.summary.seg']]);
  expect(contents(store)).toEqual([`0: 0 spans, missing 0, ${allSteps}`, `1: 0 spans, missing 0, ${allSteps}`]);
  expect(logOf(out, 'copy', 'night')).toEqual(contents(store));
});

test('a run that was pruned while it was surveyed is opened as it is', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'night', 8);
  const survey = await surveyRun(out, 'night');
  await pruneStore(out, { keepDetailMs: day }, { now });
  await using store = new RunStore(out, 'night', { survey });
  expect(contents(store)).toEqual([`0: 0 spans, missing 0, ${allSteps}`, `1: 0 spans, missing 0, ${allSteps}`]);
});

test('by size, traces go first, then detail, then steps, the oldest of each', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  for (const [run, days] of [
    ['first', 9],
    ['second', 5],
    ['third', 1],
  ] as const) {
    await writeRun(out, run, days);
    mkdirSync(join(out, run, 'captures'));
    writeFileSync(join(out, run, 'captures', 'a.pftrace'), Buffer.alloc(500));
    writeFileSync(join(out, run, 'trace.pftrace'), Buffer.alloc(50_000));
    writeFileSync(join(out, run, 'alerts.jsonl'), 'kept\n');
    age(join(out, run, 'captures'), days);
    const then = new Date(now.getTime() - days * day);
    utimesSync(join(out, run, 'trace.pftrace'), then, then);
  }
  const order = async (storeBytesMax: number): Promise<string[]> => {
    const { pruned } = await pruneStore(out, { storeBytesMax }, { now });
    return [...new Set(pruned.map(({ run, what }) => `${run} ${what}`))];
  };
  const { bytesBefore } = await pruneStore(out, {}, { now });
  expect(await order(bytesBefore)).toEqual([]);
  expect(await order(bytesBefore - 60_000)).toEqual(['first trace', 'second trace']);
  expect(await order(bytesBefore - 155_000)).toEqual(['third trace', 'first detail']);
  expect(JSON.parse(readFileSync(join(out, 'third', 'pruned.json'), 'utf8'))).toEqual({
    traces: [{ name: 'trace.pftrace', on: '2026-06-15' }],
  });
  expect(existsSync(join(out, 'first', 'captures', 'a.pftrace'))).toBe(true);
  const rest = await pruneStore(out, { storeBytesMax: 1 }, { now });
  expect([...new Set(rest.pruned.map(({ run, what }) => `${run} ${what}`))]).toEqual([
    ...[
      'first detail',
      'second detail',
      'third detail',
      'first capture',
      'second capture',
      'third capture',
      'first steps',
      'second steps',
      'third steps',
    ],
  ]);
  expect(rest.skipped).toEqual([expect.stringMatching(/^the store holds \d+ bytes, more than 1: /)]);
  expect(readFileSync(join(out, 'first', 'alerts.jsonl'), 'utf8')).toBe('kept\n');
  expect(statSync(join(out, 'first', 'run.json')).isFile()).toBe(true);
});

test.each<[string, Retention, boolean]>([
  ['by size', { storeBytesMax: 20_000 }, false],
  ['by age', { keepStepsMs: 3 * day }, true],
])('the state behind the alerts goes with the last steps of its run: %s', async (_, retention, keepsNew) => {
  using directory = temporaryDirectory();
  const out = directory.path;
  for (const [run, days] of [
    ['old', 9],
    ['new', 1],
  ] as const) {
    await writeRun(out, run, days, 4);
    writeFileSync(join(out, run, 'alert-state.json'), Buffer.alloc(30_000));
  }
  const isLeft = (): boolean[] => ['old', 'new'].map((run) => existsSync(join(out, run, 'alert-state.json')));
  const planned = await pruneStore(out, retention, { now, dryRun: true });
  expect(isLeft()).toEqual([true, true]);
  const { pruned, skipped } = await pruneStore(out, retention, { now });
  expect(pruned.map(({ path }) => path)).toContain(join(out, 'old', 'alert-state.json'));
  expect(pruned.length).toBe(planned.pruned.length);
  expect(skipped).toEqual([]);
  expect(isLeft()).toEqual([false, keepsNew]);
});

test('a run that another process writes is left alone and named', async () => {
  using directory = temporaryDirectory();
  const program = await bundle('append-forever', directory.path);
  const out = `${directory.path}/out`;
  const child = spawn(process.execPath, [program, out, '65536'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  try {
    await once(child.stdout, 'data');
    child.stdout.resume();
    const later = new Date(Date.now() + 365 * day);
    const result = await pruneStore(out, { keepDetailMs: day, keepStepsMs: day }, { now: later });
    expect(result.pruned).toEqual([]);
    expect(result.skipped).toEqual([`run "${out}/demo" is left alone: another process writes it`]);
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
  // Its lock is stale now.
  const result = await pruneStore(out, { keepDetailMs: day }, { now: new Date(Date.now() + 365 * day) });
  expect([result.pruned.length > 0, result.skipped]).toEqual([true, []]);
});

test('a store of a later version, and one that is none, are said', async () => {
  using directory = temporaryDirectory();
  const out = directory.path;
  await writeRun(out, 'mine', 8);
  await writeRun(out, 'later', 8);
  writeFileSync(join(out, 'later', 'run.json'), '{"format":99,"run":"later"}\n');
  const result = await pruneStore(out, { keepDetailMs: day }, { now });
  expect(result.skipped).toEqual([
    `run "${join(out, 'later')}" is left alone: Cannot read run "${join(out, 'later')}": its format must be 1 or 2, got 99; use the ranktrace version that wrote it`,
  ]);
  expect(kinds(out, 'mine')).toEqual(['.summary.seg']);
  expect(kinds(out, 'later')).toEqual(['.seg']);
  await expect(pruneStore(join(out, 'mine', 'segments'), {})).resolves.toMatchObject({ pruned: [] });
  await expect(pruneStore(join(out, 'nowhere'), {})).rejects.toMatchObject({ code: 'store_missing' });
});
