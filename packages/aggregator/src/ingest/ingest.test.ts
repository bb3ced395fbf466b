import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import {
  createEventTables,
  decodeMessage,
  encodeBatch,
  encodeMessage,
  limits,
  liveMessageSchema,
  noneDropped,
  sumDropped,
} from '@ranktrace/protocol';
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { expect, test } from 'vitest';
import { LiveState } from '../live/live-state.ts';
import { Replays } from '../live/replays.ts';
import { createPipeline, type Pipeline } from '../pipeline.ts';
import { RunStore } from '../store/run-store.ts';
import { scanSegment } from '../store/segment-scan.ts';
import { mergeStored } from '../store/write-trace.ts';
import { makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';

async function withPipeline(use: (pipeline: Pipeline, out: string) => void | Promise<void>, run?: string): Promise<void> {
  using directory = temporaryDirectory();
  const pipeline = createPipeline({ out: directory.path, runs: run === undefined ? undefined : new Set([run]), onNotice: () => undefined });
  try {
    await use(pipeline, directory.path);
  } finally {
    await pipeline.stores.close();
    pipeline.quarantine.close();
  }
}

/** The state of the runs, except the silence of ranks, which differs each time. */
const stateOf = ({ live }: Pipeline) =>
  live.status(0).runs.map((run) => ({ ...run, ranks: run.ranks.map(({ silentMs: _, ...rank }) => rank) }));

const bombBody = (bytes: number): Uint8Array => deflateRawSync(Buffer.alloc(bytes));
const envelope = (fields: Record<string, unknown>): Uint8Array =>
  new Packr({ useRecords: false }).pack({ v: 1, ...makeHeader(), encoding: 'deflate', size: 100, body: bombBody(1e6), ...fields });

test('stores, recognises duplicates, and knows the state', () =>
  withPipeline(({ ingest, live }) => {
    expect(ingest(makeBatch({ sequence: 0 }))).toEqual({ result: 'stored', batch: 'demo.0.0001.0' });
    expect(ingest(makeBatch({ sequence: 2, last: true }))).toEqual({ result: 'stored', batch: 'demo.0.0001.2' });
    expect(ingest(makeBatch({ sequence: 2, last: true }))).toEqual({ result: 'duplicate', batch: 'demo.0.0001.2' });
    const [run] = live.status(0).runs;
    expect(run).toMatchObject({ run: 'demo', worldSize: 4 });
    expect(run?.ranks).toMatchObject([{ rank: 0, batches: 2, missing: 1, events: 18, step: 2, ended: true }]);
    expect(live.steps('demo', 0).map(({ step, length }) => [step, length])).toEqual([
      [0, 1e6],
      [2, 1e6 + 2],
    ]);
    expect(live.rows('demo', 0).get('phases')).toBe(4);
  }));

test('a rank that claims to have lost more than any can leaves a status that others can read', () =>
  withPipeline(({ ingest, live }) => {
    const most = Number.MAX_SAFE_INTEGER;
    for (const incarnation of ['0001', '0002']) {
      const header = makeHeader({ incarnation, sequence: most, dropped: { events: most, arguments: 0, names: 0, batches: most } });
      expect(ingest(encodeBatch({ header, strings: [''], tables: createEventTables() }, deflateRawSync)).result).toBe('stored');
    }
    const { runs } = decodeMessage(liveMessageSchema, encodeMessage(live.status()));
    expect(runs[0]?.ranks).toMatchObject([{ batches: 2, missing: most, dropped: { events: most, arguments: 0, names: 0, batches: most } }]);
  }));

test('the life that came last is the one that goes on, though its clock was set back; a service that starts again says the same', () =>
  withPipeline(async (pipeline, out) => {
    const { ingest, live, stores } = pipeline;
    for (let sequence = 0; sequence < 3; sequence++) ingest(makeBatch({ incarnation: '0009', pid: 1, sequence }));
    for (let sequence = 0; sequence < 2; sequence++) ingest(makeBatch({ incarnation: '0004', pid: 2, sequence }));
    // A batch that was on its way changes nothing.
    ingest(makeBatch({ incarnation: '0009', pid: 1, sequence: 3 }));
    const reported = { rank: 0, incarnation: '0004', step: 1, batches: 6, missing: 0 };
    expect(live.status().runs[0]?.ranks).toMatchObject([reported]);
    expect(
      stores
        .get('demo')
        .sources()
        .filter(({ isLatest }) => isLatest),
    ).toMatchObject([{ incarnation: '0004' }]);
    await stores.close();
    const again = createPipeline({ out, onNotice: () => undefined });
    again.stores.get('demo');
    expect(again.live.status().runs[0]?.ranks).toMatchObject([reported]);
    await again.stores.close();
  }));

test('losses that a sender counted are those that status and trace say, whatever came of its batches', async () =>
  withPipeline(async ({ ingest, live, stores }) => {
    const dropped = (events: number, batches: number) => ({ events, arguments: 2 * events, names: 3 * events, batches });
    // In the first life, the batch with the highest counts came before one with lower counts (another client's), and two are missing.
    ingest(makeBatch({ sequence: 0, dropped: dropped(1, 0) }));
    ingest(makeBatch({ sequence: 3, dropped: dropped(7, 2) }));
    ingest(makeBatch({ sequence: 4, dropped: dropped(5, 1), last: true }));
    ingest(makeBatch({ sequence: 0, incarnation: '0002', pid: 4712, dropped: dropped(10, 0), last: true }));
    const status = live.status().runs[0]?.ranks[0];
    expect(status).toMatchObject({ missing: 2, dropped: dropped(17, 2) });
    const totals = await mergeStored(stores.get('demo').sources(), []);
    const reported = totals.reduce((sum, { dropped }) => sumDropped(sum, dropped), noneDropped);
    expect(reported).toEqual(status?.dropped);
    expect(totals.reduce((sum, { missing }) => sum + missing, 0)).toBe(2);
  }));

test('a batch of another run or rank than its subject is for is refused, kept aside and counted', () =>
  withPipeline(({ ingest, stores, quarantine }) => {
    const subjects = [
      'ranktrace.v1.runA.batch.0',
      'ranktrace.v1.runB.batch.1',
      'ranktrace.v1.runB.batch.00',
      'ranktrace.v1.runB.batch.0.0',
    ];
    for (const subject of subjects) {
      expect(ingest(makeBatch({ run: 'runB' }), subject)).toEqual({
        result: 'refused',
        batch: 'runB.0.0001.0',
        reason: `it says that it is of run "runB", rank 0, which "${subject}" is not for`,
      });
    }
    expect(stores.runs()).toEqual([]);
    expect(quarantine.count).toBe(subjects.length);
    expect(ingest(makeBatch({ run: 'runB' }), 'ranktrace.v1.runB.batch.0').result).toBe('stored');
  }));

test('a rank cannot send what stands for other batches', () =>
  withPipeline(({ ingest, stores }) => {
    const events = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };
    const bytes = makeBatch({ sequence: 9, pruned: { from: 0, what: 'detail', on: '2026-01-31', events } });
    expect(ingest(bytes)).toEqual({
      result: 'refused',
      batch: 'demo.0.0001.9',
      reason: 'it was pruned: only a run store may hold it',
    });
    expect(stores.runs()).toEqual([]);
  }));

