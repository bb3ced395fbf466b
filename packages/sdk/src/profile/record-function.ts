// `recordFunction`: names a part of the program, in whichever form fits it.

import type { PhaseRole } from '@ranktrace/protocol';
import type { Args } from '../record/arguments.ts';
import type { OpenScope, Recorder } from '../record/recorder.ts';
import { threadRecorder } from './thread-recorder.ts';

/** Options of a span. */
export interface SpanOptions {
  /** The rank's activity in it, where the name does not show it: reports and alerts blame no rank for waiting, and know data loading. */
  readonly role?: PhaseRole | undefined;
}

type Method = (this: unknown, ...args: never[]) => unknown;

/** Result of `recordFunction(name)`: a decorator of functions and methods, and a scope for `using`. */
export interface RecordFunction {
  /** Wraps `fn` so that each call is a span. */
  <F extends Method>(fn: F): F;
  /** A decorator of methods, as the language defines it. */
  <F extends Method>(fn: F, context: ClassMethodDecoratorContext): F;
  /** The same for TypeScript's `experimentalDecorators`. */
  (target: object, key: string | symbol, descriptor: PropertyDescriptor): PropertyDescriptor;
  /**
   * `using` reads this on entry: the span begins then, and ends with the block. Across an `await` or `yield`, too: then other spans that began meanwhile lie
   * beside it.
   */
  readonly [Symbol.dispose]: () => void;
}

/**
 * Runs `fn`, sync or async, as a span called `name`, on the running profile; without one it just runs `fn`. Returns what `fn` returns (for a
 * promise, one that settles alike; any other object with a `then` as it is), throws what it throws. Without `fn`, returns a decorator and scope of that name.
 *
 * @example
 * const loss = recordFunction('forward', () => model.forward(batch));
 *
 * class Trainer {
 *   @recordFunction('validate')
 *   async validate() { … }
 * }
 *
 * {
 *   using _ = recordFunction('augment');
 *   …
 * }
 *
 * const batch = await recordFunction('rollouts', () => queue.next(), { role: 'data' });
 */
export function recordFunction(name: string, options?: SpanOptions): RecordFunction;
export function recordFunction<T>(name: string, fn: () => T, options?: SpanOptions): T;
export function recordFunction<T>(name: string, args: Args, fn: () => T, options?: SpanOptions): T;
export function recordFunction<T>(
  name: string,
  second?: Args | SpanOptions | (() => T),
  third?: SpanOptions | (() => T),
  fourth?: SpanOptions,
): T | RecordFunction {
  const recorder = threadRecorder();
  if (typeof second === 'function') {
    if (recorder === undefined) return second();
    if (third !== undefined) stateRole(recorder, name, third as SpanOptions);
    return recorder.record(name, undefined, second);
  }
  if (typeof third === 'function') {
    if (recorder === undefined) return third();
    if (fourth !== undefined) stateRole(recorder, name, fourth);
    return recorder.record(name, second as Args, third);
  }
  return namedFunction(name, second as SpanOptions | undefined);
}

function stateRole(recorder: Recorder, name: string, options: SpanOptions | undefined): void {
  try {
    if (options?.role !== undefined) recorder.phaseRole(name, options.role);
  } catch {
    recorder.dropArgument(); // A getter of the caller's object threw: training goes on.
  }
}

function namedFunction(name: string, options: SpanOptions | undefined): RecordFunction {
  const decorate = (...given: [Method, unknown?] | [object, string | symbol, PropertyDescriptor]): unknown => {
    const [target, , descriptor] = given;
    if (descriptor === undefined) return recorded(name, options, target as Method);
    const wrapped = { ...descriptor };
    // A method has a value, an accessor a getter, a setter, or both.
    for (const part of ['value', 'get', 'set'] as const) {
      if (typeof descriptor[part] === 'function') wrapped[part] = recorded(name, options, descriptor[part] as Method);
    }
    return wrapped;
  };
  Object.defineProperty(decorate, Symbol.dispose, {
    get: () => {
      const recorder = threadRecorder();
      if (recorder !== undefined) stateRole(recorder, name, options);
      let scope: OpenScope | undefined = recorder?.openScope(name);
      return () => {
        if (scope !== undefined) recorder?.closeScope(scope);
        scope = undefined;
      };
    },
  });
  return decorate as unknown as RecordFunction;
}

function recorded(name: string, options: SpanOptions | undefined, fn: Method): Method {
  const wrapped = function (this: unknown, ...args: never[]): unknown {
    const recorder = threadRecorder();
    if (recorder === undefined) return fn.apply(this, args);
    stateRole(recorder, name, options);
    return recorder.record(name, undefined, () => fn.apply(this, args));
  };
  Object.defineProperty(wrapped, 'name', { value: fn.name });
  Object.defineProperty(wrapped, 'length', { value: fn.length });
  return wrapped;
}
