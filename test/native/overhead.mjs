// The cost of recording for a training step on tfjs-node, and the recorder's own figure: a convolutional network and Adam, some 260 ops a step.
//
//   node overhead.mjs '{"recordShapes":true}'      profile options as JSON text; one line on stdout
//
// Turns of 24 steps with recording and without; the first 8 of each do not count (V8 recompiles switched code). Times are of the main
// thread on its core (schedstat), so that other work on the machine disturbs little; each turn is compared with its neighbours.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ProfilerActivity, profile, recordFunction } from '@ranktrace/sdk';
import { threadRecorder } from '../../packages/sdk/dist/profile/thread-recorder.js';
import { mainModuleIn, nativeFolder } from './tfjs-node-build.mjs';

const warmUpSteps = 300;
const stepsPerTurn = 24;
const uncountedPerTurn = 8;
const turns = 60;
const uncountedTurns = 4;

const tf = createRequire(import.meta.url)(mainModuleIn(nativeFolder));
const options = JSON.parse(process.argv[2] ?? '{}');

const { conv2d, dense, flatten, maxPooling2d } = tf.layers;
const convolution = { kernelSize: 3, activation: 'relu', padding: 'same' };
const model = tf.sequential({
  layers: [
    ...[conv2d({ ...convolution, inputShape: [28, 28, 1], filters: 8 }), maxPooling2d({ poolSize: 2 })],
    ...[conv2d({ ...convolution, filters: 16 }), maxPooling2d({ poolSize: 2 })],
    ...[flatten(), dense({ units: 64, activation: 'relu' }), dense({ units: 10, activation: 'softmax' })],
  ],
});
const adam = tf.train.adam(0.001);
const images = tf.randomNormal([64, 28, 28, 1]);
const labels = tf.oneHot(tf.randomUniform([64], 0, 10, 'int32'), 10);
const train = () => {
  adam.minimize(() => tf.losses.softmaxCrossEntropy(labels, model.apply(images, { training: true })), true).dispose();
};

/** ms that the main thread ran. */
const ran = () => Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-overhead-'));
const prof = profile({ run: 'overhead', directory, overheadBudget: 1, tf, ...options }).start();
const recorder = threadRecorder();
const counted = [];
for (let turn = 0; turn <= turns; turn++) {
  const isRecorded = turn % 2 === 0;
  if (turn > 0) prof.toggleCollectionDynamic(isRecorded, [ProfilerActivity.CPU]);
  const took = [];
  let { overheadMs } = recorder;
  for (let step = 0; step < (turn === 0 ? warmUpSteps : stepsPerTurn); step++) {
    if (step === uncountedPerTurn) ({ overheadMs } = recorder);
    const from = ran();
    if (isRecorded) recordFunction('train', train);
    else train();
    if (isRecorded) prof.step();
    if (step >= uncountedPerTurn) took.push(ran() - from);
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (turn > uncountedTurns) counted.push({ isRecorded, took: mean(took), accounted: (recorder.overheadMs - overheadMs) / took.length });
}
await prof.stop();
rmSync(directory, { recursive: true });

const pairs = counted.flatMap((turn, at) => {
  const [before, after] = [counted[at - 1], counted[at + 1]];
  if (!turn.isRecorded || before === undefined || after === undefined) return [];
  const without = (before.took + after.took) / 2;
  return [{ without, extra: turn.took - without, accounted: turn.accounted }];
});
const [without, extra, accounted] = ['without', 'extra', 'accounted'].map((key) => median(pairs.map((pair) => pair[key])));
const share = (ms) => `${((100 * ms) / without).toFixed(1)} %`;
console.log(
  `a step of ${without.toFixed(1)} ms with ${JSON.stringify(options)}: ${share(extra)} longer (${extra.toFixed(2)} ms), ${share(accounted)} by the recorder's own account`,
);
