import { besideOf, type Nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import type { Alignment, ProcessTotals, TraceHeader } from '../model/trace-sink.ts';
import { exact, processTotals, sampled, traceHeader, traceProcess, unaligned } from '../testing/trace-events.ts';
import { findCompleteness, type StepsOfRanks, worstBound } from './findings.ts';

const counts = { span: 100, instant: 2, counter: 3, step: 4, collective: 5, rpc: 6 };

/** Totals of a rank that lost nothing, except as given. */
function rankOf(rank: number, about: Partial<ProcessTotals> & { readonly alignment?: Alignment } = {}): ProcessTotals {
  const { alignment = exact, ...totals } = about;
  const process = traceProcess({ index: rank + 1, rank, host: `boot-${rank}`, hostName: `host-${rank}`, pid: 4000 + rank, alignment });
  return processTotals({ process, batches: 9, counts, recorded: counts, ...totals });
}

function headerOf(totals: readonly ProcessTotals[], worldSize: number): TraceHeader {
  const processes = totals.map(({ process }) => process);
  return traceHeader(processes, { worldSize });
}

function check(
  totals: readonly ProcessTotals[],
  expected: readonly string[],
  worldSize = totals.length,
  ranks: StepsOfRanks['ranks'] = [],
  lives: StepsOfRanks['lives'] = [],
  phaseOrder: readonly string[] = [],
): void {
  const findings = findCompleteness(headerOf(totals, worldSize), totals, { ranks, lives, phaseOrder });
  expect(findings.map(({ kind, ranks, text }) => `${kind} [${ranks.join(' ')}] ${text}`)).toEqual(expected);
}

describe('findings', () => {
  it('are none for a run that lost nothing', () => {
    check([rankOf(0), rankOf(1, { alignment: sampled(90_000) })], []);
  });

  it('name every way to lose data, with its number', () => {
    check(
      [rankOf(0), rankOf(1, { missing: 4, dropped: { events: 2, batches: 3, arguments: 4, names: 5 }, late: 6 })],
      [
        'data_loss [1] rank 1: 1 batches missing in its sequence',
        'data_loss [1] rank 1: 2 events dropped because the ring or another bound was full, or a value was of the wrong type',
        'data_loss [1] rank 1: 3 batches dropped because the spool or its disk was full, or they were refused',
        'data_loss [1] rank 1: 4 arguments cut by a limit, or left out for an invalid value',
        'data_loss [1] rank 1: 5 times a name found no room among 65536 others: a stand-in is in its place',
        'data_loss [1] rank 1: 6 events later than their watermark',
      ],
    );
  });

  it('tell ranks that were started again, together or alone, as one each, and none of them as lost', () => {
    const s = 1e9;
    /** A life of a rank, ended or killed, and its steps, if it has some: the first, the last, and times. */
    const livesOf = (...all: (readonly [rank: number, from: number, until: number, ended: boolean, first?: number, last?: number])[]) => {
      const totals = all.map(([rank, from, until, ended], index) => {
        const process = traceProcess({ index, rank, host: `boot-${rank}`, hostName: `host-${rank}`, pid: 4000 + index, alignment: exact });
        return processTotals({ process, counts, recorded: counts, ended, from: traceTime(from * s), until: traceTime(until * s) });
      });
      const lives = all.flatMap(([_, from, until, __, first, last], process) =>
        first === undefined || last === undefined ? [] : [{ process, first, last, from: (from + 0.5) * s, until: (until - 0.5) * s }],
      );
      return { totals, lives };
    };
    const expectOf = ({ totals, lives }: ReturnType<typeof livesOf>, expected: readonly string[]): void =>
      check(totals, expected, 2, [], lives);
    const gone = 'rank 1 had stopped without saying goodbye';
    // Both: from a checkpoint, from 0 again, and where they were.
    const both = (first: number) =>
      livesOf([0, 0, 60, true, 0, 59], [1, 0, 60, false, 0, 58], [0, 64, 90, true, first, 99], [1, 64, 90, true, first, 99]);
    const all = 'restarted [0 1] all 2 ranks began again:';
    expectOf(both(50), [`${all} step 50 begins 5.00 s after the end of step 59; steps 50 to 59 are there twice; ${gone}`]);
    const short = livesOf([0, 0, 60, true, 0, 99], [1, 0, 60, true, 0, 99], [0, 64, 70, true, 0, 19], [1, 64, 70, true, 0, 18]);
    expectOf(short, [`${all} step 0 begins 5.00 s after the end of step 99; steps 0 to 19 are there twice`]);
    expectOf(both(0), [`${all} step 0 begins 5.00 s after the end of step 59; steps 0 to 59 are there twice; ${gone}`]);
    expectOf(both(60), [`${all} step 60 begins 5.00 s after the end of step 59; ${gone}`]);
    // One alone, twice; a life that ended no step is part of the way.
    expectOf(
      livesOf([0, 0, 90, true, 0, 99], [1, 0, 20, false, 0, 19], [1, 22, 24, true], [1, 26, 40, true, 20, 40], [1, 44, 90, true, 41, 99]),
      [
        `restarted [1] rank 1 began again: step 20 begins 7.00 s after the end of step 19; ${gone}`,
        'restarted [1] rank 1 began again: step 41 begins 5.00 s after the end of step 40',
      ],
    );
    // Two of three go on alone; all three begin again once those have ended.
    const three = livesOf(
      ...[0, 1, 2].map((rank) => [rank, 0, 17, true, 0, 397] as const),
      ...[0, 1].map((rank) => [rank, 27, 59, true, 350, 849] as const),
      ...[0, 1, 2].map((rank) => [rank, 71, 90, true, 0, 299] as const),
    );
    const texts = ({ totals, lives }: typeof three) =>
      findCompleteness(headerOf(totals, 3), totals, { ranks: [], lives }).map(({ text, remedy }) => [text, remedy]);
    expect(texts(three)).toEqual([
      [
        'ranks 0, 1 began again: step 350 begins 11.0 s after the end of step 397; steps 350 to 397 are there twice',
        'their output says why they ended',
      ],
      [
        'all 3 ranks began again: step 0 begins 13.0 s after the end of step 849; steps 0 to 299 are there twice',
        'if the training went on from a checkpoint, say with which step: firstStep, or RANKTRACE_FIRST_STEP',
      ],
    ]);
    // A rank that fails again and again is not told a thousand times.
    const often = livesOf(
      ...Array.from({ length: 300 }, (_, at): [number, number, number, boolean, number, number] => [
        0,
        10 * at,
        10 * at + 8,
        false,
        at,
        at,
      ]),
    );
    const many = findCompleteness(headerOf(often.totals, 1), often.totals, { ranks: [], lives: often.lives }).map(({ text }) => text);
    expect([many.length, many[1], many.at(-1)]).toEqual([
      10,
      'rank 0 began again before: 291 times in all',
      'rank 0 began again: step 299 begins 3.00 s after the end of step 298; rank 0 had stopped without saying goodbye',
    ]);
    // Before any step, and without one since: the last life is what counts.
    expectOf(livesOf([0, 0, 90, true, 0, 99], [1, 0, 4, true], [1, 10, 90, false, 0, 99]), [
      'rank_lost [1] rank 1 (pid 4002) stopped without saying goodbye',
      'restarted [1] rank 1 began again: 6.50 s after its life before, which ended no step',
    ]);
  });

  it('tell a worker thread that was ended and began again in its process, but no profile that follows another one', () => {
    const s = 1e9;
    const process = traceProcess({ index: 0, rank: 1, pid: 4000, alignment: exact });
    const life = (index: number, from: number, ended: boolean): ProcessTotals =>
      processTotals({
        process: { ...process, index },
        counts,
        recorded: counts,
        ended,
        from: traceTime(from * s),
        until: traceTime((from + 9) * s),
      });
    const steps = (of: number, from: number) => ({ process: of, first: 0, last: 99, from: from * s, until: (from + 9) * s });
    const lives = [steps(5, 0), steps(6, 10), steps(7, 20)];
    const text = 'step 0 begins 1.00 s after the end of step 99; steps 0 to 99 are there twice; rank 1 had stopped without saying goodbye';
    check([rankOf(0), life(5, 0, false), life(6, 10, true)], [`restarted [1] rank 1 began again: ${text}`], 2, [], lives.slice(0, 2));
    check(
      [rankOf(0), life(5, 0, true), life(6, 10, false), life(7, 20, true)],
      [`restarted [1] rank 1 began again: ${text}`],
      2,
      [],
      lives,
    );
    check([rankOf(0), life(5, 0, true), life(6, 10, true), life(7, 20, true)], [], 2, [], lives);
  });

  it('tell how ranks ended as the command that started them saw it, and not those that it ended itself', () => {
    const exitOf = (rank: number, how: string, about: Partial<ProcessTotals>, more: readonly (readonly [string, string])[] = []) => {
      const life = rankOf(rank, { from: traceTime(0), until: traceTime(1000e6), ...about });
      return { ...life, process: { ...life.process, metadata: new Map([['ranktrace.exit', how], ...more]) } };
    };
    const asked = [['ranktrace.stopped', 'true']] as const;
    const closed = 'RuntimeError: Connection closed by peer';
    const killed = exitOf(1, 'was ended by SIGKILL', { ended: false });
    const failed = exitOf(0, 'ended with exit code 1', { until: traceTime(1010e6) }, [['ranktrace.failed', closed], ...asked]);
    const after = 'after rank 1 was ended by SIGKILL, ';
    check(
      [failed, killed, exitOf(2, 'was ended by SIGTERM', { ended: false }, asked)],
      ['rank_lost [1] rank 1 (pid 4001) was ended by SIGKILL without saying goodbye', `rank_failed [0] ${after}rank 0 failed: ${closed}`],
    );
    // It said goodbye, for it could handle the signal; nobody had asked for that.
    const by = ['ranktrace.ended_by', 'SIGTERM'] as const;
    const term = exitOf(1, 'was ended by SIGTERM', {}, [by]);
    check([rankOf(0), term, exitOf(2, 'was ended by SIGTERM', {}, [by, ...asked])], ['rank_failed [1] rank 1 failed: ended by SIGTERM']);
    check([failed, term], [`rank_failed [1] rank 1 failed first: ended by SIGTERM; 10.0 ms later rank 0: ${closed}`]);
    // Without that command only the goodbye is known.
    const alone = rankOf(1, { until: traceTime(1000e6) });
    const signalled = { ...alone, process: { ...alone.process, metadata: new Map([by]) } };
    const lasts = [0, 1].map((rank) => ({ rank, last: 59, steps: 60, from: 0, until: 1e9 }));
    check([failed, signalled], [`rank_failed [1] after rank 1 was ended by SIGTERM after step 59, rank 0 failed: ${closed}`], 2, lasts);
    // One that was silent for long before all were asked to end was lost.
    const silent = exitOf(1, 'was ended by SIGKILL', { ended: false }, asked);
    const others = exitOf(0, 'was ended by SIGKILL', { ended: false, until: traceTime(23_000e6) }, asked);
    check([others, silent], ['rank_lost [1] nothing was heard of rank 1 (pid 4001) for the last 22.0 s, in which all were asked to end']);
  });

  it('tell ranks whose program failed, the first of them first, as far as clocks tell', () => {
    const failedOf = (rank: number, error: string, ms: number, bound = 0) => {
      const life = rankOf(rank, { alignment: bound === 0 ? exact : sampled(bound), from: traceTime(0), until: traceTime(ms * 1e6) });
      return { ...life, process: { ...life.process, metadata: new Map([['ranktrace.failed', error]]) } };
    };
    const bad = failedOf(2, 'ValueError: bad batch', 1000);
    const closed = 'RuntimeError: Connection closed by peer';
    const all = [rankOf(0), failedOf(1, closed, 1030), bad];
    check(all, [`rank_failed [2] rank 2 failed first: ValueError: bad batch; 30.0 ms later rank 1: ${closed}`]);
    check([rankOf(0), rankOf(1), bad], ['rank_failed [2] rank 2 failed: ValueError: bad batch']);
    check(
      [failedOf(0, closed, 1040), ...all.slice(1)],
      [`rank_failed [2] rank 2 failed first: ValueError: bad batch; 30.0 ms later rank 1: ${closed}, and 1 more`],
    );
    // On hosts whose clocks may be 25 ms off, each, either may have been the first.
    const unsure = [rankOf(0), failedOf(1, 'OSError: full', 1030, 25e6), failedOf(2, 'ValueError: bad batch', 1000, 25e6)];
    check(unsure, ['rank_failed [2 1] ranks 1, 2 failed: ValueError: bad batch']);
    // An error that tells of a peer is no reason, also where its clock, or a slow end of the other, puts it first.
    const early = `rank 2 failed: ValueError: bad batch; 30.0 ms before that rank 1: ${closed}`;
    check([rankOf(0), failedOf(1, closed, 970), bad], [`rank_failed [2] ${early}`]);
    check([rankOf(0), failedOf(1, closed, 970, 25e6), failedOf(2, 'ValueError: bad batch', 1000, 25e6)], [`rank_failed [2] ${early}`]);
    // A killed rank comes first; what others say of its absence is no reason.
    const killed = rankOf(0, { ended: false, from: traceTime(0), until: traceTime(900e6) });
    const lost = 'rank_lost [0] rank 0 (pid 4000) stopped without saying goodbye';
    check([killed, failedOf(1, closed, 1030), rankOf(2)], [lost, `rank_failed [1] after rank 0 had stopped, rank 1 failed: ${closed}`]);
    // One with an error of its own comes before those that were killed while they waited for it; of these, the first one silent comes first.
    const silentAt = (rank: number, ms: number) => rankOf(rank, { ended: false, from: traceTime(0), until: traceTime(ms * 1e6) });
    const stopped = (rank: number) => `rank_lost [${rank}] rank ${rank} (pid ${4000 + rank}) stopped without saying goodbye`;
    check([silentAt(0, 7000), silentAt(1, 6990), bad], ['rank_failed [2] rank 2 failed: ValueError: bad batch', stopped(1), stopped(0)]);
    check([silentAt(0, 900), silentAt(1, 990), bad].slice(0, 2), [stopped(0), stopped(1)]);
    // A killed rank has parts that it had not sent yet: it need not have stopped before the error, unless it was silent for longer than that.
    check([silentAt(0, 900), silentAt(1, 850), bad], ['rank_failed [2] rank 2 failed: ValueError: bad batch', stopped(1), stopped(0)]);
    const later = failedOf(2, 'ValueError: bad batch', 3000);
    const reason = 'rank_failed [2] after rank 0 had stopped, rank 2 failed: ValueError: bad batch';
    check([silentAt(0, 900), silentAt(1, 2900), later], [reason, stopped(0), stopped(1)]);
    check(
      [silentAt(0, 151_000), silentAt(1, 1000), silentAt(2, 151_000)],
      [`${stopped(1)}, 150 s before any other rank`, stopped(0), stopped(2)],
    );
    // So does one that left in good order, and came no further: here others failed in step 120, where it was missing.
    const left = rankOf(0, { from: traceTime(0), until: traceTime(900e6) });
    const stepsTo = (...lasts: number[]) => lasts.map((last, rank) => ({ rank, last, steps: last + 1, from: 0, until: 1e9 }));
    const both = [left, failedOf(1, closed, 1030), failedOf(2, closed, 1040)];
    const closings = `rank 1 failed first: ${closed}; 10.0 ms later rank 2: ${closed}`;
    check(both, [`rank_failed [0] after rank 0 had ended after step 119, ${closings}`], 3, stepsTo(119, 119, 119));
    check(both, [`rank_failed [1] ${closings}`], 3, stepsTo(120, 119, 119));
    check(both, [`rank_failed [1] ${closings}`]);
    // After a timeout the reason is the rank that did not come as far, if places tell.
    const timedOut = 'RuntimeError: Timed out waiting 12000ms for recv operation to complete';
    const inPhase = (life: ProcessTotals, phase: string): ProcessTotals => ({
      ...life,
      place: { step: 7, phase: { name: phase, since: traceTime(0) }, collective: undefined, entered: new Map() },
    });
    const vain = (phase: string) =>
      [failedOf(0, timedOut, 1000), rankOf(1, { until: traceTime(1100e6) }), failedOf(2, timedOut, 1001)].map((life, at) =>
        inPhase(life, at === 1 ? phase : 'backward'),
      );
    const timeouts = `rank 0 failed first: ${timedOut}; 1.00 ms later rank 2: ${timedOut}`;
    const places = 'rank 1 was in forward of step 7; ranks 0, 2 were in backward of step 7';
    const named = `the others waited in vain for rank 1, which did not come as far: ${places}; ${timeouts}`;
    check(vain('forward'), [`rank_failed [1] ${named}`], 3, [], [], ['data', 'forward', 'backward']);
    check(vain('backward'), [`rank_failed [0] ${timeouts}`], 3, [], [], ['data', 'forward', 'backward']);
    // An error of an earlier life is part of the restart.
    const next = { ...rankOf(2, { from: traceTime(5000e6), until: traceTime(9000e6) }) };
    const again = { ...next, process: { ...next.process, index: 9, pid: 5000 } };
    const lives = [bad, again].map(({ process }, at) => ({
      process: process.index,
      first: 0,
      last: 9,
      from: 4000e6 * at,
      until: 4000e6 * at + 900e6,
    }));
    check(
      [rankOf(0), rankOf(1), bad, again],
      [
        'restarted [2] rank 2 began again: step 0 begins 3.10 s after the end of step 9; steps 0 to 9 are there twice; rank 2 had failed: ValueError: bad batch',
      ],
      3,
      [],
      lives,
    );
  });

  it('report ranks that ended in good order long before their peers', () => {
    /** Steps of 1 s, or all of them in `seconds`. */
    const until = (lasts: readonly number[], seconds?: number) =>
      lasts.map((last, rank) => ({ rank, last, steps: last + 1, from: 0, until: (seconds ?? last + 1) * 1e9 }));
    const [two, four] = [
      [rankOf(0), rankOf(1)],
      [rankOf(0), rankOf(1), rankOf(2), rankOf(3)],
    ];
    const text = 'rank_ended_early [1] the last step came early: rank 1 after step 14, most others after 39';
    check(four, [text], 4, until([39, 14, 39, 39]));
    check(two, [text], 2, until([39, 14]));
    // The steps in the text are those of ranks: of two others, the lower one.
    const lower = 'rank_ended_early [0] the last step came early: rank 0 after step 99, most others after 129 or later';
    check(two.concat(rankOf(2)), [lower], 3, until([99, 129, 159]));
    // Ranks that run for a time differ a little, and where all are interrupted the slow ones have fewer; of a rank that alone went on nothing is said.
    check(four, [], 4, until([100, 97, 91, 102]));
    check(two, [], 2, until([39, 14], 40));
    check(four, [], 4, until([14, 14, 39, 14]));
    // A killed rank is told as that, and each role has steps of its own.
    check([rankOf(0), rankOf(1, { ended: false })], [expect.stringMatching(/^rank_lost \[1\] /)], 2, until([39, 14]));
    const ofOne = rankOf(1);
    const failed = { ...ofOne, process: { ...ofOne.process, metadata: new Map([['ranktrace.failed', 'ValueError: bad batch']]) } };
    check([rankOf(0), failed], [expect.stringMatching(/^rank_failed \[1\] /)], 2, until([39, 14]));
    // One that was killed and began again, and then ended early.
    const before = rankOf(1, { from: traceTime(0), until: traceTime(1e9), ended: false });
    const again = rankOf(1, { from: traceTime(2e9), until: traceTime(15e9) });
    check([rankOf(0), before, again], [text], 2, until([39, 14]));
    // Its first life came further than the last one.
    const further = { ...again, process: { ...again.process, index: 7 } };
    const lasts = [
      { process: before.process.index, first: 0, last: 30, from: 0, until: 1e9 },
      { process: 7, first: 0, last: 14, from: 2e9, until: 15e9 },
    ];
    const restarted = expect.stringMatching(/^restarted \[1\] .* steps 0 to 14 are there twice/);
    const ranks = until([39, 30]).map((one) => (one.rank === 1 ? { ...one, until: 15e9 } : one));
    check([rankOf(0), before, further], [restarted, text], 2, ranks, lasts);
    const evaluator = rankOf(3);
    const process = { ...evaluator.process, metadata: new Map([['role', 'evaluator']]) };
    check([rankOf(0), rankOf(1), rankOf(2), { ...evaluator, process }], [], 4, until([39, 39, 39, 3]));
  });

  it('say of no rank that it ended early where files hold other windows of as many steps', () => {
    const files = [0, 1, 2, 3].map((rank) => {
      const life = rankOf(rank);
      return { ...life, process: { ...life.process, metadata: new Map([['source', `rank${rank}.json`]]) } };
    });
    /** Windows of `steps` steps of 1 s, each from the first one of its rank on. */
    const windows = (firsts: readonly number[], steps: readonly number[]) =>
      firsts.map((first, rank) => {
        const count = steps[rank] ?? 0;
        return { rank, last: first + count - 1, steps: count, from: first * 1e9, until: (first + count) * 1e9 };
      });
    check(files, [], 4, windows([0, 0, 6, 6], [12, 12, 12, 12]));
    check(files, [], 4, windows([0, 50, 100, 150], [12, 12, 12, 12]));
    const text = 'rank_ended_early [1] the last step came early: rank 1 after step 14, most others after 39';
    check(files, [text], 4, windows([0, 0, 0, 0], [40, 15, 40, 40]));
  });

  it('report two processes of one rank that ran at the same time, once for all ranks', () => {
    const second = (rank: number, from: number, until: number, about: object = {}): ProcessTotals => {
      const { process, ...totals } = rankOf(rank, { from: traceTime(from), until: traceTime(until) });
      return { ...totals, process: { ...process, pid: 5000 + rank, incarnation: 'later', ...about } };
    };
    const first = (rank: number): ProcessTotals => rankOf(rank, { from: traceTime(0), until: traceTime(10e9) });
    const both = 'two processes of ranks 0, 1 ran at the same time under the name';
    check(
      [first(0), second(0, 4e9, 20e9), first(1), second(1, 5e9, 20e9)],
      [`rank_twice [0 1] ${both} r, and are shown as lives of one: rank 0 as pid 4000 on host-0 and pid 5000 on host-0, for 6.0 s`],
      2,
    );
    // One after the other; one process with two recordings; clocks that leave the order open.
    check([first(0), second(0, 10e9, 20e9)], [], 1);
    check([first(0), second(0, 4e9, 20e9, { pid: 4000 })], [], 1);
    check([first(0), second(0, 9e9, 20e9, { host: 'other', alignment: sampled(1_000_000_000) })], [], 1);
    check(
      [first(0), second(0, 4e9, 5e9, { host: 'other', hostName: 'host-9', alignment: sampled(90_000) })],
      [
        'rank_twice [0] two processes of rank 0 ran at the same time under the name r, and are shown as lives of one: rank 0 as pid 4000 on host-0 and pid 5000 on host-9, for 1.0 s',
      ],
      1,
    );
  });

  it('report events that the recorder counted and no counter on the way missed', () => {
    check(
      [rankOf(0, { counts: { ...counts, span: 98, step: counts.step + 1 } })],
      [
        'data_loss [0] rank 0: 100 events of kind span were recorded, 98 arrived',
        'data_loss [0] rank 0: 4 events of kind step were recorded, 5 arrived',
      ],
    );
  });

  it('report once for all ranks what was shed', () => {
    const metadata = new Map([['ranktrace.shed.ops', 'recording took 0.61 % of the steps, over the budget of 0.50 %']]);
    const shed = [0, 1].map((rank) => {
      const totals = rankOf(rank);
      return { ...totals, process: { ...totals.process, metadata } };
    });
    check(shed, [
      'detail_shed [0 1] ops were not recorded to the end on ranks 0, 1: recording took 0.61 % of the steps, over the budget of 0.50 %',
    ]);
  });

  it('report what files held and sources left out', () => {
    const totals = rankOf(0);
    const of = (text: string) => [{ ...totals, process: { ...totals.process, metadata: new Map([['ranktrace.left_out', text]]) } }];
    check(of(JSON.stringify({ malformed: 0, otherKinds: 16_845, arguments: 2, metadata: 0 })), [
      'left_out [0] rank 0: left out of its files: 16845 events of a kind that torch does not write, 2 events that lost their arguments, for there are too many different ones',
    ]);
    check(of(JSON.stringify({ malformed: 0, otherKinds: 0, arguments: 0, metadata: 0, flows: 2 })), [
      'left_out [0] rank 0: left out of its files: 2 ends of arrows at which no event begins',
    ]);
    for (const text of [
      '',
      '{}',
      '{"malformed":0,"otherKinds":0,"arguments":0,"metadata":0}',
      '{"malformed":-1,"otherKinds":0,"arguments":0,"metadata":0}',
      '[]',
    ])
      check(of(text), []);
  });

  it('report once for all ranks what is recorded in some steps only, and nothing of what cannot be read', () => {
    const of = (...texts: string[]) =>
      texts.map((text, rank) => {
        const totals = rankOf(rank);
        return { ...totals, process: { ...totals.process, metadata: new Map([['ranktrace.sampled.ops', text]]) } };
      });
    const sampled = (every: number, steps: number, recorded: number) => JSON.stringify({ every, steps, recorded });
    check(of(sampled(8, 960, 135), sampled(8, 950, 133), sampled(4, 960, 240), sampled(1, 960, 800)), [
      'detail_sampled [0 1] ops are recorded in one step of 8 on ranks 0, 1: recording all of them takes more of the steps than overheadBudget',
      'detail_sampled [2] ops are recorded in one step of 4 on rank 2: recording all of them takes more of the steps than overheadBudget',
      'detail_sampled [3] ops were not recorded in each step on rank 3: recording all of them takes more of the steps than overheadBudget',
    ]);
    check(of('', '{}', '[]', 'null', sampled(0, 9, 9), sampled(8, 9, 10), sampled(-8, 9, 1), sampled(8, 1.5, 1)), []);
  });

  it('report stacks that were taken and are likely to be wrong, over the threads of a rank', () => {
    const found = (...threads: string[]) => {
      const totals = rankOf(0);
      const metadata = new Map(threads.map((text, thread) => [`ranktrace.stacks.${thread}`, text]));
      return [{ ...totals, process: { ...totals.process, metadata } }];
    };
    const counts = (taken: number, checked: number, wrong: number) =>
      JSON.stringify({ walked: 500, taken, checked, wrong, wrongExpected: 127 * wrong });
    check(found(counts(30_000, 240, 0)), []);
    check(found(counts(30_000, 240, 2), counts(9000, 60, 1)), [
      "stacks_uncertain [0] rank 0: 39000 stacks were taken from the steps before, and 3 of 300 that were checked were others: some 381 are likely to be wrong; option withStack: 'walk' looks at each",
    ]);
    for (const text of ['', '{}', '{"taken":-1,"checked":1,"wrong":1}', counts(0.5, 1, 2)]) check(found(text), []);
  });

  it('compare nothing where the recorder’s own counts never came', () => {
    check([rankOf(0, { recorded: undefined, ended: false })], ['rank_lost [0] rank 0 (pid 4000) stopped without saying goodbye']);
  });

  it('name ranks whose clock is not aligned, by host', () => {
    check(
      [rankOf(0), rankOf(1, { alignment: unaligned })],
      ["clock_unaligned [1] rank 1: the clock of host host-1 is not aligned to the others; its times are its wall clock's"],
    );
  });

  it('name the ranks of which nothing was heard, the first eight by number', () => {
    check([rankOf(0)], ['rank_missing [1] nothing was heard of rank 1'], 2);
    check([rankOf(1)], ['rank_missing [0 2] nothing was heard of ranks 0, 2'], 3);
    const all = '1 2 3 4 5 6 7 8 9 10';
    check([rankOf(0)], [`rank_missing [${all}] nothing was heard of ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more`], 11);
  });

  it('take no rank for lost that said goodbye while the agent beside it did not, and name an agent that stopped', () => {
    const beside = (until: number): ProcessTotals => {
      const totals = rankOf(0, { ended: false, until: traceTime(until) });
      return { ...totals, process: { ...totals.process, index: 9, incarnation: besideOf('b') } };
    };
    const rank = rankOf(0, { until: traceTime(60e9) });
    check([rank, beside(58e9)], [], 1);
    check([rank, beside(20e9)], ['data_loss [0] rank 0: what an agent recorded beside it ends 40.0 s before the rank'], 1);
    const lost = 'rank_lost [0] rank 0 (pid 4000) stopped without saying goodbye';
    check([{ ...rank, ended: false }, beside(60e9)], [lost], 1);
    check([beside(60e9)], [lost], 1);
  });

  it('count a rank as heard of whichever of its lives was', () => {
    const again = rankOf(0);
    check([rankOf(0, { ended: false }), again, rankOf(1)], ['rank_lost [0] rank 0 (pid 4000) stopped without saying goodbye'], 2);
  });
});

describe('worstBound', () => {
  const worstOf = (...alignments: readonly Alignment[]): Nanos | undefined => {
    const totals = alignments.map((alignment, rank) => rankOf(rank, { alignment }));
    return worstBound(headerOf(totals, totals.length));
  };

  it('is the largest of the aligned processes', () => {
    expect(worstOf(exact, sampled(7), sampled(5), unaligned)).toBe(7);
    expect(worstOf(exact)).toBe(0);
  });

  it('is undefined where no process is aligned', () => {
    expect(worstOf(unaligned)).toBeUndefined();
    expect(worstOf()).toBeUndefined();
  });
});
