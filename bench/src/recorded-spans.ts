// Spans of real Kineto recordings (../shared/data/kineto), as batches that a rank would send.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type Batch, type BatchHeader, createEventTables, rankTime } from '@ranktrace/protocol';

export interface RecordedSpan {
  readonly name: string;
  /** ns from the recording's first event. */
  readonly start: number;
  readonly length: number;
  readonly track: number;
  /** The event as recorded. */
  readonly event: { readonly ts: number; readonly dur?: number };
}

interface KinetoEvent {
  readonly ph: string;
  readonly name: string;
  readonly ts: number;
  readonly dur?: number;
  readonly pid: number | string;
  readonly tid: number | string;
}

export const dataDirectory = new URL('../../../shared/data/', import.meta.url).pathname;

/** Complete events of a file, in order of start; µs times become ns from the first one. */
export function readRecordedSpans(file: string): RecordedSpan[] {
  const { traceEvents } = JSON.parse(gunzipSync(readFileSync(dataDirectory + file)).toString()) as { traceEvents: KinetoEvent[] };
  const events = traceEvents.filter((event) => event.ph === 'X' && typeof event.pid !== 'string');
  const first = events.reduce((least, event) => Math.min(least, event.ts), Number.POSITIVE_INFINITY);
  const tracks = new Map<string, number>();
  const spans = events.map((event) => {
    const line = `${event.pid}/${event.tid}`;
    const track = tracks.get(line) ?? tracks.size;
    tracks.set(line, track);
    const start = Math.round((event.ts - first) * 1000);
    return { name: event.name, start, length: Math.round((event.dur ?? 0) * 1000), track, event };
  });
  return spans.sort((a, b) => a.start - b.start || b.length - a.length);
}

export const benchHeader: Omit<BatchHeader, 'sequence' | 'watermark' | 'rank'> = {
  run: 'bench',
  worldSize: 8,
  incarnation: 'mi8b1y90-1x',
  host: '5f9c7c1e-4b1e-4ad6-8f51-0a5e2f3c9d10',
  hostName: 'gpu-07.example',
  pid: 4711,
  epoch: '1234567890123456',
  last: false,
  dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
};

/** Cuts spans (in order of start) into batches of `rows`, sorted as the SDK sorts them: by track, then start. */
export function batchesOf(spans: readonly RecordedSpan[], rank: number, rows = 8192): Batch[] {
  const batches: Batch[] = [];
  for (let from = 0; from < spans.length; from += rows) {
    const part = spans.slice(from, from + rows);
    const watermark = part.at(-1)?.start as number;
    const tables = createEventTables();
    const strings = [''];
    const indexes = new Map<string, number>([['', 0]]);
    const indexOf = (text: string): number => {
      let index = indexes.get(text);
      if (index === undefined) {
        index = strings.push(text) - 1;
        indexes.set(text, index);
      }
      return index;
    };
    for (const track of new Set(part.map((span) => span.track))) {
      tables.tracks.append({ track, kind: indexOf('thread'), name: indexOf(`thread ${track}`), tid: track });
    }
    for (const span of part.sort((a, b) => a.track - b.track || a.start - b.start || b.length - a.length)) {
      const { start, length, track } = span;
      tables.spans.append({ start, length, track, name: indexOf(span.name), category: 0, id: 0, parent: 0, state: 0 });
    }
    const header = { ...benchHeader, rank, sequence: batches.length, watermark: rankTime(watermark) };
    batches.push({ header, strings, tables });
  }
  return batches;
}
