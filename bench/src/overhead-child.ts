// One profile of the benchmark `overhead`, in a process of its own: options as JSON text in, step times back to the parent.
//
//   steps        | 1800 recorded: compiling, shedding, learning | turns without and with recording: 20 not counted, 81 that are
//   of a turn      the first eight are not counted; the others:               | without | recorded | without |
//                                                                                └─ extra ──┴── between its neighbours
//
// Effects of switching alone are not counted, because no training job switches ten times a second: V8 recompiles switched code, and
// code that did not run for a turn has left the caches (the first recorded step of a turn takes 100 µs more, the third 50 to 80, those from the
// eighth on some 45, with all options). Turns are of 20 to 27 steps, at random: the buffers of a step lie where some step before had its own,
// which recurs every few steps, and a badly placed matrix costs a step 100 µs.

import { type ProfileOptions, ProfilerActivity, profile, recordFunction } from '@ranktrace/sdk';
import { threadRecorder } from '../../packages/sdk/dist/profile/thread-recorder.js';
import type { Recorder } from '../../packages/sdk/dist/record/recorder.js';
import { DigitTraining } from './digit-training.ts';
import { median } from './figure.ts';

/** ms. */
export interface MeasuredProfile {
  /** By turn with recording. */
  readonly turns: readonly MeasuredTurn[];
  /** Time of a step's own calls, without the work inside them: four phases and the step's end. */
  readonly phases: number;
}

/** ms. */
export interface MeasuredTurn {
  /** Step time in the turns before and after, and the increase with recording. */
  readonly without: number;
  readonly extra: number;
  /** The same for the mean step: with rare events, such as a garbage collection, or a walked stack. */
  readonly extraOfMean: number;
  /** The increase of the mean step by the recorder's own account, which every summary prints. */
  readonly accounted: number;
}

const warmUpSteps = 1800;
const uncountedTurns = 20;
const countedTurns = 81;
const stepsPerTurnMin = 20;
const stepsPerTurnMax = 27;
const uncountedPerTurn = 8;

/** A phase without recording: not even `recordFunction` with nothing to do. */
const call = <T>(_phase: string, run: () => T): T => run();

/** Steps with and without recording in turn; the first turn, with recording, warms up. */
async function measure(training: DigitTraining, options: ProfileOptions): Promise<MeasuredTurn[]> {
  const prof = profile(options).start();
  const recorder = threadRecorder() as Recorder;
  const counted: { readonly median: number; readonly mean: number; readonly accounted: number }[] = [];
  for (let turn = 0; turn <= uncountedTurns + countedTurns; turn++) {
    const isRecorded = turn % 2 === 0;
    if (turn > 0) prof.toggleCollectionDynamic(isRecorded, [ProfilerActivity.CPU]);
    const steps = turn === 0 ? warmUpSteps : stepsPerTurnMin + Math.floor(Math.random() * (1 + stepsPerTurnMax - stepsPerTurnMin));
    const took: number[] = [];
    let { overheadMs } = recorder;
    for (let step = 0; step < steps; step++) {
      const started = performance.now();
      training.step(isRecorded ? recordFunction : call);
      if (isRecorded) prof.step();
      if (step >= uncountedPerTurn) took.push(performance.now() - started);
      else overheadMs = recorder.overheadMs;
      // A loop that awaits its all-reduce does the same.
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (turn <= uncountedTurns) continue;
    const mean = took.reduce((sum, ms) => sum + ms, 0) / took.length;
    counted.push({ median: median(took), mean, accounted: (recorder.overheadMs - overheadMs) / took.length });
  }
  await prof.stop();
  // The first one that counts is without, and so is the last.
  return counted.flatMap((turn, at) => {
    const [before, after] = [counted[at - 1], counted[at + 1]];
    if (at % 2 === 0 || before === undefined || after === undefined) return [];
    const without = (before.median + after.median) / 2;
    const extraOfMean = turn.mean - (before.mean + after.mean) / 2;
    return [{ without, extra: turn.median - without, extraOfMean, accounted: turn.accounted }];
  });
}

/** ms per step, in a loop of nothing else. */
async function phasesMs(options: ProfileOptions): Promise<number> {
  const prof = profile(options).start();
  const nothing = (): void => {};
  const means: number[] = [];
  for (let round = 0; round < 11; round++) {
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

const options = JSON.parse(process.argv[2] as string) as ProfileOptions;
const measured = await measure(await DigitTraining.prepare(), options);
process.send?.({ turns: measured, phases: await phasesMs(options) } satisfies MeasuredProfile);
process.disconnect?.();
