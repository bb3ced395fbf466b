// Real TensorFlow.js with hooks, on a clock that moves only for the measured calls.

import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { allDetail } from '../model/detail.ts';
import { fixedStack } from '../testing/fixed-stack.ts';
import { OpRecording } from '../testing/op-recording.ts';
import type { TfjsEngine } from './engine.ts';
import { EngineHooks } from './engine-hooks.ts';

const engine = tf.engine() as unknown as TfjsEngine;
const calls = 3100;
let remove = () => {};

beforeAll(async () => {
  await tf.setBackend('cpu');
});

afterEach(() => remove());

/** Hooks, and a clock; each call of the recorder's `method` takes 0.01 ms, each new buffer of the backend takes 5. */
function hook(method: 'beginOp' | 'endOp' | 'memory' | 'memoryCategory' | 'endCopy'): OpRecording {
  let ms = 0;
  const recording = new OpRecording();
  recording.detail = allDetail;
  const record = recording[method] as (...args: unknown[]) => unknown;
  Object.assign(recording, {
    [method]: (...args: unknown[]) => {
      ms += 0.01;
      return record.apply(recording, args);
    },
  });
  const backend = tf.backend() as unknown as { write(...args: unknown[]): unknown };
  const { write } = backend;
  backend.write = (...args) => {
    ms += 5;
    return write.apply(backend, args);
  };
  const hooks = new EngineHooks(engine, recording, { modules: { path: '' }, stacks: fixedStack('train.ts(1): step'), now: () => ms });
  remove = () => {
    hooks.remove();
    Reflect.deleteProperty(backend, 'write');
  };
  return recording;
}

const x = tf.ones([2]);

test.each([
  ['beginOp', 1, () => tf.square(x).dispose()],
  ['endOp', 1, () => tf.square(x).dispose()],
  // For an input tensor: its buffer, its category (input), and its end.
  ['memory', 2, () => tf.tensor1d([1, 2]).dispose()],
  ['memoryCategory', 1, () => tf.tensor1d([1, 2]).dispose()],
  ['endCopy', 1, () => tf.tensor1d([1, 2]).dispose()],
  ['endCopy', 1, () => x.dataSync()],
] as const)('what %s takes counts, %i of them a call; what the engine does meanwhile does not', (method, records, call) => {
  const recording = hook(method);
  for (let times = 0; times < calls; times++) call();
  expect(recording.overheadMs / (calls * records * 0.01)).toBeGreaterThan(0.95);
  expect(recording.overheadMs / (calls * records * 0.01)).toBeLessThan(1.05);
});

test('what is reported of gradients and of what is kept for them counts', () => {
  const recording = hook('memoryCategory');
  const gradient = tf.grad((input) => tf.square(input));
  for (let times = 0; times < calls; times++) gradient(x).dispose();
  const reported = recording.categories.length;
  expect(reported).toBeGreaterThan(calls);
  expect(recording.overheadMs / (reported * 0.01)).toBeGreaterThan(0.9);
  expect(recording.overheadMs / (reported * 0.01)).toBeLessThan(1.1);
});
