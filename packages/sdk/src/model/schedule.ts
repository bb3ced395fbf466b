// Chooses the recorded steps: torch.profiler's actions, activities and `schedule`, with its numbers.
//
//   schedule({ skipFirst: 2, wait: 1, warmup: 1, active: 3, repeat: 2 })
//
//   step    0  1 │ 2   3   4   5   6 │ 7   8   9  10  11 │ 12 …
//   action  –  – │ –   W   R   R   S │ –   W   R   R   S │ –  …      W warm up, R record, S record and save, – none
//
// Invariant: a schedule is a pure function of the step's number. profiler-cycle.ts defines what one action after another does.

import { existsSync } from 'node:fs';
import { SdkError } from './errors.ts';

/** The profiler's action during a step. torch's names and numbers. */
export const ProfilerAction = Object.freeze({
  /** Nothing. */
  NONE: 0,
  /** Records, and discards the result: the first recorded steps pay for the set-up. */
  WARMUP: 1,
  /** Records. */
  RECORD: 2,
  /** Records; the trace is ready when the step ends. */
  RECORD_AND_SAVE: 3,
} as const);
export type ProfilerAction = (typeof ProfilerAction)[keyof typeof ProfilerAction];

/** Kinds of processors whose time can be recorded: the host and devices. torch's names. */
export const ProfilerActivity = Object.freeze({
  CPU: 'cpu',
  CUDA: 'cuda',
  XPU: 'xpu',
  MTIA: 'mtia',
  HPU: 'hpu',
  PrivateUse1: 'privateuse1',
} as const);
export type ProfilerActivity = (typeof ProfilerActivity)[keyof typeof ProfilerActivity];

/** Any of these exists where NVIDIA's driver is loaded; a container without the GPU may still see the last one. */
const nvidiaPaths = ['/dev/nvidiactl', '/dev/nvidia0', '/proc/driver/nvidia'];

/** Activities that this machine can record: CPU, and CUDA where NVIDIA's device files are. `exists` tests a path. */
export function supportedActivities(exists: (path: string) => boolean = existsSync): Set<ProfilerActivity> {
  return new Set(nvidiaPaths.some((path) => exists(path)) ? [ProfilerActivity.CPU, ProfilerActivity.CUDA] : [ProfilerActivity.CPU]);
}

/** The action of each step, counted from 0. Called once per step, in the training thread. */
export type Schedule = (step: number) => ProfilerAction;

/** Numbers of steps, except `repeat` (cycles) and `skipFirstWait`. */
export interface ScheduleArguments {
  /** Steps of a cycle in which nothing happens. */
  readonly wait: number;
  /** Steps after those that are recorded and discarded. */
  readonly warmup: number;
  /** Steps after those that are recorded; the last one saves. At least 1. */
  readonly active: number;
  /** Cycles; 0, the default, for as long as there are steps. */
  readonly repeat?: number | undefined;
  /** Steps before the first cycle. Default 0. */
  readonly skipFirst?: number | undefined;
  /** Any value but 0 and false omits the `wait` of the first cycle. Default 0. */
  readonly skipFirstWait?: number | boolean | undefined;
}

type Warn = (text: string) => void;

const emitWarning: Warn = (text) => process.emitWarning(text, 'RanktraceWarning');

/**
 * Skips `skipFirst` steps, then repeats: `wait` steps of nothing, `warmup` of warming up, `active` of recording. The same steps as
 * torch.profiler.schedule's, including its quirk: with `skipFirstWait` and `repeat` the last cycle ends `wait` steps earlier.
 *
 * Calls `warn` when there is no warm-up; by default that emits a process warning. Throws SdkError `bad_option`; the schedule itself throws
 * it for a step below 0.
 *
 * @example profile({ schedule: schedule({ wait: 1, warmup: 1, active: 3, repeat: 2 }) })
 */
export function schedule(given: ScheduleArguments, warn: Warn = emitWarning): Schedule {
  const { wait, warmup, active, repeat, skipFirst, skipFirstWait } = checked(given);
  if (warmup === 0) warn("Profiler won't be using warmup, this can skew profiler results");
  const cycle = wait + warmup + active;
  // torch also shifts the step before it compares with `repeat`: hence the quirk.
  const shift = skipFirstWait ? wait - skipFirst : -skipFirst;
  return (step) => {
    if (!(step >= 0)) throw new SdkError('bad_option', `Step must be non-negative. Got ${step}.`);
    if (step < skipFirst) return ProfilerAction.NONE;
    const at = step + shift;
    if (repeat > 0 && at / cycle >= repeat) return ProfilerAction.NONE;
    const inCycle = at % cycle;
    if (inCycle < wait) return ProfilerAction.NONE;
    if (inCycle < wait + warmup) return ProfilerAction.WARMUP;
    return inCycle < cycle - 1 ? ProfilerAction.RECORD : ProfilerAction.RECORD_AND_SAVE;
  };
}

