// The shipper over a real nats-server, read back from the stream by a client of its own.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { batchId, batchSubjects, clockSubjects, controlSubject, createEventTables, decodeBatchHeader, encodeBatch, encodeMessage, rankTime, streamName } from '@ranktrace/protocol';
import { connect, consumerOpts } from 'nats';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startNatsServer } from '../../../../test/setup/nats-server.ts';
import { type ProfileOptions, resolveOptions } from '../options.ts';
import { openShipper, type Shipper } from '../shipper.ts';

const incarnation = `a-${process.pid.toString(36)}`;
const identity = { run: 'run', rank: 2, incarnation, host: 'here' };

function batch(sequence: number, size = 0): { bytes: Uint8Array; id: string } {
  const dropped = { events: 0, arguments: 0, names: 0, batches: 0 };
  const header = { run: 'run', rank: 2, worldSize: 4, incarnation, sequence, host: 'h', hostName: 'h', pid: 1, epoch: '0', watermark: rankTime(0), last: false, dropped };
  const strings = ['', ...Array.from({ length: Math.ceil(size / 4000) }, () => 'x'.repeat(4000))];
  return { bytes: encodeBatch({ header, strings, tables: createEventTables() }, (body) => body), id: batchId(header) };
}

let directory: string;
let notices: string[];
let controls: string[];
let open: Shipper | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-nats-test-'));
  notices = [];
  controls = [];
});
afterEach(async () => {
  await open?.close();
  open = undefined;
  rmSync(directory, { recursive: true, force: true });
});

function openTo(url: string, options: ProfileOptions = {}): Shipper {
  const resolved = resolveOptions({ run: 'run', rank: 2, worldSize: 4, url, spoolDirectory: directory, ...options }, {});
  open = openShipper(resolved, identity, { control: ({ type }) => controls.push(type), notice: (line) => notices.push(line) });
  return open;
}

function shipAll(shipper: Shipper, from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, index) => {
    const { bytes, id } = batch(from + index);
    expect(shipper.ship(bytes, id)).toBe(true);
    return id;
  });
}

/** The ids in the stream, in its order. */
async function readStream(url: string): Promise<string[]> {
  const connection = await connect({ servers: url });
  try {
    const { state } = await (await connection.jetstreamManager()).streams.info(streamName);
    const ids: string[] = [];
    if (state.messages === 0) return ids;
    const subscription = await connection.jetstream().subscribe(batchSubjects, consumerOpts().orderedConsumer());
    for await (const message of subscription) {
      ids.push(batchId(decodeBatchHeader(message.data)));
      if (ids.length === state.messages) break;
    }
    return ids;
  } finally {
    await connection.close();
  }
}

test('batches reach the stream in order; the stream is created as agreed', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  const ids = shipAll(shipper, 0, 200);
  expect(await shipper.drained(10_000)).toBe(true);
  expect(await readStream(server.url)).toEqual(ids);
  const connection = await connect({ servers: server.url });
  const { config } = await (await connection.jetstreamManager()).streams.info(streamName);
  await connection.close();
  expect(config).toMatchObject({ subjects: [batchSubjects], storage: 'file', retention: 'limits', duplicate_window: 120e9, max_msg_size: 1_048_576 });
  expect(notices).toEqual([]);
});

test('the largest batch a rank may send passes', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  const { bytes, id } = batch(0, 975_000);
  expect(bytes.length).toBeGreaterThan(950 * 1024);
  shipper.ship(bytes, id);
  expect(await shipper.drained(10_000)).toBe(true);
  expect(await readStream(server.url)).toEqual([id]);
});

test('kill -9 and restart in mid-stream, three times: nothing lost, nothing doubled', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  const ids: string[] = [];
  for (let round = 0; round < 3; round++) {
    for (let step = 0; step < 20; step++) {
      ids.push(...shipAll(shipper, ids.length, ids.length + 20));
      await new Promise((resolve) => setTimeout(resolve, 2));
      if (step === 10) await server.kill9();
    }
    await server.restart();
    await new Promise((resolve) => setTimeout(resolve, round * 300));
  }
  expect(await shipper.drained(25_000)).toBe(true);
  const stored = await readStream(server.url);
  expect(stored).toHaveLength(ids.length);
  expect([...stored].sort()).toEqual([...ids].sort());
  expect(shipper.droppedBatches).toBe(0);
  expect(notices.some((line) => line.startsWith('away from nats://'))).toBe(true);
  expect(notices.at(-1)).toMatch(/^back at nats:/);
}, 60_000);

