// Main and worker thread train a model each, without any ranktrace code.

import { once } from 'node:events';
import { isMainThread, Worker } from 'node:worker_threads';
import * as tf from '@tensorflow/tfjs';

await tf.setBackend('cpu');
const weights = tf.variable(tf.zeros([4, 1]));
const sgd = tf.train.sgd(0.01);
// A square in one thread, a product in the other, to distinguish them.
const loss = () => (isMainThread ? weights.square() : tf.mul(weights, weights)).sum();
for (let step = 0; step < 5; step++) sgd.minimize(loss);

if (isMainThread) {
  const [code] = await once(new Worker(new URL(import.meta.url)), 'exit');
  console.log(`worker ended with ${code}`);
}
