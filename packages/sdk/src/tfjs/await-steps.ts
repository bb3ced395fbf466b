// Finds the steps of a program that has not loaded tfjs yet.
//
//   engine appears        op 1        op 2 …        optimizer.minimize
//   └ its package is      └ now it is loaded: the optimizers are found and hooked, in time for the first step
//     still loading
//
// At ops, and at nothing later: a training loop may be over before the event loop turns again.

import { awaitEngine } from './await-engine.ts';
import type { TfjsEngine } from './engine.ts';
import { findTfjs } from './find-tfjs.ts';
import { override } from './override.ts';
import { findSteps } from './step-finder.ts';

/** Ops at which the package is looked for (0.1 ms each): 1, 2, 4, … up to this. A tfjs bundled into the program is never found. */
const opsMax = 2 ** 15;

/**
 * Calls `onStep` after each step of any optimizer (step-finder.ts) of the tfjs that this thread has loaded or will load. Asked for after other
 * hooks of the engine, it leaves nothing among them once the package is found. The function returned takes everything back.
 */
export function awaitSteps(onStep: () => void): () => void {
  const removals: (() => void)[] = [];
  let isLooking = true;
  const look = (): void => {
    const tf = findTfjs();
    if (tf === undefined) return;
    isLooking = false;
    removals.push(findSteps(tf, onStep));
  };
  const hook = (engine: TfjsEngine): void => {
    let ops = 0;
    const removeHook = override(engine, 'runKernelFunc', (original) => (call) => {
      if (isLooking) {
        ops++;
        if ((ops & (ops - 1)) === 0) look();
        isLooking &&= ops < opsMax;
        if (!isLooking) removeHook();
      }
      return original.call(engine, call);
    });
    removals.push(removeHook);
  };
  removals.push(awaitEngine((engine) => hook(engine as TfjsEngine)));
  return () => {
    isLooking = false;
    for (let remove = removals.pop(); remove !== undefined; remove = removals.pop()) remove();
  };
}
