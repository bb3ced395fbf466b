// The stream of batches on a real server that has less room than the batches sent through it.

import { join } from 'node:path';
import { batchId, batchSubject, batchSubjects, runBatchSubjects, runInbox, streamName } from '@ranktrace/protocol';
import { AckPolicy, type ConnectionOptions, connect, type NatsConnection } from 'nats';
import { expect, test } from 'vitest';
import { startNatsCluster, startNatsServer } from '../../../../test/setup/nats-server.ts';
import { type Aggregator, startAggregator } from '../service.ts';
import { type BatchShape, makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';
import type { NatsConnectOptions } from './jetstream-ingest.ts';
import { StreamUpkeep } from './stream-upkeep.ts';

/** Room for 16 MiB of batches. */
const small = { config: 'jetstream { store_dir: "./ranktrace-nats", max_mem: 64MB, max_file: 16MB }' };
const oldConfig = { name: streamName, subjects: ['ranktrace.v1.*.batch.*'], max_age: 24 * 3600 * 1e9 };

/** Resolves with its bytes. */
async function publish(connection: NatsConnection, shape: BatchShape): Promise<number> {
  const header = makeHeader(shape);
  const bytes = makeBatch(shape);
  // A busy machine answers late.
  await connection.jetstream().publish(batchSubject(header.run, header.rank), bytes, { msgID: batchId(header), timeout: patience });
  return bytes.length;
}

const patience = 60_000;
const stream = async (connection: NatsConnection) => (await connection.jetstreamManager()).streams.info(streamName);

interface Announcement extends AsyncDisposable {
  readonly aggregator: Aggregator;
  readonly notices: string[];
}

async function start(
  out: string,
  url: string,
  options: { run?: string; stream?: NatsConnectOptions['stream'] } = {},
): Promise<Announcement> {
  const notices: string[] = [];
  const { run, stream } = options;
  const aggregator = await startAggregator({ out, run, nats: { servers: [url], stream }, onNotice: (notice) => notices.push(notice) });
  return { aggregator, notices, [Symbol.asyncDispose]: () => aggregator[Symbol.asyncDispose]() };
}

const stored = ({ aggregator }: Announcement): number =>
  aggregator.status().runs.reduce((sum, { ranks }) => sum + ranks.reduce((of, { batches }) => of + batches, 0), 0);

/** A service has stored the first batch, and is gone. */
async function storeFirst(out: string, url: string, rank: NatsConnection): Promise<void> {
  await using reader = await start(out, url);
  await publish(rank, { sequence: 0 });
  await waitUntil('the first is stored', () => stored(reader) === 1);
}

test('the stream is bounded below what the server has room for, with the copies that were asked for', async () => {
  await using server = await startNatsServer(small);
  using directory = temporaryDirectory();
  await using _reader = await start(directory.path, server.url);
  const rank = await connect({ servers: server.url });
  const { config } = await stream(rank);
  expect(config).toMatchObject({ discard: 'old', num_replicas: 1, max_bytes: 11 * 1024 * 1024 });
  await rank.close();
});

test('copies that a server without a cluster cannot make are refused at the start, by name', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  await expect(start(directory.path, server.url, { stream: { replicas: 3 } })).rejects.toMatchObject({
    code: 'nats_refused',
    message: expect.stringContaining('replicas > 1 not supported in non-clustered mode'),
  });
});

test('a stream of an older version gets its bounds in place, and keeps its batches', async () => {
  await using server = await startNatsServer(small);
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await (await rank.jetstreamManager()).streams.add(oldConfig);
  for (let sequence = 0; sequence < 5; sequence++) await publish(rank, { sequence });
  await using reader = await start(directory.path, server.url);
  await waitUntil('all are stored', () => stored(reader) === 5);
  expect((await stream(rank)).config).toMatchObject({ max_bytes: 11 * 1024 * 1024, discard: 'old' });
  expect(reader.notices).toEqual([expect.stringMatching(/^The stream RANKTRACE has new bounds: bytes: -1 → /)]);
  await rank.close();
});

test('a bound that its owner gave it stays, and one that is asked for by name takes its place', async () => {
  await using server = await startNatsServer(small);
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await (await rank.jetstreamManager()).streams.add({ ...oldConfig, max_bytes: 10_000_000 });
  {
    await using reader = await start(directory.path, server.url);
    expect((await stream(rank)).config.max_bytes).toBe(10_000_000);
    expect(reader.notices).toEqual([]);
  }
  await using _reader = await start(directory.path, server.url, { stream: { bytesMax: 12_000_000 } });
  expect((await stream(rank)).config.max_bytes).toBe(12_000_000);
  await rank.close();
});

