// A training loop whose ops launch kernels on a GPU that a fake libcupti plays: node gpu-training.mjs FAKE_LIBRARY STEPS
//
// Each step: a matMul that launches `gemm` on stream 7, and in rank 1 a slow one; then a relu that launches `relu` on stream 14. QUEUE_MS: how far the host is
// ahead of its device.

import { profile, recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';

const [fake, steps] = process.argv.slice(2);
const module = { exports: {} };
process.dlopen(module, fake);
const { launch, isRecording } = module.exports;
const rank = Number(process.env.RANK ?? 0);
const delay = 1e6 * Number(process.env.QUEUE_MS ?? 0.02);
const length = rank === 1 ? 6_000_000 : 2_000_000;

await tf.setBackend('cpu');
const [left, right] = [tf.ones([16, 16]), tf.ones([16, 16])];
/** An op of TensorFlow.js whose kernel of the CPU launches one on the GPU, as tfjs-node-gpu's do. */
const kernels = { BatchMatMul: ['gemm', length, 7], Relu: ['relu', 500_000, 14] };
for (const [name, [kernel, time, stream]] of Object.entries(kernels)) {
  const own = tf.getKernel(name, 'cpu');
  tf.unregisterKernel(name, 'cpu');
  const kernelFunc = (args) => {
    launch(`void ${kernel}<float>`, delay, time, 0, stream);
    return own.kernelFunc(args);
  };
  tf.registerKernel({ ...own, kernelFunc });
}

const prof = profile({ activities: ['cpu', 'cuda'] });
await prof.start();
// Recording of kernels begins on another thread.
while (process.env.NO_WAIT !== '1' && !isRecording()) await new Promise((resolve) => setTimeout(resolve, 20));
for (let step = 0; step < Number(steps); step++) {
  recordFunction('forward', () => tf.tidy(() => tf.relu(tf.matMul(left, right)).dataSync()));
  const until = performance.now() + 8;
  while (performance.now() < until);
  prof.step();
}
await prof.stop();
if (process.env.TABLE === '1') {
  console.log(`CUDA's driver would load ${process.env.CUDA_INJECTION64_PATH}`);
  console.log(prof.keyAverages().table({ sortBy: process.env.SORT ?? 'cudaTimeTotal' }));
}
