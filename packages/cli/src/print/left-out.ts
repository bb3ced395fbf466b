// Words of every command for the parts of a Perfetto trace that no event shows.

import type { PerfettoSkipped } from '@ranktrace/trace/perfetto';
import { formatCount } from '../terminal/format.ts';

/** One line; undefined where nothing was left out. */
export function leftOutText({ events, arguments: args, reversed, bundles, packets, flows, counters }: PerfettoSkipped): string | undefined {
  const parts = [
    [events, 'events without a begin, a time or a type'],
    [args, 'arguments beyond the limit'],
    [reversed, 'spans that end before they begin (shown without a length)'],
    [bundles, 'bundles of compressed packets that are damaged, too large or nested'],
    [flows, 'flows beside the first of an event'],
    [counters, 'counter values that spans and instants carry'],
    [packets, 'packets of other data sources'],
  ] as const;
  const reported = parts.filter(([count]) => count > 0).map(([count, what]) => `${formatCount(count)} ${what}`);
  return reported.length === 0 ? undefined : `left out of the trace: ${reported.join(', ')}`;
}
