// The shipper over a real nats-server; a client of its own reads the stream back.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  batchId,
  batchSubject,
  batchSubjects,
  clockSubjects,
  controlSubject,
  createEventTables,
  decodeBatchHeader,
  encodeBatch,
  encodeMessage,
  rankTime,
  streamName,
} from '@ranktrace/protocol';
import { type ConnectionOptions, connect, consumerOpts, DiscardPolicy, nkeys } from 'nats';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startNatsServer } from '../../../../test/setup/nats-server.ts';
import { type ProfileOptions, resolveOptions } from '../model/options.ts';
import { openShipper, type Shipper } from '../ship/shipper.ts';
import { NatsTransport } from './nats.ts';

const incarnation = `a-${process.pid.toString(36)}`;
const identity = { run: 'run', rank: 2, incarnation, host: 'here' };

function batch(sequence: number, size = 0): { bytes: Uint8Array; id: string } {
  const dropped = { events: 0, arguments: 0, names: 0, batches: 0 };
  const header = {
    run: 'run',
    rank: 2,
    worldSize: 4,
    incarnation,
    sequence,
    host: 'h',
    hostName: 'h',
    pid: 1,
    epoch: '0',
    watermark: rankTime(0),
    last: false,
    dropped,
  };
  const strings = ['', ...Array.from({ length: Math.ceil(size / 4000) }, () => 'x'.repeat(4000))];
  return { bytes: encodeBatch({ header, strings, tables: createEventTables() }, (body) => body), id: batchId(header) };
}

/** Two cores beside other tests: milliseconds may become seconds. */
const patience = 60_000;
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
async function readStream(url: string, options: ConnectionOptions = {}): Promise<string[]> {
  const connection = await connect({ servers: url, ...options });
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

test('what a killed server acknowledged in its last moments is sent again', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  const before = shipAll(shipper, 0, 20);
  expect(await shipper.drained(patience)).toBe(true);
  await server.kill9();
  // All data that it had in memory and not on disk is gone; here, to be sure, all of it.
  rmSync(server.storeDirectory, { recursive: true, force: true });
  const after = shipAll(shipper, 20, 30);
  await server.restart();
  expect(await shipper.drained(patience)).toBe(true);
  expect(await readStream(server.url)).toEqual([...before, ...after]);
});

test('batches reach the stream in order; the stream is created as agreed', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  const ids = shipAll(shipper, 0, 200);
  expect(await shipper.drained(patience)).toBe(true);
  expect(await readStream(server.url)).toEqual(ids);
  const connection = await connect({ servers: server.url });
  const { config } = await (await connection.jetstreamManager()).streams.info(streamName);
  await connection.close();
  expect(config).toMatchObject({
    subjects: [batchSubjects],
    storage: 'file',
    retention: 'limits',
    duplicate_window: 120e9,
    max_msg_size: 1_048_576,
  });
  expect(notices).toEqual([]);
});

test('a rank that published under the ids of batches to come has none of them swallowed', async () => {
  await using server = await startNatsServer();
  const stranger = await connect({ servers: server.url });
  await (await stranger.jetstreamManager()).streams.add({ name: streamName, subjects: [batchSubjects] });
  const ids = Array.from({ length: 20 }, (_, sequence) => batch(sequence).id);
  for (const msgID of ids) await stranger.jetstream().publish(batchSubject('run', 1), batch(999).bytes, { msgID });
  const shipper = openTo(server.url);
  expect(shipAll(shipper, 0, 20)).toEqual(ids);
  expect(await shipper.drained(patience)).toBe(true);
  expect((await readStream(server.url)).slice(20)).toEqual(ids);
  // A reader of one batch does not learn the id of the next one.
  const seen = new Set<string>();
  for (let sequence = 21; sequence <= 40; sequence++) {
    const { data, header } = await (await stranger.jetstreamManager()).streams.getMessage(streamName, { seq: sequence });
    const [secret = ''] = header.get('Nats-Msg-Id').split('.', 1);
    expect(secret).toMatch(/^[0-9a-f]{32}$/);
    expect(Buffer.from(data).includes(secret)).toBe(false);
    seen.add(secret);
  }
  expect(seen.size).toBe(1);
  await stranger.close();
});

