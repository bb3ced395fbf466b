// Real optimizers and models; a step is one update of weights.

import * as tf from '@tensorflow/tfjs';
import { beforeAll, expect, test } from 'vitest';
import { findSteps } from './step-finder.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const optimizerClasses = [
  tf.Optimizer,
  tf.SGDOptimizer,
  tf.MomentumOptimizer,
  tf.RMSPropOptimizer,
  tf.AdamOptimizer,
  tf.AdamaxOptimizer,
  tf.AdagradOptimizer,
  tf.AdadeltaOptimizer,
];
const methodsOf = () =>
  optimizerClasses.map(({ prototype }) => [
    Object.getOwnPropertyDescriptor(prototype, 'minimize')?.value,
    Object.getOwnPropertyDescriptor(prototype, 'applyGradients')?.value,
  ]);

function counting<T>(run: (steps: () => number) => T): T {
  const before = methodsOf();
  let steps = 0;
  const remove = findSteps(tf, () => steps++);
  try {
    return run(() => steps);
  } finally {
    remove();
    expect(methodsOf()).toEqual(before);
  }
}

const weight = () => tf.variable(tf.tensor1d([1, 2]));
const loss = (w: tf.Variable) => () => tf.mean(tf.square(w)) as tf.Scalar;

test.each(['sgd', 'momentum', 'rmsprop', 'adam', 'adamax', 'adagrad', 'adadelta'] as const)('each update of %s is a step', (name) => {
  counting((steps) => {
    const optimizer = tf.train[name](0.1, 0.9);
    const w = weight();
    optimizer.minimize(loss(w), false, [w]);
    expect(steps()).toBe(1);
    const { grads } = tf.variableGrads(loss(w), [w]);
    optimizer.applyGradients(grads as tf.NamedTensorMap as never);
    expect(steps()).toBe(2);
    // A program that gathers gradients over batches has one step per update.
    tf.dispose([tf.variableGrads(loss(w), [w]).grads, grads]);
    expect(steps()).toBe(2);
  });
});

test('each batch of fit and trainOnBatch is a step', async () => {
  let steps = 0;
  const remove = findSteps(tf, () => steps++);
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
  model.compile({ optimizer: 'adam', loss: 'meanSquaredError' });
  await model.fit(tf.ones([10, 2]), tf.ones([10, 1]), { batchSize: 4, epochs: 2, verbose: 0 });
  expect(steps).toBe(6);
  await model.trainOnBatch(tf.ones([4, 2]), tf.ones([4, 1]));
  expect(steps).toBe(7);
  model.predict(tf.ones([4, 2]));
  expect(steps).toBe(7);
  remove();
  await model.trainOnBatch(tf.ones([4, 2]), tf.ones([4, 1]));
  expect(steps).toBe(7);
});

test("an optimizer of the program's own counts once, whatever it calls of the one that it derives from", () => {
  class Clipped extends tf.SGDOptimizer {
    override applyGradients(gradients: tf.NamedTensorMap): void {
      super.applyGradients(gradients);
      super.applyGradients(gradients);
    }
  }
  counting((steps) => {
    const w = weight();
    new Clipped(0.1).minimize(loss(w), false, [w]);
    expect(steps()).toBe(1);
  });
});

test('an update that throws is no step, and the next one is', () => {
  counting((steps) => {
    const w = weight();
    const optimizer = tf.train.sgd(0.1);
    const boom = new Error('boom');
    expect(() =>
      optimizer.minimize(
        () => {
          throw boom;
        },
        false,
        [w],
      ),
    ).toThrow(boom);
    expect(steps()).toBe(0);
    optimizer.minimize(loss(w), false, [w]);
    expect(steps()).toBe(1);
  });
});

test('results pass through', () => {
  counting(() => {
    const w = weight();
    expect(tf.train.sgd(0.1).minimize(loss(w), true, [w])?.dataSync()[0]).toBe(2.5);
  });
});
