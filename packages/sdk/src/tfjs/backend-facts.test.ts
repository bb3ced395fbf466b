// Facts of hand-made backends like tfjs-node's: no GPU is needed.

import { expect, test } from 'vitest';
import { backendFacts } from './backend-facts.ts';
import type { TfjsEngine } from './engine.ts';

const engineWith = (backend: object | undefined): TfjsEngine =>
  ({ registry: backend === undefined ? {} : { tensorflow: backend } }) as never;

const tf = { version: { 'tfjs-core': '4.22.0', tfjs: '4.22.0', 'tfjs-node': '4.22.0' } };

test('tfjs-node-gpu on a GPU: package, library, and times that are host dispatch', () => {
  const backend = { isGPUPackage: true, isUsingGpuDevice: true, binding: { TF_Version: '2.9.1' } };
  const { facts, trouble } = backendFacts(engineWith(backend), 'tensorflow', false, tf);
  expect(Object.fromEntries(facts)).toEqual({
    'tf.backend': 'tensorflow',
    'tf.op_times': 'host dispatch',
    'tf.package': '@tensorflow/tfjs-node-gpu',
    'tf.version': '4.22.0',
    'tf.library': 'TensorFlow 2.9.1',
  });
  expect(trouble).toBeUndefined();
  expect(Object.fromEntries(backendFacts(engineWith(backend), 'tensorflow', true, tf).facts)['tf.op_times']).toBe('device, fenced');
});

test('tfjs-node-gpu on the CPU says so', () => {
  const backend = { isGPUPackage: true, isUsingGpuDevice: false, binding: { TF_Version: '2.9.1' } };
  const { facts, trouble } = backendFacts(engineWith(backend), 'tensorflow', false, tf);
  expect(Object.fromEntries(facts)['tf.op_times']).toBe('host');
  expect(trouble).toMatch(/^@tensorflow\/tfjs-node-gpu runs on the CPU: its TensorFlow 2\.9\.1 found no GPU/);
});

test('tfjs-node is no trouble without a GPU, nor is any other backend', () => {
  const backend = { isGPUPackage: false, isUsingGpuDevice: false, binding: { TF_Version: '2.9.1' } };
  expect(backendFacts(engineWith(backend), 'tensorflow', false, tf).trouble).toBeUndefined();
  expect(backendFacts(engineWith(undefined), 'wasm', false)).toEqual({
    facts: [
      ['tf.backend', 'wasm'],
      ['tf.op_times', 'host'],
    ],
    trouble: undefined,
  });
});

test('takes no version that is none', () => {
  const backend = { isGPUPackage: 'yes', binding: { TF_Version: 7 } };
  const { facts } = backendFacts(engineWith(backend), 'tensorflow', false, { version: null, version_core: 'x'.repeat(1000) });
  expect(facts.map(([key]) => key)).toEqual(['tf.backend', 'tf.op_times', 'tf.version']);
  expect(facts[2]?.[1]).toHaveLength(64);
});
