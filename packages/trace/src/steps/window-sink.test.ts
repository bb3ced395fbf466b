import { nanos, traceTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import type { TraceEvent, TraceSink } from '../model/trace-sink.ts';
import { processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { type TraceWindow, WindowSink } from './window-sink.ts';

const processes = [0, 1].map((rank) => traceProcess({ index: rank + 1, rank }));
const lanes = processes.map((process) => traceLane({ index: process.index, process }));

/** Lines `NAME START-END`, or `open NAME START-` and `close NAME START-END`, on rank 0; what comes through. */
function passed(text: string, window: TraceWindow): readonly string[] {
  const lines: string[] = [];
  const sink: TraceSink = {
    begin: ({ processes }) => lines.push(`ranks ${processes.map(({ rank }) => rank)}`),
    lane: (lane) => lines.push(`lane ${lane.index}`),
    event: ({ name, state, start }) => lines.push(`${state} ${name} ${start}`),
    end: (totals) => lines.push(`totals ${totals.length}`),
  };
  const part = new WindowSink(sink, window);
  part.begin(traceHeader(processes));
  for (const line of text.trim().split('\n')) {
    const [, rank = '0', state = 'whole', name = '', start, end = start] =
      /^\s*(?:rank (\d) )?(?:(open|close) )?(\w+) (\d+)-(\d*)$/.exec(line) ?? [];
    const length = nanos(Number(end) - Number(start));
    part.event(
      traceEvent({
        lane: lanes[Number(rank)] as never,
        state: state as TraceEvent['state'],
        name,
        start: traceTime(Number(start)),
        length,
      }),
    );
  }
  part.end(processes.map((process) => processTotals({ process })));
  return lines.slice(1, -1);
}

it('passes what overlaps the window, and announces only the lanes of that', () => {
  const text = 'a 0-10\nb 5-25\nrank 1 d 15-16\nc 20-21\ne 39-50\nf 40-41';
  expect(passed(text, { from: 20, until: 40 })).toEqual(['lane 1', 'whole b 5', 'whole c 20', 'whole e 39']);
  expect(passed(text, { hasRank: (rank) => rank === 1 })).toEqual(['lane 2', 'whole d 15']);
});

it('passes spans that were open when the window began, and an end only for a begin that was passed', () => {
  const text = 'open gone 0-\nopen long 1-\nclose gone 0-5\nb 20-21\nopen never 45-\nclose long 1-60\nclose never 45-70';
  expect(passed(text, { from: 20, until: 40 })).toEqual(['lane 1', 'open long 1', 'whole b 20', 'close long 1']);
  expect(passed('open stuck 0-\nrank 1 b 1-2', { from: 20, until: 40 })).toEqual(['lane 1', 'open stuck 0']);
});

it('passes spans of one lane, start and name each with its end', () => {
  const twice = (from: number, ends: readonly number[]) =>
    ['open f 5-', 'open f 5-', `b ${from}-${from + 1}`, ...ends.map((end) => `close f 5-${end}`)].join('\n');
  const passedBoth = ['lane 1', 'open f 5', 'open f 5', 'whole b 20', 'close f 5', 'close f 5'];
  expect(passed(twice(20, [30, 35]), { from: 10, until: 40 })).toEqual(passedBoth);
  expect(passed(twice(20, [30, 35]), { from: 0, until: 40 })).toEqual(passedBoth);
});
