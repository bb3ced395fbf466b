// What profiling adds to a training step: the example's own step (real digits, tfjs wasm, batch 32) with and without a profile.
//
// A block of steps with a profile lies between two without, and is compared to their mean, so that a machine that gets slower or faster
// meanwhile cancels out; a figure is the median over such triples of ratios of medians. What the two blocks without a profile differ by is
// the noise: an overhead below it has not been seen. Blocks begin with unmeasured steps: starting a profile is not a step's cost.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProfileOptions, profile, recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { Digits } from '../../examples/mnist-data-parallel/dist/digits.js';
import { Perceptron } from '../../examples/mnist-data-parallel/dist/perceptron.js';
import { batchesOf, shuffled } from '../../examples/mnist-data-parallel/dist/shards.js';
import { chooseBackend } from '../../examples/mnist-data-parallel/dist/tensor-backend.js';
import { type Figure, figure, median } from './figure.ts';

const triples = 12;
const stepsPerBlock = 200;
// Starting a profile costs its worker some 200 ms, once; and what recording takes of the steps is judged over seconds (detail-control.ts).
const warmUpMs = { bare: 400, alwaysOn: 4500, everything: 600 } as const;

type Mode = Exclude<keyof typeof warmUpMs, 'bare'>;

const modes: Readonly<Record<Mode, ProfileOptions>> = {
  alwaysOn: {},
  everything: { recordShapes: true, profileMemory: true },
};

interface Measured {
  readonly without: number;
  readonly withProfile: number;
  readonly ratio: number;
  readonly noise: number;
}

export async function overhead(): Promise<Figure[]> {
  await chooseBackend();
  const training = await Training.prepare();
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const bare = async (): Promise<number> => median(await training.run(() => {}, warmUpMs.bare));
  const measure = async (mode: Mode): Promise<Measured> => {
    const before = await bare();
    const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory, ...modes[mode] }).start();
    const withProfile = median(await training.run(() => prof.step(), warmUpMs[mode]));
    await prof.stop();
    const after = await bare();
    const without = (before + after) / 2;
    return { without, withProfile, ratio: withProfile / without, noise: Math.abs(after / before - 1) };
  };
  const measured: Record<Mode, Measured[]> = { alwaysOn: [], everything: [] };
  let recording = 0;
  try {
    await bare();
    for (let triple = 0; triple < triples; triple++) {
      measured.alwaysOn.push(await measure('alwaysOn'));
      measured.everything.push(await measure('everything'));
    }
    recording = await recordingMs(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const of = (mode: Mode, what: keyof Measured): number => median(measured[mode].map((triple) => triple[what]));
  const step = (mode: Mode, name: string, most: number): Figure => {
    const baseline = { name: 'the same step without a profile', value: of(mode, 'without') };
    return {
      name,
      value: of(mode, 'withProfile'),
      unit: 'ms',
      baseline,
      ratio: of(mode, 'ratio'),
      target: { at: 'most', value: most, of: 'ratio' },
    };
  };
  return [
    step('alwaysOn', 'training step, always-on profile', 1.005),
    step('everything', 'training step, every op with shapes and memory', 1.02),
    figure({
      name: 'of a step, what recording its spans costs the training thread by itself',
      value: (100 * recording) / of('alwaysOn', 'without'),
      unit: '%',
      target: { at: 'most', value: 0.5, of: 'value' },
    }),
    figure({ name: 'noise: two blocks without a profile differ by', value: 100 * of('alwaysOn', 'noise'), unit: '%' }),
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

  /** Times of a block's steps in ms, after a warm-up of `warmUpMs`. */
  async run(stepEnds: () => void, warmUpMs: number): Promise<number[]> {
    const times: number[] = [];
    const warmUntil = performance.now() + warmUpMs;
    while (times.length < stepsPerBlock) {
      const started = performance.now();
      this.#step();
      stepEnds();
      if (started >= warmUntil) times.push(performance.now() - started);
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
