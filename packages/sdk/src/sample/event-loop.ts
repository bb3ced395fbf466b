// Delay of this thread's event loop: a training step that computes without a pause holds up timers, sockets and data loading.
//
// A timer tells how much later than its period it fires. Node's own histogram (`monitorEventLoopDelay`) forgets with each reset when it fired last, and
// so the block that lies over a reset.

import { guarded } from '../process/guarded.ts';
import { sampleLimits } from './sample-limits.ts';

/**
 * Reports `event loop delay max` and `event loop delay mean`, ms, of about each `intervalMs` of the calling thread; a block longer than that appears in
 * the first report after it. Keeps nothing alive. Returns a function that stops it.
 */
export function watchEventLoop(report: (name: string, value: number, unit: string) => void, intervalMs: number): () => void {
  const period = sampleLimits.eventLoopPeriodMs;
  let last = performance.now();
  let reported = last;
  let [max, sum, firings] = [0, 0, 0];
  const fire = guarded('watching the event loop', () => {
    const now = performance.now();
    const delay = Math.max(0, now - last - period);
    last = now;
    max = Math.max(max, delay);
    sum += delay;
    firings++;
    if (now - reported < intervalMs) return;
    report('event loop delay max', max, 'ms');
    report('event loop delay mean', sum / firings, 'ms');
    reported = now;
    max = sum = firings = 0;
  });
  const timer = setInterval(fire, period).unref();
  return () => clearInterval(timer);
}
