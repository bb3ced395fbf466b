import type { TraceHeader } from '@ranktrace/trace';
import { expect, test } from 'vitest';
import { deviceData, deviceLines } from './print-devices.ts';

const ranks = (...facts: readonly Record<string, string>[]): TraceHeader['processes'] =>
  facts.map((metadata, rank) => ({ rank, metadata: new Map(Object.entries(metadata)) })) as never;

const gpu = (index: number) => ({
  'tf.backend': 'tensorflow',
  'tf.op_times': 'host dispatch',
  'tf.package': '@tensorflow/tfjs-node-gpu',
  'tf.version': '4.22.0',
  'tf.library': 'TensorFlow 2.9.1',
  [`gpu.${index}`]: 'NVIDIA H100 80GB HBM3',
});

test('ranks that compute alike share a line, with the GPUs of all of them', () => {
  expect(deviceLines(ranks(gpu(3), gpu(0), gpu(1)))).toEqual([
    'computed on: @tensorflow/tfjs-node-gpu 4.22.0, TensorFlow 2.9.1, NVIDIA H100 80GB HBM3 (GPU 0, 1, 3): ranks 0, 1, 2',
    expect.stringMatching(/^times of ops: host dispatch/),
    expect.stringMatching(/^memory used of a GPU: what processes have reserved/),
  ]);
});

test('distinguishes one rank that computes elsewhere from the others', () => {
  const slow = {
    'tf.backend': 'tensorflow',
    'tf.op_times': 'host',
    'tf.package': '@tensorflow/tfjs-node-gpu',
    'tf.library': 'TensorFlow 2.9.1',
  };
  expect(deviceLines(ranks(gpu(0), slow)).slice(0, 2)).toEqual([
    'computed on: @tensorflow/tfjs-node-gpu 4.22.0, TensorFlow 2.9.1, NVIDIA H100 80GB HBM3 (GPU 0): rank 0',
    'computed on: @tensorflow/tfjs-node-gpu, TensorFlow 2.9.1: rank 1',
  ]);
});

test('tfjs on a CPU is one line, and a run that says nothing none', () => {
  expect(deviceLines(ranks({ 'tf.backend': 'wasm', 'tf.op_times': 'host', 'tf.version': '4.22.0' }))).toEqual([
    'computed on: TensorFlow.js 4.22.0, backend wasm: rank 0',
  ]);
  expect(deviceLines(ranks({ batch_size: '32' }, {}))).toEqual([]);
});

test('what a client made up is shown as text, and in bounds', () => {
  const wild = Array.from({ length: 40 }, (_, index) => ({ 'tf.backend': `b${index}\u001b[31m`, 'gpu.x': 'no', 'gpu.99999': 'no' }));
  const lines = deviceLines(ranks(...wild));
  expect(lines).toHaveLength(9);
  expect(lines.join('')).not.toContain('\u001b');
  expect(lines.join('')).not.toContain('no');
});

test('as data it is each rank’s own facts', () => {
  expect(
    deviceData(
      new Map([
        ['tf.backend', 'cpu'],
        ['gpu.0', 'V100'],
        ['batch_size', '1'],
      ]),
    ),
  ).toEqual({ 'tf.backend': 'cpu', 'gpu.0': 'V100' });
  expect(deviceData(new Map())).toBeUndefined();
});
