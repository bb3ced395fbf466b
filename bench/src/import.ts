// Import: a torch.profiler file → columns with all arguments, against JSON.parse of the same bytes; and the peak memory of a process that
// reads a file of 1 GB, and of 4 GB, and goes through all of its batches, as every command does.
//
// The input is a generated rank of a GPU job, step after step, and where it is found one of nanogpt-8rank over and over.

import { execFileSync } from 'node:child_process';
import { closeSync, createReadStream, mkdtempSync, openSync, readFileSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { BlockFile } from '@ranktrace/aggregator';
import { KinetoReader, kinetoSources } from '@ranktrace/trace/torch';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { type GeneratedEvent, generateKineto, kinetoText } from './generated-kineto.ts';
import type { ImportWork } from './import-worker.ts';
import { overRecordings } from './recordings.ts';
import { startSide } from './turn-worker.ts';
import { inTurns, progress } from './turns.ts';

const rounds = 6;
const inputBytes = 50e6;
const MB = 1e6;
const MiB = 1024 ** 2;

export async function importFiles(): Promise<(Figure | NotMeasured)[]> {
  return [
    await speed('generated', Buffer.from(kinetoText(generateKineto(0, 18)))),
    ...(await overRecordings('kineto/nanogpt-8rank', async (data) => {
      const file = gunzipSync(readFileSync(`${data}/kineto/nanogpt-8rank/rank0.chrome-trace.json.gz`));
      return [await speed('nanogpt-8rank', repeated(file))];
    })),
    ...memory(),
  ];
}

async function speed(name: string, bytes: Uint8Array): Promise<Figure> {
  progress(`import: ${name}`);
  await using columns = startSide('./import-worker.js', { side: 'columns', bytes } satisfies ImportWork);
  await using objects = startSide('./import-worker.js', { side: 'objects', bytes } satisfies ImportWork);
  // Compiles both.
  await columns.turn();
  await objects.turn();
  const seconds = await inTurns(rounds, { objects: () => objects.turn(), columns: () => columns.turn() });
  return figure({
    name: `JSON with all arguments into columns, per core (${name}, ${Math.round(bytes.length / MB)} MB)`,
    value: bytes.length / MB / seconds.columns,
    unit: 'MB/s',
    baseline: { name: 'JSON.parse of the same bytes', value: bytes.length / MB / seconds.objects },
    target: { at: 'least', value: 1.5, of: 'ratio' },
  });
}

/** The file's events again and again, as its bytes have them. */
function repeated(file: Buffer): Buffer {
  const from = file.indexOf('[', file.indexOf('"traceEvents"')) + 1;
  const until = file.lastIndexOf(']');
  const events = file.subarray(from, until);
  const copies = Array.from({ length: Math.ceil(inputBytes / file.length) }, () => [events, Buffer.from(',')]).flat();
  return Buffer.concat([file.subarray(0, from), ...copies.slice(0, -1), file.subarray(until)]);
}

function memory(): (Figure | NotMeasured)[] {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    const small = peakMiB(directory, 1e9);
    const results: (Figure | NotMeasured)[] = [
      figure({
        name: 'peak memory of reading 1 GB, and all batches',
        value: small,
        unit: 'MiB',
        target: { at: 'most', value: Math.floor((0.5 * 1e9 + 150e6) / MiB), of: 'value' },
      }),
    ];
    const { bavail, bsize } = statfsSync(directory);
    if (bavail * bsize < 1.2 * 4e9) return [...results, { notMeasured: 'peak memory at 4 GB', why: `${directory} has no room` }];
    const large = peakMiB(directory, 4e9);
    results.push(
      figure({
        name: 'peak memory of reading 4 GB, and all batches',
        value: large,
        unit: 'MiB',
        baseline: { name: 'at 1 GB', value: small },
        target: { at: 'most', value: 1.1, of: 'ratio' },
      }),
    );
    return results;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Peak memory of reading a generated file of about `bytes` and all of its batches. */
function peakMiB(directory: string, bytes: number): number {
  const path = join(directory, `${bytes / 1e9}GB.json`);
  const child = (...role: readonly string[]): string =>
    execFileSync(process.execPath, [fileURLToPath(import.meta.url), ...role], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  progress(`import: a file of ${bytes / 1e9} GB`);
  try {
    child('generate', path, `${bytes}`);
    return Number(child('read', path));
  } finally {
    rmSync(path, { force: true });
  }
}

/** Prints the peak memory of this process, MiB, after reading the file as commands do. */
async function readWhole(path: string): Promise<void> {
  using rows = new BlockFile('rows of traces');
  const reader = new KinetoReader({ keep: 'all', spill: { store: () => rows } });
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) reader.push(chunk as Buffer);
  const files = [{ name: path, table: reader.finish() }];
  const [source] = kinetoSources([{ run: 'bench', rank: 0, worldSize: 1, files }]);
  for (let index = 0; index < (source?.count ?? 0); index++) source?.batch(index);
  console.log(process.resourceUsage().maxRSS / 1024);
}

/** A generated recording again and again, each copy after the one before in time, with ids of its own. */
function generate(path: string, bytes: number): void {
  const events = generateKineto(0, 4);
  const first = Math.min(...events.map(({ ts }) => ts));
  const period = Math.ceil(Math.max(...events.map(({ ts, dur }) => ts + dur)) - first) + 1000;
  const file = openSync(path, 'w');
  let written = writeSync(file, '{"schemaVersion":1,"baseTimeNanoseconds":1759300074000000000,"traceEvents":[');
  for (let copy = 0; written < bytes; copy++) {
    const text = events.map((event) => JSON.stringify(shifted(event, copy, period))).join(',\n');
    written += writeSync(file, (copy === 0 ? '' : ',\n') + text);
  }
  writeSync(file, ']}');
  closeSync(file);
}

const idsPerCopy = 200_000;
const idKeys = ['External id', 'correlation', 'Ev Idx'];

function shifted(event: GeneratedEvent, copy: number, period: number): GeneratedEvent {
  const args: Record<string, unknown> = { ...event.args };
  for (const key of idKeys) if (typeof args[key] === 'number') args[key] += copy * idsPerCopy;
  const name = event.name.replace(/^ProfilerStep#(\d+)$/, (_, step: string) => `ProfilerStep#${Number(step) + 4 * copy}`);
  return { ...event, name, ts: Number((event.ts + copy * period).toFixed(3)), args };
}

const [, script, role, path, bytes] = process.argv;
if (script === fileURLToPath(import.meta.url) && path !== undefined) {
  if (role === 'generate') generate(path, Number(bytes));
  else await readWhole(path);
}
