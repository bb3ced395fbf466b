// Hooks on a backend with a binding like that of tfjs-node; on the real one: test/native.

import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { detail } from '../model/detail.ts';
import { fixedStack } from '../testing/fixed-stack.ts';
import { type LibraryBackend, registerLibraryBackend } from '../testing/library-backend.ts';
import { OpRecording } from '../testing/op-recording.ts';
import type { TfjsEngine } from './engine.ts';
import { type EngineHookOptions, EngineHooks } from './engine-hooks.ts';

const engine = tf.engine() as unknown as TfjsEngine;
const backend = () => tf.backend() as unknown as LibraryBackend;
const removals: (() => void)[] = [];

beforeAll(async () => {
  registerLibraryBackend('library');
  registerLibraryBackend('library on a GPU', { isUsingGpuDevice: true });
  await tf.setBackend('library');
});
afterEach(() => {
  for (const remove of removals.splice(0).reverse()) remove();
});

function hook(options: Partial<EngineHookOptions> = {}): OpRecording {
  const recording = new OpRecording();
  const hooks = new EngineHooks(engine, recording, { modules: { path: '' }, stacks: fixedStack(''), ...options });
  removals.push(() => hooks.remove());
  return recording;
}

test('an array is a copy where a kernel first uses it, and a small one of a kernel is none', () => {
  const { binding } = backend();
  const recording = hook();
  const x = tf.tensor1d(new Float32Array(100));
  expect(recording.copies).toEqual([]);
  const calls = backend().calls.length;
  for (let use = 0; use < 2; use++) tf.relu(x);
  expect(recording.copies).toEqual(['tensor.upload 400']);
  expect(recording.outline).toEqual(['Relu', 'Relu']);
  expect(backend().calls.slice(calls)).toEqual([
    'createTensor 100',
    'createTensor 2',
    'executeOp Relu',
    'createTensor 2',
    'executeOp Relu',
  ]);
  for (const remove of removals.splice(0)) remove();
  expect(backend().binding).toBe(binding);
});

test('what the binding runs outside of kernels is an op', () => {
  const recording = hook();
  backend().decode();
  expect(recording.ops).toMatchObject([{ name: 'DecodePng', depth: 0, sequence: 0, signature: { 'Output Dims': [[2, 3]] } }]);
  recording.detail &= ~detail.ops;
  backend().decode();
  expect(recording.ops).toHaveLength(1);
});

test('a backend that is set later is followed', async () => {
  await tf.setBackend('cpu');
  const recording = hook();
  tf.tensor1d([1, 2]);
  expect(recording.copies).toEqual(['tensor.upload 8']);
  await tf.setBackend('library');
  const x = tf.tensor1d([1, 2, 3]);
  expect(recording.copies).toHaveLength(1);
  tf.relu(x);
  expect(recording.copies).toEqual(['tensor.upload 8', 'tensor.upload 12']);
});

test('an output in the buffer of its input is no allocation, and the last one frees the buffer', () => {
  const recording = hook();
  const bytes = () => recording.recordedBytes;
  const x = tf.relu(tf.zeros([4, 6]));
  const own = bytes();
  const flat = tf.reshape(x, [24]);
  const again = tf.reshape(flat, [6, 4]);
  expect(bytes()).toBe(own);
  expect(recording.ops.filter(({ name }) => name === 'Reshape').map(({ allocated }) => allocated)).toEqual([0, 0]);
  x.dispose();
  flat.dispose();
  expect(bytes()).toBe(own);
  again.dispose();
  expect(bytes()).toBe(own - 96);
  // One number more than `x`'s own memory: a buffer of another size is not shared.
  const cut = tf.slice(tf.relu(tf.zeros([33])), [0], [31]);
  expect(recording.memoryRecords.at(-1)?.bytes).not.toBe(0);
  cut.dispose();
  expect(recording.memoryRecords.at(-1)?.bytes).toBe(-124);
});

test('what was shared while nothing was recorded has a buffer of its own', () => {
  const recording = hook();
  const x = tf.relu(tf.zeros([10]));
  const shared = tf.reshape(x, [2, 5]);
  recording.detail &= ~detail.memory;
  x.dispose();
  tf.relu(shared);
  recording.detail |= detail.memory;
  tf.relu(shared);
  const before = recording.recordedBytes;
  shared.dispose();
  expect(recording.recordedBytes - before).toBe(-40);
});

test('a kernel that is composed of ops has the FLOPs that they have not', () => {
  const recording = hook();
  const flops = () => Object.fromEntries(recording.ops.map(({ name, signature }) => [name, signature.flops]));
  const [a, b, bias] = [tf.ones([2, 3]), tf.ones([3, 4]), tf.ones([4])] as [tf.Tensor2D, tf.Tensor2D, tf.Tensor1D];
  tf.fused.matMul({ a, b, bias });
  expect(flops()).toEqual({ BatchMatMul: 48, Add: 8, _FusedMatMul: undefined });
  recording.clear();
  tf.relu(tf.square(a));
  expect(flops()).toEqual({ Square: 6, Relu: 6 });
});

test('the fence waits on a GPU alone, for ops and not for the copies of what they save', async () => {
  const f = (x: tf.Tensor) => tf.sum(tf.mul(tf.square(x), tf.relu(x))) as tf.Scalar;
  backend().calls.length = 0;
  hook({ fence: true });
  tf.grad(f)(tf.tensor1d([1, -2, 3]));
  expect(backend().calls.filter((call) => call === 'executeOp Slice')).toEqual([]);

  await tf.setBackend('library on a GPU');
  const x = tf.relu(tf.tensor1d([1, -2, 3]));
  for (const remove of removals.splice(0)) remove();
  const plain = hook();
  tf.grad(f)(x);
  for (const remove of removals.splice(0)) remove();
  const recording = hook({ fence: true });
  const waited: string[] = [];
  const { readSync } = backend();
  backend().readSync = (dataId) => {
    waited.push(recording.openNames.at(-1) ?? 'nothing');
    return readSync.call(backend(), dataId);
  };
  removals.push(() => void Reflect.deleteProperty(backend(), 'readSync'));
  tf.grad(f)(x);
  expect(new Set(waited)).not.toContain('Identity');
  expect(waited.slice(0, 3)).toEqual(['Square', 'Relu', 'Multiply']);
  // Neither its slices nor their begins and sizes are recorded.
  expect(recording.ops.filter(({ name }) => name === 'Slice')).toEqual([]);
  expect(recording.copies).toEqual(plain.copies);
  await tf.setBackend('library');
});
