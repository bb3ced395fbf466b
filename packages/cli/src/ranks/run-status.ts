// Status of a live run on stderr: one line that renews itself on a terminal, one line every few seconds in a log.

import type { Aggregator } from '@ranktrace/aggregator';
import { formatCount } from '../terminal/format.ts';
import { say } from '../terminal/output.ts';

const terminalMs = 200;
const logMs = 5000;
/** Columns of a terminal that does not say how many it has. */
const usualColumns = 80;

/** Removes the status line, where stderr is a terminal. */
export const clearStatus = (): string => (process.stderr.isTTY === true ? '\r\x1b[2K' : '');

export interface RunStatus {
  /** Prints `line` apart from the status line. */
  say(line: string): void;
  stop(): void;
}

/** Shows the recordings of `ranks` ranks, in any run, until stopped. */
export function showRunStatus(aggregator: Aggregator, ranks: number): RunStatus {
  const terminal = process.stderr.isTTY === true;
  const clear = clearStatus();
  const started = Date.now();
  const line = (): string => {
    const seen = aggregator.status().runs.flatMap((run) => run.ranks);
    const events = seen.reduce((sum, rank) => sum + rank.events, 0);
    const steps = seen.map((rank) => rank.step);
    const step = steps.length === 0 ? '-' : Math.min(...steps) + 1;
    const lost = seen.reduce((sum, rank) => sum + rank.dropped.events + rank.dropped.batches, 0);
    // Later batches overtook these: most come when a broker redelivers, so they are no loss yet.
    const late = seen.reduce((sum, rank) => sum + rank.missing, 0);
    const firing = aggregator.alerts.alerts().filter(({ state }) => state === 'firing').length;
    const seconds = ((Date.now() - started) / 1000).toFixed(0);
    const parts = [`${seconds} s`, `ranks ${seen.length}/${ranks}`, `steps ${step}`, `events ${formatCount(events)}`];
    if (late > 0) parts.push(`late ${formatCount(late)} batches`);
    if (lost > 0) parts.push(`lost ${formatCount(lost)}`);
    if (firing > 0) parts.push(`alerts ${firing} firing`);
    // A line that wraps cannot be cleared.
    const text = parts.join('  ');
    return terminal ? text.slice(0, (process.stderr.columns || usualColumns) - 1) : text;
  };
  const timer = setInterval(
    () => process.stderr.write(terminal ? `${clear}${line()}` : `ranktrace: ${line()}\n`),
    terminal ? terminalMs : logMs,
  );
  return {
    say: (text) => {
      process.stderr.write(clear);
      say(text);
    },
    stop: () => {
      clearInterval(timer);
      process.stderr.write(clear);
    },
  };
}
