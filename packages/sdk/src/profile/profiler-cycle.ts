// The state machine of torch.profiler (action_map in torch/profiler/profiler.py): the calls between one step's action and the next one's.
//
//   before ╲ now      NONE          WARMUP        RECORD     RECORD_AND_SAVE   exit
//   NONE              –             P             P S        P S               –          P prepareTrace   S startTrace
//   WARMUP            warn, S X     –             S          S                 S X        X stopTrace      R traceReady
//   RECORD            warn, X       warn, X       –          –                 X R
//   RECORD_AND_SAVE   X R           X R P         X R P S    X R P S           X R
//
// As in torch: a stop while warming up gives no trace, one while recording does; and the action after RECORD → WARMUP (a wrong schedule)
// starts without a P of its own.
//
// Invariants: seen from outside, S and X alternate. After `start` nothing here throws: the training loop does not end because of its profiler.

import { SdkError } from '../model/errors.ts';
import { defaultSchedule, ProfilerAction, type Schedule } from '../model/schedule.ts';

/** The calls that a cycle makes, in the training thread, one after the other. */
export interface ProfilerCycleParts {
  /** Number of the first step. The schedule counts from it. Default 0. */
  readonly firstStep?: number;
  readonly schedule: Schedule;
  readonly prepareTrace: () => void;
  readonly startTrace: () => void;
  readonly stopTrace: () => void;
  /** The user's `onTraceReady`, if any. The cycle does not wait for a returned promise, but reports its failure. */
  readonly traceReady: () => unknown;
  /** Receives each problem as one line. Wrong schedules are reported once per kind, failures every time. */
  readonly warn: (text: string) => void;
}

type Part = 'prepareTrace' | 'startTrace' | 'stopTrace' | 'traceReady';
type Warning = `Incorrect schedule: ${'WARMUP' | 'RECORD'} followed by ${'NONE' | 'WARMUP'}`;
type Cell = readonly (Part | Warning)[];

const exit = 4;

/** By the action before and the action now, `exit` the last. The texts are torch's. */
const actionMap: Readonly<Record<ProfilerAction, readonly [Cell, Cell, Cell, Cell, Cell]>> = {
  [ProfilerAction.NONE]: [[], ['prepareTrace'], ['prepareTrace', 'startTrace'], ['prepareTrace', 'startTrace'], []],
  [ProfilerAction.WARMUP]: [
    ['Incorrect schedule: WARMUP followed by NONE', 'startTrace', 'stopTrace'],
    [],
    ['startTrace'],
    ['startTrace'],
    ['startTrace', 'stopTrace'],
  ],
  [ProfilerAction.RECORD]: [
    ['Incorrect schedule: RECORD followed by NONE', 'stopTrace'],
    ['Incorrect schedule: RECORD followed by WARMUP', 'stopTrace'],
    [],
    [],
    ['stopTrace', 'traceReady'],
  ],
  [ProfilerAction.RECORD_AND_SAVE]: [
    ['stopTrace', 'traceReady'],
    ['stopTrace', 'traceReady', 'prepareTrace'],
    ['stopTrace', 'traceReady', 'prepareTrace', 'startTrace'],
    ['stopTrace', 'traceReady', 'prepareTrace', 'startTrace'],
    ['stopTrace', 'traceReady'],
  ],
};

/**
 * Asks the schedule for each step's action and performs it.
 *
 * Where this differs from torch, it is so that training goes on: a schedule that throws or returns nonsense fails the caller of `start` only
 * for step 0; later the cycle takes that as NONE, and reports it once. It reports errors of `traceReady` instead of throwing them.
 * `traceReady` may stop the cycle, and then nothing more is recorded; a step from inside of it is not counted. A step before `start` or
 * after `stop` has no effect.
 */
export class ProfilerCycle {
  readonly #parts: ProfilerCycleParts;
  readonly #reported = new Set<string>();
  #steps = 0;
  /** Action of the running step; undefined before the first `start`. */
  #action: ProfilerAction | undefined;
  #running = false;
  readonly #isSteady: boolean;
  /** Foreign code that runs below us and may call back. */
  #inside: 'schedule' | 'transition' | undefined;

  constructor(parts: ProfilerCycleParts) {
    this.#parts = parts;
    this.#isSteady = parts.schedule === defaultSchedule;
  }

