// A training loop on TensorFlow's own library whose ops launch on a GPU that a fake libcupti plays: node gpu-training.mjs FAKE_LIBRARY TFJS_NODE STEPS
//
// Each op that reaches the library launches a kernel `void OP<float>` of 3 µs on stream 7, on the thread that runs the op, as TensorFlow's do on a GPU; in
// rank 1 those of Conv2DBackpropFilter take 300 µs. Prints how many kernels of each op were launched, as JSON.

import { createRequire } from 'node:module';
import { profile, recordFunction } from '@ranktrace/sdk';

const [fake, main, steps] = process.argv.slice(2);
const library = { exports: {} };
process.dlopen(library, fake);
const { launch, isRecording } = library.exports;
const tf = createRequire(import.meta.url)(main);
const rank = Number(process.env.RANK ?? 0);
const lengthOf = (op) => (rank === 1 && op === 'Conv2DBackpropFilter' ? 300_000 : 3000);

/** By op of the library. */
const launched = {};
let isTraining = false;
const backend = tf.backend();
const { binding } = backend;
const executeOp = (name, ...rest) => {
  if (isTraining) {
    launched[name] = (launched[name] ?? 0) + 1;
    launch(`void ${name}<float>`, 2000, lengthOf(name), 0, 7);
  }
  return binding.executeOp(name, ...rest);
};
const members = Object.entries(Object.getOwnPropertyDescriptors(binding)).map(([name, { value }]) => [name, value]);
backend.binding = { ...Object.fromEntries(members), executeOp };

const images = tf.randomNormal([8, 12, 12, 3], 0, 1, 'float32', 1);
const labels = tf.oneHot(tf.tensor1d([0, 1, 2, 3, 0, 1, 2, 3], 'int32'), 4);
const variables = [
  tf.variable(tf.randomNormal([3, 3, 3, 8], 0, 0.1, 'float32', 2)),
  tf.variable(tf.zeros([8])),
  tf.variable(tf.randomNormal([6 * 6 * 8, 4], 0, 0.1, 'float32', 3)),
];
const [filter, bias, weights] = variables;
const loss = () =>
  tf.tidy(() => {
    const features = tf.fused.conv2d({ x: images, filter, strides: 1, pad: 'same', bias, activation: 'relu' });
    const logits = tf.fused.matMul({ a: tf.maxPool(features, 2, 2, 'same').reshape([8, 6 * 6 * 8]), b: weights });
    return tf.losses.softmaxCrossEntropy(labels, logits);
  });
const optimizer = tf.train.adam(0.01);

const prof = profile({ activities: ['cpu', 'cuda'], withFlops: true, recordShapes: true });
await prof.start();
// Recording of kernels begins on another thread.
while (!isRecording()) await new Promise((resolve) => setTimeout(resolve, 20));
isTraining = true;
for (let step = 0; step < Number(steps); step++) {
  const { value, grads } = recordFunction('forward and backward', () => optimizer.computeGradients(loss, variables));
  recordFunction('optimizer', () => optimizer.applyGradients(grads));
  value.dataSync();
  tf.dispose([value, grads]);
  // Without gradients a fused op is one kernel of the engine.
  recordFunction('evaluation', () =>
    tf.tidy(() => tf.fused.conv2d({ x: images, filter, strides: 1, pad: 'same', bias, activation: 'relu' })),
  );
  prof.step();
}
// Ops of the library that no kernel of the engine runs.
recordFunction('without the engine', () => {
  const strides = { name: 'strides', type: binding.TF_ATTR_INT, value: [1, 1, 1, 1] };
  const type = { name: 'T', type: binding.TF_ATTR_TYPE, value: binding.TF_FLOAT };
  const padding = { name: 'padding', type: binding.TF_ATTR_STRING, value: 'SAME' };
  backend.executeSingleOutput('Conv2D', [type, strides, padding], [images, filter]);
  const transposed = { name: 'transpose_a', type: binding.TF_ATTR_BOOL, value: true };
  backend.executeSingleOutput('MatMul', [type, transposed], [weights, weights]);
  backend.executeSingleOutput('BiasAdd', [type], [images, tf.ones([3])]);
});
isTraining = false;
await prof.stop();
console.log(JSON.stringify(launched));