test('a reopened run has the state it had', async () => {
  using directory = temporaryDirectory();
  const open = () => createPipeline({ out: directory.path, onNotice: () => undefined });
  const first = open();
  for (const sequence of [0, 1, 4, 3]) {
    for (const rank of [0, 1]) {
      first.ingest(makeBatch({ rank, sequence, dropped: { events: sequence, arguments: 0, names: 0, batches: 0 } }));
    }
  }
  first.ingest(makeBatch({ rank: 1, incarnation: '0002', sequence: 0 }));
  const before = stateOf(first);
  await first.stores.close();
  const second = open();
  second.stores.get('demo');
  expect(stateOf(second)).toEqual(before);
  expect(before[0]?.ranks[1]).toMatchObject({ incarnation: '0002', batches: 5, missing: 1, step: 0, dropped: { events: 4 } });
  await second.stores.close();
});

test('refuses hostile input, keeps it aside, counts it, and goes on', () =>
  withPipeline(({ ingest, quarantine, stores }, out) => {
    const bad: [string, Uint8Array, RegExp][] = [
      ['nothing', new Uint8Array(0), /Cannot decode batch/],
      ['a number', Uint8Array.of(1), /it must be a msgpack map/],
      ['half a batch', makeBatch().subarray(0, 100), /Cannot decode batch/],
      ['wrong version', envelope({ v: 2 }), /its protocol version must be 1, got 2/],
      ['too large', Buffer.alloc(limits.batchBytesMax + 1, 0x80), /it may have 983040 bytes, got 983041/],
      ['a bomb', envelope({ size: 100, body: bombBody(64 << 20) }), /not a deflate stream of 100 bytes/],
      ['a bomb that admits it', envelope({ size: limits.bodyBytesMax + 1 }), /header field "size"/],
      ['a body of zeros', envelope({ size: 1e6 }), /Cannot decode batch 0 of rank 0/],
      ['a path as run', envelope({ run: '../../etc' }), /header field "run"/],
    ];
    for (const [name, bytes, reason] of bad) {
      const taken = ingest(bytes);
      expect(taken.result, name).toBe('refused');
      if (taken.result === 'refused') expect(taken.reason, name).toMatch(reason);
    }
    expect(quarantine.count).toBe(bad.length);
    // Bytes of no length cannot be framed.
    expect(scanSegment(join(out, 'quarantine.seg'), () => undefined)).toMatchObject({ frames: bad.length - 1, damaged: 0 });
    expect(stores.runs()).toEqual([]);
    expect(ingest(makeBatch()).result).toBe('stored');
    // An existing run keeps its own bad batches.
    expect(ingest(envelope({ sequence: 9 })).result).toBe('refused');
    expect(stores.quarantined).toBe(1);
    expect(existsSync(join(out, 'demo', 'quarantine.seg'))).toBe(true);
  }));

