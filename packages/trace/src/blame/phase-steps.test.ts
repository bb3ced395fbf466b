// Ranks that send only steps and phases, as they do outside recorded windows.

import { nanos, traceTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { StepBlameSink } from './step-blame-sink.ts';

const ms = 1e6;

/** `lines`: each rank's phases with their ms, `data 4, forward 5`, the same in every step; the first step has only those of `first`. */
function blameOfPhases(lines: readonly string[], steps = 20, first?: readonly string[]) {
  const sink = new StepBlameSink();
  const processes = lines.map((_, rank) => traceProcess({ index: rank + 1, rank }));
  sink.begin(traceHeader(processes));
  for (let step = 0; step < steps; step++) {
    for (const [rank, line] of lines.entries()) {
      const parts = line.split(', ').map((part) => part.split(' ') as [string, string]);
      const shown = parts.filter(([name]) => step > 0 || first === undefined || first.includes(name));
      const phases = new Map(shown.map(([name, time]) => [name, nanos(Number(time) * ms)]));
      const length = nanos([...phases.values()].reduce((sum, phase) => sum + phase, 0));
      const lane = traceLane({ index: rank + 1, kind: 'steps', process: processes[rank] as (typeof processes)[number] });
      sink.event(traceEvent({ kind: 'step', lane, start: traceTime(step * length), length, step, phases }));
    }
  }
  sink.end();
  return sink.blame;
}

it('finds the straggler by the collective that the others are inside of longer', () => {
  const late = 'data 4, forward 14, all_reduce 1, optimizer 2';
  const early = 'data 4, forward 5, all_reduce 10, optimizer 2';
  const blame = blameOfPhases([early, late, early]);
  expect(blame.basis).toBe('phases');
  expect(blame.verdict).toBe('straggler');
  expect(blame.findings[0]).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'forward' });
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(9);
  expect(blame.breakdown[0]).toMatchObject({ transfer: 1 * ms, waits: [{ rank: 1, name: 'all_reduce', length: 9 * ms }] });
});

it('finds it where a phase lets the others catch up, though nothing says that they meet in it', () => {
  const late = 'data 16, forward 5, backward 10, optimizer 2';
  const early = 'data 4, forward 5, backward 22, optimizer 2';
  const blame = blameOfPhases([early, early, late, early]);
  expect(blame.findings[0]).toMatchObject({ kind: 'straggler', ranks: [2], phase: 'data' });
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(12);
});

it('finds it among two ranks, though their first step lacks the phase, as that of a loop without a loader does', () => {
  const blame = blameOfPhases(['forward 1, backward 17, optimizer 1', 'forward 16, backward 2, optimizer 1'], 20, [
    'backward',
    'optimizer',
  ]);
  expect(blame.findings).toMatchObject([{ kind: 'straggler', ranks: [1], phase: 'forward' }]);
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo((15 * 19) / 20);
});

it('blames nobody where ranks wait for their devices, and says who waits least', () => {
  const [early, late] = ['synchronize 16, forward 1, backward 2', 'synchronize 1, forward 16, backward 2'];
  const { verdict, findings } = blameOfPhases([early, late, early]);
  expect(verdict).toBe('inconclusive');
  expect(findings.flatMap(({ evidence }) => evidence)).toEqual([
    '58 % of the time is waiting in "synchronize", and lengths of phases do not show for whom: a capture, with collectives and kernels, does',
    'rank 1 waits least, 1.0 ms a step, the others 16.0 ms at the median: they may wait for it',
  ]);
  const even = blameOfPhases([early, early, early]);
  expect(even.findings.flatMap(({ evidence }) => evidence)).toHaveLength(1);
});

it('is balanced where collectives are known, and inconclusive where ranks may wait inside of any phase', () => {
  const even = 'data 2, forward 5, all_reduce 1, optimizer 2';
  expect(blameOfPhases([even, even, even]).verdict).toBe('balanced');
  const hidden = 'data 4, forward 5, backward 10, optimizer 2';
  const blame = blameOfPhases([hidden, hidden, hidden]);
  expect(blame.verdict).toBe('inconclusive');
  expect(blame.findings[0]?.evidence[0]).toMatch(/^no collectives were recorded in these steps/);
});
