import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { batchId, decodeBatchHeader, decodeMessage, encodeMessage, rankMessageSchema } from '@ranktrace/protocol';
import { resolveOptions } from '@ranktrace/sdk/shipping';
import { expect, it, onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { FileSessions, type RankFile } from './file-sessions.ts';

/** A service that knows which ranks ask for its clock, and on which clock of theirs. */
async function service() {
  const peers = new Set<{ clock: string | undefined; asks: boolean }>();
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  server.on('connection', (socket) => {
    const peer = { clock: undefined as string | undefined, asks: false };
    peers.add(peer);
    socket.on('message', (data, isBinary) => {
      const bytes = data as Buffer;
      if (isBinary) {
        const header = decodeBatchHeader(bytes);
        peer.clock = `${header.rank} by ${header.host.startsWith('wall clock') ? 'a wall clock' : "this host's clock"}`;
        socket.send(encodeMessage({ type: 'ack', batch: batchId(header) }));
      } else if (decodeMessage(rankMessageSchema, bytes.toString()).type === 'clock_ping') peer.asks = true;
    });
  });
  await once(server, 'listening');
  onTestFinished(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  const asking = () => [...peers].flatMap(({ clock, asks }) => (asks ? (clock ?? []) : []));
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, asking };
}

const now = BigInt(Date.now()) * 1_000_000n;
const day = 86_400_000_000_000n;
const file = (rank: number, about: Partial<RankFile> = {}): RankFile => ({
  rank,
  worldSize: 4,
  otherHost: undefined,
  first: now,
  ...about,
});

it.each<[what: string, files: readonly RankFile[], rank: number]>([
  ['whose file is the first', [file(0), file(1)], 0],
  ["whose file comes after another host's", [file(0, { otherHost: 'other' }), file(1), file(2)], 1],
  ['whose file comes after one of long ago', [file(0, { first: now - 4000n * day }), file(1)], 1],
  ['that goes on after one of long ago', [file(0, { first: now - 4000n * day }), file(0), file(1)], 0],
])("asks for the service's clock through the rank %s", async (_, files, rank) => {
  const spool = mkdtempSync(join(tmpdir(), 'ranktrace-sessions-'));
  onTestFinished(() => rmSync(spool, { recursive: true, force: true }));
  const { url, asking } = await service();
  const sessions = new FileSessions(resolveOptions({ run: 'job', rank: 0, worldSize: 1, url, spoolDirectory: spool }, {}), () => {});
  try {
    for (const one of files) sessions.of(one);
    await expect.poll(asking).toEqual([`${rank} by this host's clock`]);
  } finally {
    await sessions.close();
  }
});
