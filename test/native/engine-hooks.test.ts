// The events that the hooks record of TensorFlow.js on TensorFlow's own library.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tensor, Tensor2D, Tensor4D } from '@tensorflow/tfjs';
import { afterEach, expect, test } from 'vitest';
import { fixedStack } from '../../packages/sdk/src/testing/fixed-stack.ts';
import { OpRecording } from '../../packages/sdk/src/testing/op-recording.ts';
import type { TfjsEngine } from '../../packages/sdk/src/tfjs/engine.ts';
import { type EngineHookOptions, EngineHooks } from '../../packages/sdk/src/tfjs/engine-hooks.ts';
import { loadNativeTfjs } from './native-tfjs.ts';

const tf = loadNativeTfjs();
const engine = tf.engine() as unknown as TfjsEngine;
const backend = tf.backend() as unknown as { binding: object };
const { binding } = backend;
const removals: (() => void)[] = [];

afterEach(() => {
  for (const remove of removals.splice(0)) remove();
  expect(backend.binding).toBe(binding);
});

function hook(options: Partial<EngineHookOptions> = {}): OpRecording {
  const recording = new OpRecording();
  const hooks = new EngineHooks(engine, recording, { modules: { path: '' }, stacks: fixedStack(''), ...options });
  removals.push(() => hooks.remove());
  return recording;
}

const temporary = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-native-'));
  removals.push(() => rmSync(folder, { recursive: true }));
  return folder;
};

test('an array is copied where the first op uses it, once', () => {
  const recording = hook();
  const x = tf.tensor2d(new Float32Array(2 ** 20), [1024, 1024]);
  expect(recording.copies).toEqual([]);
  tf.relu(x);
  expect(recording.copies).toEqual([`tensor.upload ${2 ** 22}`]);
  tf.relu(x);
  expect(recording.copies).toHaveLength(1);
});

test('the small arrays that a kernel makes for itself are part of it', () => {
  const x = tf.relu(tf.ones([64, 64]));
  const recording = hook();
  tf.tidy(() => tf.sum(tf.slice(tf.reshape(tf.transpose(x), [32, 128]), [1, 1], [16, 16]), 1));
  expect(recording.outline).toEqual(['Transpose', 'Reshape', 'Slice', 'Sum']);
  expect(recording.copies).toEqual([]);
  tf.add(x, tf.scalar(2));
  expect(recording.copies).toEqual(['tensor.upload 4']);
});

test('an op that copies its array says so inside of itself', () => {
  const recording = hook();
  const begun: string[] = [];
  const { beginCopy, beginOp } = recording;
  recording.beginOp = (name) => {
    begun.push(recording.texts[name] as string);
    return beginOp.call(recording, name);
  };
  recording.beginCopy = (name) => {
    begun.push(recording.texts[name] as string);
    return beginCopy.call(recording, name);
  };
  tf.relu(tf.tensor1d([1, 2, 3]));
  expect(begun).toEqual(['Relu', 'tensor.upload']);
});

test('images, summaries and saved models are ops', async () => {
  const png = await tf.node.encodePng(tf.zeros([4, 5, 3], 'int32'));
  const recording = hook();
  tf.node.decodeImage(png, 3);
  const writer = tf.node.summaryFileWriter(temporary());
  writer.scalar('loss', 1, 7);
  writer.flush();
  await tf.node.encodePng(tf.zeros([4, 5, 3], 'int32'));
  const names = recording.ops.map(({ name }) => name);
  expect(names.filter((name) => name !== 'Cast')).toEqual([
    ...['DecodePng', 'SummaryWriter', 'CreateSummaryFileWriter', 'WriteScalarSummary', 'FlushSummaryWriter', 'EncodePng'],
  ]);
  const [decode] = recording.ops;
  expect(decode?.signature).toMatchObject({ 'Output Dims': [[4, 5, 3]], 'Output type': ['int32'], kernel_backend: 'tensorflow' });
  expect(recording.copies).toContain(`tensor.upload ${png.length}`);
});

test('a saved model runs as one op, with its failures', async () => {
  const recording = hook();
  await expect(tf.node.loadSavedModel(temporary())).rejects.toThrow();
  const { binding: hooked } = backend as unknown as { binding: Record<string, (...args: unknown[]) => unknown> };
  expect(() => hooked.runSavedModel?.(99, [], '', '')).toThrow();
  expect(() => hooked.loadSavedModel?.('/nowhere', 'serve')).toThrow();
  expect(recording.ops.map(({ name }) => name)).toEqual(['RunSavedModel', 'LoadSavedModel']);
  expect(recording.openDepth).toBe(0);
});

