// The shipper over a real WebSocket server: the test plays the aggregator, the wire and the spool are real.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  batchId,
  type ControlMessage,
  createEventTables,
  decodeBatchHeader,
  decodeMessage,
  encodeBatch,
  encodeMessage,
  rankMessageSchema,
  rankTime,
} from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { freePort } from '../../../../test/setup/server-process.ts';
import { limits } from '../model/limits.ts';
import { type ProfileOptions, resolveOptions } from '../model/options.ts';
import { openShipper, type Shipper } from '../ship/shipper.ts';
import { Spool } from '../ship/spool.ts';
import { spoolPath } from '../ship/spool-folders.ts';
import { processSpace } from '../ship/spool-owner.ts';

const pid = process.pid.toString(36);
const identity = { run: 'run', rank: 0, incarnation: `b-${pid}`, host: 'here' };
const dropped = { events: 0, arguments: 0, names: 0, batches: 0 };

/** A batch of about `size` bytes. */
function batch(sequence: number, { size = 0, incarnation = identity.incarnation } = {}): { bytes: Uint8Array; id: string } {
  const header = {
    run: 'run',
    rank: 0,
    worldSize: 1,
    incarnation,
    sequence,
    host: 'here',
    hostName: 'here',
    pid: 1,
    epoch: '0',
    watermark: rankTime(0),
    last: false,
    dropped,
  };
  const strings = ['', ...Array.from({ length: Math.ceil(size / 4000) }, () => 'x'.repeat(4000))];
  return { bytes: encodeBatch({ header, strings, tables: createEventTables() }, (body) => body), id: batchId(header) };
}

/** Everything that an aggregator would see; `answer` decides its answers. */
class Peer implements AsyncDisposable {
  readonly received: string[] = [];
  readonly requests: { url: string | undefined; authorization: string | undefined }[] = [];
  answer: (id: string) => ControlMessage | 'cut' | undefined = (batch) => ({ type: 'ack', batch });
  status = 101;
  #http: Server | undefined;
  #sockets = new Set<WebSocket>();
  port = 0;

  async listen(): Promise<this> {
    const http = createServer();
    const server = new WebSocketServer({ noServer: true });
    http.on('upgrade', (request, socket, head) => {
      this.requests.push({ url: request.url, authorization: request.headers.authorization });
      if (this.status !== 101) socket.end(`HTTP/1.1 ${this.status} No\r\n\r\n`);
      else server.handleUpgrade(request, socket, head, (client) => this.#serve(client));
    });
    // None that a listener without a port of its own may get before it listens again.
    http.listen(this.port === 0 ? await freePort() : this.port, '127.0.0.1');
    await once(http, 'listening');
    this.port = (http.address() as AddressInfo).port;
    this.#http = http;
    return this;
  }

  send(message: ControlMessage): void {
    for (const socket of this.#sockets) socket.send(encodeMessage(message));
  }

  /** Reads and answers nothing more on the connections that it has. */
  vanish(): void {
    for (const socket of this.#sockets) socket.pause();
  }

  /** Disappears without a close frame; `listen` brings it back on the same port. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.terminate();
    this.#http?.close();
    if (this.#http?.listening) await once(this.#http, 'close');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #serve(client: WebSocket): void {
    this.#sockets.add(client);
    client.on('error', () => {});
    client.on('close', () => this.#sockets.delete(client));
    client.on('message', (data, isBinary) => {
      if (!isBinary) {
        const { id } = decodeMessage(rankMessageSchema, String(data));
        const now = String(process.hrtime.bigint());
        client.send(encodeMessage({ type: 'clock_pong', id, host: 'there', received: now, sent: now }));
        return;
      }
      const id = batchId(decodeBatchHeader(data as Buffer));
      const answer = this.answer(id);
      if (answer === 'cut') return client.terminate();
      this.received.push(id);
      if (answer !== undefined) client.send(encodeMessage(answer));
    });
  }
}

/** Two cores beside other tests: milliseconds may become seconds. */
const patience = 10_000;
let directory: string;
let notices: string[];
let controls: ControlMessage[];
let open: Shipper | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-ws-test-'));
  notices = [];
  controls = [];
});
afterEach(async () => {
  await open?.close();
  rmSync(directory, { recursive: true, force: true });
});

function openTo(peer: Peer, options: ProfileOptions = {}): Shipper {
  const resolved = resolveOptions({ run: 'run', url: `ws://127.0.0.1:${peer.port}`, spoolDirectory: directory, ...options }, {});
  open = openShipper(resolved, identity, { control: (message) => controls.push(message), notice: (line) => notices.push(line) }, () => 1);
  return open;
}

function shipAll(shipper: Shipper, from: number, to: number, size = 0): string[] {
  return Array.from({ length: to - from }, (_, index) => {
    const { bytes, id } = batch(from + index, { size });
    expect(shipper.ship(bytes, id)).toBe(true);
    return id;
  });
}

test.each([
  ['', '/v1/ingest'],
  ['/', '/v1/ingest'],
  ['/v1/ingest', '/v1/ingest'],
  ['/v1/ingest/', '/v1/ingest'],
  ['/behind/proxy/?key=1#part', '/behind/proxy/v1/ingest?key=1'],
])('a url that ends with "%s" leads to %s', async (end, path) => {
  await using peer = await new Peer().listen();
  const shipper = openTo(peer, { url: `ws://127.0.0.1:${peer.port}${end}` });
  shipAll(shipper, 0, 1);
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.requests.map(({ url }) => url)).toEqual([path]);
});

test.each([
  ['that asks for the clock', 1000],
  ['that does not', undefined],
])('a peer that vanishes silently is given up by a rank %s, and sought again', async (_what, pingsEveryMs) => {
  const bounds = limits as { silenceMsMax: number };
  const { silenceMsMax } = bounds;
  bounds.silenceMsMax = 1200;
  try {
    await using peer = await new Peer().listen();
    const shipper = openTo(peer);
    shipper.setPings(pingsEveryMs);
    shipAll(shipper, 0, 1);
    expect(await shipper.drained(patience)).toBe(true);
    // It answers, though it has nothing to say.
    await new Promise((resolve) => setTimeout(resolve, 2 * bounds.silenceMsMax));
    expect(peer.requests).toHaveLength(1);
    peer.vanish();
    const [id] = shipAll(shipper, 1, 2);
    await expect.poll(() => peer.requests.length, { timeout: patience }).toBeGreaterThan(1);
    expect(await shipper.drained(patience)).toBe(true);
    expect(peer.received).toContain(id);
  } finally {
    bounds.silenceMsMax = silenceMsMax;
  }
});

test('batches arrive in order, are acknowledged, and leave no file', async () => {
  await using peer = await new Peer().listen();
  const shipper = openTo(peer, { token: 'secret' });
  const ids = shipAll(shipper, 0, 100);
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.received).toEqual(ids);
  expect(peer.requests).toEqual([{ url: '/v1/ingest', authorization: 'Bearer secret' }]);
  await shipper.close();
  expect(readdirSync(directory)).toEqual([]);
  expect(notices).toEqual([]);
});

