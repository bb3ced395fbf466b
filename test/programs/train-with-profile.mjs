// A training with a profile of its own, started after the first ops; it marks two steps itself, of three updates each.

import { profile } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';

await tf.setBackend('cpu');
const weights = tf.variable(tf.zeros([4, 1]));
const sgd = tf.train.sgd(0.01);
sgd.minimize(() => weights.square().sum());

const prof = profile({ run: 'own', recordShapes: true }).start();
for (let step = 0; step < 2; step++) {
  for (let update = 0; update < 3; update++) sgd.minimize(() => weights.square().sum());
  prof.step();
}
await prof.stop();
sgd.minimize(() => weights.square().sum());
console.log('steps:', prof.stepNum);
