// Complete events of a torch.profiler file as spans with times in ns, and as the batches that a rank would send.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type Batch, createEventTables, rankTime } from '@ranktrace/protocol';
import { benchHeader } from './batch-header.ts';

/** The part of an event that benchmarks read. Times are µs with three decimals. */
export interface KinetoEvent {
  readonly ph: string;
  readonly name: string;
  readonly ts: number;
  readonly dur?: number;
  readonly pid: number | string;
  readonly tid: number | string;
}

export interface KinetoSpan {
  readonly name: string;
  /** ns from the recording's first event. */
  readonly start: number;
  readonly length: number;
  readonly track: number;
  /** The event as recorded. */
  readonly event: { readonly ts: number; readonly dur?: number };
}

export function readKinetoEvents(path: string): KinetoEvent[] {
  return (JSON.parse(gunzipSync(readFileSync(path)).toString()) as { traceEvents: KinetoEvent[] }).traceEvents;
}

/** Complete events, in order of start; µs times become ns from the first one. */
export function kinetoSpans(traceEvents: readonly KinetoEvent[]): KinetoSpan[] {
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

/**
 * Bytes of entropy in the ns times of a span: of the difference to the start before it on its track, and of its length; each is the entropy of
 * its octave plus the bits of its place within the octave, as if those were uniform. No coder without names and nesting does better.
 */
export function timeEntropy(spans: readonly KinetoSpan[]): number {
  const before = new Map<number, number>();
  const differences = spans.map(({ track, start }) => {
    const difference = start - (before.get(track) ?? 0);
    before.set(track, start);
    return difference;
  });
  return (bitsOf(differences) + bitsOf(spans.map(({ length }) => length))) / 8;
}

function bitsOf(values: readonly number[]): number {
  const octaves = new Map<number, number>();
  let within = 0;
  for (const value of values) {
    const octave = value <= 0 ? 0 : Math.floor(Math.log2(value)) + 1;
    octaves.set(octave, (octaves.get(octave) ?? 0) + 1);
    within += Math.max(0, octave - 1);
  }
  const entropy = [...octaves.values()].reduce((sum, count) => sum - (count / values.length) * Math.log2(count / values.length), 0);
  return entropy + within / values.length;
}

/** Cuts spans (in order of start) into batches of `rows`, sorted as the SDK sorts them: by track, then start. */
export function batchesOf(spans: readonly KinetoSpan[], rank: number, rows = 8192): Batch[] {
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
