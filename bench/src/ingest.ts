// Ingest: decode → check → store → step summary, on one core; and the same behind a real nats-server, with everything on this machine.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { inflate, startAggregator } from '@ranktrace/aggregator';
import { type Batch, batchId, batchSubject, decodeBatch, encodeBatch } from '@ranktrace/protocol';
import { AckPolicy, connect, type NatsConnection, StorageType } from 'nats';
import { type Figure, figure } from './figure.ts';
import { eventsPerStep, generateRank } from './generated-cluster.ts';

const ranks = 4;
const steps = 15_000;
const events = ranks * steps * eventsPerStep;

export async function ingest(): Promise<Figure[]> {
  const batches = Array.from({ length: ranks }, (_, rank) => [...generateRank(rank, ranks, steps)].map(encoded)).flat();
  return [await oneCore(batches), await throughNats(batches)];
}

const encoded = (batch: Batch): Uint8Array => encodeBatch(batch, (body) => deflateRawSync(body, { level: 6 }));

async function oneCore(batches: readonly Uint8Array[]): Promise<Figure> {
  const out = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    await using aggregator = await startAggregator({ out });
    const cpu = process.cpuUsage();
    for (const batch of batches) {
      const { result } = aggregator.ingest(batch);
      if (result !== 'stored') throw new Error(`A batch was ${result}, not stored`);
    }
    const { user, system } = process.cpuUsage(cpu);
    const perSecond = events / ((user + system) / 1e6);
    const step = aggregator.status().runs[0]?.ranks[0]?.step;
    if (step !== steps - 1) throw new Error(`The last step must be ${steps - 1}, got ${step}`);
    const baseline = { name: 'JSON.parse of the same events', value: jsonPerSecond() / 1e6 };
    return figure({
      name: 'decode, store, summarise, per core',
      value: perSecond / 1e6,
      unit: 'M events/s',
      baseline,
      target: { at: 'least', value: 5, of: 'value' },
    });
  } finally {
    rmSync(out, { recursive: true });
  }
}

/** Events per CPU second of parsing one batch's spans as Chrome JSON. */
function jsonPerSecond(): number {
  const [batch] = [...generateRank(0, ranks, 60)] as [Batch];
  const { columns, length } = decodeBatch(encoded(batch), inflate).tables.spans;
  const text = JSON.stringify(
    Array.from({ length }, (_, row) => {
      return {
        ph: 'X',
        name: batch.strings[columns.name[row] as number],
        ts: (columns.start[row] as number) / 1000,
        dur: (columns.length[row] as number) / 1000,
        pid: 1,
        tid: 1,
      };
    }),
  );
  const rounds = 100;
  const cpu = process.cpuUsage();
  for (let round = 0; round < rounds; round++) JSON.parse(text);
  const { user, system } = process.cpuUsage(cpu);
  return (rounds * length) / ((user + system) / 1e6);
}

async function throughNats(batches: readonly Uint8Array[]): Promise<Figure> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const port = await freePort();
  const server = spawn(
    process.env.NATS_SERVER_BIN ?? 'nats-server',
    ['-js', '-a', '127.0.0.1', '-p', `${port}`, '-sd', join(directory, 'nats')],
    { stdio: 'ignore', env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } },
  );
  const url = `nats://127.0.0.1:${port}`;
  try {
    const client = await connect({ servers: url, waitOnFirstConnect: true, maxReconnectAttempts: 100, reconnectTimeWait: 50 });
    const jetStream = client.jetstream();
    const bare = await bareJetStream(client, batches);
    await using aggregator = await startAggregator({ out: join(directory, 'out'), nats: { servers: [url] } });
    const started = performance.now();
    for (let from = 0; from < batches.length; from += 64) {
      await Promise.all(batches.slice(from, from + 64).map((batch, index) => publish(jetStream, batch, from + index)));
    }
    const stored = (): number => (aggregator.status().runs[0]?.ranks ?? []).reduce((sum, rank) => sum + rank.batches, 0);
    while (stored() < batches.length) await new Promise((resolve) => setTimeout(resolve, 5));
    const seconds = (performance.now() - started) / 1000;
    await client.close();
    return figure({
      name: 'publish, JetStream, consume, store, 2 cores',
      value: events / seconds / 1e6,
      unit: 'M events/s',
      baseline: { name: 'the same bytes through JetStream, nothing done with them', value: bare / 1e6 },
      target: { at: 'least', value: 2, of: 'value' },
    });
  } finally {
    server.kill();
    await once(server, 'exit');
    rmSync(directory, { recursive: true });
  }
}

/** Events per second of what the broker costs alone: the same messages published, stored by the server, pulled and acknowledged. */
async function bareJetStream(client: NatsConnection, batches: readonly Uint8Array[]): Promise<number> {
  const manager = await client.jetstreamManager();
  await manager.streams.add({ name: 'BARE', subjects: ['bare'], storage: StorageType.File });
  await manager.consumers.add('BARE', { durable_name: 'bare', ack_policy: AckPolicy.Explicit, max_ack_pending: 256 });
  const jetStream = client.jetstream();
  const started = performance.now();
  const consumed = (async () => {
    const messages = await (await jetStream.consumers.get('BARE', 'bare')).consume({ max_messages: 64 });
    let left = batches.length;
    for await (const message of messages) {
      message.ack();
      if (--left === 0) break;
    }
  })();
  for (let from = 0; from < batches.length; from += 64) {
    await Promise.all(batches.slice(from, from + 64).map((batch) => jetStream.publish('bare', batch)));
  }
  await consumed;
  const seconds = (performance.now() - started) / 1000;
  await manager.streams.delete('BARE');
  return events / seconds;
}

const batchesPerRank = Math.ceil(steps / 60);

async function publish(
  jetStream: ReturnType<Awaited<ReturnType<typeof connect>>['jetstream']>,
  batch: Uint8Array,
  index: number,
): Promise<void> {
  const rank = Math.floor(index / batchesPerRank);
  const msgID = batchId({ run: 'bench', rank, incarnation: 'mi8b1y90-1x', sequence: index % batchesPerRank });
  await jetStream.publish(batchSubject('bench', rank), batch, { msgID });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('No free port');
  return address.port;
}