test('a batch that the stream calls a duplicate, and that was never sent, is sent under another id', async () => {
  await using server = await startNatsServer();
  const stranger = await connect({ servers: server.url });
  await (await stranger.jetstreamManager()).streams.add({ name: streamName, subjects: [batchSubjects] });
  const { bytes, id } = batch(0);
  await stranger.jetstream().publish(batchSubject('run', 1), batch(999).bytes, { msgID: `known.${id}` });
  const { nats } = resolveOptions({ run: 'run', rank: 2, worldSize: 4, url: server.url }, {});
  const transport = new NatsTransport(nats, identity, () => 1, 'known');
  const acknowledged: string[] = [];
  await new Promise<void>((up) => {
    const message = (got: { type: string; batch?: string }): void => void (got.type === 'ack' && acknowledged.push(got.batch ?? ''));
    transport.open({ up, down: (line) => notices.push(line), message, notice: (line) => notices.push(line) });
  });
  transport.send(bytes, id);
  await vi.waitFor(() => expect(acknowledged).toEqual([id]), patience);
  expect(await readStream(server.url)).toEqual([batch(999).id, id]);
  // Sent again, it is a duplicate: once in the stream is enough.
  transport.send(batch(1).bytes, batch(1).id);
  transport.send(batch(1).bytes, batch(1).id);
  await vi.waitFor(() => expect(acknowledged).toHaveLength(3), patience);
  expect(await readStream(server.url)).toEqual([batch(999).id, id, batch(1).id]);
  expect(notices).toEqual([]);
  await transport.close();
  await stranger.close();
});

test('the largest batch a rank may send passes', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  const { bytes, id } = batch(0, 975_000);
  expect(bytes.length).toBeGreaterThan(950 * 1024);
  shipper.ship(bytes, id);
  expect(await shipper.drained(patience)).toBe(true);
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
});

test('a server whose store is full is named as what it is, and nobody says that it is back before it takes a batch', async () => {
  await using server = await startNatsServer({ config: 'jetstream { store_dir: "./ranktrace-nats", max_mem: 64MB, max_file: 16MB }' });
  const other = await connect({ servers: server.url });
  const manager = await other.jetstreamManager();
  // Ours, as an older version made it, and another stream that takes all the room.
  await manager.streams.add({ name: streamName, subjects: [batchSubjects] });
  await manager.streams.add({ name: 'OTHER', subjects: ['other'] });
  for (let full = false; !full; ) {
    full = await other
      .jetstream()
      .publish('other', Buffer.alloc(1_000_000))
      .then(
        () => false,
        () => true,
      );
  }
  const shipper = openTo(server.url);
  shipAll(shipper, 0, 20);
  await vi.waitFor(() => expect(notices).toHaveLength(1), { timeout: patience });
  expect(notices[0]).toMatch(
    /^away from nats:.*: the store of the NATS server is full \(max_file, or the limit of the account\): make room, /,
  );
  // Some tries later there is no further notice.
  const tries = async (): Promise<number> => (await manager.getAccountInfo()).api.total;
  const before = await tries();
  await vi.waitFor(async () => expect(await tries()).toBeGreaterThan(before + 50), { timeout: patience });
  expect(notices).toHaveLength(1);
  await manager.streams.purge('OTHER');
  expect(await shipper.drained(patience)).toBe(true);
  expect(notices.slice(1)).toEqual([expect.stringMatching(/^back at nats:/)]);
  await other.close();
});

test('a stream that is full and was set to refuse new batches is named', async () => {
  await using server = await startNatsServer();
  const other = await connect({ servers: server.url });
  const manager = await other.jetstreamManager();
  await manager.streams.add({ name: streamName, subjects: [batchSubjects], max_bytes: 1000, discard: DiscardPolicy.New });
  const shipper = openTo(server.url);
  shipAll(shipper, 0, 20);
  await vi.waitFor(() => expect(notices).toHaveLength(1), { timeout: patience });
  expect(notices[0]).toContain(`the stream ${streamName} is full and refuses new batches: update it to discard old ones`);
  await manager.streams.update(streamName, { discard: DiscardPolicy.Old, max_bytes: -1 });
  expect(await shipper.drained(patience)).toBe(true);
  expect(notices.slice(1)).toEqual([expect.stringMatching(/^back at nats:/)]);
  await other.close();
});

