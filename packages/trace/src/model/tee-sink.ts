// Several sinks on one merge: the trace, its summary and its table cost one pass.

import type { TraceSink } from './trace-sink.ts';

/** A sink that passes every call on to all of `sinks`, in order. */
export function teeSink(...sinks: readonly TraceSink[]): TraceSink {
  const [only] = sinks;
  if (only !== undefined && sinks.length === 1) return only;
  return {
    begin: (header) => {
      for (const sink of sinks) sink.begin(header);
    },
    lane: (lane) => {
      for (const sink of sinks) sink.lane(lane);
    },
    event: (event) => {
      for (const sink of sinks) sink.event(event);
    },
    end: (totals) => {
      for (const sink of sinks) sink.end(totals);
    },
    ...(sinks.every(({ endStretch }) => endStretch !== undefined) && {
      endStretch: () => {
        for (const sink of sinks) sink.endStretch?.();
      },
    }),
  };
}
