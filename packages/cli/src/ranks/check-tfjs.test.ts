// Hand-made packages, and TensorFlow's output where libraries were missing; no GPU was there. The real package: npm run check:native.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { checkTfjs, missingLibraries } from './check-tfjs.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-tfjs-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function install(name: string, code: string): void {
  const path = join(directory, 'node_modules', name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'package.json'), JSON.stringify({ name, version: '4.22.0', main: 'index.js' }));
  writeFileSync(join(path, 'index.js'), code);
}
const backend = (isUsingGpuDevice: boolean, before = ''): string => `${before}
  exports.version = { tfjs: '4.22.0' };
  exports.backend = () => ({ isUsingGpuDevice: ${isUsingGpuDevice}, binding: { TF_Version: '2.9.1' } });`;

// From tfjs issue 8269, on a host with CUDA 12 and without cuDNN 8.
const log = `2024-05-06 00:05:33.711121: I tensorflow/stream_executor/cuda/cuda_gpu_executor.cc:975] successful NUMA node read from SysFS had negative value (-1)
2024-05-06 00:05:33.767399: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open shared object file: No such file or directory
2024-05-06 00:05:33.767416: W tensorflow/core/common_runtime/gpu/gpu_device.cc:1850] Cannot dlopen some GPU libraries.`;

test('where none is installed, it is a note', async () => {
  expect(await checkTfjs(directory, 2)).toMatchObject({ state: 'note', text: expect.stringContaining('no @tensorflow/tfjs-node or -gpu') });
});

test('one that runs says its versions and its device', async () => {
  install('@tensorflow/tfjs-node', backend(false, "console.log('hello from the library');"));
  expect(await checkTfjs(directory, 0)).toEqual({ state: 'ok', text: '@tensorflow/tfjs-node 4.22.0, TensorFlow 2.9.1, on the CPU' });
  install('@tensorflow/tfjs-node-gpu', backend(true));
  expect(await checkTfjs(directory, 2)).toEqual({ state: 'ok', text: '@tensorflow/tfjs-node-gpu 4.22.0, TensorFlow 2.9.1, on a GPU' });
});

test('the GPU package on the CPU is a failure where there are GPUs, and names the libraries that it misses', async () => {
  install('@tensorflow/tfjs-node-gpu', backend(false, `process.stderr.write(${JSON.stringify(log)});`));
  const check = await checkTfjs(directory, 1);
  expect(check.state).toBe('failed');
  expect(check.text).toContain('runs on the CPU: it misses libcudnn.so.8');
  expect((await checkTfjs(directory, 0)).state).toBe('note');
});

test('one that cannot be loaded fails with its own words, and one that crashes, too', async () => {
  install(
    '@tensorflow/tfjs-node',
    "throw new Error('The Node.js native addon module (tfjs_binding.node) can not be found at path: lib/napi-v8');",
  );
  const check = await checkTfjs(directory, 0);
  expect(check.state).toBe('failed');
  expect(check.text).toContain('tfjs_binding.node) can not be found');
  expect(check.text).toContain('npm rebuild @tensorflow/tfjs-node --build-from-source');
  install('@tensorflow/tfjs-node', 'process.abort();');
  expect((await checkTfjs(directory, 0)).state).toBe('failed');
});

test('missing libraries are read from what TensorFlow prints, each once', () => {
  expect(missingLibraries(`${log}\n${log}`)).toEqual(['libcudnn.so.8']);
  expect(missingLibraries("Could not load dynamic library '../../x y'")).toEqual([]);
});