test('batches whose acknowledgements were lost are sent again and stored once', async () => {
  await using server = await startNatsServer();
  const sockets = new Set<Socket>();
  let mute = false;
  const proxy = createServer((client) => {
    const upstream = createConnection(server.port, '127.0.0.1');
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}));
    client.on('data', (data) => upstream.write(data));
    upstream.on('data', (data) => mute || client.write(data));
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const shipper = openTo(`nats://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const ids = shipAll(shipper, 0, 5);
  expect(await shipper.drained(patience)).toBe(true);
  mute = true;
  ids.push(...shipAll(shipper, 5, 15));
  await vi.waitFor(async () => expect(await readStream(server.url)).toEqual(ids), patience);
  expect(await shipper.drained(100)).toBe(false);
  mute = false;
  for (const socket of sockets) socket.destroy();
  expect(await shipper.drained(patience)).toBe(true);
  expect(await readStream(server.url)).toEqual(ids);
  await shipper.close();
  for (const socket of sockets) socket.destroy();
  proxy.close();
});

test('a server that comes late is waited for', async () => {
  const server = await startNatsServer();
  await using _ = server;
  await server.kill9();
  const shipper = openTo(server.url);
  const ids = shipAll(shipper, 0, 5);
  await vi.waitFor(
    () => expect(notices).toEqual([expect.stringMatching(/^away from nats:.*: connection refused; batches wait/)]),
    patience,
  );
  await server.restart();
  expect(await shipper.drained(patience)).toBe(true);
  expect(await readStream(server.url)).toEqual(ids);
});

test('wrong credentials are reported clearly, without the password; right ones work', async () => {
  await using server = await startNatsServer({ config: 'authorization { user: ann, password: geheim }' });
  const wrong = openTo(server.url, { nats: { user: 'ann', pass: 'falsch' } });
  shipAll(wrong, 0, 1);
  await vi.waitFor(() => expect(notices).toHaveLength(1), patience);
  expect(notices[0]).toMatch(/refused the credentials; check options nats\.user.*RANKTRACE_NATS_/);
  expect(await wrong.drained(500)).toBe(false);
  expect(notices.join()).not.toMatch(/geheim|falsch/);
  await wrong.close();
  const right = openTo(server.url.replace('nats://', 'nats://ann:geheim@'));
  shipAll(right, 0, 1);
  expect(await right.drained(patience)).toBe(true);
  expect(notices.join()).not.toMatch(/geheim/);
});

test('a server without JetStream for these credentials is reported', async () => {
  await using server = await startNatsServer({ config: 'accounts { PLAIN { users: [ { user: a, password: b } ] } }' });
  const shipper = openTo(server.url, { nats: { user: 'a', pass: 'b' } });
  shipAll(shipper, 0, 1);
  await vi.waitFor(() => expect(notices.join('\n')).toMatch(/JetStream/), patience);
  expect(await shipper.drained(100)).toBe(false);
});

test('a stream that is deleted under way is created again', async () => {
  await using server = await startNatsServer();
  const shipper = openTo(server.url);
  shipAll(shipper, 0, 3);
  expect(await shipper.drained(patience)).toBe(true);
  const connection = await connect({ servers: server.url });
  await (await connection.jetstreamManager()).streams.delete(streamName);
  await connection.close();
  const after = shipAll(shipper, 3, 6);
  expect(await shipper.drained(patience)).toBe(true);
  // Batches acknowledged just before the deletion are sent again only where it was noticed at once.
  expect((await readStream(server.url)).slice(-after.length)).toEqual(after);
  expect(notices[0]).toMatch(/no JetStream stream takes the batches/);
});

test.for([
  [undefined, 'ranktrace.v1.run.inbox.2'],
  ['_INBOX_of.night', '_INBOX_of.night'],
] as const)(
  'a rank that may only publish batches needs nothing but the stream and answers (inbox prefix %s)',
  async ([inboxPrefix, inbox]) => {
    const permissions = `{ publish: ["ranktrace.v1.*.batch.*"], subscribe: ["${inbox}.>"] }`;
    await using server = await startNatsServer({
      config: `authorization { users: [ { user: admin, password: a }, { user: rank, password: r, permissions: ${permissions} } ] }`,
    });
    const connection = await connect({ servers: server.url, user: 'admin', pass: 'a' });
    await (await connection.jetstreamManager()).streams.add({ name: streamName, subjects: [batchSubjects] });
    await connection.close();
    const shipper = openTo(server.url, { nats: { user: 'rank', pass: 'r', inboxPrefix } });
    const ids = shipAll(shipper, 0, 5);
    expect(await shipper.drained(patience)).toBe(true);
    expect(await readStream(server.url, { user: 'admin', pass: 'a' })).toEqual(ids);
    await vi.waitFor(() => expect(notices.join('\n')).toMatch(/does not permit to publish "ranktrace\.v1\.run\.clock"/), patience);
  },
);

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
    // Half of a burst's pings, of those that were answered in time.
    expect(taken.length).toBeGreaterThan(0);
    return taken;
  }, patience);
  for (const { sent, received, remoteReceived, host } of samples) {
    expect(host).toBe('there');
    expect(sent < remoteReceived && remoteReceived < received).toBe(true);
  }
  aggregator.publish(controlSubject('run'), encodeMessage({ type: 'flush' }));
  await vi.waitFor(() => expect(controls).toEqual(['flush']), patience);
  await aggregator.close();
});

test('an answer that nobody was asked for, on the subject of control messages, sets no clock', async () => {
  await using server = await startNatsServer();
  const stranger = await connect({ servers: server.url });
  const asked: number[] = [];
  stranger.subscribe(clockSubjects, { callback: (_error, message) => asked.push(message.json<{ id: number }>().id) });
  await stranger.flush();
  const shipper = openTo(server.url);
  await vi.waitFor(() => expect(asked.length).toBeGreaterThan(0), patience);
  for (let id = 0; id < 100; id++)
    stranger.publish(controlSubject('run'), encodeMessage({ type: 'clock_pong', id, host: 'there', received: '1', sent: '1' }));
  stranger.publish(controlSubject('run'), encodeMessage({ type: 'flush' }));
  await vi.waitFor(() => expect(controls).toEqual(['flush']), patience);
  expect(shipper.takeClockSamples()).toEqual([]);
  await stranger.close();
});

test('an nkey seed is a credential', async () => {
  const user = nkeys.createUser();
  await using server = await startNatsServer({ config: `authorization { users: [ { nkey: ${user.getPublicKey()} } ] }` });
  const shipper = openTo(server.url, { nats: { nkey: new TextDecoder().decode(user.getSeed()) } });
  shipAll(shipper, 0, 1);
  expect(await shipper.drained(patience)).toBe(true);
});

test('a creds file is a credential', async () => {
  const [operator, system, account, user] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createAccount(), nkeys.createUser()];
  const token = (by: typeof operator, of: typeof operator, claims: object): string => {
    const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const body = { jti: 'x', iat: 1700000000, iss: by.getPublicKey(), sub: of.getPublicKey(), name: 'x', nats: { version: 2, ...claims } };
    const text = `${encode({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encode(body)}`;
    return `${text}.${Buffer.from(by.sign(Buffer.from(text))).toString('base64url')}`;
  };
  const limits = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
  const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };
  await using server = await startNatsServer({
    config: `operator: ${token(operator, operator, { type: 'operator' })}
      system_account: ${system.getPublicKey()}
      resolver: MEMORY
      resolver_preload: {
        ${system.getPublicKey()}: ${token(operator, system, { type: 'account', limits })}
        ${account.getPublicKey()}: ${token(operator, account, { type: 'account', limits: { ...limits, ...storage } })}
      }`,
  });
  const creds = join(directory, 'rank.creds');
  const jwt = token(account, user, { type: 'user', subs: -1, data: -1, payload: -1 });
  const seed = new TextDecoder().decode(user.getSeed());
  writeFileSync(
    creds,
    `-----BEGIN NATS USER JWT-----\n${jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
  );
  const shipper = openTo(server.url, { nats: { creds } });
  shipAll(shipper, 0, 1);
  expect(await shipper.drained(patience), notices.join('\n')).toBe(true);
});

test.each(['tls', 'TLS'])('a server without TLS gets no credentials over %s://, and the notice says why', async (scheme) => {
  let heard = '';
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.write('INFO {"server_id":"x","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576,"auth_required":true}\r\n');
    socket.on('data', (data) => (heard += data.toString('latin1')));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  openTo(`${scheme}://127.0.0.1:${port}`, { nats: { user: 'ann', pass: 'geheim' } });
  await vi.waitFor(
    () =>
      expect(notices).toEqual([
        expect.stringContaining('the NATS server offers no TLS, which tls:// and the files of option nats.tls ask for'),
      ]),
    patience,
  );
  await open?.close();
  for (const socket of sockets) socket.destroy();
  server.close();
  expect(heard).not.toContain('geheim');
});

test('TLS with client certificates: the given authority, certificate and key are used, and without them the server is away', async () => {
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', key, '-out', cert, ...subject], {
    stdio: 'ignore',
  });
  await using server = await startNatsServer({
    config: `tls { cert_file: "${cert}", key_file: "${key}", ca_file: "${cert}", verify: true }`,
  });
  const url = server.url.replace('nats://', 'tls://');
  const untrusting = openTo(url);
  await vi.waitFor(() => expect(notices).toEqual([expect.stringMatching(/^away from tls:.*certificate/)]), patience);
  await untrusting.close();
  const shipper = openTo(url, { nats: { tls: { ca: cert, cert, key } } });
  shipAll(shipper, 0, 1);
  expect(await shipper.drained(patience), notices.join('\n')).toBe(true);
});
