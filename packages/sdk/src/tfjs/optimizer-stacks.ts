// The stack of the ops of an optimizer's update: that of its caller, captured once. Optimizers of tfjs call nothing of the user's.

import type { CallStacks } from './call-stack.ts';
import { override } from './override.ts';
import { type Method, optimizerPrototypes } from './step-finder.ts';

/** Holds the stack while an optimizer of `tf` updates weights and `wanted()`; the returned function removes the hooks. */
export function holdInOptimizers(tf: object, stacks: CallStacks, wanted: () => boolean): () => void {
  const held = (original: Method): Method =>
    function (...args) {
      if (!wanted()) return original.apply(this, args);
      const before = stacks.hold(stacks.captureAt('applyGradients', ''));
      try {
        return original.apply(this, args);
      } finally {
        stacks.hold(before);
      }
    };
  const removals: (() => void)[] = [];
  for (const prototype of optimizerPrototypes(tf)) {
    if (typeof Object.getOwnPropertyDescriptor(prototype, 'applyGradients')?.value !== 'function') continue;
    removals.push(override(prototype, 'applyGradients', held));
  }
  return () => {
    for (const remove of removals.toReversed()) remove();
  };
}
