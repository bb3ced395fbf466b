// What profiling adds to a training step: the example's own step (real digits, tfjs wasm, batch 32) with and without a profile.
//
// A block of steps with a profile lies between two without, and is compared to their mean, so that a machine that gets slower or faster
// meanwhile cancels out; a figure is the median over such triples of ratios of medians. What the two blocks without a profile differ by is
// the noise: an overhead below it has not been seen. Blocks begin with unmeasured steps: starting a profile is not a step's cost.

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

const triples = 20;
const stepsPerBlock = 200;
// Starting a profile costs its worker some 200 ms, once.
const warmUpSteps = 150;

export async function overhead(): Promise<Figure[]> {
  await chooseBackend();
  const training = await Training.prepare();
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const bare = async (): Promise<number> => median(await training.run(() => {}, stepsPerBlock));
  const measured: { without: number; withProfile: number; ratio: number; noise: number }[] = [];
  let recording = 0;
  try {
    await bare();
    for (let triple = 0; triple < triples; triple++) {
      const before = await bare();
      const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory }).start();
      const withProfile = median(await training.run(() => prof.step(), stepsPerBlock));
      await prof.stop();
      const after = await bare();
      const without = (before + after) / 2;
      measured.push({ without, withProfile, ratio: withProfile / without, noise: Math.abs(after / before - 1) });
    }
    recording = await recordingMs(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const of = (what: keyof (typeof measured)[number]): number => median(measured.map((triple) => triple[what]));
  const baseline = { name: 'the same step without a profile', value: of('without') };
  const target = { at: 'most', value: 1.005, of: 'ratio' } as const;
  return [
    { name: 'training step, always-on profile', value: of('withProfile'), unit: 'ms', baseline, ratio: of('ratio'), target },
    figure({
      name: 'of a step, what recording it costs the training thread by itself',
      value: (100 * recording) / of('without'),
      unit: '%',
      target: { at: 'most', value: 0.5, of: 'value' },
    }),
    figure({ name: 'noise: two blocks without a profile differ by', value: 100 * of('noise'), unit: '%' }),
  ];
}

/** ms that a step's own calls take, the work inside them left out: four phases and the step's end. */
async function recordingMs(directory: string): Promise<number> {
  const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory }).start();
  const nothing = (): void => {};
  const means: number[] = [];
  for (let round = 0; round < 41; round++) {
    const started = performance.now();
    for (let step = 0; step < 1000; step++) {
      for (const phase of ['data', 'forward', 'backward', 'optimizer']) recordFunction(phase, nothing);
      prof.step();
    }
    means.push((performance.now() - started) / 1000);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  await prof.stop();
  return median(means);
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