test('at most 16 batches are in flight, 4 MiB in memory; the rest comes from the spool, in order', async () => {
  await using peer = await new Peer().listen();
  peer.answer = () => undefined;
  const shipper = openTo(peer);
  const ids = shipAll(shipper, 0, 40, 400_000);
  await vi.waitFor(() => expect(peer.received).toHaveLength(11), patience);
  expect(await shipper.drained(100)).toBe(false);
  expect(peer.received).toEqual(ids.slice(0, 11));
  peer.answer = (id) => ({ type: 'ack', batch: id });
  for (const id of peer.received) peer.send({ type: 'ack', batch: id });
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.received).toEqual(ids);
});

test('a small window: 16 in flight', async () => {
  await using peer = await new Peer().listen();
  peer.answer = () => undefined;
  const shipper = openTo(peer);
  shipAll(shipper, 0, 40);
  await vi.waitFor(() => expect(peer.received).toHaveLength(16), patience);
  expect(await shipper.drained(100)).toBe(false);
  expect(peer.received).toHaveLength(16);
  expect(shipper.droppedBatches).toBe(0);
});

test('cut off again and again, every batch arrives, and only the first time is reported', async () => {
  await using peer = await new Peer().listen();
  const shipper = openTo(peer);
  let count = 0;
  peer.answer = (id) => (++count % 10 === 0 ? 'cut' : { type: 'ack', batch: id });
  const ids = shipAll(shipper, 0, 50);
  expect(await shipper.drained(patience)).toBe(true);
  // A cut connection may still deliver its buffered batches, beside the next one.
  expect(new Set(peer.received)).toEqual(new Set(ids));
  expect(notices).toEqual([expect.stringMatching(/^away from ws:.*closed \(1006\)/), expect.stringMatching(/^back at ws:/)]);
});

test('an aggregator that starts late gets everything, and one that dies gets what it did not acknowledge again', async () => {
  await using peer = await new Peer().listen();
  await peer.stop();
  const shipper = openTo(peer);
  const ids = shipAll(shipper, 0, 10);
  await vi.waitFor(
    () => expect(notices).toEqual([expect.stringMatching(/^away from ws:.*: ECONNREFUSED; batches wait in the spool$/)]),
    patience,
  );
  peer.answer = () => undefined;
  await peer.listen();
  await vi.waitFor(() => expect(peer.received).toEqual(ids), patience);
  await peer.stop();
  peer.answer = (id) => ({ type: 'ack', batch: id });
  await peer.listen();
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.received).toEqual([...ids, ...ids]);
});

