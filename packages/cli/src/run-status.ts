// How a live run does, on stderr: one line that renews itself on a terminal, one line every few seconds in a log.

import type { Aggregator } from '@ranktrace/aggregator';
import { formatCount } from './format.ts';

const terminalMs = 200;
const logMs = 5000;

/** Shows the run until stopped. */
export function showRunStatus(aggregator: Aggregator, run: string, ranks: number): { stop(): void } {
  const terminal = process.stderr.isTTY === true;
  const started = Date.now();
  const line = (): string => {
    const status = aggregator.status().runs.find((status) => status.run === run);
    const seen = status?.ranks ?? [];
    const events = seen.reduce((sum, rank) => sum + rank.events, 0);
    const steps = seen.map((rank) => rank.step);
    const step = steps.length === 0 ? '-' : Math.min(...steps) + 1;
    const lost = seen.reduce((sum, rank) => sum + rank.missing + rank.dropped.events + rank.dropped.batches, 0);
    const seconds = ((Date.now() - started) / 1000).toFixed(0);
    return `${seconds} s  ranks ${seen.length}/${ranks}  steps ${step}  events ${formatCount(events)}${lost > 0 ? `  lost ${formatCount(lost)}` : ''}`;
  };
  const timer = setInterval(
    () => process.stderr.write(terminal ? `\r\x1b[2K${line()}` : `ranktrace: ${line()}\n`),
    terminal ? terminalMs : logMs,
  );
  return {
    stop: () => {
      clearInterval(timer);
      if (terminal) process.stderr.write('\r\x1b[2K');
    },
  };
}
