// Bytes per span on the wire and in the store: name, start and length in ns, track, of a generated recording of several ranks, and of real ones
// if a machine has them.

import { deflateRawSync, gzipSync } from 'node:zlib';
import { type Batch, encodeBatch, frameHeaderBytes } from '@ranktrace/protocol';
import { Packr } from 'msgpackr';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { generateKineto } from './generated-kineto.ts';
import { batchesOf, type KinetoSpan, kinetoSpans, readKinetoEvents, timeEntropy } from './kineto-spans.ts';
import { overRecordings } from './recordings.ts';

const ranks = 8;
const deflate = (body: Uint8Array): Uint8Array => deflateRawSync(body, { level: 6 });

export async function wire(): Promise<(Figure | NotMeasured)[]> {
  const generated = Array.from({ length: ranks }, (_, rank) => kinetoSpans(generateKineto(rank)));
  return [
    ...sizeFigures('generated', generated),
    storedFigure('generated, cut to µs', [generated[0]?.map(toMicros) ?? []], 3),
    ...(await overRecordings('kineto/nanogpt-8rank and kineto/hta/nccl_parser_config', (data) => {
      const read = (path: string): KinetoSpan[] => kinetoSpans(readKinetoEvents(`${data}/kineto/${path}`));
      const nanoGpt = Array.from({ length: ranks }, (_, rank) => read(`nanogpt-8rank/rank${rank}.chrome-trace.json.gz`));
      // This file has ns times; truncated to µs, it is a trace as 2021's profiler wrote them.
      const nccl = read('hta/nccl_parser_config/nccl_data.json.gz');
      return [
        ...sizeFigures('nanogpt-8rank', nanoGpt),
        storedFigure('nccl_parser_config, cut to µs', [nccl.map(toMicros)], 3),
        storedFigure('nccl_parser_config, ns as recorded', [nccl]),
      ];
    })),
  ];
}

/** Spans with ns times. */
function sizeFigures(name: string, ranks: readonly (readonly KinetoSpan[])[]): Figure[] {
  const sizes = measure(ranks);
  const spans = ranks.reduce((sum, { length }) => sum + length, 0);
  return [
    figure({
      name: `sent per span (${name}, ns)`,
      value: sizes.sent,
      unit: 'B',
      baseline: { name: 'Kineto JSON event, gzip', value: sizes.jsonGzip },
      target: { at: 'most', value: 7, of: 'value' },
    }),
    figure({
      name: `stored per span (${name}, ns)`,
      value: sizes.stored,
      unit: 'B',
      baseline: { name: 'varint columns, deflate', value: sizes.varint },
      target: { at: 'most', value: 5.5, of: 'value' },
    }),
    figure({
      name: `sent per span (${name}), msgpackr records for comparison`,
      value: sizes.sent,
      unit: 'B',
      baseline: { name: 'msgpackr records, deflate', value: sizes.records },
    }),
    figure({
      name: `entropy of the ns times of a span (${name})`,
      value: ranks.reduce((sum, rank) => sum + timeEntropy(rank) * rank.length, 0) / spans,
      unit: 'B',
    }),
  ];
}

function storedFigure(name: string, ranks: readonly (readonly KinetoSpan[])[], most?: number): Figure {
  const sizes = measure(ranks);
  const baseline = { name: 'varint columns, deflate', value: sizes.varint };
  const stored = { name: `stored per span (${name})`, value: sizes.stored, unit: 'B', baseline } as const;
  return figure(most === undefined ? stored : { ...stored, target: { at: 'most', value: most, of: 'value' } });
}

function toMicros(span: KinetoSpan): KinetoSpan {
  const start = Math.floor(span.start / 1000) * 1000;
  return { ...span, start, length: Math.floor((span.start + span.length) / 1000) * 1000 - start };
}

interface Sizes {
  readonly sent: number;
  readonly stored: number;
  readonly jsonGzip: number;
  readonly varint: number;
  readonly records: number;
}

/** Bytes per span of every way to write the same spans. */
function measure(ranks: readonly (readonly KinetoSpan[])[]): Sizes {
  let spans = 0;
  const sizes = { sent: 0, stored: 0, jsonGzip: 0, varint: 0, records: 0 };
  for (const [rank, recorded] of ranks.entries()) {
    spans += recorded.length;
    sizes.jsonGzip += gzipSync(JSON.stringify(recorded.map((span) => span.event))).length;
    for (const batch of batchesOf(recorded, rank)) {
      const bytes = encodeBatch(batch, deflate).length;
      sizes.sent += bytes;
      sizes.stored += bytes + frameHeaderBytes;
      sizes.varint += varintColumns(batch);
      sizes.records += records(batch);
    }
  }
  return Object.fromEntries(Object.entries(sizes).map(([way, bytes]) => [way, bytes / spans])) as unknown as Sizes;
}

/** A plain sketch of the same columns: LEB128 of the differences, deflated. */
function varintColumns({ tables, strings }: Batch): number {
  const { columns, length } = tables.spans;
  const bytes: number[] = [];
  const push = (value: number): void => {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
    bytes.push(rest);
  };
  let before = 0;
  for (let row = 0; row < length; row++) {
    const difference = (columns.start[row] as number) - before;
    before = columns.start[row] as number;
    push(difference >= 0 ? 2 * difference : -2 * difference - 1);
  }
  for (const column of [columns.length, columns.name, columns.track]) for (let row = 0; row < length; row++) push(column[row] as number);
  return deflate(Buffer.concat([Buffer.from(bytes), Buffer.from(strings.join('\0'))])).length;
}

/** msgpackr's own record structures, an object a span. */
function records({ tables, strings }: Batch): number {
  const { columns, length } = tables.spans;
  const rows = Array.from({ length }, (_, row) => ({
    name: strings[columns.name[row] as number],
    start: columns.start[row],
    length: columns.length[row],
    track: columns.track[row],
  }));
  return deflate(new Packr({ useRecords: true, bundleStrings: false }).pack(rows)).length;
}
