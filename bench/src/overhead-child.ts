// One profile of the benchmark `overhead`, in a process of its own: options as JSON text in, what the steps took back to the parent.
//
//   steps        | 1200 recorded: compiling, shedding, learning | turns of 10 without, 10 recorded: 1200 not counted, then 1200 that are
//   of each ten    the first two are not counted: the median of the others;  | without | recorded | without |
//                                                                                └─ extra ──┴── between its neighbours
//
// The first turns are not counted because V8 compiles anew what it finds switched off and on, which no training job does: in them a step of the
// always-on profile takes up to 40 µs more, later some 5.

import { type ProfileOptions, ProfilerActivity, profile, recordFunction } from '@ranktrace/sdk';
import { DigitTraining } from './digit-training.ts';
import { median } from './figure.ts';

/** ms. */
export interface MeasuredProfile {
  /** By turn with recording: what a step took between the turns before and after, and how much more with recording. */
  readonly without: readonly number[];
  readonly extra: readonly number[];
  /** What a step's own calls take, the work inside them left out: four phases and the step's end. */
  readonly phases: number;
}

const warmUpSteps = 1200;
const uncountedSteps = warmUpSteps + 1200;
const steps = uncountedSteps + 1200;
const stepsPerTurn = 10;
const uncountedPerTurn = 2;

/** Steps with and without recording in turn. */
async function measure(training: DigitTraining, options: ProfileOptions): Promise<Omit<MeasuredProfile, 'phases'>> {
  const prof = profile(options).start();
  const turns: number[] = [];
  let counted: number[] = [];
  for (let step = 0; step < steps; step++) {
    const turn = Math.floor(step / stepsPerTurn);
    const isRecorded = turn % 2 === 1;
    const isCounted = step >= uncountedSteps && step % stepsPerTurn >= uncountedPerTurn;
    if (step % stepsPerTurn === 0 && step >= warmUpSteps) prof.toggleCollectionDynamic(isRecorded, [ProfilerActivity.CPU]);
    const started = performance.now();
    training.step();
    if (isRecorded || step < warmUpSteps) prof.step();
    const took = performance.now() - started;
    if (isCounted) counted.push(took);
    if (isCounted && step % stepsPerTurn === stepsPerTurn - 1) {
      turns.push(median(counted));
      counted = [];
    }
    // As a loop that awaits its all-reduce does.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await prof.stop();
  const without: number[] = [];
  const extra: number[] = [];
  // The first turn is without.
  for (let at = 1; at + 1 < turns.length; at += 2) {
    const between = ((turns[at - 1] as number) + (turns[at + 1] as number)) / 2;
    without.push(between);
    extra.push((turns[at] as number) - between);
  }
  return { without, extra };
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
