import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { override } from './override.ts';

// These tests decide whether the package is loaded; test/zero-code.test.ts shows that it is found while a program loads it.
let isLoaded = false;
let looks = 0;
vi.doMock('./find-tfjs.ts', () => ({
  findTfjs: () => {
    looks++;
    return isLoaded ? tf : undefined;
  },
}));
const { awaitTfjs } = await import('./await-tfjs.ts');

await tf.setBackend('cpu');
const engine = tf.engine() as never as { runKernelFunc(call: unknown): unknown };
const ownHooks = () => ['runKernelFunc', 'makeTensor'].map((name) => Object.getOwnPropertyDescriptor(engine, name)?.value as unknown);
const x = tf.ones([2]);

beforeEach(() => {
  isLoaded = false;
  looks = 0;
});
afterEach(() => expect(ownHooks()).toEqual([undefined, undefined]));

test('a package that is loaded is found at once', () => {
  isLoaded = true;
  const found: unknown[] = [];
  awaitTfjs((namespace) => found.push(namespace));
  expect(found).toEqual([tf]);
});

test.each([
  ['an op', () => tf.relu(x)],
  ['a tensor', () => tf.tensor1d([1])],
])('one that loads later is found at %s, and nothing of it is left on the engine', (_what, run) => {
  let kernels = 0;
  const removeOther = override(engine, 'runKernelFunc', (original) => (call) => {
    kernels++;
    return original.call(engine, call);
  });
  const before = ownHooks();
  let found = 0;
  awaitTfjs(() => found++);
  expect(ownHooks()).not.toEqual(before);
  run();
  isLoaded = true;
  run();
  expect(found).toBe(1);
  expect(ownHooks()).toEqual(before);
  run();
  expect(found).toBe(1);
  removeOther();
  expect(kernels % 3).toBe(0);
});

test('it is looked for more and more seldom, and taken back it does nothing any more', () => {
  let found = 0;
  const stop = awaitTfjs(() => found++);
  for (let op = 0; op < 100; op++) tf.relu(x).dispose();
  expect(looks).toBe(1 + 7);
  isLoaded = true;
  stop();
  tf.relu(x);
  expect(found).toBe(0);
});

test('hooks that came after it take back what is left', () => {
  const stop = awaitTfjs(() => {});
  const removeOther = override(engine, 'runKernelFunc', (original) => (call) => original.call(engine, call));
  isLoaded = true;
  tf.relu(x);
  removeOther();
  stop();
});
