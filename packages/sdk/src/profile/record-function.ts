// `recordFunction`: names a part of the program, in whichever form fits it.

import type { Args } from '../record/arguments.ts';
import type { OpenScope } from '../record/recorder.ts';
import { threadRecorder } from './thread-recorder.ts';

type Method = (this: unknown, ...args: never[]) => unknown;

/** Result of `recordFunction(name)`: a decorator of functions and methods, and a scope for `using`. */
export interface RecordFunction {
  /** Wraps `fn` so that each call is a span. */
  <F extends Method>(fn: F): F;
  /** A decorator of methods, as the language defines it. */
  <F extends Method>(fn: F, context: ClassMethodDecoratorContext): F;
  /** The same for TypeScript's `experimentalDecorators`. */
  (target: object, key: string | symbol, descriptor: PropertyDescriptor): PropertyDescriptor;
  /** `using` reads this on entry: the span begins then, and ends with the block. Across an `await`, too. */
  readonly [Symbol.dispose]: () => void;
}

/**
 * Runs `fn`, sync or async, as a span called `name`, on the running profile; without one it just runs `fn`. Returns what `fn` returns (for a
 * promise, one that settles alike), throws what it throws. Without `fn`, returns a decorator and scope of that name.
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
 */
export function recordFunction(name: string): RecordFunction;
export function recordFunction<T>(name: string, fn: () => T): T;
export function recordFunction<T>(name: string, args: Args, fn: () => T): T;
export function recordFunction<T>(name: string, argsOrFn?: Args | (() => T), maybeFn?: () => T): T | RecordFunction {
  if (argsOrFn === undefined) return namedFunction(name);
  const fn = (typeof argsOrFn === 'function' ? argsOrFn : maybeFn) as () => T;
  const recorder = threadRecorder();
  if (recorder === undefined) return fn();
  return recorder.record(name, typeof argsOrFn === 'function' ? undefined : argsOrFn, fn);
}

function namedFunction(name: string): RecordFunction {
  const decorate = (...given: [Method, unknown?] | [object, string | symbol, PropertyDescriptor]): unknown => {
    const [target, , descriptor] = given;
    if (descriptor === undefined) return recorded(name, target as Method);
    return { ...descriptor, value: recorded(name, descriptor.value as Method) };
  };
  Object.defineProperty(decorate, Symbol.dispose, {
    get: () => {
      const recorder = threadRecorder();
      let scope: OpenScope | undefined = recorder?.openScope(name);
      return () => {
        if (scope !== undefined) recorder?.closeScope(scope);
        scope = undefined;
      };
    },
  });
  return decorate as unknown as RecordFunction;
}

function recorded(name: string, fn: Method): Method {
  const wrapped = function (this: unknown, ...args: never[]): unknown {
    const recorder = threadRecorder();
    return recorder === undefined ? fn.apply(this, args) : recorder.record(name, undefined, () => fn.apply(this, args));
  };
  Object.defineProperty(wrapped, 'name', { value: fn.name });
  Object.defineProperty(wrapped, 'length', { value: fn.length });
  return wrapped;
}
