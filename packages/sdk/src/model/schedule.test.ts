import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SdkError } from './errors.ts';
import {
  defaultSchedule,
  ProfilerAction,
  ProfilerActivity,
  parseSchedule,
  type ScheduleArguments,
  schedule,
  supportedActivities,
} from './schedule.ts';

const letters = '-WRS';

/** The actions of the first steps, one letter each: `-` none, `W` warm up, `R` record, `S` record and save. */
function actions(of: (step: number) => ProfilerAction, steps: number): string {
  return Array.from({ length: steps }, (_, step) => letters[of(step)]).join('');
}

function check(given: ScheduleArguments, expected: string): void {
  const planned = schedule(given, () => {});
  expect(actions(planned, expected.length)).toBe(expected);
}

function refused(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(SdkError);
    expect((error as SdkError).code).toBe('bad_option');
    expect((error as SdkError).message).not.toContain('\n');
    return (error as SdkError).message;
  }
  throw new Error('it was not refused');
}

/** torch.profiler.schedule (torch 2.13), line by line. */
function torchSchedule(wait: number, warmup: number, active: number, repeat: number, skip_first: number, skip_first_wait: number) {
  return (step: number): ProfilerAction => {
    if (step < skip_first) {
      return ProfilerAction.NONE;
    } else {
      step -= skip_first;
    }
    if (skip_first_wait !== 0) {
      step += wait;
    }
    const num_steps = wait + warmup + active;
    if (repeat > 0 && step / num_steps >= repeat) {
      return ProfilerAction.NONE;
    }
    const mod_step = step % num_steps;
    if (mod_step < wait) {
      return ProfilerAction.NONE;
    } else if (mod_step < wait + warmup) {
      return ProfilerAction.WARMUP;
    } else {
      return mod_step < num_steps - 1 ? ProfilerAction.RECORD : ProfilerAction.RECORD_AND_SAVE;
    }
  };
}

describe('ProfilerAction and ProfilerActivity', () => {
  test("have torch's names and numbers, and keep them", () => {
    expect(ProfilerAction).toEqual({ NONE: 0, WARMUP: 1, RECORD: 2, RECORD_AND_SAVE: 3 });
    expect(Object.keys(ProfilerActivity)).toEqual(['CPU', 'CUDA', 'XPU', 'MTIA', 'HPU', 'PrivateUse1']);
    expect(Object.isFrozen(ProfilerAction) && Object.isFrozen(ProfilerActivity)).toBe(true);
  });

  test.each([
    ['no device file', [], ['cpu']],
    ['a container with one GPU that is not the first', ['/dev/nvidiactl', '/dev/nvidia3'], ['cpu', 'cuda']],
    ['a GPU', ['/dev/nvidia0'], ['cpu', 'cuda']],
    ['a driver whose devices were not opened yet', ['/proc/driver/nvidia'], ['cpu', 'cuda']],
  ])('supported activities with %s', (_, paths, expected) => {
    expect([...supportedActivities((path) => paths.includes(path))]).toEqual(expected);
  });

  test('CPU is supported here, too', () => {
    expect(supportedActivities().has(ProfilerActivity.CPU)).toBe(true);
  });
});

