// Finds the steps of an unmodified training loop: each update of weights by an optimizer is one.
//
//   optimizer.minimize(f)                   model.fit, model.trainOnBatch: each batch calls it
//     └─ optimizer.applyGradients(grads)    loops that compute gradients themselves call it directly
//          └─ super.applyGradients(grads)   optimizers derived from others, the program's own too
//
// The outermost of these calls counts, when it returns. Two optimizers in turn (a GAN) are two steps; an optimizer of the program's own that
// derives from the abstract `Optimizer` is visible only in `minimize`.

import { override } from './override.ts';

export type Method = (this: unknown, ...args: unknown[]) => unknown;
type Prototype = Record<string, Method>;

const methods = ['minimize', 'applyGradients'] as const;

/**
 * Calls `onStep` after each step of any optimizer whose class `tf` exports. A call that throws is no step. The returned function removes all
 * hooks.
 */
export function findSteps(tf: object, onStep: () => void): () => void {
  let isOn = true;
  let depth = 0;
  const counted = (original: Method): Method =>
    function (...args) {
      if (!isOn) return original.apply(this, args);
      depth++;
      let result: unknown;
      try {
        result = original.apply(this, args);
      } finally {
        depth--;
      }
      if (depth === 0) onStep();
      return result;
    };
  const removals: (() => void)[] = [];
  for (const prototype of optimizerPrototypes(tf)) {
    for (const method of methods) {
      if (typeof Object.getOwnPropertyDescriptor(prototype, method)?.value === 'function')
        removals.push(override(prototype, method, counted));
    }
  }
  return () => {
    isOn = false;
    for (const remove of removals.toReversed()) remove();
  };
}

/** Prototypes of the exported `…Optimizer` classes and their base classes. */
export function optimizerPrototypes(tf: object): Set<Prototype> {
  const prototypes = new Set<Prototype>();
  // Include inherited names: a namespace combined from several packages has the exports of one on its prototype.
  for (const name in tf) {
    if (!name.endsWith('Optimizer')) continue;
    const value: unknown = (tf as Record<string, unknown>)[name];
    if (typeof value !== 'function') continue;
    let prototype: unknown = value.prototype;
    while (typeof prototype === 'object' && prototype !== null && prototype !== Object.prototype) {
      prototypes.add(prototype as Prototype);
      prototype = Object.getPrototypeOf(prototype);
    }
  }
  return prototypes;
}
