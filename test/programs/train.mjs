// A training without any ranktrace code: a loop of its own, a loop with explicit gradients, and `model.fit`.
//
//   node train.mjs MINIMIZE_STEPS APPLY_STEPS FIT_BATCHES      prints its result in one line

import * as tf from '@tensorflow/tfjs';

const [minimizeSteps, applySteps, fitBatches] = process.argv.slice(2).map(Number);
await tf.setBackend('cpu');

const xs = tf.ones([8, 4]);
const ys = tf.ones([8, 1]);
const weights = tf.variable(tf.zeros([4, 1]));
const loss = () => tf.losses.meanSquaredError(ys, xs.matMul(weights));
const adam = tf.train.adam(0.01);
for (let step = 0; step < minimizeSteps; step++) adam.minimize(loss);

const sgd = tf.train.sgd(0.01);
for (let step = 0; step < applySteps; step++) {
  const { grads } = tf.variableGrads(loss, [weights]);
  sgd.applyGradients(grads);
}

if (fitBatches > 0) {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [4] })] });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await model.fit(tf.ones([fitBatches * 2, 4]), tf.ones([fitBatches * 2, 1]), { batchSize: 2, verbose: 0 });
}
console.log(`trained ${minimizeSteps} ${applySteps} ${fitBatches}`);
