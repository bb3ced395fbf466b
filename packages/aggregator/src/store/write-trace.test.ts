// Traces of batches that are small on arrival and large as traces: the service continues beside them, and survives one that cannot be written.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { createEventTables, EventTable, encodeBatch, tableNames } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { type Aggregator, startAggregator } from '../service.ts';
import { fullDisk } from '../testing/full-disk.ts';
import { makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { writeTrace } from './write-trace.ts';

const rows = 65_536;

/** Some hundred bytes that hold 65,536 instants at the same time. Its watermark never moves. */
function instantsBatch(sequence: number): Uint8Array {
  const tables = { ...createEventTables(), instants: new EventTable('instants', rows) };
  for (let row = 0; row < rows; row++) tables.instants.append({ time: 0, track: 0, name: 0, category: 0 });
  return encodeBatch({ header: makeHeader({ sequence, worldSize: 1 }), strings: [''], tables }, (body) => deflateRawSync(body));
}

/** One span with 60,000 arguments of 4 KiB: 240 MB of a trace. */
function argumentsBatch(): Uint8Array {
  const tables = createEventTables();
  tables.spans.append({ start: 0, length: 1, track: 0, name: 0, category: 0, id: 0, parent: 0, state: 0 });
  for (let row = 0; row < 60_000; row++)
    tables.stringArguments.append({ table: tableNames.indexOf('spans'), row: 0, key: 2 + row, value: 1 });
  const strings = ['', 'x'.repeat(4096), ...Array.from({ length: 60_000 }, (_, key) => `${key}`)];
  return encodeBatch({ header: makeHeader({ worldSize: 1 }), strings, tables }, (body) => deflateRawSync(body));
}

async function withBatches(
  batches: readonly Uint8Array[],
  use: (aggregator: Aggregator, directory: string) => Promise<void>,
): Promise<void> {
  using directory = temporaryDirectory();
  await using aggregator = await startAggregator({ out: directory.path });
  for (const bytes of batches) expect(aggregator.ingest(bytes).result).toBe('stored');
  await use(aggregator, join(directory.path, 'demo'));
}

/** CPU time of this process, all threads. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

test('others are answered while small batches become a large trace', { timeout: 200_000 }, () =>
  withBatches(
    Array.from({ length: 20 }, (_, sequence) => instantsBatch(sequence)),
    async (aggregator, directory) => {
      let isOver = false;
      const health = (): Promise<string> => fetch(`${aggregator.address}/healthz`).then((answer) => answer.text());
      await health();
      const begun = cpuSeconds();
      const writing = writeTrace(aggregator.store('demo').sources(), join(directory, 'trace.pftrace')).finally(() => {
        isOver = true;
      });
      const answered = [begun];
      while (!isOver) {
        expect(await health()).toBe('ok\n');
        answered.push(cpuSeconds());
      }
      expect((await writing).totals[0]?.counts.instant).toBe(20 * rows);
      const waits = answered.slice(1).map((at, index) => at - (answered[index] as number));
      // In CPU time, which a busy machine does not lengthen; mostly a tenth.
      expect(Math.max(...waits) / (cpuSeconds() - begun)).toBeLessThan(1 / 3);
    },
  ),
);

test('an event has no more arguments than it may, and the rest is counted', { timeout: 100_000 }, () =>
  withBatches([argumentsBatch()], async (aggregator, directory) => {
    const { totals, bytes } = await writeTrace(aggregator.store('demo').sources(), join(directory, 'trace.pftrace'));
    expect(totals[0]?.dropped.arguments).toBe(60_000 - 1024);
    expect(bytes).toBeLessThan(8 * 1024 * 1024);
  }),
);

test('a trace that cannot be written ends alone: the service and its run go on', { timeout: 100_000 }, () =>
  withBatches([instantsBatch(0), instantsBatch(1)], async (aggregator, directory) => {
    const path = join(directory, 'trace.pftrace');
    {
      using _full = fullDisk();
      await expect(writeTrace(aggregator.store('demo').sources(), path)).rejects.toMatchObject({
        code: 'store_write_failed',
        message: expect.stringMatching(/^Cannot write ".*trace\.pftrace": EFBIG/),
      });
    }
    expect(readdirSync(directory).filter((name) => name.startsWith('trace'))).toEqual([]);
    expect(aggregator.ingest(instantsBatch(2)).result).toBe('stored');
    const { totals } = await writeTrace(aggregator.store('demo').sources(), path);
    expect(totals[0]?.counts.instant).toBe(3 * rows);
    expect(existsSync(path)).toBe(true);
  }),
);
