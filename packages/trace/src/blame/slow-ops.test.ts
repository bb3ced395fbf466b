// Steps with a slow part outside all phases: the sink names its ops, on whatever thread they ran.

import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import type { TraceEvent } from '../model/trace-sink.ts';
import { processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { blameLimits } from './blame-limits.ts';
import { OpNames, OpTimer } from './op-times.ts';
import { RunBlameSink } from './run-blame-sink.ts';

const ms = 1e6;

describe('the ops of a step', () => {
  const names = new OpNames();
  const reported = (timer: OpTimer, until: number, phases: Parameters<OpTimer['take']>[1] = []): string[] => {
    const { ops, lengths } = timer.take(until, phases, names) ?? { ops: [], lengths: [] };
    return [...ops].map((op, at) => `${names.at(op)?.phase} ${names.at(op)?.name} ${lengths[at]}`);
  };

  it('have the time that they have to themselves, on each thread, in the phase that they begin in', () => {
    const timer = new OpTimer();
    timer.span(1, 'forward', 0, 40);
    timer.span(1, 'addmm', 5, 35);
    timer.span(1, 'mm', 10, 30);
    timer.span(2, 'AddmmBackward0', 50, 90);
    timer.span(2, 'mm', 60, 85);
    timer.span(2, 'mm', 92, 99);
    timer.span(1, 'still open', 95, 120);
    const forward = { name: 'forward', from: 0, until: 40 };
    expect(reported(timer, 100, [forward])).toEqual(['other mm 32', 'forward mm 20', 'other AddmmBackward0 15', 'forward addmm 10']);
    expect(reported(timer, 200)).toEqual(['other still open 25']);
    expect(timer.take(300, [], names)).toBeUndefined();
  });

  it('are the longest ones, and bounded whatever comes', () => {
    const timer = new OpTimer();
    for (let at = 0; at < 1000; at++) timer.span(1, `op ${at}`, at, 5000 - at);
    for (let lane = 0; lane < 5000; lane++) timer.span(lane + 2, 'op', 0, 1);
    expect(reported(timer, 10_000)).toHaveLength(blameLimits.blameOpsPerStepMax);
    for (let at = 0; at < 2 * blameLimits.blameOpNamesMax; at++) names.numberOf('other', `name ${at}`);
    expect(names.numberOf('other', 'one more')).toBeUndefined();
    expect(names.at(blameLimits.blameOpNamesMax)).toBeUndefined();
  });
});

/** Four ranks in lockstep: `forward` is a phase, the backward pass is not; rank 2 is slow in one op of it, in the steps that `isSlow` selects. */
function jobEvents(isSlow: (step: number) => boolean, more = 12): RunBlameSink {
  const processes = [0, 1, 2, 3].map((rank) => traceProcess({ index: rank + 1, rank, incarnation: `a-${rank}` }));
  const lanes = processes.map((process, rank) => [0, 1].map((thread) => traceLane({ index: 2 * rank + thread + 1, process, tid: thread })));
  const sink = new RunBlameSink();
  sink.begin(traceHeader(processes));
  for (const lane of lanes.flat()) sink.lane(lane);
  const events: TraceEvent[] = [];
  for (let step = 0; step < 24; step++) {
    const start = 60 * step;
    for (const [rank, [main, backward]] of lanes.entries()) {
      const jitter = ((step * 7 + rank * 3) % 5) / 50;
      const slow = rank === 2 && isSlow(step) ? more : 0;
      const span = (lane: typeof main, name: string, from: number, length: number): void => {
        const place = { start: traceTime((start + from) * ms), length: nanos(length * ms) };
        events.push(traceEvent({ lane: lane as NonNullable<typeof main>, name, category: 'cpu_op', ...place }));
      };
      span(main, 'forward', 1, 8);
      span(main, 'aten::linear', 2, 6 + jitter);
      span(backward, 'ConvolutionBackward0', 10, 11 + jitter + slow);
      span(backward, 'aten::convolution_backward', 11, 9 + jitter + slow);
      const meet = { start: traceTime((start + 22 + jitter + slow) * ms), length: nanos((12 + 2 - slow - jitter) * ms) };
      events.push(
        traceEvent({
          kind: 'collective',
          lane: main as NonNullable<typeof main>,
          name: 'all_reduce',
          group: 'world',
          sequence: step,
          ...meet,
        }),
      );
    }
    for (const [main] of lanes) {
      const about = { start: traceTime(start * ms), length: nanos(40 * ms), phases: new Map([['forward', nanos(8 * ms)]]) };
      events.push(traceEvent({ kind: 'step', lane: main as NonNullable<typeof main>, step, ...about }));
    }
  }
  const endOf = ({ kind, start, length }: TraceEvent): number => (kind === 'step' ? start + length : start);
  for (const event of events.sort((a, b) => endOf(a) - endOf(b))) sink.event(event);
  sink.end([processTotals()]);
  return sink;
}

describe('a rank that is slow in no phase', () => {
  it('is named with the ops in which it differs from its peers', () => {
    const { findings } = jobEvents(() => true).blame;
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'other' }]);
    expect(findings[0]?.evidence.at(-1)).toMatch(
      /^ops in other in which rank 2 takes longer than its peers, per step: aten::convolution_backward 1[12]\.\d\d ms \(2[01]\.\d\d ms against 9\.\d\d ms\)$/,
    );
  });

  it('is so too where it is slow in some steps alone', () => {
    const { findings } = jobEvents((step) => step % 3 === 0).blame;
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'other', affectedSteps: 8 }]);
    expect(findings[0]?.evidence.join()).toContain('takes longer than its peers, per step: aten::convolution_backward');
  });

  it('is not there where no rank is slow', () => {
    expect(jobEvents(() => false).blame.findings.filter(({ kind }) => kind === 'straggler')).toEqual([]);
  });
});
