// The example's model and loop (examples/mnist-data-parallel), a step at a time: real digits, batch 32, four phases that it names itself.

import * as tf from '@tensorflow/tfjs';
import { Digits } from '../../examples/mnist-data-parallel/dist/digits.js';
import { Perceptron } from '../../examples/mnist-data-parallel/dist/perceptron.js';
import { batchesOf, shuffled } from '../../examples/mnist-data-parallel/dist/shards.js';
import { chooseBackend } from '../../examples/mnist-data-parallel/dist/tensor-backend.js';

export class DigitTraining {
  readonly #model: Perceptron;
  readonly #digits: Digits;
  readonly #gradients: Float32Array;
  readonly #batches: readonly Uint32Array[];
  #next = 0;

  private constructor(digits: Digits) {
    this.#digits = digits;
    this.#model = new Perceptron();
    this.#gradients = new Float32Array(this.#model.parameterCount);
    this.#batches = batchesOf(shuffled(digits.train, 0), { rank: 0, worldSize: 1, batchSize: 32 });
  }

  static async prepare(): Promise<DigitTraining> {
    await chooseBackend();
    return new DigitTraining(await Digits.load());
  }

  /** `record`: `recordFunction`, or for a program without a profiler a plain call. */
  step(record: <T>(phase: string, run: () => T) => T): void {
    const chosen = this.#batches[this.#next++ % this.#batches.length] as Uint32Array;
    const batch = record('data', () => this.#digits.batch(chosen));
    const activations = record('forward', () => this.#model.forward(batch));
    record('backward', () => this.#model.backward(batch, activations, this.#gradients));
    record('optimizer', () => this.#model.update(this.#gradients));
    tf.dispose([batch.images, batch.labels, activations.hidden, activations.probabilities]);
  }
}
