// Garbage collections of this thread's heap, as Node reports them: afterwards, at the next turn of the event loop.

import { constants, type PerformanceEntry, PerformanceObserver, type PerformanceObserverEntryList } from 'node:perf_hooks';
import { guarded } from '../process/guarded.ts';

/** V8's kinds: a scavenge of the young generation, a mark-compact of the whole heap, a slice of marking, weak callbacks. */
export type GcKind = 'minor' | 'major' | 'incremental' | 'weakcb';

type GcEntry = PerformanceEntry & { readonly detail: { readonly kind: number; readonly flags: number } };

/** By GCType of v8-callbacks.h; 2 is the young generation's mark-compact, for which Node has no constant. */
const kinds: Readonly<Record<number, GcKind>> = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  2: 'minor',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weakcb',
};

/**
 * Reports each collection of the calling thread: its begin (ms, this thread's `performance.now()`), its length (ms), and whether it was
 * forced (`gc()`, a heap snapshot). Keeps nothing alive. Returns a function that stops it.
 */
export function watchGc(report: (kind: GcKind, startMs: number, lengthMs: number, forced: boolean) => void): () => void {
  const reported = guarded('watching garbage collections', (list: PerformanceObserverEntryList) => {
    for (const { startTime, duration, detail } of list.getEntries() as GcEntry[]) {
      const { kind, flags } = detail;
      const name = kinds[kind];
      if (name !== undefined) report(name, startTime, duration, (flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0);
    }
  });
  const observer = new PerformanceObserver(reported);
  observer.observe({ entryTypes: ['gc'] });
  return () => observer.disconnect();
}
