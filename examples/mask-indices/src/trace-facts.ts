// A profile's facts about one span, as numbers: time and memory from the key averages, copied bytes from the trace, where each copy has an
// argument `Bytes`.

import { readFileSync } from 'node:fs';
import type { KeyAverages } from '@ranktrace/sdk';

export interface SpanFacts {
  /** Including everything inside of it. */
  readonly timeMs: number;
  /** Share of all recorded time, from 0 to 1. */
  readonly timeShare: number;
  /** Bytes that it allocated, less those that it freed. */
  readonly memoryBytes: number;
  /** Bytes copied between the backend and JavaScript while it ran, both ways. */
  readonly copiedBytes: number;
}

/** The fields that we read of a trace event. Times in µs. */
interface TraceEvent {
  readonly name: string;
  readonly cat?: string;
  readonly ts: number;
  readonly dur?: number;
  readonly args?: { readonly Bytes?: number };
}

/** The facts of the span `name`, which occurs once in the profile. */
export function readFacts(tracePath: string, name: string, averages: KeyAverages): SpanFacts {
  const average = [...averages].find(({ key }) => key === name)!;
  const { traceEvents } = JSON.parse(readFileSync(tracePath, 'utf8')) as { readonly traceEvents: readonly TraceEvent[] };
  const span = traceEvents.find((event) => event.name === name)!;
  const copies = traceEvents.filter(({ cat, ts }) => cat === 'data_copy' && ts >= span.ts && ts < span.ts + span.dur!);
  return {
    timeMs: average.cpuTimeTotal / 1000,
    timeShare: average.cpuTimeTotal / averages.totalAverage().selfCpuTimeTotal,
    memoryBytes: average.cpuMemoryUsage,
    copiedBytes: copies.reduce((sum, { args }) => sum + args!.Bytes!, 0),
  };
}
