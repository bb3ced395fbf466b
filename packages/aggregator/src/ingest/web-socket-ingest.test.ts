import { once } from 'node:events';
import { request } from 'node:http';
import { createConnection } from 'node:net';
import { type ControlMessage, controlMessageSchema, decodeMessage, limits, liveMessageSchema } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type Aggregator, type AggregatorOptions, startAggregator } from '../service.ts';
import { makeBatch } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';

interface Client extends AsyncDisposable {
  readonly socket: WebSocket;
  readonly messages: ControlMessage[];
}

async function connectTo(aggregator: Aggregator, headers: Record<string, string> = {}): Promise<Client> {
  const socket = new WebSocket(`${aggregator.address.replace('http', 'ws')}/v1/ingest`, { headers });
  const messages: ControlMessage[] = [];
  socket.on('message', (data) => messages.push(decodeMessage(controlMessageSchema, String(data))));
  await new Promise<void>((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const close = async (): Promise<void> => {
    if (socket.readyState === WebSocket.CLOSED) return;
    const closed = once(socket, 'close');
    socket.close();
    await closed;
  };
  return { socket, messages, [Symbol.asyncDispose]: close };
}

async function withAggregator(
  options: Partial<AggregatorOptions>,
  use: (aggregator: Aggregator, notices: string[]) => Promise<void>,
): Promise<void> {
  using directory = temporaryDirectory();
  const notices: string[] = [];
  await using aggregator = await startAggregator({ out: directory.path, onNotice: (notice) => notices.push(notice), ...options });
  await use(aggregator, notices);
}

test('acknowledges each batch once it is stored, duplicates too', () =>
  withAggregator({}, async (aggregator) => {
    await using client = await connectTo(aggregator);
    for (let sequence = 0; sequence < 500; sequence++) client.socket.send(makeBatch({ sequence }));
    client.socket.send(makeBatch({ sequence: 7 }));
    await waitUntil('all are acknowledged', () => client.messages.length === 501);
    expect(client.messages.slice(0, 500)).toEqual(
      Array.from({ length: 500 }, (_, sequence) => ({ type: 'ack', batch: `demo.0.0001.${sequence}` })),
    );
    expect(client.messages[500]).toEqual({ type: 'ack', batch: 'demo.0.0001.7' });
    expect(aggregator.store('demo').sources()[0]?.count).toBe(500);
    const response = await fetch(`${aggregator.address}/status`);
    const status = decodeMessage(liveMessageSchema, await response.text());
    const [rank] = status.runs[0]?.ranks ?? [];
    expect(aggregator.status().runs).toEqual([{ ...status.runs[0], ranks: [{ ...rank, silentMs: expect.any(Number) }] }]);
    expect(status.runs[0]?.ranks[0]).toMatchObject({ batches: 500, events: 4500, step: 499 });
    expect(await (await fetch(`${aggregator.address}/healthz`)).text()).toBe('ok\n');
    expect((await fetch(`${aggregator.address}/elsewhere`)).status).toBe(404);
  }));

test('a control message that names a run goes to the ranks of that run alone', () =>
  withAggregator({}, async (aggregator) => {
    await using mine = await connectTo(aggregator);
    await using others = await connectTo(aggregator);
    mine.socket.send(makeBatch({ run: 'mine' }));
    others.socket.send(makeBatch({ run: 'mine-too' }));
    await waitUntil('both are stored', () => mine.messages.length + others.messages.length === 2);
    await aggregator.pullFlightRecorders('mine');
    await aggregator.flushRanks();
    await waitUntil('both were asked for what they have', () => [mine, others].every(({ messages }) => messages.at(-1)?.type === 'flush'));
    expect(mine.messages.map(({ type }) => type)).toEqual(['ack', 'pull', 'flush']);
    expect(others.messages.map(({ type }) => type)).toEqual(['ack', 'flush']);
  }));

test('answers clock pings with its own monotonic clock', () =>
  withAggregator({}, async (aggregator) => {
    await using client = await connectTo(aggregator);
    const before = process.hrtime.bigint();
    client.socket.send('{"type":"clock_ping","id":5}');
    await waitUntil('the pong came', () => client.messages.length === 1);
    const [pong] = client.messages;
    if (pong?.type !== 'clock_pong') throw new Error(`not a pong: ${JSON.stringify(pong)}`);
    expect(pong.id).toBe(5);
    expect(BigInt(pong.received)).toBeGreaterThan(before);
    expect(BigInt(pong.sent)).toBeGreaterThanOrEqual(BigInt(pong.received));
    expect(BigInt(pong.sent)).toBeLessThan(process.hrtime.bigint());
    expect(pong.host).toMatch(/^[0-9a-f-]{36}$/);
  }));

test('survives hostile connections: refused, counted, and others go on', () =>
  withAggregator({}, async (aggregator, notices) => {
    await using client = await connectTo(aggregator);
    client.socket.send(Buffer.from('hello'));
    client.socket.send(Buffer.alloc(limits.batchBytesMax + 1));
    client.socket.send(makeBatch());
    await waitUntil('all are answered', () => client.messages.length === 3);
    expect(client.messages.map(({ type }) => type)).toEqual(['refused', 'refused', 'ack']);
    for (const [message, code] of [
      [Buffer.alloc(2 << 20), 1009],
      ['{"type":"ack"}', 1008],
      ['not JSON', 1008],
    ] as const) {
      await using hostile = await connectTo(aggregator);
      hostile.socket.on('error', () => undefined);
      hostile.socket.send(message);
      const [closed] = await once(hostile.socket, 'close');
      expect(closed).toBe(code);
    }
    const garbage = createConnection(Number(new URL(aggregator.address).port), '127.0.0.1');
    garbage
      .resume()
      .on('error', () => undefined)
      .write('\x00\x01\x02 no HTTP\r\n\r\n');
    await once(garbage, 'close');
    expect(aggregator.status().quarantined).toBe(5);
    expect(notices).toContainEqual(expect.stringContaining('Max payload size exceeded'));
    client.socket.send(makeBatch({ sequence: 1 }));
    await waitUntil('the first client is still served', () => client.messages.length === 4);
  }));

test('only who may comes in', () =>
  withAggregator({ token: 'secret' }, async (aggregator) => {
    await using _client = await connectTo(aggregator, { authorization: 'Bearer secret' });
    await expect(connectTo(aggregator)).rejects.toThrow('401');
    await expect(connectTo(aggregator, { authorization: 'Bearer secrets' })).rejects.toThrow('401');
    await expect(connectTo(aggregator, { authorization: 'Bearer secret', origin: 'http://evil.example' })).rejects.toThrow('403');
    expect((await fetch(`${aggregator.address}/status`)).status).toBe(401);
    expect((await fetch(`${aggregator.address}/status`, { headers: { authorization: 'Bearer secret' } })).status).toBe(200);
    expect((await fetch(`${aggregator.address}/healthz`)).status).toBe(200);
  }));

test('a page that points its own name at this port sees nothing', () =>
  withAggregator({}, async (aggregator) => {
    const status = await new Promise((resolve, reject) => {
      request(`${aggregator.address}/status`, { headers: { host: 'evil.example' } }, (response) => resolve(response.resume().statusCode))
        .once('error', reject)
        .end();
    });
    expect(status).toBe(403);
  }));

test('says clearly why it cannot listen', () =>
  withAggregator({}, async (aggregator) => {
    using directory = temporaryDirectory();
    const port = Number(new URL(aggregator.address).port);
    await expect(startAggregator({ out: directory.path, listen: { port } })).rejects.toMatchObject({
      code: 'port_in_use',
      message: `Cannot listen on 127.0.0.1:${port}: another program uses that port; choose another with --listen`,
    });
    await expect(startAggregator({ out: directory.path, listen: { host: '0.0.0.0', port: 0 } })).rejects.toMatchObject({
      code: 'token_required',
      message: 'Cannot listen on 0.0.0.0:0: other hosts can reach it, so it needs a token (--token-file FILE, or variable RANKTRACE_TOKEN)',
    });
  }));

test(
  'a client that does not read its answers is not read from, and others are',
  () =>
    withAggregator({}, async (aggregator) => {
      const deaf = new WebSocket(`${aggregator.address.replace('http', 'ws')}/v1/ingest`);
      await once(deaf, 'open');
      let answers = 0;
      deaf.on('message', () => answers++);
      await using client = await connectTo(aggregator);
      deaf.pause();
      // The answers to some of them fill all buffers on the way.
      const bad = Buffer.from('bad');
      for (let index = 0; index < 100_000; index++) deaf.send(bad);
      client.socket.send(makeBatch());
      await waitUntil('the other client is served', () => client.messages.length === 1);
      let read = -1;
      await waitUntil('no more is read', async () => {
        const before = read;
        await new Promise((resolve) => setTimeout(resolve, 500));
        read = aggregator.status().quarantined;
        return read === before;
      });
      expect(read).toBeLessThan(100_000);
      deaf.resume();
      await waitUntil('all answers came', () => answers === 100_000, 4 * 60_000);
      deaf.close();
    }),
  5 * 60_000,
);

test('a connection is closed for its silence, not for answers to pings that come behind its batches', () =>
  withAggregator({}, async (aggregator) => {
    const url = `${aggregator.address.replace('http', 'ws')}/v1/ingest`;
    const [busy, silent] = [new WebSocket(url, { autoPong: false }), new WebSocket(url, { autoPong: false })];
    await Promise.all([once(busy, 'open'), once(silent, 'open')]);
    let pings = 0;
    busy.on('ping', () => pings++);
    let sequence = 0;
    const sending = setInterval(() => busy.send(makeBatch({ sequence: sequence++ })), 200);
    await waitUntil('the silent one is closed', () => silent.readyState === WebSocket.CLOSED);
    await waitUntil('three pings have come', () => pings >= 3);
    clearInterval(sending);
    expect(busy.readyState).toBe(WebSocket.OPEN);
    busy.close();
  }));

test('flush reaches every rank, and waits for what they ship', () =>
  withAggregator({}, async (aggregator) => {
    await using client = await connectTo(aggregator);
    const states: number[] = [];
    const stop = aggregator.subscribe((status) => states.push(status.runs[0]?.ranks[0]?.batches ?? 0));
    client.socket.on('message', (data) => {
      if (String(data).includes('flush')) for (let sequence = 0; sequence < 3; sequence++) client.socket.send(makeBatch({ sequence }));
    });
    await aggregator.flushRanks();
    expect(aggregator.store('demo').sources()[0]?.count).toBe(3);
    await waitUntil('progress was reported', () => states.at(-1) === 3);
    stop();
    expect(aggregator.steps('demo', 0)).toHaveLength(3);
    expect(() => aggregator.store('other')).toThrow('Cannot open run "other": the only run is demo');
  }));

test('a refused connection whose peer never closes its side is not held, and does not hold up the end', async () => {
  using directory = temporaryDirectory();
  const aggregator = await startAggregator({ out: directory.path, token: 'secret' });
  const port = Number(new URL(aggregator.address).port);
  const socket = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => undefined);
  socket.write('GET /v1/ingest HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\r\n');
  let answer = '';
  socket.on('data', (data) => {
    answer += String(data);
  });
  await once(socket, 'end');
  expect(answer).toMatch(/^HTTP\/1.1 401 /);
  const ended = await Promise.race([
    aggregator[Symbol.asyncDispose]().then(() => 'ended'),
    new Promise((resolve) => setTimeout(() => resolve('still open'), 5000)),
  ]);
  socket.destroy();
  expect(ended).toBe('ended');
});

test('an illegible batch is refused without a name, in its place among the answers', () =>
  withAggregator({}, async (aggregator) => {
    await using client = await connectTo(aggregator);
    client.socket.send(makeBatch({ sequence: 0 }));
    client.socket.send(Buffer.from('illegible'));
    client.socket.send(makeBatch({ sequence: 2 }));
    await waitUntil('all are answered', () => client.messages.length === 3);
    expect(client.messages.map((message) => ('batch' in message ? message.batch : message.type))).toEqual([
      'demo.0.0001.0',
      '',
      'demo.0.0001.2',
    ]);
  }));

test('pings of a peer are answered', () =>
  withAggregator({}, async (aggregator) => {
    await using client = await connectTo(aggregator);
    client.socket.ping('are you there');
    const [data] = await once(client.socket, 'pong');
    expect(String(data)).toBe('are you there');
  }));
