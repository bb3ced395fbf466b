// Pings of a service's connections in turns, and the judgement of those that were silent since.
//
// A process that stood still (stopped, swapped out, starved of CPU) hears its timers before its sockets, so what peers sent meanwhile is still unread: a late
// turn judges nobody, and each comes after what lies ready has been read.

import type { Guarded } from './guarded.ts';

/** Calls `turn` at each interval; `judges`: whether a peer that has not been heard is silent. Keeps no process alive; ends with `clearInterval`. */
export function startPings(guarded: Guarded, what: string, intervalMs: number, turn: (judges: boolean) => void): NodeJS.Timeout {
  let due = performance.now() + intervalMs;
  const onTimer = (): void => {
    const now = performance.now();
    const isLate = now - due > intervalMs / 2;
    due = now + intervalMs;
    setImmediate(guarded(what, turn), !isLate);
  };
  return setInterval(guarded(what, onTimer), intervalMs).unref();
}