  /** Number of the running step, over all starts. In `traceReady` the next one already runs, except at a stop. */
  get stepNum(): number {
    return (this.#parts.firstStep ?? 0) + this.#steps;
  }

  /** Whether the schedule or `traceReady` is running: a step then has no effect. */
  get isInside(): boolean {
    return this.#inside !== undefined;
  }

  /** The action of the running step; NONE before the first `start`. */
  get currentAction(): ProfilerAction {
    return this.#action ?? ProfilerAction.NONE;
  }

  /**
   * Begins step 0; after a `stop`, continues in the step it was stopped in, as torch does. Throws SdkError `bad_option` when the schedule
   * gives no action for step 0, `already_running`, and errors of schedule, `prepareTrace` and `startTrace`: then nothing has changed.
   */
  start(): void {
    if (this.#running || this.#inside !== undefined) {
      throw new SdkError('already_running', 'Cannot start this profiler: it is started; stop it first');
    }
    const before = this.#action;
    const action = before ?? this.#ask(this.#steps);
    this.#action = action;
    this.#running = true;
    try {
      this.#transit(ProfilerAction.NONE, action, (part) => this.#parts[part]());
    } catch (error) {
      this.#action = before;
      this.#running = false;
      throw error;
    }
  }

  /** Begins the next step. Returns its action. */
  step(): ProfilerAction {
    // The default schedule: each step is recorded as the one before.
    if (this.#isSteady && this.#running && this.#inside === undefined) {
      this.#steps++;
      return ProfilerAction.RECORD;
    }
    if (!this.#running) return this.currentAction;
    if (this.#inside !== undefined) {
      this.#warnOnce('A step from inside of the schedule or of onTraceReady is not counted');
      return this.currentAction;
    }
    const before = this.currentAction;
    const now = this.#askOrNone(this.#steps + 1);
    if (!this.#running) return before; // The schedule stopped us.
    this.#steps++;
    this.#action = now;
    this.#transit(before, now, this.#attempt);
    return now;
  }

  /** Ends the running step, and with it the recording. */
  stop(): void {
    if (!this.#running) return;
    // Inside traceReady the trace is stopped already: skip the rest of the transition.
    if (this.#inside !== 'transition') this.#transit(this.currentAction, exit, this.#attempt);
    this.#running = false;
  }

  #transit(before: ProfilerAction, now: ProfilerAction | typeof exit, call: (part: Part) => void): void {
    const cell = actionMap[before][now];
    if (cell.length === 0) return;
    this.#inside = 'transition';
    try {
      for (const part of cell) {
        if (!this.#running) return;
        if (isPart(part)) call(part);
        else this.#warnOnce(part);
      }
    } finally {
      this.#inside = undefined;
    }
  }

  readonly #attempt = (part: Part): void => {
    const name = part === 'traceReady' ? 'onTraceReady' : part;
    const failed = (error: unknown) => this.#parts.warn(`${name} failed, training goes on: ${reasonOf(error)}`);
    try {
      const result: unknown = this.#parts[part]();
      // An unhandled rejection would end the process.
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  };

  #askOrNone(step: number): ProfilerAction {
    try {
      return this.#ask(step);
    } catch (error) {
      this.#warnOnce(
        'schedule',
        () => `schedule failed at step ${step}: ${reasonOf(error)}. NONE is taken, now and whenever it fails again`,
      );
      return ProfilerAction.NONE;
    }
  }

  /** The schedule's answer, checked. Has no side effect. */
  #ask(step: number): ProfilerAction {
    const { schedule } = this.#parts;
    if (typeof schedule !== 'function') {
      throw new SdkError('bad_option', `Bad option schedule: it must be a function, such as schedule({ … }) gives, got ${shown(schedule)}`);
    }
    this.#inside = 'schedule';
    let action: unknown;
    try {
      action = schedule(step);
    } finally {
      this.#inside = undefined;
    }
    if (action === 0 || action === 1 || action === 2 || action === 3) return action;
    if (action instanceof Promise) action.catch(() => {});
    throw new SdkError(
      'bad_option',
      `Bad option schedule: for step ${step} it must give a ProfilerAction (NONE 0, WARMUP 1, RECORD 2 or RECORD_AND_SAVE 3), got ${shown(action)}`,
    );
  }

  #warnOnce(kind: string, text: () => string = () => kind): void {
    if (this.#reported.has(kind)) return;
    this.#reported.add(kind);
    this.#parts.warn(text());
  }
}

function isPart(part: Part | Warning): part is Part {
  return !part.startsWith('Incorrect');
}

/** A value of any type, short, without running its code. */
function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (typeof value === 'bigint') return `${value}n`;
  if (value instanceof Promise) return 'a promise';
  if (typeof value === 'object' && value !== null) return 'an object';
  return typeof value === 'function' ? 'a function' : String(value);
}

/** The first line of a thrown value. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? String(error.message).split('\n', 1).join() : shown(error);
}
