// Long synchronous work as a generator, driven in slices: the event loop goes round in between, so that a service goes on ingesting.

import { setImmediate } from 'node:timers/promises';

export interface DriveOptions<Progress> {
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Waited for between slices, such as for what was written to drain. */
  readonly between?: (() => Promise<void>) | undefined;
}

const sliceMs = 8;

/** The result of `steps`. Rejects with what it throws, or with the signal's reason. */
export async function driveSteps<Progress, Result>(
  steps: Generator<Progress, Result>,
  { onProgress, signal, between }: DriveOptions<Progress> = {},
): Promise<Result> {
  signal?.throwIfAborted();
  let breathed = performance.now();
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (performance.now() - breathed < sliceMs) continue;
    onProgress?.(step.value);
    await between?.();
    await setImmediate();
    signal?.throwIfAborted();
    breathed = performance.now();
  }
}