test('a refused batch is counted, reported, and does not hold up the others', async () => {
  await using peer = await new Peer().listen();
  peer.answer = (id) => (id.endsWith('.3') ? { type: 'refused', batch: id, reason: 'quarantined' } : { type: 'ack', batch: id });
  const shipper = openTo(peer);
  shipAll(shipper, 0, 10);
  expect(await shipper.drained(patience)).toBe(true);
  expect(shipper.droppedBatches).toBe(1);
  expect(notices).toEqual([`batch run.0.${identity.incarnation}.3 refused: quarantined`]);
});

test('a full spool drops the new batch, counts it, says so once, and keeps what it has', async () => {
  await using peer = await new Peer().listen();
  await peer.stop();
  const shipper = openTo(peer, { spoolBytesMax: 4 * 1024 * 1024 });
  const shipped = Array.from({ length: 12 }, (_, index) => {
    const { bytes, id } = batch(index, { size: 600_000 });
    return shipper.ship(bytes, id) ? id : undefined;
  });
  const kept = shipped.filter((id) => id !== undefined);
  expect(kept).toHaveLength(6);
  expect(shipper.droppedBatches).toBe(6);
  expect(notices.filter((line) => line.startsWith('spool full')).length).toBe(1);
  await peer.listen();
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.received).toEqual(kept);
  await shipper.close();
  expect(notices.at(-1)).toMatch(/^batches lost in all: 6 \(/);
});

test('what a killed process left is shipped first, and its directory disappears', async () => {
  const dead = spawnSync(process.execPath, ['-e', '']).pid as number;
  const incarnation = `a-${dead.toString(36)}`;
  const left = Spool.open(spoolPath(directory, { ...identity, incarnation }), { owner: processSpace(identity.host) });
  const old = Array.from({ length: 5 }, (_, sequence) => batch(sequence, { incarnation }));
  for (const { bytes } of old) left.append(bytes, 1e9);
  // As if that process had written it.
  writeFileSync(join(left.directory, 'owner'), `${processSpace(identity.host)}\n${dead} ${dead} 1\n`);
  await using peer = await new Peer().listen();
  const shipper = openTo(peer);
  const ids = shipAll(shipper, 0, 3);
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.received).toEqual([...old.map(({ id }) => id), ...ids]);
  expect(existsSync(left.directory)).toBe(false);
  await shipper.close();
  expect(readdirSync(directory)).toEqual([]);
});

test('what is not acknowledged at the end stays for the next start', async () => {
  await using peer = await new Peer().listen();
  peer.answer = (id) => (id.endsWith('.0') ? { type: 'ack', batch: id } : undefined);
  const first = openTo(peer);
  const ids = shipAll(first, 0, 3);
  await vi.waitFor(() => expect(peer.received).toHaveLength(3), patience);
  expect(await first.drained(100)).toBe(false);
  await first.close();
  expect(notices.at(-1)).toMatch(/^not everything was acknowledged: the rest stays in /);
  peer.answer = (id) => ({ type: 'ack', batch: id });
  peer.received.length = 0;
  const resolved = resolveOptions({ run: 'run', url: `ws://127.0.0.1:${peer.port}`, spoolDirectory: directory }, {});
  open = openShipper(resolved, { ...identity, incarnation: `c-${pid}` }, { control: () => {}, notice: () => {} });
  expect(await open.drained(patience)).toBe(true);
  expect(peer.received).toEqual(ids.slice(1));
});

test('the clock of the aggregator is sampled, and control messages reach the recorder', async () => {
  await using peer = await new Peer().listen();
  const shipper = openTo(peer);
  await vi.waitFor(() => expect(peer.requests).toHaveLength(1), patience);
  const samples = await vi.waitFor(() => {
    const taken = shipper.takeClockSamples();
    expect(taken.length).toBe(8);
    return taken;
  }, patience);
  // Both clocks are this process's: the remote time lies within the round trip.
  for (const { sent, received, remoteReceived, remoteSent, host } of samples) {
    expect(host).toBe('there');
    expect(sent < remoteReceived && remoteReceived <= remoteSent && remoteSent < received).toBe(true);
  }
  peer.send({ type: 'flush' });
  await vi.waitFor(() => expect(controls).toEqual([{ type: 'flush' }]), patience);
});

test('a refused token is distinguished from an absent aggregator, without the token', async () => {
  await using peer = await new Peer().listen();
  peer.status = 401;
  const shipper = openTo(peer, { token: 'geheim' });
  await vi.waitFor(() => expect(peer.requests.length).toBeGreaterThan(1), patience);
  expect(notices).toEqual([
    expect.stringMatching(/refused the token \(HTTP 401\); set option token, or variable RANKTRACE_TOKEN or RANKTRACE_RANK_TOKEN/),
  ]);
  expect(notices.join()).not.toContain('geheim');
  peer.status = 101;
  const [id] = shipAll(shipper, 0, 1);
  expect(await shipper.drained(patience)).toBe(true);
  expect(peer.received).toEqual([id]);
});
