// What profiling adds to a training step: the example's own step (real digits, tfjs wasm, batch 32) with and without a profile.
//
// Short blocks with and without alternate in one process, so that a slow minute of the machine falls on both; steps are compared by their
// medians. Blocks begin with unmeasured steps: starting a profile is not a step's cost.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { profile, recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { Digits } from '../../examples/mnist-data-parallel/dist/digits.js';
import { Perceptron } from '../../examples/mnist-data-parallel/dist/perceptron.js';
import { batchesOf, shuffled } from '../../examples/mnist-data-parallel/dist/shards.js';
import { chooseBackend } from '../../examples/mnist-data-parallel/dist/tensor-backend.js';
import { type Figure, figure, median } from './figure.ts';

const blocks = 10;
const stepsPerBlock = 600;
// Starting a profile costs its worker a few hundred ms, once.
const warmUpSteps = 300;

export async function overhead(): Promise<Figure[]> {
  await chooseBackend();
  const training = await Training.prepare();
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const without: number[] = [];
  const withProfile: number[] = [];
  try {
    await training.run(() => {}, stepsPerBlock);
    for (let block = 0; block < blocks; block++) {
      without.push(...(await training.run(() => {}, stepsPerBlock)));
      const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory }).start();
      withProfile.push(...(await training.run(() => prof.step(), stepsPerBlock)));
      await prof.stop();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const baseline = { name: 'the same step without a profile', value: median(without) };
  const step = figure({
    name: 'training step, always-on profile',
    value: median(withProfile),
    unit: 'ms',
    baseline,
    target: { at: 'most', value: 1.005, of: 'ratio' },
  });
  return [step];
}

/** The example's model and loop, a step at a time. */
class Training {
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

  static async prepare(): Promise<Training> {
    return new Training(await Digits.load());
  }

  /** Times of `steps` steps in ms, after the warm-up. */
  async run(stepEnds: () => void, steps: number): Promise<number[]> {
    const times: number[] = [];
    for (let step = -warmUpSteps; step < steps; step++) {
      const started = performance.now();
      this.#step();
      stepEnds();
      if (step >= 0) times.push(performance.now() - started);
      // As a loop that awaits its all-reduce does.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return times;
  }

  #step(): void {
    const chosen = this.#batches[this.#next++ % this.#batches.length] as Uint32Array;
    const batch = recordFunction('data', () => this.#digits.batch(chosen));
    const activations = recordFunction('forward', () => this.#model.forward(batch));
    recordFunction('backward', () => this.#model.backward(batch, activations, this.#gradients));
    recordFunction('optimizer', () => this.#model.update(this.#gradients));
    tf.dispose([batch.images, batch.labels, activations.hidden, activations.probabilities]);
  }
}
