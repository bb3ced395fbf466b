import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SdkError } from '../model/errors.ts';
import { defaultSchedule, ProfilerAction, type Schedule, type ScheduleArguments, schedule } from '../model/schedule.ts';
import { ProfilerCycle, type ProfilerCycleParts } from './profiler-cycle.ts';

const { NONE, WARMUP, RECORD, RECORD_AND_SAVE } = ProfilerAction;
const nameOf = (action: number) => Object.keys(ProfilerAction)[action] ?? String(action);

/** A cycle that logs its calls: `P` prepareTrace, `S` startTrace, `X` stopTrace, `R` traceReady, and warnings unchanged. */
function logged(planned: unknown, parts: Partial<ProfilerCycleParts> = {}): { cycle: ProfilerCycle; log: string[] } {
  const log: string[] = [];
  const cycle = new ProfilerCycle({
    schedule: planned as Schedule,
    prepareTrace: () => void log.push('P'),
    startTrace: () => void log.push('S'),
    stopTrace: () => void log.push('X'),
    traceReady: () => void log.push('R'),
    warn: (text) => log.push(text),
    ...parts,
  });
  return { cycle, log };
}

/** A schedule that returns these, one after the other, and then NONE. */
const listed =
  (...actions: readonly unknown[]) =>
  (step: number) =>
    step < actions.length ? actions[step] : NONE;

