import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { PageOutlet } from './page-outlet.ts';

/** Both ends of a real connection, and what arrived. */
async function withPage(use: (outlet: PageOutlet, page: WebSocket, arrived: { bytes: Buffer; isBinary: boolean }[]) => Promise<void>) {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  const page = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, { maxPayload: 0 });
  const arrived: { bytes: Buffer; isBinary: boolean }[] = [];
  page.on('message', (data, isBinary) => arrived.push({ bytes: data as Buffer, isBinary }));
  const [socket] = (await once(sockets, 'connection')) as [WebSocket];
  const outlet = new PageOutlet(socket);
  socket.on('close', () => outlet.end());
  await once(page, 'open');
  try {
    await use(outlet, page, arrived);
  } finally {
    page.terminate();
    sockets.close();
    server.close();
  }
}

test('messages arrive whole and in order, long ones too, text as text', () =>
  withPage(async (outlet, _page, arrived) => {
    const long = 'ä€𝄞'.repeat(200_000);
    const tiles = new Uint8Array(2 * limits.viewFrameBytesMax + 1).fill(7);
    await Promise.all(['one', long, tiles, '', 'two'].map((data) => outlet.send(data)));
    expect(outlet.buffered).toBe(0);
    await waitUntil('all arrived', () => arrived.length === 5);
    expect(arrived.map(({ isBinary }) => isBinary)).toEqual([false, false, true, false, false]);
    expect(arrived.map(({ bytes, isBinary }) => (isBinary ? bytes.length : String(bytes)))).toEqual(['one', long, tiles.length, '', 'two']);
  }));

test('a page that does not read fills it, and those who wait go on when it reads', () =>
  withPage(async (outlet, page, arrived) => {
    page.pause();
    const frame = new Uint8Array(limits.viewFrameBytesMax);
    let sent = 0;
    let isOver = false;
    const writing = (async () => {
      while (!isOver) {
        await outlet.drained();
        if (isOver) break;
        void outlet.send(frame);
        sent++;
      }
    })();
    await waitUntil('it is full', async () => {
      const before = sent;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return outlet.isFull && sent === before;
    });
    expect(outlet.buffered).toBeLessThan(limits.viewSendBufferBytesMax + 2 * frame.length);
    const { tookAt } = outlet;
    const before = sent;
    page.resume();
    await waitUntil('more was sent', () => sent > before + 8);
    expect(outlet.tookAt).toBeGreaterThan(tookAt);
    isOver = true;
    await writing;
    await waitUntil('all arrived', () => arrived.length === sent);
    expect(outlet.buffered).toBe(0);
  }));

test('nobody waits for a page that is gone', () =>
  withPage(async (outlet, page) => {
    page.pause();
    const sends = Array.from({ length: 40 }, () => outlet.send(new Uint8Array(limits.viewFrameBytesMax)));
    expect(outlet.isFull).toBe(true);
    const drained = outlet.drained();
    page.terminate();
    await Promise.all([...sends, drained]);
    expect(outlet.buffered).toBe(0);
    await outlet.send('too late');
    await outlet.drained();
  }));