/** The schedule of a profile without one: records from start to stop. */
export const defaultSchedule: Schedule = () => ProfilerAction.RECORD;

const names = ['wait', 'warmup', 'active', 'repeat', 'skipFirst', 'skipFirstWait'] as const;
const required = names.slice(0, 3);
const example = 'wait=1,warmup=1,active=3,repeat=2,skip_first=10,skip_first_wait=1';

/**
 * Parses the arguments of `schedule`, as an environment variable holds them: `NAME=NUMBER` with commas between, names as here (`skipFirst`)
 * or as in Python (`skip_first`). Throws SdkError `bad_option`, which names the fault and shows a correct text.
 *
 * @example schedule(parseSchedule('wait=1,warmup=1,active=3,repeat=2'))
 */
export function parseSchedule(text: string): ScheduleArguments {
  const refuse = (why: string): never => {
    const shown = JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
    throw new SdkError('bad_option', `Bad schedule ${shown}: ${why}; it must be like "${example}"`);
  };
  const found = new Map<string, number>();
  for (const part of text.split(',')) {
    const [, given, digits] = part.match(/^\s*(\w+)\s*=\s*(\S+)\s*$/) ?? refuse(`"${part.trim().slice(0, 40)}" is not NAME=NUMBER`);
    const name = String(given).replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (!names.some((known) => known === name)) refuse(`"${given?.slice(0, 40)}" is none of ${names.join(', ')}`);
    if (found.has(name)) refuse(`${name} is given twice`);
    if (!/^\d{1,15}$/.test(String(digits))) refuse(`${name} must be a whole number, not "${digits?.slice(0, 40)}"`);
    found.set(name, Number(digits));
  }
  const missing = required.filter((name) => !found.has(name));
  if (missing.length > 0) refuse(`${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} missing`);
  if (found.get('active') === 0) refuse('active must be at least 1');
  return Object.fromEntries(found) as unknown as ScheduleArguments;
}

/** Fills in defaults. Throws torch's text, and also for faults that torch ignores: names, and numbers that are not whole. */
function checked(given: ScheduleArguments): Required<{ [Name in keyof ScheduleArguments]: number }> {
  // JavaScript callers may pass anything.
  const options: Partial<ScheduleArguments> = typeof given === 'object' && given !== null ? given : {};
  const unknown = Object.keys(options).find((name) => !names.some((known) => known === name));
  if (unknown !== undefined) {
    throw new SdkError('bad_option', `Unknown schedule argument ${unknown}: it must be one of ${names.join(', ')}`);
  }
  const { wait, warmup, active, repeat = 0, skipFirst = 0, skipFirstWait = 0 } = options;
  const isWhole = (value: unknown, from: number): value is number => Number.isSafeInteger(value) && (value as number) >= from;
  const wholeOrBoolean = typeof skipFirstWait === 'boolean' || Number.isSafeInteger(skipFirstWait);
  if (isWhole(wait, 0) && isWhole(warmup, 0) && isWhole(active, 1) && isWhole(repeat, 0) && isWhole(skipFirst, 0) && wholeOrBoolean) {
    return { wait, warmup, active, repeat, skipFirst, skipFirstWait: Number(skipFirstWait) };
  }
  const shown = (name: string, value: unknown, need: string) => `${name}=${text(value)} (need ${need})`;
  const parts = [
    shown('wait', wait, '>= 0'),
    shown('warmup', warmup, '>= 0'),
    shown('active', active, '> 0'),
    shown('repeat', repeat, '>= 0'),
    shown('skipFirst', skipFirst, '>= 0'),
    ...(wholeOrBoolean ? [] : [shown('skipFirstWait', skipFirstWait, '0 or 1')]),
  ];
  throw new SdkError(
    'bad_option',
    `Invalid profiler schedule arguments. Got ${parts.join(', ')}. All must be whole numbers, as in schedule({ wait: 1, warmup: 1, active: 3 })`,
  );
}

/** A value of any type, short. */
function text(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (typeof value === 'bigint') return `${value}n`;
  return typeof value === 'object' || typeof value === 'function' ? typeof value : String(value);
}