test('what every reader has acknowledged is purged, and what one of them has not is kept', { timeout: 2 * patience }, async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await using reader = await start(directory.path, server.url);
  const manager = await rank.jetstreamManager();
  await manager.consumers.add(streamName, { durable_name: 'slow', ack_policy: AckPolicy.Explicit });
  for (let sequence = 0; sequence < 20; sequence++) await publish(rank, { sequence });
  await waitUntil('all are stored', () => stored(reader) === 20);
  const slow = await rank.jetstream().consumers.get(streamName, 'slow');
  let last: Awaited<ReturnType<typeof slow.next>> = null;
  for (let read = 0; read < 8; read++) {
    last = await slow.next({ expires: 5000 });
    await last?.ackAck();
  }
  await waitUntil('eight are purged', async () => (await stream(rank)).state.messages === 12, patience);
  expect((await stream(rank)).state.first_seq).toBe((last?.seq ?? 0) + 1);
  await manager.consumers.delete(streamName, 'slow');
  await waitUntil('all are purged', async () => (await stream(rank)).state.messages === 0, patience);
  expect(reader.aggregator.status().expired).toBe(0);
  await rank.close();
});

test('looks go well while consumers are made and deleted, which a server lists as null then', { timeout: 2 * patience }, async () => {
  await using server = await startNatsServer();
  // A server answers the requests of one connection one at a time.
  const [looking, changing] = [await connect({ servers: server.url }), await connect({ servers: server.url })];
  const manager = await looking.jetstreamManager();
  await manager.streams.add({ name: streamName, subjects: [batchSubjects] });
  const { consumers } = await changing.jetstreamManager();
  let nulls = 0;
  const comeAndGo = async (name: string): Promise<void> => {
    while (nulls < 20) {
      await consumers.add(streamName, { durable_name: name, ack_policy: AckPolicy.Explicit });
      await consumers.delete(streamName, name);
    }
  };
  const coming = Promise.all(Array.from({ length: 8 }, (_, at) => comeAndGo(`reader-${at}`)));
  const notices: string[] = [];
  while (nulls < 20) {
    const listed: readonly unknown[] = await manager.consumers.list(streamName).next();
    nulls += listed.filter((one) => one === null).length;
    const upkeep = new StreamUpkeep({ durable: 'ours', onNotice: (notice) => notices.push(notice) });
    await upkeep.look(manager);
  }
  await coming;
  expect(notices).toEqual([]);
  await looking.close();
  await changing.close();
});

test.for([undefined, 'demo'])(
  'a batch that comes while an empty stream is looked at stays in it (of run %s)',
  { timeout: patience },
  async (run) => {
    await using server = await startNatsServer();
    const connection = await connect({ servers: server.url });
    const manager = await connection.jetstreamManager();
    await manager.streams.add({ name: streamName, subjects: [batchSubjects] });
    await manager.consumers.add(streamName, { durable_name: 'ours', ack_policy: AckPolicy.Explicit });
    const streams = manager.streams;
    const upkeep = new StreamUpkeep({ durable: 'ours', run, onNotice: expect.unreachable });
    await upkeep.look({
      consumers: manager.consumers,
      streams: {
        add: (config) => streams.add(config as Parameters<typeof streams.add>[0]),
        update: (name, config) => streams.update(name, config as Parameters<typeof streams.update>[1]),
        purge: (name, options) => streams.purge(name, options),
        info: async (name) => {
          const info = await streams.info(name);
          await publish(connection, { sequence: 0 });
          return info;
        },
      },
    });
    expect((await stream(connection)).state.messages).toBe(1);
    await connection.close();
  },
);

test('a reader of one run purges that run alone', { timeout: 2 * patience }, async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await using reader = await start(directory.path, server.url, { run: 'demo' });
  for (let sequence = 0; sequence < 10; sequence++) {
    await publish(rank, { sequence });
    await publish(rank, { run: 'other', sequence });
  }
  await waitUntil('its run is stored', () => stored(reader) === 10);
  await waitUntil('its run is purged', async () => (await stream(rank)).state.messages === 10, patience);
  const manager = await rank.jetstreamManager();
  const { state } = await manager.streams.info(streamName, { subjects_filter: runBatchSubjects('other') });
  expect(state.subjects).toEqual({ [batchSubject('other', 0)]: 10 });
  await rank.close();
});

