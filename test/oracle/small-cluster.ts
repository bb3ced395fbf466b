// A trace of two ranks with one of everything, given to a sink directly, as a merge would.
//
//   ms        0         1         2         3         4
//   rank 0    ProfilerStep#0 ─────────────────────────        steps
//             train ──────────────────────────────────        main: train and forward begin together
//             forward ──────────  allreduce ──   call ──
//   rank 1              forward ─────  allreduce            restarted once; its clock is unaligned
//             killed ───────────────────────────────── …     open, never closed
//             slow ─────────────────┤                        open, then closed with an argument

import { nanos, traceTime } from '@ranktrace/protocol';
import type { ProcessTotals, TraceEvent, TraceLane, TraceProcess, TraceSink } from '@ranktrace/trace';
import {
  droppedCounts,
  processTotals,
  sampled,
  traceEvent,
  traceHeader,
  traceLane,
  traceProcess,
  unaligned,
} from '../../packages/trace/src/testing/trace-events.ts';

const us = 1000;
const unixEpoch = 1_766_000_000_123_456_789n;
const collectiveFlow = 0xdead_beef_0000_0007n;
const rpcFlow = 0x00f0_67aa_0ba9_02b7n;

/** A name that every writer must handle. */
export const hostileName = 'a"b\\c\n\u2028</script>é漢🚀\ud800{}';

function processOf(index: number, rank: number, about: Partial<TraceProcess> = {}): TraceProcess {
  const names = { incarnation: `a-${index}`, host: `boot-${rank}`, hostName: `host-${rank}`, pid: 4000 + index };
  return traceProcess({ index, rank, ...names, ...about });
}

const rank0 = processOf(1, 0, { metadata: new Map([['torch', '2.9']]) });
const rank1 = processOf(2, 1, { alignment: sampled(12_345) });
const rank1Again = processOf(3, 1, { alignment: unaligned });

const header = traceHeader([rank0, rank1, rank1Again], { run: 'small', worldSize: 2, unixEpoch });

function laneOf(index: number, process: TraceProcess, kind: TraceLane['kind'], name: string, about: Partial<TraceLane> = {}): TraceLane {
  return traceLane({ index, process, kind, name, ...about });
}

const steps0 = laneOf(1, rank0, 'steps', 'ProfilerSteps');
const main0 = laneOf(2, rank0, 'thread', 'main', { tid: 77 });
const memory0 = laneOf(3, rank0, 'counter', 'memory', { unit: 'MB' });
const main1 = laneOf(4, rank1, 'thread', 'main', { tid: 77 });
const stream1 = laneOf(5, rank1, 'stream', 'stream 7');
const again1 = laneOf(6, rank1Again, 'thread', 'main');
const overflow0 = laneOf(7, rank0, 'thread', 'main (2)', { tid: 77, overflow: 1 });

/** One event of the trace: µs here, ns for the sink. */
function at(lane: TraceLane, startUs: number, lengthUs: number, name: string, about: Partial<TraceEvent> = {}): TraceEvent {
  return traceEvent({ lane, start: traceTime(startUs * us), length: nanos(lengthUs * us), name, ...about });
}

const collective = { kind: 'collective', category: 'nccl', group: 'dp', sequence: 7, bytes: 4096, flow: collectiveFlow } as const;
const rpc = { kind: 'rpc', status: 'ok', traceId: '4bf92f3577b34da6a3ce929d0e0e4736', flow: rpcFlow } as const;

/** In the order of a merge: by start; a `close` and a step by their end. The first event lies before TraceTime 0. */
export const events: readonly TraceEvent[] = [
  at(main1, -0.5, 0, 'early', { kind: 'instant' }),
  at(main0, 0, 4000, 'train', { category: 'user' }),
  at(main0, 0, 1000, 'forward', {
    category: 'cpu_op',
    arguments: new Map<string, string | number>([
      ['batch', 32],
      ['loss', 0.25],
      ['shape', '[32, 784]'],
    ]),
  }),
  at(memory0, 0.125, 0, 'memory', { kind: 'counter', value: 12.5 }),
  at(main0, 1, 499, 'linear', { category: 'cpu_op' }),
  at(main1, 1, 0, 'killed', { state: 'open' }),
  at(again1, 2, 0, 'slow', { state: 'open', category: 'io' }),
  at(main0, 500, 500, hostileName),
  at(stream1, 600, 1400, 'forward', { category: 'kernel' }),
  at(overflow0, 900, 200, 'not awaited'),
  at(main0, 1000, 1500, 'allreduce', collective),
  at(memory0, 1000, 0, 'memory', { kind: 'counter', value: -3 }),
  at(main0, 1500, 0, 'checkpoint', { kind: 'instant', category: 'user' }),
  at(stream1, 2000, 500.001, 'allreduce', collective),
  at(again1, 2, 2400, 'slow', { state: 'close', category: 'io', arguments: new Map([['retries', 3]]) }),
  at(main0, 2600, 900, 'GetWeights', { ...rpc, side: 'client', peer: 'server', spanId: '00f067aa0ba902b7' }),
  at(main1, 2700, 600, 'GetWeights', {
    ...rpc,
    side: 'server',
    peer: 'rank 0',
    spanId: '53995c3f42cd8ad8',
    parentSpanId: '00f067aa0ba902b7',
  }),
  at(steps0, 0, 4000, 'ProfilerStep#0', { kind: 'step', step: 0, phases: new Map([['forward', nanos(1_000_000)]]) }),
];

const totals: readonly ProcessTotals[] = header.processes.map((process) =>
  processTotals({
    ...{ process, batches: 3, missing: process === rank1 ? 1 : 0, dropped: droppedCounts({ events: 5 }) },
    counts: { span: 9, instant: 2, counter: 2, step: 1, collective: 2, rpc: 2 },
    ended: process !== rank1,
  }),
);

/** Gives all of it to `sink`. */
export function writeSmallCluster(sink: TraceSink): void {
  sink.begin(header);
  const known = new Set<TraceLane>();
  for (const event of events) {
    if (!known.has(event.lane)) sink.lane(event.lane);
    known.add(event.lane);
    sink.event(event);
  }
  sink.end(totals);
}

/** The bytes that a writer makes of it. */
export function bytesOf(writer: (write: (chunk: Uint8Array) => void) => TraceSink): Uint8Array {
  const chunks: Uint8Array[] = [];
  writeSmallCluster(writer((chunk) => chunks.push(chunk.slice())));
  return Buffer.concat(chunks);
}
