import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { awaitSteps } from './await-steps.ts';
import { override } from './override.ts';

// That the package is found while a program loads it is test/zero-code.test.ts's to show: here it is loaded already.

await tf.setBackend('cpu');
const engine = tf.engine() as never as { runKernelFunc(call: unknown): unknown };
const ownHook = () => Object.getOwnPropertyDescriptor(engine, 'runKernelFunc')?.value as unknown;
const weights = tf.variable(tf.zeros([2]));
const sgd = tf.train.sgd(0.1);
const minimize = () => void sgd.minimize(() => weights.square().sum() as tf.Scalar);

test('steps are found from the first op on, and nothing of it is left on the engine', () => {
  let kernels = 0;
  const removeOther = override(engine, 'runKernelFunc', (original) => (call) => {
    kernels++;
    return original.call(engine, call);
  });
  const other = ownHook();
  let steps = 0;
  const remove = awaitSteps(() => steps++);
  expect(ownHook()).not.toBe(other);
  for (let step = 0; step < 3; step++) minimize();
  expect(steps).toBe(3);
  expect(ownHook()).toBe(other);
  expect(kernels).toBeGreaterThan(3);
  remove();
  removeOther();
  minimize();
  expect(steps).toBe(3);
  expect(ownHook()).toBeUndefined();
});

test('taken back before the first op, it does nothing any more', () => {
  let steps = 0;
  awaitSteps(() => steps++)();
  expect(ownHook()).toBeUndefined();
  minimize();
  expect(steps).toBe(0);
});
