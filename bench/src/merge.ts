// Merge: a stored run → one .pftrace: events per second, and the memory it takes, which must not grow with the run.
//
// Each size runs in a process of its own, so that its peak memory is its own.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { openBatchLog, RunStore, writeTrace } from '@ranktrace/aggregator';
import { encodeBatch } from '@ranktrace/protocol';
import { type Figure, figure } from './figure.ts';
import { eventsPerStep, generateRank } from './generated-cluster.ts';

const ranks = 8;

export async function merge(): Promise<Figure[]> {
  const small = measureApart(2e6);
  const large = measureApart(20e6);
  return [
    figure({
      name: 'stored run to .pftrace (20 M events, 8 ranks)',
      value: large.perSecond / 1e6,
      unit: 'M events/s',
      baseline: { name: 'JSON.stringify of the same events', value: jsonPerSecond() / 1e6 },
      target: { at: 'least', value: 2, of: 'value' },
    }),
    figure({
      name: 'peak memory at 20 M events',
      value: large.peakMiB,
      unit: 'MiB',
      baseline: { name: 'at 2 M events', value: small.peakMiB },
      target: { at: 'most', value: 400, of: 'value' },
    }),
    figure({ name: 'trace bytes per event', value: large.bytes / large.events, unit: 'B' }),
  ];
}

interface Measured {
  readonly events: number;
  readonly perSecond: number;
  readonly peakMiB: number;
  readonly bytes: number;
}

function measureApart(events: number): Measured {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const self = fileURLToPath(import.meta.url);
  const child = (role: string): string =>
    execFileSync(process.execPath, [self, role, directory, `${events}`], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    child('store');
    return JSON.parse(child('merge')) as Measured;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

async function store(out: string, events: number): Promise<void> {
  const store = new RunStore(out, 'bench');
  const steps = Math.round(events / ranks / eventsPerStep);
  const sources = Array.from({ length: ranks }, (_, rank) => generateRank(rank, ranks, steps));
  // Interleaved, as batches of a live run arrive.
  for (let open = ranks; open > 0; ) {
    open = 0;
    for (const source of sources) {
      const next = source.next();
      if (next.done === true) continue;
      open++;
      store.append(
        encodeBatch(next.value, (body) => deflateRawSync(body, { level: 1 })),
        next.value.header,
      );
    }
  }
  await store.close();
}

async function mergeStore(out: string): Promise<void> {
  using log = openBatchLog(out);
  const path = join(out, 'trace.pftrace');
  const started = performance.now();
  const { totals } = await writeTrace(log.run('bench').sources(), path);
  const seconds = (performance.now() - started) / 1000;
  const events = totals.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
  const peakMiB = process.resourceUsage().maxRSS / 1024;
  console.log(JSON.stringify({ events, perSecond: events / seconds, peakMiB, bytes: statSync(path).size }));
}

/** Events per second of the least one could do: Chrome JSON text of objects that are there already. */
function jsonPerSecond(): number {
  const events = [...generateRank(0, ranks, 600)].flatMap(({ tables: { spans }, strings }) =>
    Array.from({ length: spans.length }, (_, row) => {
      const { start, length, name } = spans.columns;
      return {
        ph: 'X',
        name: strings[name[row] as number],
        ts: (start[row] as number) / 1000,
        dur: (length[row] as number) / 1000,
        pid: 1,
        tid: 1,
      };
    }),
  );
  const started = performance.now();
  let bytes = 0;
  for (const event of events) bytes += JSON.stringify(event).length;
  if (bytes === 0) throw new Error('Nothing was written');
  return events.length / ((performance.now() - started) / 1000);
}

const [, script, role, out, events] = process.argv;
if (script === fileURLToPath(import.meta.url) && out !== undefined) {
  if (role === 'store') await store(out, Number(events));
  else await mergeStore(out);
}
