// The file transport: the spool is the output. Outages, leftovers and windows are tested with a real wire in transport/.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { batchId, createEventTables, decodeBatchHeader, encodeBatch, rankTime } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { resolveOptions } from '../model/options.ts';
import { openShipper } from './shipper.ts';
import { Spool } from './spool.ts';
import { spoolPath } from './spool-folders.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-file-test-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function batch(incarnation: string, sequence: number): { bytes: Uint8Array; id: string } {
  const dropped = { events: 0, arguments: 0, names: 0, batches: 0 };
  const header = {
    run: 'run',
    rank: 0,
    worldSize: 1,
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
  return { bytes: encodeBatch({ header, strings: [''], tables: createEventTables() }, (body) => body), id: batchId(header) };
}

test('batches are on disk when ship returns, and every incarnation keeps its directory', async () => {
  const notices: string[] = [];
  const options = resolveOptions({ run: 'run', directory }, {});
  for (const incarnation of [`a-${process.pid.toString(36)}`, `b-${process.pid.toString(36)}`]) {
    const identity = { run: 'run', rank: 0, incarnation, host: 'h' };
    const shipper = openShipper(options, identity, { control: () => {}, notice: (line) => notices.push(line) });
    const shipped = Array.from({ length: 50 }, (_, sequence) => batch(incarnation, sequence));
    for (const { bytes, id } of shipped) expect(shipper.ship(bytes, id)).toBe(true);
    const stored = Spool.open(spoolPath(directory, identity), { keep: true });
    for (const { id } of shipped) expect(batchId(decodeBatchHeader(stored.read()?.bytes as Uint8Array))).toBe(id);
    expect(stored.read()).toBeUndefined();
    expect(await shipper.drained(0)).toBe(true);
    expect(shipper.takeClockSamples()).toEqual([]);
    await shipper.close();
    expect(shipper.ship(new Uint8Array(1), 'late')).toBe(false);
  }
  expect(readdirSync(join(directory, 'run'))).toHaveLength(2);
  expect(notices).toEqual([]);
});
