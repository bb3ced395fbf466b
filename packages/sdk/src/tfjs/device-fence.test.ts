// A backend with a device, as far as the fence can see: the cpu backend under another name, with its reads counted.

import * as tf from '@tensorflow/tfjs';
import { MathBackendCPU } from '@tensorflow/tfjs-backend-cpu';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { fixedStack } from '../testing/fixed-stack.ts';
import { OpRecording } from '../testing/op-recording.ts';
import type { TfjsEngine } from './engine.ts';
import { EngineHooks } from './engine-hooks.ts';

const reads: number[] = [];

class CountingBackend extends MathBackendCPU {
  override readSync(dataId: object) {
    const values = super.readSync(dataId);
    reads.push(values.length);
    return values;
  }
}

const engine = tf.engine() as unknown as TfjsEngine;
const removals: (() => void)[] = [];

function hook(): OpRecording {
  const recording = new OpRecording();
  const stacks = fixedStack('');
  const hooks = new EngineHooks(engine, recording, { fence: true, modules: { path: '' }, stacks });
  removals.push(() => hooks.remove());
  return recording;
}

beforeAll(async () => {
  tf.registerBackend('counting', () => new CountingBackend());
  tf.copyRegisteredKernels('cpu', 'counting');
  await tf.setBackend('counting');
});
afterEach(() => {
  for (const remove of removals.splice(0)) remove();
});

test('each op waits for one element of its output, and nothing of that is left', async () => {
  const x = tf.ones([50, 2]);
  const before = tf.memory();
  const plain = await tf.profile(() => tf.neg(x).dispose());
  reads.length = 0;
  const recording = hook();
  tf.neg(x).dispose();
  tf.sum(x).dispose();
  expect(reads).toEqual([1, 1]);
  expect(recording.outline.filter((name) => name.trim() === 'Slice')).toEqual([]);
  expect(recording.copies).toEqual([]);
  expect(recording.recordedBytes).toBe(0);
  expect(tf.memory()).toEqual(before);
  const hooked = await tf.profile(() => tf.neg(x).dispose());
  expect(hooked.kernelNames).toEqual(plain.kernelNames);
  const scope = tf.tidy(() => {
    tf.neg(x);
    return engine.state.activeScope?.track.length;
  });
  expect(scope).toBe(1);
});

test('gradients are those without a fence', () => {
  const f = (x: tf.Tensor) => tf.sum(tf.mul(tf.square(x), tf.relu(x))) as tf.Scalar;
  const x = tf.tensor1d([1, -2, 3]);
  const plain = [...tf.grad(f)(x).dataSync()];
  const before = tf.memory().numTensors;
  const recording = hook();
  const gradient = tf.grad(f)(x);
  expect([...gradient.dataSync()]).toEqual(plain);
  expect(tf.memory().numTensors).toBe(before + 1);
  expect(recording.ops.some(({ name }) => name === 'Slice')).toBe(false);
  expect(recording.ops.some(({ sequence }) => sequence < 0)).toBe(true);
});

test('outputs that have nothing to cut are not cut', () => {
  hook();
  const strings = tf.tensor1d(['a', 'b']);
  reads.length = 0;
  tf.reshape(strings, [2, 1]);
  tf.neg(tf.zeros([0, 3]));
  expect(reads).toEqual([]);
  tf.complex([1, 2], [3, 4]);
  expect(reads.length).toBeGreaterThan(0);
});

test('an op whose fence fails is an op that went well', () => {
  const x = tf.ones([4]);
  tf.unregisterKernel('Slice', 'counting');
  const recording = hook();
  expect([...tf.neg(x).dataSync()]).toEqual([-1, -1, -1, -1]);
  expect(recording.outline).toEqual(['Neg']);
  expect(recording.openDepth).toBe(0);
});

test('backends that compute before they return are not waited for', async () => {
  await tf.setBackend('cpu');
  const x = tf.ones([4]);
  const recording = hook();
  const before = tf.memory();
  tf.neg(x).dispose();
  expect(recording.outline).toEqual(['Neg']);
  expect(tf.memory()).toEqual(before);
});
