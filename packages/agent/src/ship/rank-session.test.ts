import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { type Batch, decodeBatch, decodeFrameHeader, frameHeaderBytes, segmentMagic } from '@ranktrace/protocol';
import { resolveOptions } from '@ranktrace/sdk/shipping';
import { kinetoExtent } from '@ranktrace/trace/torch';
import { expect, it, onTestFinished } from 'vitest';
import { readKinetoFile } from '../files/read-kineto.ts';
import { RemoteClocks, WallClocks } from './host-time.ts';
import { RankSession } from './rank-session.ts';

/** The batches of all segments in a folder and its subfolders. */
function batchesIn(folder: string): Batch[] {
  const batches: Batch[] = [];
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    if (!name.endsWith('.seg')) continue;
    const bytes = readFileSync(join(folder, name));
    for (let at = segmentMagic.length; at < bytes.length; ) {
      const begin = at + frameHeaderBytes;
      at = begin + decodeFrameHeader(bytes, at).length;
      batches.push(decodeBatch(bytes.subarray(begin, at), (body) => inflateRawSync(body)));
    }
  }
  return batches;
}

it.each([true, false])('ends once a file that is being shipped is shipped whole; in good order: %s', async (ended) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-session-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'file.json');
  const ops = 20_000;
  const events = Array.from({ length: ops }, (_, at) => `{"ph":"X","cat":"cpu_op","name":"op","pid":7,"tid":7,"ts":${20 * at},"dur":9}`);
  writeFileSync(path, `{"baseTimeNanoseconds":${Date.now()}000000,"traceEvents":[${events}]}`);
  const table = await readKinetoFile(path, { keep: 'all', isGzip: false });
  const out = join(folder, 'out');
  const options = resolveOptions({ run: 'job', rank: 0, worldSize: 1, directory: out }, {});
  const clocks = { wallClocks: new WallClocks(process.hrtime.bigint), remoteClocks: new RemoteClocks('host') };
  const session = new RankSession({ options, pid: process.pid, facts: {}, ...clocks, notice: () => {} });
  const shipped = session.shipFile('file.json', table, kinetoExtent(table).first, { filesAfter: 1, begins: () => {} });
  await new Promise((resolve) => setImmediate(resolve));
  // As the agent does when the process of the rank is gone.
  await session.close(ended);
  await shipped;
  const batches = batchesIn(out);
  expect(batches.reduce((spans, { tables }) => spans + tables.spans.length, 0)).toBe(ops);
  expect(batches.map(({ header }) => header.last)).toEqual(batches.map((_, index) => ended && index === batches.length - 1));
});