test('a server that comes late is waited for', async () => {
  const server = await startNatsServer();
  await using _ = server;
  await server.kill9();
  const shipper = openTo(server.url);
  const ids = shipAll(shipper, 0, 5);
  await vi.waitFor(() => expect(notices).toEqual([expect.stringMatching(/^away from nats:.*: connection refused; batches wait/)]));
  await server.restart();
  expect(await shipper.drained(10_000)).toBe(true);
  expect(await readStream(server.url)).toEqual(ids);
});

test('wrong credentials are told clearly, without the password; right ones work', async () => {
  await using server = await startNatsServer({ config: 'authorization { user: ann, password: geheim }' });
  const wrong = openTo(server.url, { nats: { user: 'ann', pass: 'falsch' } });
  shipAll(wrong, 0, 1);
  await vi.waitFor(() => expect(notices).toHaveLength(1), 5000);
  expect(notices[0]).toMatch(/refused the credentials; check options nats\.user.*RANKTRACE_NATS_/);
  expect(await wrong.drained(500)).toBe(false);
  expect(notices.join()).not.toMatch(/geheim|falsch/);
  await wrong.close();
  const right = openTo(server.url.replace('nats://', 'nats://ann:geheim@'));
  shipAll(right, 0, 1);
  expect(await right.drained(5000)).toBe(true);
  expect(notices.join()).not.toMatch(/geheim/);
});

test('a server without JetStream is told, and its stream may be deleted under way', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  shipAll(shipper, 0, 3);
  expect(await shipper.drained(5000)).toBe(true);
  const connection = await connect({ servers: server.url });
  await (await connection.jetstreamManager()).streams.delete(streamName);
  await connection.close();
  const ids = shipAll(shipper, 3, 6);
  expect(await shipper.drained(10_000)).toBe(true);
  expect(await readStream(server.url)).toEqual(ids);
  expect(notices[0]).toMatch(/no JetStream stream takes the batches/);
});

test('a rank that may only publish batches needs nothing but the stream', async () => {
  const permissions = `{ publish: ["ranktrace.v1.*.batch.*"], subscribe: ["_INBOX.>"] }`;
  await using server = await startNatsServer({
    config: `authorization { users: [ { user: admin, password: a }, { user: rank, password: r, permissions: ${permissions} } ] }`,
  });
  const connection = await connect({ servers: server.url, user: 'admin', pass: 'a' });
  await (await connection.jetstreamManager()).streams.add({ name: streamName, subjects: [batchSubjects] });
  await connection.close();
  const shipper = openTo(server.url, { nats: { user: 'rank', pass: 'r' } });
  const ids = shipAll(shipper, 0, 5);
  expect(await shipper.drained(15_000)).toBe(true);
  expect(await readStream(server.url.replace('//', '//admin:a@')).catch(() => readAsAdmin(server.url))).toEqual(ids);
  await vi.waitFor(() => expect(notices.some((line) => /does not permit to publish "ranktrace\.v1\.run\.clock"/.test(line))).toBe(true));
});

async function readAsAdmin(url: string): Promise<string[]> {
  const connection = await connect({ servers: url, user: 'admin', pass: 'a' });
  const stream = await connection.jetstream().streams.get(streamName);
  const ids: string[] = [];
  const { state } = await stream.info();
  for (let sequence = state.first_seq; sequence <= state.last_seq; sequence++) ids.push(batchId(decodeBatchHeader((await stream.getMessage({ seq: sequence })).data)));
  await connection.close();
  return ids;
}

test('the clock is asked by request and reply, and control messages arrive', async () => {
  await using server = await startNatsServer();
  const aggregator = await connect({ servers: server.url });
  aggregator.subscribe(clockSubjects, {
    callback: (_error, message) => {
      const now = String(process.hrtime.bigint());
      const { id } = message.json<{ id: number }>();
      message.respond(encodeMessage({ type: 'clock_pong', id, host: 'there', received: now, sent: now }));
    },
  });
  await aggregator.flush();
  const shipper = openTo(server.url);
  const samples = await vi.waitFor(() => {
    const taken = shipper.takeClockSamples();
    expect(taken).toHaveLength(8);
    return taken;
  }, 5000);
  for (const { sent, received, remoteReceived, host } of samples) {
    expect(host).toBe('there');
    expect(sent < remoteReceived && remoteReceived < received).toBe(true);
  }
  aggregator.publish(controlSubject('run'), encodeMessage({ type: 'flush' }));
  await vi.waitFor(() => expect(controls).toEqual(['flush']));
  await aggregator.close();
});
