// The last moment to ship recorded events, however the process ends.
//
//   event loop empty, process.exit, uncaught exception    'exit' event: flush, blocking, with a deadline; first in line, for a
//                                                         `process.exit` inside another handler ends the process there
//   SIGTERM, SIGINT, SIGHUP without a handler             the shipper's thread hears it, ships, and ends the process by it (signal-watch.ts)
//   the same with the program's handler                   the program decides; 'exit' comes later
//   SIGKILL                                               shipped batches remain; open spans show where it was
//
// Invariant: the process ends for the same reason and with the same code as without the profiler.

import { failedKey } from '@ranktrace/protocol';
import { guarded } from './guarded.ts';

const errorChars = 256;
/** A shell's exit codes between these tell of one of the 64 signals, which is no error; -1 is 255. */
const signalled = { above: 128, upTo: 192 };
/** Exit code of a Node whose top-level await never settles. */
const unsettledAwait = 13;
/** Node 20 sets that code in an 'exit' listener of its own, after ours; later versions before all. `process.exit()` takes it away. */
const unsettledListener = /^function handleProcessExit\(\)\s*\{\s*process\.exitCode \?\?= /;

interface ErrorRecorder {
  instant(name: string, args: { readonly error: string }): void;
  addMetadata(key: string, value: string): void;
}

/**
 * Calls `flush` at most once, when the process ends by itself or by an error; `failed`: with an exit code other than 0. An error that nobody handles is
 * recorded, and passed on, as is an exit code that tells of one: the rank that failed first is the reason why others did. Returns a function that cancels this.
 */
export function onProcessEnd(recorder: ErrorRecorder, flush: (failed: boolean, error: string | undefined) => void): () => void {
  let text: string | undefined;
  const cancel = (): void => {
    process.off('exit', end);
    process.off('uncaughtExceptionMonitor', record);
  };
  const fail = (error: string): void => {
    text = error.slice(0, errorChars);
    recorder.instant('failed', { error: text });
    recorder.addMetadata(failedKey, text);
  };
  const record = guarded('recording the error that ends the program', (error: unknown) => {
    // The program has its own way with errors, and may go on.
    if (process.listenerCount('uncaughtException') > 0 || process.hasUncaughtExceptionCaptureCallback()) return;
    const [first = ''] = String(error).trim().split('\n', 1);
    fail(first);
  });
  process.on('uncaughtExceptionMonitor', record);
  const end = guarded('shipping the last batches', (code: number) => {
    cancel();
    const status = statusOf(code);
    const isSignal = status > signalled.above && status <= signalled.upTo;
    if (text === undefined && status !== 0 && !isSignal) fail(`exit code ${status}`);
    flush(status !== 0, text);
  });
  process.prependListener('exit', end);
  return cancel;
}

/** The status, 0 to 255, with which the process will end. */
function statusOf(code: number): number {
  const isUnsettled =
    code === 0 && process.exitCode === undefined && process.listeners('exit').some((listener) => unsettledListener.test(String(listener)));
  return isUnsettled ? unsettledAwait : code & 0xff;
}