test('never throws, whatever the bytes', () =>
  withPipeline(({ ingest, quarantine }) => {
    const whole = makeBatch();
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, value]) => {
        const changed = whole.slice();
        changed[at] = value;
        return changed;
      }),
    );
    let refused = 0;
    fc.assert(
      fc.property(bytes, (input) => {
        const taken = ingest(input);
        if (taken.result === 'refused') refused++;
        expect(taken.result).not.toBe('unavailable');
      }),
      { seed: 3, numRuns: 2000 },
    );
    expect(quarantine.count).toBeLessThanOrEqual(refused);
    expect(refused).toBeGreaterThan(500);
  }));

test('takes one run only where that was asked', () =>
  withPipeline(({ ingest, stores }) => {
    expect(ingest(makeBatch({ run: 'other' }))).toMatchObject({ result: 'refused', reason: 'this aggregator takes run "demo" only' });
    expect(stores.runs()).toEqual([]);
    expect(ingest(makeBatch()).result).toBe('stored');
  }, 'demo'));

test('a batch that cannot be stored now is not refused', async () => {
  using directory = temporaryDirectory();
  const holder = createPipeline({ out: directory.path, onNotice: () => undefined });
  const other = createPipeline({ out: directory.path, onNotice: () => undefined });
  expect(holder.ingest(makeBatch()).result).toBe('stored');
  expect(other.ingest(makeBatch({ sequence: 1 }))).toMatchObject({ result: 'unavailable', reason: expect.stringContaining('writes it') });
  await holder.stores.close();
  expect(other.ingest(makeBatch({ sequence: 1 })).result).toBe('stored');
  await other.stores.close();
});

test('a run with closed segments is opened beside everything else: its batches wait, the others do not, and the state is the same', async () => {
  using directory = temporaryDirectory();
  let before: ReturnType<typeof stateOf>;
  {
    await using store = new RunStore(directory.path, 'demo', { segmentBytesMax: 4000 });
    const first = createPipeline({ out: join(directory.path, 'first'), onNotice: () => undefined });
    for (let sequence = 0; sequence < 300; sequence++) {
      // Every other pair arrives the wrong way round.
      const shape = { rank: sequence % 3, sequence: sequence % 4 < 2 ? sequence : sequence ^ 1 };
      store.append(makeBatch(shape), makeHeader(shape));
      first.ingest(makeBatch(shape));
    }
    first.ingest(makeBatch({ sequence: 1000, last: true }));
    before = stateOf(first);
    await first.stores.close();
  }
  const pipeline = createPipeline({ out: directory.path, onNotice: () => undefined });
  const late = makeBatch({ sequence: 1000, last: true });
  expect(pipeline.ingest(late)).toEqual({ result: 'unavailable', batch: 'demo.0.0001.1000', reason: 'run "demo" is being opened' });
  expect(pipeline.ingest(makeBatch({ run: 'other' })).result).toBe('stored');
  await waitUntil('the run is open', () => pipeline.ingest(late).result !== 'unavailable');
  expect(pipeline.ingest(late).result).toBe('duplicate');
  await waitUntil('the state is that of the store', () => !pipeline.replays.isRunning('demo'));
  expect(stateOf(pipeline).find(({ run }) => run === 'demo')).toEqual(before[0]);
  await pipeline.stores.close();
});

test('a replay gives way, takes in what is stored meanwhile, and counts each batch once', async () => {
  using directory = temporaryDirectory();
  await using store = new RunStore(directory.path, 'demo');
  for (let sequence = 0; sequence < 6000; sequence++) store.append(makeBatch({ sequence }), makeHeader({ sequence }));
  const live = new LiveState();
  const replays = new Replays(live, () => undefined);
  const began = performance.now();
  replays.start(store);
  expect(performance.now() - began).toBeLessThan(5000);
  let turns = 0;
  for (; replays.isRunning('demo') && turns < 20; turns++) {
    const shape = { rank: turns % 2, sequence: 6000 + turns };
    store.append(makeBatch(shape), makeHeader(shape));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await waitUntil('the replay ended', () => !replays.isRunning('demo'));
  const events = live.status(0).runs[0]?.ranks.reduce((sum, rank) => sum + rank.events, 0);
  expect(events).toBe(9 * (6000 + turns));
});
