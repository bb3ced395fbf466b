// What profiling adds to a training step: the example's own step (real digits, tfjs wasm, batch 32), ten steps with recording and ten without in
// turn, so that a machine that gets slower or faster meanwhile slows both; a figure is the ratio of their medians. The first steps of a turn
// are not counted, nor those in which code is still being compiled and detail over the budget is shed. What two halves of the steps without
// recording differ by is the noise. The shipper works on in both. Each figure is that of the median of three profiles: in one of some twenty
// the recorded steps, and they alone, take a few percent more, as where the system puts the shipper's thread beside the training's.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProfileOptions, ProfilerActivity, profile, recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { Digits } from '../../examples/mnist-data-parallel/dist/digits.js';
import { Perceptron } from '../../examples/mnist-data-parallel/dist/perceptron.js';
import { batchesOf, shuffled } from '../../examples/mnist-data-parallel/dist/shards.js';
import { chooseBackend } from '../../examples/mnist-data-parallel/dist/tensor-backend.js';
import { type Figure, figure, median } from './figure.ts';

const profilesPerMode = 3;
const steps = 8000;
const warmUpSteps = 3000;
const stepsPerTurn = 10;
const uncountedPerTurn = 2;

const modes = {
  alwaysOn: {},
  everything: { recordShapes: true, profileMemory: true },
  allOptions: { recordShapes: true, profileMemory: true, withFlops: true, withModules: true },
  // Some 35 ops a step that the training code calls itself: V8 walks the stack of each, 0.3 µs a frame.
  allOptionsAndStacks: { recordShapes: true, profileMemory: true, withFlops: true, withModules: true, withStack: true },
} as const satisfies Record<string, ProfileOptions>;

/** Medians, ms. */
interface Measured {
  readonly without: number;
  readonly recorded: number;
  /** |1 − ratio| of two halves of the steps without recording. */
  readonly noise: number;
}

export async function overhead(): Promise<Figure[]> {
  await chooseBackend();
  const training = await Training.prepare();
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    const alwaysOn = await training.measure(directory, modes.alwaysOn);
    const everything = await training.measure(directory, modes.everything);
    const allOptions = await training.measure(directory, modes.allOptions);
    const allOptionsAndStacks = await training.measure(directory, modes.allOptionsAndStacks);
    const recording = await recordingMs(directory);
    const step = (name: string, { recorded, without }: Measured, most?: number): Figure => {
      const baseline = { name: 'the same step without recording', value: without };
      const target = most === undefined ? undefined : ({ at: 'most', value: most, of: 'ratio' } as const);
      return figure({ name, value: recorded, unit: 'ms', baseline, ...(target && { target }) });
    };
    return [
      step('training step, always-on profile', alwaysOn, 1.005),
      step('training step, every op with shapes and memory', everything, 1.02),
      step('training step, FLOPs and modules as well', allOptions, 1.02),
      step('training step, the stack of each op as well', allOptionsAndStacks),
      figure({
        name: 'of a step, what recording its spans costs in a loop of nothing else',
        value: (100 * recording) / alwaysOn.without,
        unit: '%',
      }),
      figure({ name: 'noise: halves of the steps without recording differ by', value: 100 * alwaysOn.noise, unit: '%' }),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
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

  /** The median of some profiles. */
  async measure(directory: string, options: ProfileOptions): Promise<Measured> {
    const measured: Measured[] = [];
    for (let profiles = 0; profiles < profilesPerMode; profiles++) measured.push(await this.#measureOnce(directory, options));
    const ratio = ({ recorded, without }: Measured): number => recorded / without;
    return measured.sort((a, b) => ratio(a) - ratio(b))[profilesPerMode >> 1] as Measured;
  }

  /** Steps with and without recording in turn. */
  async #measureOnce(directory: string, options: ProfileOptions): Promise<Measured> {
    const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory, ...options }).start();
    const times = { recorded: [] as number[], without: [[], []] as [number[], number[]] };
    for (let step = 0; step < steps; step++) {
      const turn = Math.floor(step / stepsPerTurn);
      const isRecorded = turn % 2 === 1;
      const isCounted = step >= warmUpSteps && step % stepsPerTurn >= uncountedPerTurn;
      if (step % stepsPerTurn === 0 && step >= warmUpSteps) prof.toggleCollectionDynamic(isRecorded, [ProfilerActivity.CPU]);
      const started = performance.now();
      this.#step();
      if (isRecorded || step < warmUpSteps) prof.step();
      const took = performance.now() - started;
      if (isCounted) (isRecorded ? times.recorded : times.without[(turn >> 1) & 1 ? 1 : 0]).push(took);
      // As a loop that awaits its all-reduce does.
      await new Promise((resolve) => setImmediate(resolve));
    }
    await prof.stop();
    const [even, odd] = times.without;
    return { recorded: median(times.recorded), without: median([...even, ...odd]), noise: Math.abs(median(even) / median(odd) - 1) };
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
