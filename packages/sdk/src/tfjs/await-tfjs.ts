// Finds the tfjs package of a program that has not loaded it yet.
//
//   engine appears        tensor or op 1        2  …        model.fit, optimizer.minimize
//   └ its package is      └ now it is loaded: layers and optimizers are hooked, in time for the first step
//     still loading
//
// At tensors and ops, and at nothing later: a training loop may be over before the event loop turns again.

import { awaitEngine } from './await-engine.ts';
import type { TfjsEngine } from './engine.ts';
import { findTfjs, type TfjsNamespace } from './find-tfjs.ts';
import { override } from './override.ts';

/** Tensors and ops at which the package is looked for (0.1 ms each): 1, 2, 4, … up to this. A tfjs bundled into the program is never found. */
const callsMax = 2 ** 15;

/**
 * Calls `onTfjs` once with the tfjs that this thread has loaded or will load; `given` where that is one. Asked for after other hooks of the
 * engine, it leaves nothing among them once the package is found. The function returned stops looking; where hooks have come after it meanwhile,
 * it takes back what is left once they are gone.
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
