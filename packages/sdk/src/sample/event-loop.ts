// Delay of this thread's event loop: a training step that computes without a pause holds up timers, sockets and data loading.
//
// Node's histogram measures the time between two firings of a timer of its own, so an idle loop shows the timer's period; we report the delay
// beyond it. A block longer than the interval appears in the first report after it.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { guarded } from '../process/guarded.ts';
import { sampleLimits } from './sample-limits.ts';

/**
 * Reports `event loop delay max` and `event loop delay mean`, ms, of each `intervalMs` of the calling thread. Keeps nothing alive.
 * Returns a function that stops it.
 */
export function watchEventLoop(report: (name: string, value: number, unit: string) => void, intervalMs: number): () => void {
  const resolution = sampleLimits.eventLoopResolutionMs;
  const histogram = monitorEventLoopDelay({ resolution });
  const delay = (ns: number) => Math.max(0, ns / 1e6 - resolution);
  histogram.enable();
  const send = guarded('watching the event loop', () => {
    const { max, mean } = histogram;
    // Without a firing there is no mean.
    if (Number.isNaN(mean)) return;
    histogram.reset();
    report('event loop delay max', delay(max), 'ms');
    report('event loop delay mean', delay(mean), 'ms');
  });
  const timer = setInterval(send, intervalMs).unref();
  return () => {
    clearInterval(timer);
    histogram.disable();
  };
}
