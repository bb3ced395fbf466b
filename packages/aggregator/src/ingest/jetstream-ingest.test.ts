import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import {
  batchId,
  batchSubject,
  clockSubject,
  controlMessageSchema,
  controlSubject,
  decodeBatchHeader,
  decodeMessage,
  limits as limitsOfProtocol,
  streamConfig,
  streamName,
} from '@ranktrace/protocol';
import { connect, type NatsConnection } from 'nats';
import { expect, test } from 'vitest';
import { startNatsServer } from '../../../../test/setup/nats-server.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { type Aggregator, type AggregatorOptions, startAggregator } from '../service.ts';
import { storeId } from '../store/store-id.ts';
import { type BatchShape, makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { checkNats, JetStreamIngest } from './jetstream-ingest.ts';

/** Publishes until the stream has it, as a rank does. */
async function publish(connection: NatsConnection, shape: BatchShape): Promise<void> {
  const header = makeHeader(shape);
  for (;;) {
    try {
      await connection
        .jetstream({ timeout: 1000 })
        .publish(batchSubject(header.run, header.rank), makeBatch(shape), { msgID: batchId(header) });
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

const start = (out: string, url: string, options: Partial<AggregatorOptions> = {}): Promise<Aggregator> =>
  startAggregator({ out, nats: { servers: [url] }, ...options });

function expectAll(aggregator: Aggregator, ranks: number, batches: number): void {
  const sources = aggregator.store('demo').sources();
  expect(sources.map(({ rank, count, missing }) => [rank, count, missing])).toEqual(
    Array.from({ length: ranks }, (_, rank) => [rank, batches, 0]),
  );
  for (const source of sources) {
    for (let index = 0; index < source.count; index++) expect(decodeBatchHeader(source.read(index) as Uint8Array).sequence).toBe(index);
  }
}

const stored = (aggregator: Aggregator): number =>
  (aggregator.status().runs[0]?.ranks ?? []).reduce((sum, { batches }) => sum + batches, 0);

test('a service whose lock of NATS was taken stops reading it, says so once, and keeps the locks of its runs', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await start(directory.path, server.url, { onNotice: (notice) => notices.push(notice) });
  expect(aggregator.ingest(makeBatch()).result).toBe('stored');
  const lock = join(directory.path, 'demo', 'lock');
  writeFileSync(join(directory.path, 'nats.lock'), `${JSON.stringify({ pid: 1, started: '1', place: 'another host' })}\n`);
  await waitUntil('it notices', () => notices.length > 0);
  const lostAt = Date.now();
  for (let sequence = 1; statSync(lock).mtimeMs <= lostAt; sequence++) {
    expect(aggregator.ingest(makeBatch({ sequence })).result).toBe('stored');
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const rank = await connect({ servers: server.url });
  await publish(rank, { run: 'other' });
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(aggregator.runs()).toEqual(['demo']);
  expect(notices).toEqual([expect.stringMatching(/^NATS is not read any more, .*: another process reads it for /)]);
  await rank.close();
});

test('takes batches, answers pings, publishes control messages', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  await using aggregator = await start(directory.path, server.url);
  const rank = await connect({ servers: server.url });
  const control: string[] = [];
  rank.subscribe(controlSubject('demo'), { callback: (_error, message) => control.push(message.string()) });
  for (let sequence = 0; sequence < 20; sequence++) await publish(rank, { sequence });
  await rank.jetstream().publish(batchSubject('demo', 0), Buffer.from('garbage'));
  await waitUntil('all are stored', () => stored(aggregator) === 20);
  await waitUntil('the garbage is counted', () => aggregator.status().quarantined === 1);
  const answer = await rank.request(clockSubject('demo'), '{"type":"clock_ping","id":3}', { timeout: 60_000 });
  expect(decodeMessage(controlMessageSchema, answer.string())).toMatchObject({ type: 'clock_pong', id: 3 });
  await aggregator.flushRanks();
  await waitUntil('the flush is heard', () => control.length > 0);
  expect(control).toEqual(['{"type":"flush"}']);
  const manager = await rank.jetstreamManager();
  const [consumer] = await manager.consumers.list('RANKTRACE').next();
  expect(consumer).toMatchObject({ num_ack_pending: 0, num_pending: 0, num_redelivered: 0 });
  expect((await manager.streams.info('RANKTRACE')).config).toMatchObject({
    ...streamConfig,
    discard: 'old',
    max_bytes: limitsOfProtocol.streamBytesMax,
    max_age: 24 * 3600 * 1e9,
  });
  await rank.close();
});

test('nothing is lost or doubled over kill -9 of the server and restarts of the aggregator', { timeout: 120_000 }, async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const [ranks, batches] = [4, 300];
  const rank = await connect({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  let aggregator = await start(directory.path, server.url);
  let published = 0;
  const publishing = Promise.all(
    Array.from({ length: ranks }, async (_, number) => {
      for (let sequence = 0; sequence < batches; sequence++) {
        await publish(rank, { rank: number, sequence });
        published++;
        if (sequence % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }),
  );
  try {
    for (let round = 0; round < 3; round++) {
      await waitUntil(`round ${round} of publishing`, () => published >= (round + 1) * 250);
      await server.kill9();
      await server.restart();
      await aggregator[Symbol.asyncDispose]();
      aggregator = await start(directory.path, server.url, { run: 'demo' });
    }
    await publishing;
    await waitUntil('all are stored', () => stored(aggregator) >= ranks * batches);
    expectAll(aggregator, ranks, batches);
  } finally {
    await aggregator[Symbol.asyncDispose]();
    await rank.close();
  }
});

test('goes on by itself when the server comes back', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await start(directory.path, server.url, { onNotice: (notice) => notices.push(notice) });
  const rank = await connect({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  await publish(rank, { sequence: 0 });
  await waitUntil('the first is stored', () => stored(aggregator) === 1);
  await server.kill9();
  await waitUntil('the loss was reported', () => notices.some((notice) => notice.includes('is gone; trying again')));
  await server.restart();
  await publish(rank, { sequence: 1 });
  await waitUntil('the second is stored', () => stored(aggregator) === 2);
  await rank.close();
});

test('what was on its way to an aggregator that died comes at once, not after the time that the server waits for its acknowledgement', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  const first = await start(directory.path, server.url);
  await publish(rank, { sequence: 0 });
  await waitUntil('the first is stored', () => stored(first) === 1);
  await first[Symbol.asyncDispose]();
  for (let sequence = 1; sequence < 5; sequence++) await publish(rank, { sequence });
  // Another reader with the same name takes them and dies with them.
  const name = `aggregator-${storeId(directory.path)}`;
  const messages = await (await rank.jetstream().consumers.get(streamName, name)).fetch({ max_messages: 4, expires: 2000 });
  let taken = 0;
  for await (const _ of messages) if (++taken === 4) break;
  await using second = await start(directory.path, server.url);
  const began = performance.now();
  await waitUntil('the others are stored', () => stored(second) === 5, limits.natsAckWaitMs / 2);
  expect(performance.now() - began).toBeLessThan(limits.natsAckWaitMs / 2);
  expectAll(second, 1, 5);
  await rank.close();
});

test.each([
  ['once it can', false],
  ['by the next service', true],
])('a run that cannot be stored stops no other, however many batches wait, and is read %s', async (_, isNext) => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const refused = join(directory.path, 'refused');
  mkdirSync(refused);
  writeFileSync(join(refused, 'run.json'), '{"format":99,"run":"refused"}');
  const rank = await connect({ servers: server.url });
  const first = await start(directory.path, server.url);
  const count = limits.natsAckPendingMax + 88;
  for (let sequence = 0; sequence < count; sequence++) await publish(rank, { run: 'refused', sequence });
  for (let sequence = 0; sequence < 5; sequence++) await publish(rank, { sequence });
  const readOf = (aggregator: Aggregator, run: string) => aggregator.runs().includes(run) && aggregator.store(run).sources()[0]?.count;
  await waitUntil('the other run is stored', () => readOf(first, 'demo') === 5);
  if (isNext) await first[Symbol.asyncDispose]();
  rmSync(refused, { recursive: true });
  await using second = isNext ? await start(directory.path, server.url) : undefined;
  const aggregator = second ?? first;
  await waitUntil('it is stored, too', () => readOf(aggregator, 'refused') === count);
  expect(aggregator.store('refused').sources()).toMatchObject([{ count, missing: 0 }]);
  const manager = await rank.jetstreamManager();
  const consumer = async () => (await manager.consumers.list(streamName).next())[0];
  await waitUntil('nothing waits', async () => {
    const { num_ack_pending, num_pending } = (await consumer()) ?? {};
    return num_ack_pending === 0 && num_pending === 0;
  });
  if (!isNext) await first[Symbol.asyncDispose]();
  await rank.close();
});

test('publishes text for whoever listens, and says when the server is out of reach', async () => {
  await using server = await startNatsServer();
  const ingest = await JetStreamIngest.start({
    nats: { servers: [server.url] },
    storeId: 'test',
    ingest: () => ({ result: 'unavailable', batch: '', reason: 'nothing comes here' }),
    runs: () => [],
    onNotice: () => undefined,
  });
  const said: string[] = [];
  const listener = await connect({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  listener.subscribe('ranktrace.v1.*.alert', { callback: (_error, message) => said.push(message.string()) });
  await listener.flush();
  await ingest.publish('ranktrace.v1.demo.alert', 'one');
  await waitUntil('it is heard', () => said.length === 1);
  await server.kill9();
  await waitUntil('it says that the server is gone', () =>
    ingest.publish('ranktrace.v1.demo.alert', 'two').then(
      () => false,
      () => true,
    ),
  );
  await server.restart();
  await waitUntil('it works again', () =>
    ingest.publish('ranktrace.v1.demo.alert', 'three').then(
      () => true,
      () => false,
    ),
  );
  await waitUntil('it is heard again', () => said.includes('three'));
  await ingest.close();
  await listener.close();
});

test('text on a subject that the user may not publish on is not sent, and the server is there', async () => {
  const permissions = '{ publish: { deny: "ops.>" } }';
  await using server = await startNatsServer({
    config: `authorization { users: [{ user: a, password: b, permissions: ${permissions} }] }`,
  });
  const notices: string[] = [];
  const ingest = await JetStreamIngest.start({
    nats: { servers: [server.url], user: 'a', pass: 'b' },
    storeId: 'test',
    ingest: () => ({ result: 'unavailable', batch: '', reason: 'nothing comes here' }),
    runs: () => [],
    onNotice: (notice) => notices.push(notice),
  });
  for (let again = 0; again < 3; again++) {
    await expect(ingest.publish('ops.alerts.demo', 'one')).rejects.toThrow('may not publish on "ops.alerts.demo"');
    await ingest.publish('ranktrace.v1.demo.alert', 'two');
  }
  expect(notices[0]).toMatch(/PERMISSIONS_VIOLATION.*ops\.alerts\.demo/);
  await ingest.close();
});

test.each([
  ['with more behind them', 5],
  ['and nothing comes after them', 0],
])('deliveries that reached nobody come again at once, %s, and are not called lost', async (_, more) => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await start(directory.path, server.url, { onNotice: (notice) => notices.push(notice) });
  const rank = await connect({ servers: server.url });
  // Another client of the same consumer takes some and answers nothing, like a fetch that had ended.
  const consumer = await rank.jetstream().consumers.get(streamName, `aggregator-${storeId(directory.path)}`);
  const { created } = await consumer.info();
  const stolen: number[] = [];
  const stealing = (async () => {
    for await (const message of await consumer.fetch({ max_messages: 3, expires: 5000 })) stolen.push(message.seq);
  })();
  let sequence = 0;
  for (; stolen.length < 3 && sequence < 400; sequence++) await publish(rank, { sequence });
  await stealing;
  expect(stolen).toHaveLength(3);
  for (const end = sequence + more; sequence < end; sequence++) await publish(rank, { sequence });
  await waitUntil('all are stored', () => stored(aggregator) === sequence);
  expectAll(aggregator, 1, sequence);
  expect(notices).toEqual([]);
  // The test did not wait for the server's own redelivery.
  expect((await consumer.info()).created).not.toBe(created);
  await rank.close();
});

test('a service that is asked to end takes first what the stream holds', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  const aggregator = await start(directory.path, server.url, { run: 'demo' });
  for (let sequence = 0; sequence < 400; sequence++) await publish(rank, { sequence });
  await aggregator[Symbol.asyncDispose]();
  await using again = await startAggregator({ out: directory.path, run: 'demo' });
  expectAll(again, 1, 400);
  await rank.close();
});

test('what a service reads while it ends is known to its alerts', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  const aggregator = await start(directory.path, server.url);
  for (let sequence = 0; sequence < 3000; sequence++)
    rank.publish(batchSubject('demo', 0), makeBatch({ sequence, spans: 1, worldSize: 1 }));
  await rank.flush();
  await waitUntil('it reads', () => stored(aggregator) > 0);
  await aggregator[Symbol.asyncDispose]();
  const { batches } = JSON.parse(readFileSync(join(directory.path, 'demo', 'alert-state.json'), 'utf8')) as { batches: number };
  await using again = await startAggregator({ out: directory.path, run: 'demo' });
  expect(batches).toBe(again.store('demo').sources()[0]?.count);
  await rank.close();
});

test('a batch of another run than its subject is for is refused once and for all, reported and counted', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await start(directory.path, server.url, { onNotice: (notice) => notices.push(notice) });
  const rank = await connect({ servers: server.url });
  await rank.jetstream().publish(batchSubject('runA', 0), makeBatch({ run: 'runB' }));
  await rank.jetstream().publish(batchSubject('runA', 0), makeBatch({ run: 'runA', rank: 1 }));
  await waitUntil('both are counted', () => aggregator.status().quarantined === 2);
  const mismatch = (run: string, number: number): string =>
    `A batch on "ranktrace.v1.runA.batch.0" was refused: it says that it is of run "${run}", rank ${number}, which "ranktrace.v1.runA.batch.0" is not for`;
  expect(notices).toEqual([mismatch('runB', 0), mismatch('runA', 1)]);
  expect(aggregator.runs()).toEqual([]);
  await rank.close();
});

test('the answer to a ping goes to no subject of another run, of an aggregator or of the server', async () => {
  await using server = await startNatsServer();
  using directory = temporaryDirectory();
  await using _aggregator = await start(directory.path, server.url);
  const rank = await connect({ servers: server.url });
  const own = 'ranktrace.v1.runA.inbox.1';
  const foreign = [
    controlSubject('runB'),
    'ranktrace.v1.runB.inbox.1',
    controlSubject('runA'),
    'ranktrace.inbox.1',
    '$SYS.x',
    batchSubject('runB', 0),
  ];
  const heard: string[] = [];
  // The aggregator's own talk with the server is no answer.
  rank.subscribe('>', { callback: (_error, { subject }) => [own, ...foreign].includes(subject) && heard.push(subject) });
  for (const reply of foreign) rank.publish(clockSubject('runA'), '{"type":"clock_ping","id":1}', { reply });
  rank.publish(clockSubject('runA'), '{"type":"clock_ping","id":2}', { reply: own });
  await rank.request(clockSubject('runA'), '{"type":"clock_ping","id":3}', { timeout: 60_000 });
  expect(heard).toEqual([own]);
  await rank.close();
});

test('another output directory is another reader; one run can be asked for', async () => {
  await using server = await startNatsServer();
  using first = temporaryDirectory();
  using second = temporaryDirectory();
  const rank = await connect({ servers: server.url });
  await using one = await start(first.path, server.url);
  await using two = await start(second.path, server.url, { run: 'demo' });
  for (let sequence = 0; sequence < 5; sequence++) {
    await publish(rank, { sequence });
    await publish(rank, { run: 'other', sequence });
  }
  await waitUntil(
    'the first reader has both runs',
    () => one.status().runs.reduce((sum, run) => sum + (run.ranks[0]?.batches ?? 0), 0) === 10,
  );
  await waitUntil('the second reader has its run', () => stored(two) === 5);
  expect(two.runs()).toEqual(['demo']);
  await rank.close();
});

test('says clearly why NATS cannot be used', async () => {
  using directory = temporaryDirectory();
  await using server = await startNatsServer({ config: 'authorization { user: ranktrace, password: right }' });
  const nats = { servers: ['nats://user:hidden@127.0.0.1:1'] };
  await expect(startAggregator({ out: directory.path, nats })).rejects.toMatchObject({
    code: 'nats_unreachable',
    message: 'Cannot connect to NATS at nats://127.0.0.1:1: no server answers there',
  });
  await expect(start(directory.path, server.url)).rejects.toMatchObject({
    code: 'nats_refused',
    message: expect.stringContaining('refused the credentials'),
  });
  const right = { servers: [server.url], user: 'ranktrace', pass: 'right' };
  await using aggregator = await startAggregator({ out: directory.path, nats: right });
  expect(aggregator.status().runs).toEqual([]);
  expect(await checkNats(right)).toMatchObject({ jetStream: true, version: expect.stringMatching(/^2\./) });
});

test('what is wrong here is not blamed on a server that answers', async () => {
  using directory = temporaryDirectory();
  const creds = join(directory.path, 'run.creds');
  writeFileSync(creds, 'sesame\n');
  const isTls = { open: false, tls: true };
  const reasons: string[] = [];
  for (const [name, options] of [
    ['open', { nkey: 'sesame' }],
    ['open', { creds }],
    ['open', { tls: { ca: '/nowhere/ca.pem' } }],
    ['tls', { tls: { ca: '/nowhere/ca.pem' } }],
  ] as const) {
    const info = {
      server_id: 'x',
      version: '2.9.10',
      proto: 1,
      headers: true,
      max_payload: 1048576,
      nonce: 'abc',
      tls_required: isTls[name],
    };
    const server = createServer((socket) => socket.on('error', () => undefined).write(`INFO ${JSON.stringify(info)}\r\n`));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const error = await checkNats({ servers: [`nats://127.0.0.1:${port}`], ...options }).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'nats_refused' });
    reasons.push(String(error).replace(/^.*127\.0\.0\.1:\d+: /, ''));
    server.close();
  }
  expect(reasons).toEqual([
    'the credentials for it cannot be used (nkeys: invalid encoded key); check RANKTRACE_NATS_CREDS or RANKTRACE_NATS_NKEY',
    'the credentials for it cannot be used (BAD_CREDS); check RANKTRACE_NATS_CREDS or RANKTRACE_NATS_NKEY',
    'it has no TLS; give nats:// without RANKTRACE_NATS_TLS_*, or turn its TLS on',
    "TLS is not possible (/nowhere/ca.pem doesn't exist); check RANKTRACE_NATS_TLS_CA, _CERT and _KEY",
  ]);
});

test('waits for a server that is not there yet where that was asked', async () => {
  let url: string;
  let port: number;
  {
    await using server = await startNatsServer();
    ({ url, port } = server);
  }
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await startAggregator({
    out: directory.path,
    nats: { servers: [url], wait: true },
    onNotice: (notice) => notices.push(notice),
  });
  await waitUntil('it was reported', () => notices.length > 0);
  expect(notices).toEqual([`Cannot connect to NATS at ${url}: no server answers there; trying again`]);
  await using _server = await startNatsServer({ port });
  const rank = await connect({ servers: url });
  const ready = async (): Promise<boolean> =>
    (await rank.jetstreamManager()).streams.info('RANKTRACE').then(
      () => true,
      () => false,
    );
  await waitUntil('the stream was made', ready);
  await publish(rank, {});
  await waitUntil('it is stored', () => stored(aggregator) === 1);
  await rank.close();
});

test('deploy/nats.conf is one that this nats-server takes', () => {
  const config = join(import.meta.dirname, '../../../../deploy/nats.conf');
  execFileSync(process.env.NATS_SERVER_BIN ?? 'nats-server', ['-c', config, '-t'], { stdio: 'pipe' });
});
