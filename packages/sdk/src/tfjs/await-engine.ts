// Finds the tfjs engine of this process, without importing tfjs: now, or when the program loads it.
//
// Every copy of tfjs-core looks for `globalThis._tfengine` and makes it when it is missing [engine.js getOrMakeEngine]; so there is one engine,
// however many copies are loaded, and we can observe its creation.
//
// Until then a property with a setter holds its place. When tfjs sets the engine, it becomes the plain property that tfjs would have made.

import type { TfjsEngine } from './engine.ts';

const key = '_tfengine';

/**
 * Calls `onEngine` once, with the engine: at once when it exists, else when tfjs makes it. The returned function stops waiting. Several callers
 * may wait; they are called in the reverse order.
 */
export function awaitEngine(onEngine: (engine: TfjsEngine) => void): () => void {
  const present: unknown = Reflect.get(globalThis, key);
  if (isEngine(present)) {
    onEngine(present);
    return () => {};
  }
  // The setter of another waiting caller, or nothing.
  const before = Object.getOwnPropertyDescriptor(globalThis, key);
  if (before?.configurable === false) return () => {};
  let isWaiting = true;
  const restore = () => {
    if (before === undefined) Reflect.deleteProperty(globalThis, key);
    else Object.defineProperty(globalThis, key, before);
  };
  const set = (value: unknown) => {
    restore();
    // Through the setter of the caller that waited before, if any.
    Reflect.set(globalThis, key, value);
    if (isWaiting && isEngine(value)) onEngine(value);
  };
  Object.defineProperty(globalThis, key, { get: () => undefined, set, configurable: true, enumerable: true });
  return () => {
    isWaiting = false;
    // Another caller may wait in front of us: then our setter only passes on.
    if (Object.getOwnPropertyDescriptor(globalThis, key)?.set === set) restore();
  };
}

function isEngine(value: unknown): value is TfjsEngine {
  return typeof value === 'object' && value !== null && typeof (value as Partial<TfjsEngine>).runKernelFunc === 'function';
}
