import { expect, test } from 'vitest';
import { oneGpuEach, readGpus } from './host-gpus.ts';

const gpus = (count: number) => async () => Array.from({ length: count }, (_, index) => ({ index: `${index}`, name: 'NVIDIA H100' }));

test('reads what nvidia-smi lists, and nothing else', () => {
  expect(readGpus('0, NVIDIA H100 80GB HBM3\n1, Tesla V100-SXM2-16GB\n')).toEqual([
    { index: '0', name: 'NVIDIA H100 80GB HBM3' },
    { index: '1', name: 'Tesla V100-SXM2-16GB' },
  ]);
  expect(readGpus('No devices were found\n')).toEqual([]);
  expect(readGpus('')).toEqual([]);
  expect(readGpus('0, a, b\nFailed to initialize NVML: Unknown Error\n')).toEqual([{ index: '0', name: 'a, b' }]);
});

test('gives each rank one GPU, numbered as nvidia-smi does', async () => {
  expect(await oneGpuEach(2, undefined, gpus(8))).toEqual([
    { CUDA_VISIBLE_DEVICES: '0', CUDA_DEVICE_ORDER: 'PCI_BUS_ID' },
    { CUDA_VISIBLE_DEVICES: '1', CUDA_DEVICE_ORDER: 'PCI_BUS_ID' },
  ]);
});

test('starts as many ranks as there are GPUs where nobody says how many', async () => {
  expect(await oneGpuEach(undefined, undefined, gpus(3))).toHaveLength(3);
  expect(await oneGpuEach(undefined, '4,6')).toEqual([{ CUDA_VISIBLE_DEVICES: '4' }, { CUDA_VISIBLE_DEVICES: '6' }]);
});

test('keeps what CUDA_VISIBLE_DEVICES allows, as it is written', async () => {
  expect(await oneGpuEach(2, ' GPU-aaaa1111, GPU-bbbb2222,GPU-cccc3333')).toEqual([
    { CUDA_VISIBLE_DEVICES: 'GPU-aaaa1111' },
    { CUDA_VISIBLE_DEVICES: 'GPU-bbbb2222' },
  ]);
  expect(await oneGpuEach(undefined, '2,-1,3')).toEqual([{ CUDA_VISIBLE_DEVICES: '2' }]);
  expect(await oneGpuEach(undefined, '5,5')).toHaveLength(1);
});

test.each([
  [() => oneGpuEach(5, undefined, gpus(4)), '--ranks must be at most 4, for nvidia-smi lists 4 GPUs, got 5'],
  [() => oneGpuEach(2, '7'), '--ranks must be at most 1, for CUDA_VISIBLE_DEVICES has 1 GPU, got 2'],
  [() => oneGpuEach(1, ''), 'CUDA_VISIBLE_DEVICES has none'],
  [() => oneGpuEach(undefined, undefined, gpus(0)), 'nvidia-smi lists none'],
  [
    () => oneGpuEach(1, undefined, () => Promise.reject(new Error('spawn nvidia-smi ENOENT'))),
    'needs nvidia-smi, or CUDA_VISIBLE_DEVICES: spawn nvidia-smi ENOENT',
  ],
])('refuses what cannot be (%#)', async (start, message) => {
  await expect(start()).rejects.toThrow(message);
});
