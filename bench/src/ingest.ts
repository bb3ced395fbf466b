// Ingest: decode → check → store → step summary, on one core; and the same behind a real nats-server, with everything on this machine.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { inflate, startAggregator } from '@ranktrace/aggregator';
import { type Batch, batchId, batchSubject, decodeBatch, encodeBatch } from '@ranktrace/protocol';
import { AckPolicy, connect, type NatsConnection, StorageType } from 'nats';
import { findProgram } from '../../test/setup/real-programs.mjs';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { freePort } from './free-port.ts';
import { eventsPerStep, generateRank } from './generated-cluster.ts';
import { inTurns, progress } from './turns.ts';

const ranks = 4;
const steps = 15_000;
const stepsPerBatch = 60;
const batchesPerRank = steps / stepsPerBatch;
/** Each takes a part of the batches. */
const rounds = 10;

export async function ingest(): Promise<(Figure | NotMeasured)[]> {
  progress('ingest: decode, store, summarise');
  const batches = Array.from({ length: ranks }, (_, rank) => [...generateRank(rank, ranks, steps, stepsPerBatch)].map(encoded)).flat();
  return [await oneCore(batches), await throughNats(batches)];
}

const encoded = (batch: Batch): Uint8Array => encodeBatch(batch, (body) => deflateRawSync(body, { level: 6 }));

/** The batches of one round. */
function partOf(batches: readonly Uint8Array[], round: number): readonly Uint8Array[] {
  const size = batches.length / rounds;
  return batches.slice(round * size, (round + 1) * size);
}

const eventsIn = (batches: readonly Uint8Array[]): number => batches.length * stepsPerBatch * eventsPerStep;

async function oneCore(batches: readonly Uint8Array[]): Promise<Figure> {
  const out = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    await using aggregator = await startAggregator({ out });
    const perSecond = await inTurns(rounds, {
      parse: () => jsonPerSecond(),
      ingest: (round) => {
        const part = partOf(batches, round);
        return perCpuSecond(eventsIn(part), () => {
          for (const batch of part) {
            const { result } = aggregator.ingest(batch);
            if (result !== 'stored') throw new Error(`A batch was ${result}, not stored`);
          }
        });
      },
    });
    const step = aggregator.status().runs[0]?.ranks[0]?.step;
    if (step !== steps - 1) throw new Error(`The last step must be ${steps - 1}, got ${step}`);
    return figure({
      name: 'decode, store, summarise, per core',
      value: perSecond.ingest / 1e6,
      unit: 'M events/s',
      baseline: { name: 'JSON.parse of the same events', value: perSecond.parse / 1e6 },
      // 5 M events/s, where JSON.parse takes in 3.5 M/s.
      target: { at: 'least', value: 1.4, of: 'ratio' },
    });
  } finally {
    rmSync(out, { recursive: true });
  }
}

/** Garbage of another turn is collected before, not during. */
function perCpuSecond(count: number, run: () => void): number {
  globalThis.gc?.();
  const cpu = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(cpu);
  return count / ((user + system) / 1e6);
}

/** Events per CPU second of parsing one batch's spans as Chrome JSON, over and over. */
function jsonPerSecond(): number {
  const [batch] = [...generateRank(0, ranks, stepsPerBatch)] as [Batch];
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
  const times = 15;
  return perCpuSecond(times * length, () => {
    for (let time = 0; time < times; time++) JSON.parse(text);
  });
}

async function throughNats(batches: readonly Uint8Array[]): Promise<Figure | NotMeasured> {
  const name = 'publish, JetStream, consume, store, 2 cores';
  const program = findProgram('NATS_SERVER_BIN');
  if (program === undefined) {
    return { notMeasured: name, why: 'nats-server is neither in NATS_SERVER_BIN nor in PATH (Debian: apt-get install nats-server)' };
  }
  progress('ingest: through nats-server');
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const port = await freePort();
  const server = spawn(program, ['-js', '-a', '127.0.0.1', '-p', `${port}`, '-sd', join(directory, 'nats')], { stdio: 'ignore' });
  const url = `nats://127.0.0.1:${port}`;
  try {
    const client = await connect({ servers: url, waitOnFirstConnect: true, maxReconnectAttempts: 100, reconnectTimeWait: 50 });
    const perSecond = await inBothWays(client, batches, join(directory, 'out'), url);
    await client.close();
    return figure({
      name,
      value: perSecond.ours / 1e6,
      unit: 'M events/s',
      baseline: { name: 'the same bytes through JetStream, nothing done with them', value: perSecond.bare / 1e6 },
      // 2 M events/s, where JetStream alone moves 27 M/s.
      target: { at: 'least', value: 0.07, of: 'ratio' },
    });
  } finally {
    server.kill();
    await once(server, 'exit');
    rmSync(directory, { recursive: true });
  }
}

/** Events per second through the broker into our store, and through the broker alone. */
async function inBothWays(
  client: NatsConnection,
  batches: readonly Uint8Array[],
  out: string,
  url: string,
): Promise<Record<'ours' | 'bare', number>> {
  const jetStream = client.jetstream();
  await using aggregator = await startAggregator({ out, nats: { servers: [url] } });
  let wanted = 0;
  const stored = (): number => (aggregator.status().runs[0]?.ranks ?? []).reduce((sum, rank) => sum + rank.batches, 0);
  return await inTurns(rounds, {
    bare: async (round) => {
      const part = partOf(batches, round);
      return eventsIn(part) / (await bareJetStream(client, part));
    },
    ours: async (round) => {
      const part = partOf(batches, round);
      const started = performance.now();
      await inWindows(part, (batch, index) => publish(jetStream, batch, wanted + index));
      wanted += part.length;
      while (stored() < wanted) await new Promise((resolve) => setTimeout(resolve, 5));
      return eventsIn(part) / ((performance.now() - started) / 1000);
    },
  });
}

/** Seconds that the broker alone needs: the same messages published, stored by the server, pulled and acknowledged. */
async function bareJetStream(client: NatsConnection, batches: readonly Uint8Array[]): Promise<number> {
  const manager = await client.jetstreamManager();
  await manager.streams.add({ name: 'BARE', subjects: ['bare'], storage: StorageType.File });
  await manager.consumers.add('BARE', { durable_name: 'bare', ack_policy: AckPolicy.Explicit, max_ack_pending: 256 });
  const jetStream = client.jetstream();
  const consumer = await jetStream.consumers.get('BARE', 'bare');
  const started = performance.now();
  const consumed = (async () => {
    let left = batches.length;
    for await (const message of await consumer.consume({ max_messages: 64 })) {
      message.ack();
      if (--left === 0) break;
    }
  })();
  await inWindows(batches, (batch) => jetStream.publish('bare', batch));
  await consumed;
  const seconds = (performance.now() - started) / 1000;
  await manager.streams.delete('BARE');
  return seconds;
}

/** 64 messages in flight. */
async function inWindows(batches: readonly Uint8Array[], send: (batch: Uint8Array, index: number) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < batches.length; from += 64) {
    await Promise.all(batches.slice(from, from + 64).map((batch, index) => send(batch, from + index)));
  }
}

async function publish(
  jetStream: ReturnType<Awaited<ReturnType<typeof connect>>['jetstream']>,
  batch: Uint8Array,
  index: number,
): Promise<void> {
  const rank = Math.floor(index / batchesPerRank);
  const msgID = batchId({ run: 'bench', rank, incarnation: 'mi8b1y90-1x', sequence: index % batchesPerRank });
  await jetStream.publish(batchSubject('bench', rank), batch, { msgID });
}