describe('schedule', () => {
  test.each<[string, ScheduleArguments, string]>([
    // From torch's own test_profiler.py: these two.
    ['repeats', { skipFirst: 2, wait: 1, warmup: 1, active: 2, repeat: 2 }, '---WRS-WRS----'],
    ['records longer', { skipFirst: 3, wait: 2, warmup: 1, active: 4, repeat: 2 }, '-----WRRRS--WRRRS----'],
    // From a port's tests of the same behaviour.
    ['leaves out the first wait', { skipFirst: 1, wait: 2, warmup: 1, active: 2, repeat: 2, skipFirstWait: 1 }, '-WRS--WRS----'],
    ['goes on for ever', { wait: 1, warmup: 1, active: 2 }, '-WRS-WRS-WRS-WRS'],
    ['saves every step', { wait: 0, warmup: 0, active: 1 }, 'SSSSS'],
    ['needs no wait', { wait: 0, warmup: 1, active: 1, repeat: 1 }, 'WS---'],
    ['takes a boolean', { wait: 2, warmup: 0, active: 1, skipFirstWait: true }, 'S--S--S'],
    ['takes false for 0', { wait: 2, warmup: 0, active: 1, skipFirstWait: false }, '--S--S--S'],
    ['takes any number but 0 for true, as torch does', { wait: 2, warmup: 0, active: 1, skipFirstWait: -1 }, 'S--S--S'],
    ['leaves out undefined', { wait: 1, warmup: 0, active: 1, repeat: undefined, skipFirst: undefined, skipFirstWait: undefined }, '-S-S'],
  ])('%s', (_, given, expected) => check(given, expected));

  test('kept quirk: with skipFirstWait the last cycle ends `wait` steps earlier', () => {
    const cycle = { wait: 3, warmup: 1, active: 1, repeat: 1 };
    check(cycle, '---WS-----');
    check({ ...cycle, skipFirstWait: 1 }, 'WS--------');
    check({ ...cycle, repeat: 2, skipFirstWait: 1 }, 'WS---WS-----');
  });

  test("is torch's function, for any arguments and steps (seed 11)", () => {
    const small = fc.nat(7);
    fc.assert(
      fc.property(small, small, fc.integer({ min: 1, max: 7 }), fc.nat(4), small, fc.integer({ min: -1, max: 2 }), (...given) => {
        const [wait, warmup, active, repeat, skipFirst, skipFirstWait] = given;
        const ours = schedule({ wait, warmup, active, repeat, skipFirst, skipFirstWait }, () => {});
        expect(actions(ours, 120)).toBe(actions(torchSchedule(...given), 120));
      }),
      { seed: 11, numRuns: 2000 },
    );
  });

  test("warns in torch's words when there is no warm-up", () => {
    const warnings: string[] = [];
    schedule({ wait: 1, warmup: 0, active: 1 }, (text) => warnings.push(text));
    schedule({ wait: 1, warmup: 1, active: 1 }, (text) => warnings.push(text));
    expect(warnings).toEqual(["Profiler won't be using warmup, this can skew profiler results"]);
  });

  test('warns as a process warning that can be distinguished from others', async () => {
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
    schedule({ wait: 0, warmup: 0, active: 1 });
    expect(await warned).toMatchObject({ name: 'RanktraceWarning', message: /^Profiler won't be using warmup/ });
  });

  test.each<[string, object, string]>([
    ['wait < 0', { wait: -1, warmup: 1, active: 1 }, 'wait=-1 (need >= 0)'],
    ['warmup < 0', { wait: 0, warmup: -2, active: 1 }, 'warmup=-2 (need >= 0)'],
    ['active 0', { wait: 0, warmup: 1, active: 0 }, 'active=0 (need > 0)'],
    ['repeat < 0', { wait: 0, warmup: 1, active: 1, repeat: -1 }, 'repeat=-1 (need >= 0)'],
    ['skipFirst < 0', { wait: 0, warmup: 1, active: 1, skipFirst: -1 }, 'skipFirst=-1 (need >= 0)'],
    ['missing', { warmup: 1, active: 1 }, 'wait=undefined (need >= 0)'],
    ['text', { wait: '1', warmup: 1, active: 1 }, 'wait="1" (need >= 0)'],
    ['a part of a step', { wait: 0.5, warmup: 1, active: 1 }, 'wait=0.5 (need >= 0)'],
    ['no number', { wait: Number.NaN, warmup: 1, active: 1 }, 'wait=NaN (need >= 0)'],
    ['for ever', { wait: 0, warmup: 1, active: Number.POSITIVE_INFINITY }, 'active=Infinity (need > 0)'],
    ['a bigint', { wait: 1n, warmup: 1, active: 1 }, 'wait=1n (need >= 0)'],
    ['null', { wait: null, warmup: 1, active: 1 }, 'wait=object (need >= 0)'],
    ['skipFirstWait as text', { wait: 1, warmup: 1, active: 1, skipFirstWait: 'yes' }, 'skipFirstWait="yes" (need 0 or 1)'],
  ])("refuses %s with torch's text", (_, given, part) => {
    const message = refused(() => schedule(given as ScheduleArguments));
    expect(message).toMatch(/^Invalid profiler schedule arguments\. Got wait=/);
    expect(message).toContain(part);
    expect(message).toMatch(/whole numbers, as in schedule\(\{ wait: 1, warmup: 1, active: 3 \}\)$/);
  });

  test('refuses names that it does not know: those of Python, too', () => {
    const given = { wait: 1, warmup: 1, active: 1, skip_first: 3 } as unknown as ScheduleArguments;
    expect(refused(() => schedule(given))).toBe(
      'Unknown schedule argument skip_first: it must be one of wait, warmup, active, repeat, skipFirst, skipFirstWait',
    );
  });

  test.each([undefined, null, 3, 'wait=1'])('refuses %s for arguments', (given) => {
    expect(refused(() => schedule(given as unknown as ScheduleArguments))).toMatch(
      /^Invalid profiler schedule arguments\. Got wait=undefined/,
    );
  });

  test('refuses a step below 0', () => {
    const planned = schedule({ wait: 1, warmup: 1, active: 1, skipFirst: 5 });
    expect(refused(() => planned(-1))).toBe('Step must be non-negative. Got -1.');
    expect(refused(() => planned(Number.NaN))).toBe('Step must be non-negative. Got NaN.');
  });

  test('none given: records forever', () => {
    expect(actions(defaultSchedule, 5)).toBe('RRRRR');
  });
});

describe('parseSchedule', () => {
  test.each<[string, ScheduleArguments]>([
    ['wait=1,warmup=1,active=3', { wait: 1, warmup: 1, active: 3 }],
    ['wait=1,warmup=1,active=3,repeat=2,skip_first=10,skip_first_wait=1', { ...basic(), repeat: 2, skipFirst: 10, skipFirstWait: 1 }],
    ['active=3,skipFirst=10,warmup=1,skipFirstWait=0,wait=1', { ...basic(), skipFirst: 10, skipFirstWait: 0 }],
    [' wait = 1 , warmup=1,\tactive=3 ', basic()],
  ])('reads %j', (text, expected) => {
    expect(parseSchedule(text)).toEqual(expected);
    expect(actions(schedule(parseSchedule(text)), 30)).toBe(actions(schedule(expected), 30));
  });

  test.each([
    ['', '"" is not NAME=NUMBER'],
    ['wait=1,warmup=1,active=3,', '"" is not NAME=NUMBER'],
    ['wait=1;warmup=1', 'wait must be a whole number, not "1;warmup=1"'],
    ['wait 1', '"wait 1" is not NAME=NUMBER'],
    ['wait=', '"wait=" is not NAME=NUMBER'],
    ['wait=1,warm=1', '"warm" is none of wait, warmup, active, repeat, skipFirst, skipFirstWait'],
    ['wait=1,warmup=1,active=3,__proto__=1', '"__proto__" is none of'],
    ['skip_first=1,skipFirst=1', 'skipFirst is given twice'],
    ['wait=-1,warmup=1,active=3', 'wait must be a whole number, not "-1"'],
    ['wait=1.5,warmup=1,active=3', 'wait must be a whole number, not "1.5"'],
    ['wait=1,warmup=1,active=1e3', 'active must be a whole number, not "1e3"'],
    ['wait=1,warmup=1,active=1000000000000000000000', 'active must be a whole number'],
    ['wait=1,warmup=1', 'active is missing'],
    ['repeat=2', 'wait and warmup and active are missing'],
    ['wait=1,warmup=1,active=0', 'active must be at least 1'],
  ])('refuses %j', (text, why) => {
    const message = refused(() => parseSchedule(text));
    expect(message).toContain(`Bad schedule ${JSON.stringify(text)}: ${why}`);
    expect(message).toContain('it must be like "wait=1,');
  });

  test('shows a part of what is too long to show', () => {
    expect(refused(() => parseSchedule('x'.repeat(10_000))).length).toBeLessThan(500);
  });

  test('the example of its error is right', () => {
    const example = refused(() => parseSchedule('')).match(/like "(.+)"$/)?.[1] ?? '';
    expect(Object.keys(parseSchedule(example))).toHaveLength(6);
  });

  function basic(): ScheduleArguments {
    return { wait: 1, warmup: 1, active: 3 };
  }
});
