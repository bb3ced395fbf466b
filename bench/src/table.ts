// Key averages: events per second from columns to torch's table, against the same rules on JSON.parse'd objects.
//
// The input is a profile again and again, one after the other: conv_train (ops, shapes, memory, flops; torch 2.13 on a CPU), a generated rank of a GPU
// job, and one of nanogpt-8rank where it is found (ops, CUDA runtime calls, kernels).

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { readKineto } from '@ranktrace/trace/torch';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { generateKineto, kinetoText } from './generated-kineto.ts';
import { overRecordings } from './recordings.ts';
import type { TableWork } from './table-worker.ts';
import { startSide } from './turn-worker.ts';
import { inTurns, progress } from './turns.ts';

const rounds = 6;
/** 2 M events/s, where parsed objects take 1.06 M/s (ops of a CPU, with shapes and memory) and 1.48 M/s (ops and kernels). */
const wanted = { ops: 1.9, kernels: 1.35 };
const eventsWanted = 1_000_000;
const ownRecordings = fileURLToPath(new URL('../../test/data/kineto/', import.meta.url));

export async function table(): Promise<(Figure | NotMeasured)[]> {
  return [
    await measure(
      'ops, shapes, memory, flops (conv_train)',
      unzipped(`${ownRecordings}torch-reference/conv_train.pt.trace.json.gz`),
      wanted.ops,
    ),
    await measure('ops and kernels (generated)', Buffer.from(kinetoText(generateKineto(0))), wanted.kernels),
    ...(await overRecordings('kineto/nanogpt-8rank', async (data) => [
      await measure('ops and kernels (nanogpt-8rank)', unzipped(`${data}/kineto/nanogpt-8rank/rank0.chrome-trace.json.gz`), wanted.kernels),
    ])),
  ];
}

const unzipped = (path: string): Uint8Array => gunzipSync(readFileSync(path));

/** `least`: times as fast as the baseline. */
async function measure(name: string, bytes: Uint8Array, least: number): Promise<Figure> {
  progress(`table: ${name}`);
  const inFile = readKineto(bytes).events.length;
  const copies = Math.ceil(eventsWanted / inFile);
  await using columns = startSide('./table-worker.js', { side: 'columns', bytes, copies } satisfies TableWork);
  await using objects = startSide('./table-worker.js', { side: 'objects', bytes, copies } satisfies TableWork);
  // Compiles both.
  await columns.turn();
  await objects.turn();
  const seconds = await inTurns(rounds, { objects: () => objects.turn(), columns: () => columns.turn() });
  return figure({
    name: `key averages, per core, ${name}`,
    value: (inFile * copies) / seconds.columns,
    unit: 'events/s',
    baseline: { name: 'same rules on parsed objects', value: (inFile * copies) / seconds.objects },
    target: { at: 'least', value: least, of: 'ratio' },
  });
}
