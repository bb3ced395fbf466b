// One profile of the benchmark `overhead`, in a process of its own: options as JSON text in, what the steps took back to the parent.
//
//   steps        | 2400 recorded: compiling, shedding, learning | turns without and with recording: 60 not counted, then 121 that are
//   of a turn      the first two are not counted; the median of the others:   | without | recorded | without |
//                                                                                └─ extra ──┴── between its neighbours
//
// The first turns are not counted because V8 compiles anew what it finds switched off and on, which no training job does: in them a step of the
// always-on profile takes up to 40 µs more, later some 5. Turns are of eight to thirteen steps, at random: the buffers of a step lie where some
// step before had its own, which comes round every few steps, and a matrix that lies badly costs a step 100 µs.

import { type ProfileOptions, ProfilerActivity, profile, recordFunction } from '@ranktrace/sdk';
import type { Recorder } from '../../packages/sdk/dist/recorder.js';
import { threadRecorder } from '../../packages/sdk/dist/thread-recorder.js';
import { DigitTraining } from './digit-training.ts';
import { median } from './figure.ts';

/** ms. */
export interface MeasuredProfile {
  /** By turn with recording: what a step took between the turns before and after, and how much more with recording. */
  readonly without: readonly number[];
  readonly extra: readonly number[];
  /** The same as the recorder accounts for it: what every summary prints. */
  readonly accounted: readonly number[];
  /** What a step's own calls take, the work inside them left out: four phases and the step's end. */
  readonly phases: number;
}

const warmUpSteps = 2400;
const uncountedTurns = 60;
const turns = uncountedTurns + 121;
const stepsPerTurnMin = 8;
const stepsPerTurnMax = 13;
const uncountedPerTurn = 2;

/** A phase without recording: not even `recordFunction` with nothing to do. */
const call = <T>(_phase: string, run: () => T): T => run();

/** Steps with and without recording in turn. */
async function measure(training: DigitTraining, options: ProfileOptions): Promise<Omit<MeasuredProfile, 'phases'>> {
  const prof = profile(options).start();
  const recorder = threadRecorder() as Recorder;
  /** Gives what the step took, ms. */
  const run = async (isRecorded: boolean): Promise<number> => {
    const started = performance.now();
    training.step(isRecorded ? recordFunction : call);
    if (isRecorded) prof.step();
    const took = performance.now() - started;
    // As a loop that awaits its all-reduce does.
    await new Promise((resolve) => setImmediate(resolve));
    return took;
  };
  for (let step = 0; step < warmUpSteps; step++) await run(true);
  const took: number[] = [];
  const accounted: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const isRecorded = turn % 2 === 1;
    prof.toggleCollectionDynamic(isRecorded, [ProfilerActivity.CPU]);
    const steps = stepsPerTurnMin + Math.floor(Math.random() * (1 + stepsPerTurnMax - stepsPerTurnMin));
    const counted: number[] = [];
    let { overheadMs } = recorder;
    for (let step = 0; step < steps; step++) {
      const ms = await run(isRecorded);
      if (step >= uncountedPerTurn) counted.push(ms);
      else overheadMs = recorder.overheadMs;
    }
    if (turn < uncountedTurns) continue;
    took.push(median(counted));
    if (isRecorded) accounted.push((recorder.overheadMs - overheadMs) / counted.length);
  }
  await prof.stop();
  const without: number[] = [];
  const extra: number[] = [];
  // The first turn that counts is without, and so is the last.
  for (let at = 1; at + 1 < took.length; at += 2) {
    const between = ((took[at - 1] as number) + (took[at + 1] as number)) / 2;
    without.push(between);
    extra.push((took[at] as number) - between);
  }
  return { without, extra, accounted };
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
process.send?.({ ...measured, phases: await phasesMs(options) } satisfies MeasuredProfile);
process.disconnect?.();