function thrown(act: () => unknown): Error {
  try {
    act();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

/** torch.profiler.profile (torch 2.13), line by line: action_map, start, step, stop. */
class TorchProfile {
  readonly calls: string[] = [];
  step_num = 0;
  current_action: ProfilerAction;
  readonly schedule: Schedule;
  readonly action_map: Map<string, (() => void)[]>;

  constructor(planned: Schedule) {
    this.schedule = planned;
    this.current_action = this.schedule(this.step_num);
    const [prepare_trace, start_trace, stop_trace, trace_ready] = ['P', 'S', 'X', 'R'].map((call) => () => void this.calls.push(call)) as [
      () => void,
      () => void,
      () => void,
      () => void,
    ];
    const partial_warn = (text: string) => () => void (this.calls.includes(text) || this.calls.push(text)); // Python shows a text once.
    const key = (prev: ProfilerAction, current: ProfilerAction | undefined) => `${prev},${current}`;
    this.action_map = new Map([
      [key(NONE, NONE), []],
      [key(NONE, WARMUP), [prepare_trace]],
      [key(NONE, RECORD), [prepare_trace, start_trace]],
      [key(NONE, RECORD_AND_SAVE), [prepare_trace, start_trace]],
      [key(WARMUP, NONE), [partial_warn('Incorrect schedule: WARMUP followed by NONE'), start_trace, stop_trace]],
      [key(WARMUP, WARMUP), []],
      [key(WARMUP, RECORD), [start_trace]],
      [key(WARMUP, RECORD_AND_SAVE), [start_trace]],
      [key(RECORD, NONE), [partial_warn('Incorrect schedule: RECORD followed by NONE'), stop_trace]],
      [key(RECORD, WARMUP), [partial_warn('Incorrect schedule: RECORD followed by WARMUP'), stop_trace]],
      [key(RECORD, RECORD), []],
      [key(RECORD, RECORD_AND_SAVE), []],
      [key(RECORD_AND_SAVE, NONE), [stop_trace, trace_ready]],
      [key(RECORD_AND_SAVE, WARMUP), [stop_trace, trace_ready, prepare_trace]],
      [key(RECORD_AND_SAVE, RECORD), [stop_trace, trace_ready, prepare_trace, start_trace]],
      [key(RECORD_AND_SAVE, RECORD_AND_SAVE), [stop_trace, trace_ready, prepare_trace, start_trace]],
      [key(WARMUP, undefined), [start_trace, stop_trace]],
      [key(RECORD, undefined), [stop_trace, trace_ready]],
      [key(RECORD_AND_SAVE, undefined), [stop_trace, trace_ready]],
    ]);
  }

  start(): void {
    this._transit_action(NONE, this.current_action);
  }

  step(): void {
    const prev_action = this.current_action;
    this.step_num += 1;
    this.current_action = this.schedule(this.step_num);
    this._transit_action(prev_action, this.current_action);
  }

  stop(): void {
    this._transit_action(this.current_action, undefined);
  }

  _transit_action(prev_action: ProfilerAction, current_action: ProfilerAction | undefined): void {
    const action_list = this.action_map.get(`${prev_action},${current_action}`);
    for (const action of action_list ?? []) action();
  }
}

describe('each cell of the state table', () => {
  const wrong = (what: string) => `Incorrect schedule: ${what}`;
  test.each<[ProfilerAction, ProfilerAction | 'exit', string[]]>([
    [NONE, NONE, []],
    [NONE, WARMUP, ['P']],
    [NONE, RECORD, ['P', 'S']],
    [NONE, RECORD_AND_SAVE, ['P', 'S']],
    [NONE, 'exit', []],
    [WARMUP, NONE, [wrong('WARMUP followed by NONE'), 'S', 'X']],
    [WARMUP, WARMUP, []],
    [WARMUP, RECORD, ['S']],
    [WARMUP, RECORD_AND_SAVE, ['S']],
    [WARMUP, 'exit', ['S', 'X']],
    [RECORD, NONE, [wrong('RECORD followed by NONE'), 'X']],
    [RECORD, WARMUP, [wrong('RECORD followed by WARMUP'), 'X']],
    [RECORD, RECORD, []],
    [RECORD, RECORD_AND_SAVE, []],
    [RECORD, 'exit', ['X', 'R']],
    [RECORD_AND_SAVE, NONE, ['X', 'R']],
    [RECORD_AND_SAVE, WARMUP, ['X', 'R', 'P']],
    [RECORD_AND_SAVE, RECORD, ['X', 'R', 'P', 'S']],
    [RECORD_AND_SAVE, RECORD_AND_SAVE, ['X', 'R', 'P', 'S']],
    [RECORD_AND_SAVE, 'exit', ['X', 'R']],
  ])('%i, then %s', (before, now, expected) => {
    const { cycle, log } = logged(listed(before, now));
    cycle.start();
    // The start is the transition from NONE.
    expect(log).toEqual({ [NONE]: [], [WARMUP]: ['P'], [RECORD]: ['P', 'S'], [RECORD_AND_SAVE]: ['P', 'S'] }[before]);
    expect([cycle.stepNum, cycle.currentAction]).toEqual([0, before]);
    log.length = 0;
    if (now === 'exit') cycle.stop();
    else expect(cycle.step()).toBe(now);
    expect(log).toEqual(expected);
    expect([cycle.stepNum, cycle.currentAction]).toEqual(now === 'exit' ? [0, before] : [1, now]);
  });
});

function check(given: ScheduleArguments | undefined, steps: number, expected: string): void {
  const { cycle, log } = logged(given === undefined ? defaultSchedule : schedule(given, () => {}));
  const transitions: string[] = [];
  const take = () => transitions.push(log.splice(0).join(''));
  cycle.start();
  take();
  for (let step = 0; step < steps; step++) {
    cycle.step();
    take();
  }
  cycle.stop();
  take();
  expect(transitions.join('.')).toBe(expected);
}

describe('schedules', () => {
  test.each<[string, ScheduleArguments | undefined, number, string]>([
    ['none: one trace, when it stops', undefined, 3, 'PS....XR'],
    // torch's own test_profiler.py counts two traces here.
    ['two cycles in eight steps', { wait: 1, warmup: 1, active: 2 }, 8, '.P.S..XR.P.S..XR.'],
    ['repeat ends it', { wait: 0, warmup: 1, active: 1, repeat: 2 }, 6, 'P.S.XRP.S.XR...'],
    ['no wait, no warm-up: cycles touch', { wait: 0, warmup: 0, active: 2 }, 4, 'PS..XRPS..XRPS.XR'],
    ['every step is a trace', { wait: 0, warmup: 0, active: 1 }, 2, 'PS.XRPS.XRPS.XR'],
    ['skipFirst', { skipFirst: 2, wait: 0, warmup: 1, active: 1, repeat: 1 }, 5, '..P.S.XR..'],
    ['skipFirstWait', { wait: 2, warmup: 1, active: 1, skipFirstWait: 1 }, 6, 'P.S.XR..P.S.XR.'],
    ['stopped while waiting', { wait: 2, warmup: 1, active: 1 }, 0, '.'],
    ['stopped while warming up: no trace', { wait: 0, warmup: 2, active: 1 }, 1, 'P..SX'],
    ['stopped while recording: a trace', { wait: 0, warmup: 1, active: 3 }, 1, 'P.S.XR'],
  ])('%s', (_, given, steps, expected) => check(given, steps, expected));

  const action = fc.constantFrom<ProfilerAction>(NONE, WARMUP, RECORD, RECORD_AND_SAVE);
  const wellFormed = fc.record({
    wait: fc.nat(4),
    warmup: fc.nat(3),
    active: fc.integer({ min: 1, max: 4 }),
    repeat: fc.nat(3),
    skipFirst: fc.nat(4),
    skipFirstWait: fc.nat(1),
  });

  function run(planned: Schedule, steps: number): { calls: string[]; ours: ProfilerCycle; torch: TorchProfile } {
    const { cycle, log } = logged(planned);
    const torch = new TorchProfile(planned);
    for (const one of [cycle, torch]) {
      one.start();
      for (let step = 0; step < steps; step++) one.step();
      one.stop();
    }
    return { calls: log, ours: cycle, torch };
  }

  test("any schedule, well formed or not: torch's calls, warnings, step and action (seed 12)", () => {
    fc.assert(
      fc.property(fc.array(action, { minLength: 1, maxLength: 40 }), fc.nat(40), (actions, steps) => {
        const { calls, ours, torch } = run(listed(...actions) as Schedule, steps);
        expect(calls).toEqual(torch.calls);
        expect([ours.stepNum, ours.currentAction]).toEqual([torch.step_num, torch.current_action]);
      }),
      { seed: 12, numRuns: 3000 },
    );
  });

  test('any schedule: starts and stops take turns, and every trace is one that was stopped (seed 13)', () => {
    fc.assert(
      fc.property(fc.array(action, { minLength: 1, maxLength: 40 }), fc.nat(40), (actions, steps) => {
        const calls = run(listed(...actions) as Schedule, steps).calls.filter((call) => call.length === 1);
        expect(calls.join('')).toMatch(/^(P*SXR?)*P?$/);
        expect(calls.at(-1)).not.toBe('S');
      }),
      { seed: 13, numRuns: 2000 },
    );
  });

  test('schedule() alone: prepared, started, stopped, ready, over and over, without a warning (seed 14)', () => {
    fc.assert(
      fc.property(wellFormed, fc.nat(60), (given, steps) => {
        const { calls } = run(
          schedule(given, () => {}),
          steps,
        );
        // The profile may end in a warm-up, which leaves nothing.
        expect(calls.join('')).toMatch(/^(PSXR)*(PSX)?$/);
      }),
      { seed: 14, numRuns: 2000 },
    );
  });
});

const nonsense: [string, unknown, string][] = [
  ['the number of DEVICE_STOPPED', 4, '4'],
  ['a number below', -1, '-1'],
  ['a part of one', 1.5, '1.5'],
  ['NaN', Number.NaN, 'NaN'],
  ['a name', 'RECORD', '"RECORD"'],
  ['a digit as text', '2', '"2"'],
  ['undefined', undefined, 'undefined'],
  ['null', null, 'null'],
  ['a boolean', true, 'true'],
  ['a bigint', 2n, '2n'],
  ['a symbol', Symbol('RECORD'), 'Symbol(RECORD)'],
  ['an array', [2], 'an object'],
  ['an object whose text cannot be made', Object.create(null), 'an object'],
  ['a function', () => RECORD, 'a function'],
  ['a promise', Promise.resolve(RECORD), 'a promise'],
];

describe('schedules that give nonsense', () => {
  test.each(nonsense)('%s for step 0: start refuses', (_, value, shown) => {
    const { cycle, log } = logged(() => value);
    const error = thrown(() => cycle.start());
    expect(error).toBeInstanceOf(SdkError);
    expect(error).toMatchObject({ code: 'bad_option' });
    expect(error.message).toBe(
      `Bad option schedule: for step 0 it must give a ProfilerAction (NONE 0, WARMUP 1, RECORD 2 or RECORD_AND_SAVE 3), got ${shown}`,
    );
    expect(log).toEqual([]);
    expect([cycle.stepNum, cycle.currentAction]).toEqual([0, NONE]);
  });

  test.each(nonsense)('%s later: taken as NONE, reported once', (_, value, shown) => {
    const { cycle, log } = logged((step: number) => (step === 0 ? RECORD_AND_SAVE : value));
    cycle.start();
    expect([cycle.step(), cycle.step(), cycle.step()]).toEqual([NONE, NONE, NONE]);
    cycle.stop();
    expect(cycle.stepNum).toBe(3);
    expect(log).toHaveLength(5);
    expect(log.join(' ')).toContain(`P S schedule failed at step 1: Bad option schedule: for step 1 it must give a ProfilerAction`);
    expect(log.join(' ')).toContain(`got ${shown}. NONE is taken, now and whenever it fails again X R`);
  });

  test('one that throws does so to who starts, and there alone', () => {
    const wrong = new Error('no such step');
    const refusing = logged(() => {
      throw wrong;
    });
    expect(thrown(() => refusing.cycle.start())).toBe(wrong);
    expect(refusing.log).toEqual([]);

    const { cycle, log } = logged((step: number) => {
      if (step === 1) throw wrong;
      return RECORD;
    });
    cycle.start();
    expect(cycle.step()).toBe(NONE);
    expect(cycle.step()).toBe(RECORD);
    cycle.stop();
    expect(log).toEqual([
      'P',
      'S',
      'schedule failed at step 1: no such step. NONE is taken, now and whenever it fails again',
      'Incorrect schedule: RECORD followed by NONE',
      'X',
      'P',
      'S',
      'X',
      'R',
    ]);
  });

  test('a promise that rejects does not end the process', async () => {
    const { cycle } = logged(async (step: number) => {
      throw new Error(`step ${step}`);
    });
    expect(thrown(() => cycle.start())).toMatchObject({ code: 'bad_option' });
    await new Promise((resolve) => setTimeout(resolve, 10)); // An unhandled rejection would fail the run.
  });

  test.each([
    [undefined, 'undefined'],
    [{ wait: 1 }, 'an object'],
    ['wait=1', '"wait=1"'],
  ])('%o is no schedule', (planned, shown) => {
    expect(thrown(() => logged(planned).cycle.start()).message).toBe(
      `Bad option schedule: it must be a function, such as schedule({ … }) gives, got ${shown}`,
    );
  });

  test('start can be tried again', () => {
    let calls = 0;
    const { cycle, log } = logged(() => (calls++ === 0 ? undefined : RECORD));
    thrown(() => cycle.start());
    cycle.start();
    expect(log).toEqual(['P', 'S']);
  });

  test('a wrong schedule is reported once per kind, however long it runs', () => {
    const { cycle, log } = logged((step: number) => [RECORD, NONE, WARMUP, NONE, RECORD, WARMUP, RECORD_AND_SAVE][step % 7]);
    cycle.start();
    for (let step = 0; step < 700; step++) cycle.step();
    expect(log.filter((line) => line.startsWith('Incorrect'))).toEqual([
      'Incorrect schedule: RECORD followed by NONE',
      'Incorrect schedule: WARMUP followed by NONE',
      'Incorrect schedule: RECORD followed by WARMUP',
    ]);
  });
});

describe('what is called', () => {
  const everyStep = () => RECORD_AND_SAVE;
  const failing = () => {
    throw new Error('disk full\nand more lines of it');
  };

  test('traceReady may throw: the next trace is begun', () => {
    const { cycle, log } = logged(everyStep, { traceReady: failing });
    cycle.start();
    cycle.step();
    cycle.stop();
    const failed = 'onTraceReady failed, training goes on: disk full';
    expect(log).toEqual(['P', 'S', 'X', failed, 'P', 'S', 'X', failed]);
  });

  test('traceReady may be async, and fail then', async () => {
    const { cycle, log } = logged(everyStep, { traceReady: async () => failing() });
    cycle.start();
    cycle.stop();
    expect(log).toEqual(['P', 'S', 'X']);
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(log.slice(3)).toEqual(['onTraceReady failed, training goes on: disk full']);
  });

  test('whatever it throws can be reported', () => {
    for (const value of [undefined, null, 'text', 7, Object.create(null), Symbol('s')]) {
      const { cycle, log } = logged(everyStep, {
        traceReady: () => {
          throw value;
        },
      });
      cycle.start();
      cycle.stop();
      expect(log.at(-1)).toMatch(/^onTraceReady failed, training goes on: ./);
    }
  });

  test('traceReady sees the step that begins', () => {
    const seen: [number, string][] = [];
    const { cycle } = logged(schedule({ wait: 0, warmup: 1, active: 1, repeat: 1 }), {
      traceReady: () => void seen.push([cycle.stepNum, nameOf(cycle.currentAction)]),
    });
    cycle.start();
    for (let step = 0; step < 4; step++) cycle.step();
    expect(seen).toEqual([[2, 'NONE']]);
  });

  test('traceReady may stop the cycle: the next trace is not begun', () => {
    const { cycle, log } = logged(everyStep, {
      traceReady: () => {
        log.push('R');
        cycle.stop();
      },
    });
    cycle.start();
    cycle.step();
    cycle.step();
    cycle.stop();
    expect(log).toEqual(['P', 'S', 'X', 'R']);
    expect(cycle.stepNum).toBe(1);
  });

  test('traceReady that steps or starts gets a warning', () => {
    const { cycle, log } = logged(everyStep, {
      traceReady: () => {
        cycle.step();
        cycle.stop();
        cycle.start();
      },
    });
    cycle.start();
    cycle.step();
    cycle.step();
    expect(log).toEqual([
      'P',
      'S',
      'X',
      'A step from inside of the schedule or of onTraceReady is not counted',
      'onTraceReady failed, training goes on: Cannot start this profiler: it is started; stop it first',
    ]);
  });

  test('a schedule may stop the cycle, and cannot step it', () => {
    const { cycle, log } = logged((step: number) => {
      if (step === 1) cycle.step();
      if (step === 2) cycle.stop();
      return RECORD;
    });
    cycle.start();
    cycle.step();
    cycle.step();
    cycle.step();
    expect(log).toEqual(['P', 'S', 'A step from inside of the schedule or of onTraceReady is not counted', 'X', 'R']);
    expect(cycle.stepNum).toBe(1);
  });

  test('what fails to start fails the start, and changes nothing', () => {
    let fails = true;
    const { cycle, log } = logged(everyStep, {
      startTrace: () => {
        if (fails) failing();
        log.push('S');
      },
    });
    expect(thrown(() => cycle.start()).message).toMatch(/^disk full/);
    expect(cycle.currentAction).toBe(NONE);
    cycle.step();
    cycle.stop();
    fails = false;
    cycle.start();
    expect([cycle.stepNum, cycle.currentAction]).toEqual([0, RECORD_AND_SAVE]);
    expect(log).toEqual(['P', 'P', 'S']);
  });

  test('what fails later is reported, and the rest still happens', () => {
    const { cycle, log } = logged(everyStep, { stopTrace: failing });
    cycle.start();
    cycle.step();
    expect(log).toEqual(['P', 'S', 'stopTrace failed, training goes on: disk full', 'R', 'P', 'S']);
  });
});

describe('out of turn', () => {
  test('steps and stops before the start and after the stop do nothing', () => {
    let asked = 0;
    const { cycle, log } = logged(() => {
      asked++;
      return RECORD;
    });
    expect(cycle.step()).toBe(NONE);
    cycle.stop();
    expect([cycle.stepNum, asked]).toEqual([0, 0]);
    cycle.start();
    cycle.stop();
    cycle.stop();
    expect(cycle.step()).toBe(RECORD);
    expect([cycle.stepNum, asked]).toEqual([0, 1]);
    expect(log).toEqual(['P', 'S', 'X', 'R']);
  });

  test('a second start is refused', () => {
    const { cycle, log } = logged(defaultSchedule);
    cycle.start();
    expect(thrown(() => cycle.start())).toMatchObject({ code: 'already_running' });
    expect(log).toEqual(['P', 'S']);
  });

  test('a start after a stop goes on where it was, as torch does', () => {
    const planned = schedule({ wait: 0, warmup: 1, active: 2 });
    const { cycle, log } = logged(planned);
    const torch = new TorchProfile(planned);
    for (const one of [cycle, torch]) {
      for (let run = 0; run < 3; run++) {
        one.start();
        one.step();
        one.stop();
      }
    }
    expect(log).toEqual(torch.calls);
    expect(cycle.stepNum).toBe(3);
  });
});
