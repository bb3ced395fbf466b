// Guards callbacks of timers, emitters, ports, observers and promises: an error in one becomes a notice, and the next call goes on.
//
// An unguarded error would end the training process, or the shipper's thread and with it recording, and nearly any callback may throw: without
// a free file descriptor `process.memoryUsage.rss()` does. So every callback goes through here; a test finds any in the sources that does not.
//
// The function that reports failures is a variable of the thread, not an argument: a failing callback must not depend on having received it.

import { writeSync } from 'node:fs';
import { printable } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';

const reported = new Map<string, number>();

/**
 * Wraps `work` in a function that never throws, nor leaves a promise that is rejected without a handler. `what` names its work for people.
 *
 * @example setInterval(guarded('sampling the host', () => add(host.sample())), 1000)
 */
export function guarded<A extends readonly unknown[]>(what: string, work: (...args: A) => unknown): (...args: A) => void {
  return (...args) => {
    try {
      const result = work(...args);
      if (result instanceof Promise) result.catch((error: unknown) => reportFailure(what, error));
    } catch (error) {
      reportFailure(what, error);
    }
  };
}

/** Reports that `what` failed this time: one line of a kind in 10 s, and never a stack. */
export function reportFailure(what: string, error: unknown): void {
  const line = `${what} failed, and goes on: ${reasonOf(error)}`;
  const now = performance.now();
  const last = reported.get(line);
  if (last !== undefined && now - last < limits.noticeIntervalMs) return;
  if (reported.size >= limits.noticeKindsMax) reported.clear();
  reported.set(line, now);
  say(`ranktrace: ${line}`);
}

/** One line for any thrown value. */
export function reasonOf(error: unknown): string {
  try {
    const text = error instanceof Error ? error.message : String(error);
    return text.split('\n', 1)[0] || 'for no reason that it gave';
  } catch {
    return 'for a reason that is no text';
  }
}

/** Writes directly to the descriptor: a worker's `process.stderr` goes through the main thread, which may be blocked. */
export function say(line: string): void {
  try {
    writeSync(2, `${printable(line)}\n`);
  } catch {
    // stderr is closed.
  }
}
