// The last moment to ship recorded events, however the process ends.
//
//   event loop empty, process.exit, uncaught exception    'exit' event: flush, blocking, with a deadline; first in line, for a
//                                                         `process.exit` inside another handler ends the process there
//   SIGTERM, SIGINT, SIGHUP without a handler             the shipper's thread hears it, ships, and ends the process by it (signal-watch.ts)
//   the same with the program's handler                   the program decides; 'exit' comes later
//   SIGKILL                                               shipped batches remain; open spans show where it was
//
// Invariant: the process ends for the same reason and with the same code as without the profiler.

import { guarded } from './guarded.ts';

/**
 * Calls `flush` at most once, when the process ends by itself or by an error; `failed`: with an exit code other than 0. Returns a function
 * that cancels this, and calls `cancelled`.
 */
export function onProcessEnd(cancelled: () => void, flush: (failed: boolean) => void): () => void {
  const cancel = (): void => {
    cancelled();
    process.off('exit', end);
  };
  const end = guarded('shipping the last batches', (code: number) => {
    cancel();
    flush(code !== 0);
  });
  process.prependListener('exit', end);
  return cancel;
}
