// A worker thread fits a model, without any ranktrace code.

import { once } from 'node:events';
import { isMainThread, Worker } from 'node:worker_threads';

if (isMainThread) {
  await once(new Worker(new URL(import.meta.url)), 'exit');
} else {
  const tf = await import('@tensorflow/tfjs');
  await tf.setBackend('cpu');
  const model = tf.sequential({ name: 'net', layers: [tf.layers.dense({ units: 1, inputShape: [4], name: 'out' })] });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await model.fit(tf.ones([20, 4]), tf.ones([20, 1]), { batchSize: 2, verbose: 0 });
}
