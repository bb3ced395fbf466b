// Drives long synchronous work, a generator, in slices: the event loop runs in between, so that a service continues to ingest.

import { setImmediate } from 'node:timers/promises';

export interface DriveOptions<Progress> {
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Awaited between slices, for example until written bytes have drained. */
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
