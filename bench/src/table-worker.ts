// One side of the benchmark `table`, in a thread with a heap of its own: a million objects of the baseline beside our columns would make the collector
// part of our figure. Each message asks for one turn, and is answered when it is done.

import { workerData } from 'node:worker_threads';
import { averagesTable, functionAverages, functionEvents, type KinetoTable, readKineto } from '@ranktrace/trace/torch';
import { averagesOfObjects, type PlainEvent } from './table-baseline.ts';
import { answerTurns } from './turn-worker.ts';

export interface TableWork {
  readonly side: 'columns' | 'objects';
  /** A torch.profiler file, unzipped; measured is `copies` times its events, one copy after the other. */
  readonly bytes: Uint8Array;
  readonly copies: number;
}

const options = { sortBy: 'self_cpu_time_total', rowLimit: 10, profileMemory: true, withFlops: true };

function turnOf({ side, bytes, copies }: TableWork): () => void {
  if (side === 'columns') {
    const columns = repeated(bytes, copies);
    return () => void averagesTable(functionAverages(functionEvents(columns), { groupByInputShape: true }), options);
  }
  const objects = repeatedObjects(bytes, copies);
  return () => void averagesOfObjects(objects);
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

function repeatedObjects(bytes: Uint8Array, copies: number): PlainEvent[] {
  const { traceEvents } = JSON.parse(Buffer.from(bytes).toString()) as { traceEvents: PlainEvent[] };
  const events = traceEvents.filter((event) => typeof event.pid === 'number' && (event.ph === 'X' || event.name === '[memory]'));
  return Array.from({ length: copies }, (_, copy) => events.map((event) => ({ ...event, ts: event.ts + copy * 1e6 }))).flat();
}

answerTurns(turnOf(workerData as TableWork));
