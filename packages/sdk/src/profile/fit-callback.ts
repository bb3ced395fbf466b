// Steps, epochs and metrics of `model.fit`, from the callbacks of tfjs.
//
//   onTrainBegin   onEpochBegin 0   onBatchEnd 0   onBatchEnd 1 …   onEpochEnd 0   onEpochBegin 1 …   onTrainEnd
//        │         |--------------------- epoch 0 ---------------|  |------ …
//        step 0 begins              step 0 ends    step 1 ends
//
// tfjs calls back for every batch, whatever `yieldEvery` is. Validation has no callback: `fit` runs it inside the last batch, so it is part of
// that step, and `fitDataset` after it, so it is part of the next one; its metrics are counters.
// To pass numbers to `onBatchEnd`, tfjs reads loss and metrics from the device after each batch, as for any callback that wants batches.

import { SdkError } from '../model/errors.ts';
import type { Recorder } from '../record/recorder.ts';
import { ProcessProfile } from './process-profile.ts';
import type { Profile } from './profile.ts';
import { threadRecorder } from './thread-recorder.ts';

/** Values by name, as tfjs gives them to callbacks. */
export type FitLogs = Readonly<Record<string, unknown>>;

/** Type of `callbacks` in `model.fit`, and of the argument of `tf.CustomCallback` (`CustomCallbackArgs` of tfjs). */
export interface FitCallback {
  onTrainBegin(): void;
  onTrainEnd(): Promise<void>;
  onEpochBegin(epoch: number): void;
  onEpochEnd(epoch: number, logs?: FitLogs): void;
  onBatchEnd(batch: number, logs?: FitLogs): void;
}

/** Epochs with a name of their own; later ones differ in their argument only, because a profile keeps its names. */
const namedEpochsMax = 4096;
/** Entries of a batch's logs that are no loss or metric. */
const notMetrics: ReadonlySet<string> = new Set(['batch', 'size']);

/** The profile that a training of this thread started and has not stopped: no callback hears of a `fit` that throws. */
let leftOpen: Profile | undefined;

/**
 * Callbacks that make each batch of `model.fit` or `fitDataset` a step of `prof`, each epoch a span, loss and metrics counters (`loss` by batch,
 * `epoch loss` and `val_loss` by epoch), and `fit`'s batch size the fact `batch_size`, by which step times compare. The callbacks start a profile
 * that does not run when the training begins, and stop it when the training ends; that start may throw as `Profile.start` does. tfjs does not call
 * back when `fit` throws: such a profile records until the program stops it, or until the next training that would start another.
 *
 * @example await model.fit(xs, ys, { epochs: 5, callbacks: fitCallback(profile()) });
 */
export function fitCallback(prof: Profile): FitCallback {
  // By `onTrainBegin` the caller of `fit` is no longer on the stack.
  if (prof instanceof ProcessProfile) prof.prepare();
  let isOurs = false;
  let recorder: Recorder | undefined;
  let epochId = 0;
  const endEpoch = (): void => {
    recorder?.endAsync(epochId);
    epochId = 0;
  };
  return {
    onTrainBegin(this: unknown) {
      const before = threadRecorder();
      endEpoch();
      // Recording ends at once, the rest is shipped meanwhile.
      if (leftOpen !== prof) void leftOpen?.stop();
      try {
        prof.start();
      } catch (error) {
        // A second training with the same callback: the profile is over, but the training must go on.
        if (!(error instanceof SdkError) || error.code !== 'already_stopped') throw error;
        process.emitWarning(`this training is not recorded: ${error.message}`, 'RanktraceWarning');
      }
      recorder = threadRecorder();
      if (recorder !== undefined && recorder !== before) isOurs = true;
      if (isOurs) leftOpen = prof;
      const batchSize = batchSizeOf(this);
      if (batchSize !== undefined) prof.addMetadata('batch_size', String(batchSize));
    },
    onEpochBegin(epoch) {
      endEpoch();
      const name = epoch < namedEpochsMax ? `epoch ${epoch}` : 'epoch';
      epochId = recorder?.beginAsync({ kind: 'span', name, category: 'fit', args: { epoch } }) ?? 0;
    },
    onBatchEnd(_batch, logs) {
      count(prof, logs, (name) => (notMetrics.has(name) ? undefined : name));
      prof.step();
    },
    onEpochEnd(_epoch, logs) {
      count(prof, logs, (name) => (name.startsWith('val_') ? name : `epoch ${name}`));
      endEpoch();
    },
    async onTrainEnd() {
      endEpoch();
      recorder = undefined;
      if (!isOurs) return;
      isOurs = false;
      if (leftOpen === prof) leftOpen = undefined;
      await prof.stop();
    },
  };
}

/** The batch size that `fit` passes to the callback that tfjs makes from ours and uses as `this`; `fitDataset` does not know it. */
function batchSizeOf(callback: unknown): number | undefined {
  const { batchSize } = (callback as { readonly params?: { readonly batchSize?: unknown } } | undefined)?.params ?? {};
  return typeof batchSize === 'number' && Number.isInteger(batchSize) ? batchSize : undefined;
}

function count(prof: Profile, logs: FitLogs | undefined, nameOf: (name: string) => string | undefined): void {
  for (const [key, value] of Object.entries(logs ?? {})) {
    const name = nameOf(key);
    if (name !== undefined && typeof value === 'number') prof.counter(name, value);
  }
}