test('the credentials that deploy/make-access.sh gives an aggregator are enough for all of that', { timeout: 2 * patience }, async () => {
  await using server = await startNatsCluster({ names: ['broker.test', '127.0.0.1'], runs: ['demo'] });
  const user = (name: string) => {
    const { RANKTRACE_NATS_USER: user, RANKTRACE_NATS_PASS: pass } = server.environment(name);
    return { servers: [server.url], user, pass, tls: { ca: join(server.access, 'ca.pem') } };
  };
  // A plain client's own check knows no addresses.
  const client = (name: string, inboxPrefix: string): Promise<NatsConnection> => {
    const options = { ...user(name), inboxPrefix, tls: { caFile: join(server.access, 'ca.pem'), servername: 'broker.test' } };
    return connect(options as ConnectionOptions);
  };
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await startAggregator({
    out: directory.path,
    nats: { ...user('aggregator'), stream: { bytesMax: 50_000_000 } },
    onNotice: (notice) => notices.push(notice),
  });
  const rank = await client('run.demo', runInbox('demo'));
  const reader = { aggregator, notices, [Symbol.asyncDispose]: async () => undefined };
  await publish(rank, { sequence: 0 });
  await waitUntil('it is stored', () => stored(reader) === 1);
  const look = await client('aggregator', 'ranktrace.inbox.test');
  const state = async () => (await (await look.jetstreamManager({ checkAPI: false })).streams.info(streamName)).state;
  await waitUntil('it is purged', async () => (await state()).messages === 0, patience);
  // As an older version made it.
  await (await look.jetstreamManager({ checkAPI: false })).streams.update(streamName, { max_bytes: -1 });
  using another = temporaryDirectory();
  await using _second = await startAggregator({ out: another.path, nats: user('aggregator'), onNotice: (notice) => notices.push(notice) });
  expect(notices).toEqual([expect.stringMatching(/^The stream RANKTRACE has new bounds: /)]);
  await look.close();
  await rank.close();
});

test('a server that takes less than what is sent goes on taking batches while somebody reads them', { timeout: 4 * patience }, async () => {
  await using server = await startNatsServer(small);
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await using reader = await start(directory.path, server.url);
  // Three times the room of the server; without a bound it rejects the 17th MiB.
  let bytes = 0;
  for (let sequence = 0; bytes < 48 * 1024 * 1024; sequence++) {
    bytes += await publish(rank, { sequence, ballastKb: 800 });
    await waitUntil(`batch ${sequence} is stored`, () => stored(reader) > sequence - 8, patience);
  }
  const { state, config } = await stream(rank);
  expect(state.bytes).toBeLessThanOrEqual(config.max_bytes);
  expect(reader.aggregator.status().expired).toBe(0);
  await rank.close();
});

test('batches that the stream deleted before they were read are counted and reported, after a while away', {
  timeout: 2 * patience,
}, async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await storeFirst(directory.path, server.url, rank);
  for (let sequence = 1; sequence <= 90; sequence++) await publish(rank, { sequence });
  const manager = await rank.jetstreamManager();
  // As its age would.
  await manager.streams.purge(streamName, { keep: 7 });
  await using reader = await start(directory.path, server.url);
  await waitUntil('the rest is stored', () => stored(reader) === 8, patience);
  expect(reader.aggregator.status().expired).toBe(83);
  expect(reader.notices.filter((notice) => notice.includes('lost'))).toEqual([
    '83 batches are lost: the stream RANKTRACE deleted them by its age (24 h) or size, before they could be read; docs/operations.md says how to size it',
  ]);
  expect(reader.aggregator.status().runs[0]?.ranks[0]?.missing).toBe(83);
  await rank.close();
});

test('… and when nothing is left to be read', { timeout: 2 * patience }, async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await storeFirst(directory.path, server.url, rank);
  for (let sequence = 1; sequence <= 9; sequence++) await publish(rank, { sequence });
  await (await rank.jetstreamManager()).streams.update(streamName, { max_age: 1e9, duplicate_window: 1e9 });
  await waitUntil('all are too old', async () => (await stream(rank)).state.messages === 0, patience);
  await using reader = await start(directory.path, server.url);
  expect(reader.aggregator.status().expired).toBe(9);
  await rank.close();
});

test('… but not those that came while an earlier one was missed', { timeout: patience }, async () => {
  await using server = await startNatsServer();
  const connection = await connect({ servers: server.url });
  const manager = await connection.jetstreamManager();
  await manager.streams.add({ name: streamName, subjects: [batchSubjects] });
  for (let sequence = 0; sequence < 30; sequence++) await publish(connection, { sequence });
  const notices: string[] = [];
  const upkeep = new StreamUpkeep({ durable: 'ours', onNotice: (notice) => notices.push(notice) });
  await upkeep.begin(manager, 0);
  for (let sequence = 1; sequence <= 5; sequence++) upkeep.took(sequence, false);
  // 6 was sent to a fetch that had ended.
  for (let sequence = 7; sequence <= 20; sequence++) upkeep.took(sequence, true);
  await manager.streams.purge(streamName, { seq: 24 });
  expect(await upkeep.begin(manager, 5)).toBe(24);
  expect(upkeep.expired).toBe(4);
  expect(notices).toEqual([expect.stringMatching(/^4 batches are lost: /)]);
  for (let sequence = 24; sequence <= 30; sequence++) upkeep.took(sequence, false);
  expect(upkeep.expired).toBe(4);
  await connection.close();
});
