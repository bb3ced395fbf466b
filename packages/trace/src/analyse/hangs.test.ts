// Jobs that stand still in a step until all their ranks are ended: which rank did not come as far, and what is no hang.

import { nanos, traceTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import type { ProcessTotals } from '../model/trace-sink.ts';
import { processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { analysisSink } from './run-analysis.ts';

const s = (seconds: number) => traceTime(seconds * 1e9);

/** Where a rank is in step 40: `phase`, or between phases after one; when it is heard last, s; and the signal that ended it, `''` for none. */
interface Rank {
  readonly phase?: string;
  readonly after?: string;
  readonly heard?: number;
  readonly endedBy?: string;
  readonly ended?: boolean;
  /** The command that started it had asked it to end. */
  readonly stopped?: boolean;
  /** The last collective that it is inside of, since step 40. */
  readonly inside?: string;
}

/** Forty steps of 100 ms, and the hangs that the run shows after that. */
function hangsOfRun(ranks: readonly Rank[], stepMs = 100) {
  const all = ranks.map(({ endedBy = 'SIGINT', stopped = false }, rank) => {
    const metadata = new Map([
      ...(endedBy === '' ? [] : [['ranktrace.ended_by', endedBy] as const]),
      ...(stopped ? [['ranktrace.stopped', 'true'] as const] : []),
    ]);
    return traceProcess({ index: rank + 1, rank, pid: 40 + rank, metadata });
  });
  const sink = analysisSink();
  sink.begin(traceHeader(all));
  const phases = new Map(['forward', 'backward', 'optimizer'].map((name) => [name, nanos(1e6 * (stepMs / 3))] as const));
  for (let step = 0; step < 40; step++) {
    for (const process of all) {
      const lane = traceLane({ index: process.index, kind: 'steps', process });
      const [start, length] = [s((step * stepMs) / 1000), nanos(stepMs * 1e6)];
      sink.event(traceEvent({ kind: 'step', lane, name: `ProfilerStep#${step}`, start, length, step, phases }));
    }
  }
  const since = s((40 * stepMs) / 1000);
  sink.end(
    all.map((process, at): ProcessTotals => {
      const { phase, after, heard = 60, ended = true, inside } = ranks[at] as Rank;
      const collective = inside === undefined ? undefined : { op: inside, group: 'world', sequence: 1, since };
      const place = { step: 40, phase: phase === undefined ? undefined : { name: phase, since }, after };
      return processTotals({ process, ended, until: s(heard), place: { ...place, collective, entered: new Map() } });
    }),
  );
  return sink.analysis.findings.filter(({ kind }) => kind === 'hang').map(({ ranks: of, text }) => ({ ranks: of, text }));
}

const waits: Rank = { phase: 'backward' };

it('names the rank that did not come as far as the others in the step that never ended', () => {
  expect(hangsOfRun([waits, { phase: 'forward' }, waits])).toEqual([
    {
      ranks: [1],
      text:
        'no rank ended a step for 56.0 s before the end, after step 39: rank 1 was in forward of step 40; ' +
        'ranks 0, 2 were in backward of step 40; rank 1 did not come as far as the others',
    },
  ]);
  // Before the step's first phase; and between two of them.
  expect(hangsOfRun([waits, waits, {}])[0]?.ranks).toEqual([2]);
  expect(hangsOfRun([{ after: 'forward' }, waits, waits])[0]?.ranks).toEqual([0]);
  // One of two ranks is named, too; but half of four may be right, and so may all that stand at one place.
  expect(hangsOfRun([waits, { phase: 'forward' }])[0]?.ranks).toEqual([1]);
  expect(hangsOfRun([waits, { phase: 'forward' }, waits, { phase: 'forward' }])[0]?.ranks).toEqual([]);
  expect(hangsOfRun([waits, waits, waits])[0]?.ranks).toEqual([]);
});

it('knows it of ranks that were killed, too', () => {
  const killed: Rank = { ...waits, endedBy: '', ended: false };
  expect(hangsOfRun([killed, { ...killed, phase: 'forward' }, killed])[0]?.ranks).toEqual([1]);
  // One died long before: that is what the others waited for, and said of it.
  expect(hangsOfRun([killed, { ...killed, heard: 10 }, killed])).toEqual([]);
});

it('knows which rank was silent before the command that started all asked them to end', () => {
  const killed: Rank = { ...waits, endedBy: '', ended: false, stopped: true };
  const [hang] = hangsOfRun([killed, { ...killed, heard: 30 }, killed]);
  expect(hang).toMatchObject({ ranks: [1], text: expect.stringContaining('nothing was heard of rank 1 for the last 30.0 s') });
  // One that ends at once where others must be killed is none.
  const [asked] = hangsOfRun([killed, { phase: 'forward', heard: 48, stopped: true }, killed]);
  expect(asked).toMatchObject({ ranks: [1], text: expect.stringContaining('; rank 1 did not come as far as the others') });
  expect(asked?.text).not.toContain('before; ');
});

it('names ranks that still run long after most have ended', () => {
  const done: Rank = { endedBy: '', heard: 4.2 };
  expect(hangsOfRun([done, {}, done])).toEqual([{ ranks: [1], text: 'ranks 0, 2 ended, and rank 1 still ran 55.8 s later, until SIGINT' }]);
  expect(hangsOfRun([done, { heard: 12 }, done])).toEqual([]);
  expect(hangsOfRun([done, { phase: 'save_checkpoint' }, done])).toEqual([]);
  expect(hangsOfRun([done, {}, {}])).toEqual([]);
});

it('blames no majority for a collective that one rank alone called', () => {
  const [hang] = hangsOfRun([waits, { phase: 'barrier', inside: 'barrier' }, waits]);
  const text =
    'rank 1 is inside of barrier 1 of group world for 56.0 s; the others wait in another place: ranks 0, 2 are in backward of step 40';
  expect(hang).toEqual({ ranks: [1], text });
  expect(hangsOfRun([{ phase: 'load_data' }, { phase: 'barrier', inside: 'barrier' }, { phase: 'load_data' }])[0]?.ranks).toEqual([0, 2]);
});

it('names a rank that a signal ended long before the others', () => {
  const [hang] = hangsOfRun([waits, { ...waits, endedBy: 'SIGTERM', heard: 5 }, waits]);
  expect(hang).toMatchObject({ ranks: [1], text: expect.stringContaining('; SIGTERM had ended rank 1 55.0 s before') });
});

it('shows a hostile name of a signal as a short text', () => {
  const [hang] = hangsOfRun([waits, { ...waits, endedBy: `\u001b[2J${'x'.repeat(9000)}`, heard: 5 }, waits]);
  expect(hang?.text.length).toBeLessThan(400);
  expect(hang?.text).not.toContain('\u001b');
});

it.each([
  ['a job that is ended while it trains', [{ ...waits, heard: 4.2 }, waits, waits].map((rank) => ({ ...rank, heard: 4.2 })), 100],
  ['one with long steps', [waits, { phase: 'forward' }, waits], 5000],
  ['one that is ended after its training', [{}, {}, {}], 100],
  ['one that evaluates', [{ phase: 'evaluate' }, waits, waits], 100],
])('calls none of these a hang: %s', (_, ranks, stepMs) => {
  const until = (40 * stepMs) / 1000 + 56;
  expect(
    hangsOfRun(
      ranks.map((rank) => ({ heard: until, ...rank })),
      stepMs,
    ),
  ).toEqual([]);
});

it('a rank that waits for another in a collective is not blamed for those that it never entered: they come last', () => {
  const all = [0, 1, 2, 3].map((rank) => traceProcess({ index: rank + 1, rank }));
  const sink = analysisSink();
  sink.begin(traceHeader(all));
  const part = (rank: number, state: 'whole' | 'open', group: string, sequence: number, at: number) => {
    const about = {
      kind: 'collective' as const,
      name: 'all_reduce',
      group,
      sequence,
      start: s(at),
      length: nanos(state === 'open' ? 0 : 1e6),
    };
    sink.event(traceEvent({ ...about, state, lane: traceLane({ index: rank + 1, process: all[rank] as (typeof all)[0] }) }));
  };
  // Rank 3 stands still before the second of dp-1; the others go on until they wait for it, or for those that do.
  for (const rank of [0, 1, 2, 3]) part(rank, 'whole', rank < 2 ? 'tp-0' : 'tp-1', 1, 1);
  for (const rank of [0, 1, 2, 3]) part(rank, 'whole', `dp-${rank % 2}`, 1, 2);
  part(0, 'open', 'tp-0', 2, 10);
  part(2, 'open', 'tp-1', 2, 11);
  part(1, 'open', 'dp-1', 2, 20);
  sink.end(all.map((process): ProcessTotals => processTotals({ process, ended: false, until: s(60) })));
  const hangs = sink.analysis.findings.filter(({ kind }) => kind === 'hang');
  expect(hangs.map(({ ranks, text }) => [ranks, text.slice(text.indexOf('all_reduce'))])).toEqual([
    [[3], 'all_reduce 2 of group tp-1 for 49.0 s; rank 3 never entered it'],
    [[3], 'all_reduce 2 of group dp-1 for 40.0 s; rank 3 never entered it'],
    [[1], 'all_reduce 2 of group tp-0 for 50.0 s; rank 1 never entered it'],
  ]);
});