test('FLOPs of a composed kernel count once', () => {
  const recording = hook();
  const flops = () => recording.ops.reduce((sum, { signature }) => sum + Number(signature.flops ?? 0), 0);
  const of = (run: () => unknown): number => {
    recording.clear();
    tf.tidy(() => void run());
    return flops();
  };
  const [m, k, n] = [128, 256, 256];
  const a = tf.ones([m, k]) as Tensor2D;
  const b = tf.ones([k, n]) as Tensor2D;
  const bias = tf.ones([n]);
  const elements = m * n;
  expect(of(() => tf.fused.matMul({ a, b }))).toBe(2 * m * k * n);
  // As with the three ops.
  expect(of(() => tf.fused.matMul({ a, b, bias, activation: 'relu' }))).toBe(2 * m * k * n + 2 * elements);
  expect(of(() => tf.relu(tf.add(tf.matMul(a, b), bias)))).toBe(2 * m * k * n + 2 * elements);
  const x = tf.ones([2, 8, 8, 3]) as Tensor4D;
  const filter = tf.ones([3, 3, 3, 4]) as Tensor4D;
  const conv = 2 * (2 * 8 * 8 * 4) * (3 * 3 * 3);
  const fused = { x, filter, strides: 1, pad: 'same' as const, bias: tf.ones([4]), activation: 'relu' as const };
  expect(of(() => tf.conv2d(x, filter, 1, 'same'))).toBe(conv);
  expect(of(() => tf.fused.conv2d(fused))).toBe(conv + 2 * (2 * 8 * 8 * 4));
  expect(of(() => tf.einsum('ij,jk->ik', a, b))).toBe(2 * m * k * n);
  expect(of(() => tf.leakyRelu(a))).toBe(m * k);
  expect(of(() => tf.prelu(a, tf.ones([m, k])))).toBeGreaterThan(m * k - 1);
});

const mebibyte = 2 ** 20;

test.for<[name: string, run: (x: Tensor2D) => Tensor | Tensor[], own: number]>([
  ['reshape', (x) => tf.reshape(x, [256, 1024]), 0],
  ['expandDims', (x) => tf.expandDims(x, 1), 0],
  ['squeeze', (x) => tf.squeeze(tf.expandDims(x, 1)), 0],
  ['slice of rows', (x) => tf.slice(x, [1, 0], [100, 512]), 0],
  ['slice of columns', (x) => tf.slice(x, [0, 1], [512, 16]), 512 * 16 * 4],
  ['aligned slice of a row', (x) => tf.slice(tf.reshape(x, [-1]), [16], [32]), 0],
  ['slice off alignment', (x) => tf.slice(tf.reshape(x, [-1]), [3], [32]), 32 * 4],
  ['slice that ends off alignment', (x) => tf.slice(tf.reshape(x, [-1]), [16], [31]), 31 * 4],
  ['rows of odd length', (x) => tf.slice(tf.reshape(x, [-1, 2]), [1, 0], [10, 2]), 10 * 2 * 4],
  ['cast to its type', (x) => tf.engine().runKernel('Cast', { x }, { dtype: 'float32' }) as never, 0],
  ['cast to another', (x) => tf.cast(x, 'int32'), mebibyte],
  ['unstack', (x) => tf.unstack(x).slice(0, 512), 0],
  ['split of rows', (x) => tf.split(x, 2, 0), 0],
  ['split of columns', (x) => tf.split(x, 2, 1), mebibyte],
  ['transpose', (x) => tf.transpose(x), mebibyte],
  ['transpose of nothing', (x) => tf.transpose(tf.expandDims(x, 0), [1, 0, 2]), 0],
  ['sum over one', (x) => tf.sum(tf.expandDims(x, 0), 0), 0],
  ['sum', (x) => tf.sum(x, 0), 512 * 4],
  ['stack of one', (x) => tf.stack([x]), 0],
  ['relu', (x) => tf.relu(x), mebibyte],
  ['clone', (x) => tf.clone(x), 0],
])('%s: its own bytes', ([, run, own]) => {
  const recording = hook();
  const x = tf.relu(tf.zeros([512, 512])) as Tensor2D;
  recording.clear();
  const before = recording.memoryRecords.length;
  const outputs = tf.tidy(() => run(x));
  expect(recording.recordedBytes - before).toBe(own);
  // The last holder to go frees the buffer.
  const total = () => recording.recordedBytes;
  x.dispose();
  const isShared = own === 0;
  expect(total()).toBe(isShared ? 0 : own - mebibyte);
  tf.dispose(outputs);
  expect(total()).toBe(-mebibyte);
});
