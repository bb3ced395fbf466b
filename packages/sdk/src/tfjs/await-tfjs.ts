// Finds the tfjs package of a program that has not loaded it yet.
//
//   engine appears        tensor or op 1        2  …        model.fit, optimizer.minimize
//   └ its package is      └ now it is loaded: hooks go on layers and optimizers, in time for the first step
//     still loading
//
// At tensors and ops, and no later: a training loop may be over before the event loop turns again.

import { awaitEngine } from './await-engine.ts';
import type { TfjsEngine } from './engine.ts';
import { findTfjs, type TfjsNamespace } from './find-tfjs.ts';
import { override } from './override.ts';

/** Look for the package (0.1 ms each) at tensors and ops 1, 2, 4, … up to this. It never finds a tfjs bundled into the program. */
const callsMax = 2 ** 15;

/**
 * Calls `onTfjs` once with the tfjs that this thread has loaded or will load; with `given` if that is one. If other hooks of the engine come
 * first, no trace of it stays among them once it finds the package. The returned function stops the search; if later hooks lie on top of it,
 * it removes the rest once they are gone.
 */
export function awaitTfjs(onTfjs: (tf: TfjsNamespace) => void, given?: unknown): () => void {
  const loaded = findTfjs(given);
  if (loaded !== undefined) {
    onTfjs(loaded);
    return () => {};
  }
  let calls = 0;
  let isLooking = true;
  const removals: (() => void)[] = [];
  const stop = (): void => {
    isLooking = false;
    for (const remove of removals.toReversed()) remove();
  };
  const called = (): void => {
    calls++;
    if ((calls & (calls - 1)) !== 0) return;
    const tf = findTfjs(given);
    if (tf !== undefined || calls >= callsMax) stop();
    if (tf !== undefined) onTfjs(tf);
  };
  const hook = (engine: TfjsEngine): void => {
    removals.push(
      override(engine, 'makeTensor', (original) => (...args) => {
        if (isLooking) called();
        return original.apply(engine, args);
      }),
      override(engine, 'runKernelFunc', (original) => (call) => {
        if (isLooking) called();
        return original.call(engine, call);
      }),
    );
  };
  removals.push(awaitEngine(hook));
  return stop;
}
