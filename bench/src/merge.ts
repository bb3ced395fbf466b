// Merge: a stored run → one .pftrace: events per second, and peak memory, which must not grow with the run.
//
// Each merge runs in a process of its own, so that its peak memory is its own; merging and decoding alone take turns.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { inflate, openBatchLog, RunStore, writeTrace } from '@ranktrace/aggregator';
import { decodeBatch, encodeBatch } from '@ranktrace/protocol';
import { type Figure, figure } from './figure.ts';
import { eventsPerStep, generateRank } from './generated-cluster.ts';
import { inTurns, progress } from './turns.ts';

const ranks = 8;

type Role = 'store' | 'decode' | 'merge';

export async function merge(): Promise<Figure[]> {
  const small = await measureApart(2e6, 1);
  const large = await measureApart(20e6, 2);
  return [
    figure({
      name: 'stored run to .pftrace, per core (20 M events, 8 ranks)',
      value: large.perSecond / 1e6,
      unit: 'M events/s',
      baseline: { name: 'the same batches inflated and decoded, no more', value: large.decodedPerSecond / 1e6 },
      // 2 M events/s, where 3.2 M/s were a fifth of what decoding alone does.
      target: { at: 'least', value: 0.13, of: 'ratio' },
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

/** One merge, in a process of its own. */
interface Merged {
  readonly events: number;
  readonly seconds: number;
  readonly peakMiB: number;
  readonly bytes: number;
}

interface Measured extends Pick<Merged, 'events' | 'bytes' | 'peakMiB'> {
  readonly perSecond: number;
  readonly decodedPerSecond: number;
}

async function measureApart(events: number, rounds: number): Promise<Measured> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const self = fileURLToPath(import.meta.url);
  const child = (role: Role): string => {
    progress(`merge: ${role}, ${events / 1e6} M events`);
    return execFileSync(process.execPath, [self, role, directory, `${events}`], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  };
  try {
    child('store');
    const merges: Merged[] = [];
    const seconds = await inTurns(rounds, {
      decode: () => Number(child('decode')),
      merge: () => {
        const merged = JSON.parse(child('merge')) as Merged;
        merges.push(merged);
        return merged.seconds;
      },
    });
    const { events: counted, bytes } = merges[0] as Merged;
    const peakMiB = Math.max(...merges.map((merged) => merged.peakMiB));
    return { events: counted, bytes, peakMiB, perSecond: counted / seconds.merge, decodedPerSecond: counted / seconds.decode };
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
  const cpu = process.cpuUsage();
  const { totals } = await writeTrace(log.run('bench').sources(), path);
  const seconds = cpuSeconds(cpu);
  const events = totals.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
  const peakMiB = process.resourceUsage().maxRSS / 1024;
  console.log(JSON.stringify({ events, seconds, peakMiB, bytes: statSync(path).size } satisfies Merged));
}

/** Prints the seconds of the work that every reader of the store must do. */
function decodeStore(out: string): void {
  using log = openBatchLog(out);
  const cpu = process.cpuUsage();
  for (const source of log.run('bench').sources()) {
    for (let index = 0; index < source.count; index++) {
      decodeBatch(source.read(index) as Uint8Array, inflate);
    }
  }
  console.log(cpuSeconds(cpu));
}

/** Seconds of CPU time, which exclude other work of a busy machine. */
function cpuSeconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}

const [, script, role, out, events] = process.argv;
if (script === fileURLToPath(import.meta.url) && out !== undefined) {
  if (role === 'store') await store(out, Number(events));
  else if (role === 'decode') decodeStore(out);
  else await mergeStore(out);
}
