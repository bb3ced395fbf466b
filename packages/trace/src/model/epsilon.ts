// The error of comparing a time of one process with a time of another.

import type { TraceTime } from '@ranktrace/protocol';
import type { TraceProcess } from './trace-sink.ts';

/** ± ns of a comparison of two processes' times near `time`: 0 on one host, undefined when one of them is not aligned. */
export function epsilonOf(a: TraceProcess, b: TraceProcess, time: TraceTime): number | undefined {
  if (a === b || a.host === b.host) return 0;
  const [ofA, ofB] = [boundAt(a, time), boundAt(b, time)];
  return ofA === undefined || ofB === undefined ? undefined : Math.min(ofA + ofB, apartAt(a, time) + apartAt(b, time));
}

/** ± ns of a process's times against those of the host that all are compared with, near `time`; infinite where that is not known. */
export const apartAt = ({ alignment }: TraceProcess, time: TraceTime): number => alignment.apartAt?.(time) ?? Number.POSITIVE_INFINITY;

/** ± ns of a process's times against the reference clock near `time`; undefined when it is not aligned. */
export function boundAt({ alignment }: TraceProcess, time: TraceTime): number | undefined {
  return alignment.boundAt?.(time) ?? alignment.bound;
}
