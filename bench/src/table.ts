// Key averages: events per second from columns to torch's table, against the same rules on JSON.parse'd objects.
//
// The input is a real profile again and again, one after the other: conv_train (ops, shapes, memory, flops; torch 2.13 on a CPU) and
// one rank of nanogpt-8rank (ops, CUDA runtime calls, kernels).

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { averagesTable, functionAverages, functionEvents, type KinetoTable, readKineto } from '@ranktrace/trace';
import { type Figure, figure, median } from './figure.ts';
import { dataDirectory } from './recorded-spans.ts';

const rounds = 5;
const eventsWanted = 1_000_000;

export async function table(): Promise<Figure[]> {
  return [
    measure('ops, shapes, memory, flops (conv_train)', 'kineto/torch-reference/conv_train.pt.trace.json.gz'),
    measure('ops and kernels (nanogpt-8rank)', 'kineto/nanogpt-8rank/rank0.chrome-trace.json.gz'),
  ];
}

function measure(name: string, file: string): Figure {
  const bytes = gunzipSync(readFileSync(dataDirectory + file));
  const once = readKineto(bytes).events.length;
  const copies = Math.ceil(eventsWanted / once);
  const events = once * copies;
  const options = { sortBy: 'self_cpu_time_total', rowLimit: 10, profileMemory: true, withFlops: true };
  // One after the other: a million objects of the baseline in the heap would make the collector part of our figure.
  const columns = repeated(bytes, copies);
  const ours = events / secondsOf(() => averagesTable(functionAverages(functionEvents(columns), { groupByInputShape: true }), options));
  const objects = repeatedObjects(bytes, copies);
  const theirs = events / secondsOf(() => averagesOfObjects(objects));
  return figure({
    name: `key averages, ${name}`,
    value: ours,
    unit: 'events/s',
    baseline: { name: 'same rules on parsed objects', value: theirs },
    target: { at: 'least', value: 2_000_000, of: 'value' },
  });
}

function secondsOf(run: () => unknown): number {
  run();
  const times = Array.from({ length: rounds }, () => {
    const start = performance.now();
    run();
    return (performance.now() - start) / 1000;
  });
  return median(times);
}

/** The trace's columns, copy after copy in time. */
function repeated(bytes: Uint8Array, copies: number): KinetoTable {
  const table = readKineto(bytes);
  // Ids go on counting, as torch's do.
  const ids = table.events.columns.externalId.reduce((most, id) => Math.max(most, id), 0) + 1;
  for (const part of [table.events, table.memory]) {
    const { length } = part;
    const names = Object.keys(part.columns);
    for (let copy = 1; copy < copies; copy++) {
      for (let from = 0; from < length; from++) {
        const row = part.add();
        const columns = part.columns as Record<string, { [row: number]: number }>;
        for (const name of names) {
          const value = (columns[name] as { [row: number]: number })[from] as number;
          const isId = name === 'externalId' && value !== 0;
          const shift = name === 'start' || name === 'time' ? copy * 1e9 : isId ? copy * ids : 0;
          (columns[name] as { [row: number]: number })[row] = value + shift;
        }
      }
    }
  }
  return table;
}

interface PlainEvent {
  readonly ph: string;
  readonly name: string;
  readonly ts: number;
  readonly dur: number;
  readonly tid: number | string;
  readonly pid: number | string;
  readonly args?: { readonly 'Input Dims'?: unknown; readonly Bytes?: number };
}

function repeatedObjects(bytes: Uint8Array, copies: number): PlainEvent[] {
  const { traceEvents } = JSON.parse(Buffer.from(bytes).toString()) as { traceEvents: PlainEvent[] };
  const events = traceEvents.filter((event) => typeof event.pid === 'number' && (event.ph === 'X' || event.name === '[memory]'));
  return Array.from({ length: copies }, (_, copy) => events.map((event) => ({ ...event, ts: event.ts + copy * 1e6 }))).flat();
}

interface Node {
  readonly event: PlainEvent;
  self: number;
}

/** What a straightforward program does: sort the objects, a stack a thread, rows in a Map. It leaves out flops, folding and devices. */
function averagesOfObjects(objects: readonly PlainEvent[]): number {
  const memory = objects.filter((event) => event.ph !== 'X').sort((a, b) => a.ts - b.ts);
  const events = objects.filter((event) => event.ph === 'X').sort((a, b) => a.ts - b.ts || b.dur - a.dur);
  const threads = new Map<number | string, Node[]>();
  const nodes: Node[] = [];
  const rows = new Map<string, { count: number; total: number; self: number; memory: number }>();
  const bytesIn = (from: number, to: number): number => {
    let low = 0;
    for (let high = memory.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if ((memory[middle] as PlainEvent).ts < from) low = middle + 1;
      else high = middle;
    }
    let bytes = 0;
    for (; low < memory.length && (memory[low] as PlainEvent).ts <= to; low++) bytes += (memory[low] as PlainEvent).args?.Bytes ?? 0;
    return bytes;
  };
  for (const event of events) {
    const stack = threads.get(event.tid) ?? [];
    threads.set(event.tid, stack);
    const node = { event, self: event.dur };
    nodes.push(node);
    for (let parent = stack.at(-1); parent !== undefined; parent = stack.at(-1)) {
      const end = parent.event.ts + parent.event.dur;
      if (event.ts < end && event.ts + event.dur <= end) {
        parent.self -= event.dur;
        break;
      }
      stack.pop();
    }
    stack.push(node);
  }
  for (const { event, self } of nodes) {
    const key = `${event.name} ${JSON.stringify(event.args?.['Input Dims'])}`;
    const row = rows.get(key) ?? { count: 0, total: 0, self: 0, memory: 0 };
    row.count++;
    row.total += event.dur;
    row.self += self;
    row.memory += bytesIn(event.ts, event.ts + event.dur);
    rows.set(key, row);
  }
  return rows.size;
}
