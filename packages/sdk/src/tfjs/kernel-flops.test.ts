// Every expected number has its calculation by hand beside it, and a loop counts the definition's multiply-adds one by one (places in the
// padding too, as in torch), for the inputs and attributes that tfjs really passes to its kernels.

import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { kernelFlops } from './kernel-flops.ts';

interface KernelRun {
  readonly name: string;
  readonly inputs: Record<string, tf.Tensor>;
  readonly outputs: tf.Tensor[];
  readonly attrs: Record<string, unknown>;
}

interface Engine {
  runKernelFunc(call: { kernelName?: string; inputs: Record<string, tf.Tensor>; attrs: Record<string, unknown> }): tf.Tensor | tf.Tensor[];
}

beforeAll(() => tf.setBackend('cpu'));

/** All kernels inside `run`, as tfjs calls them. */
function kernelsOf(run: () => void): KernelRun[] {
  const engine = tf.engine() as unknown as Engine;
  const original = engine.runKernelFunc;
  const runs: KernelRun[] = [];
  engine.runKernelFunc = function (this: Engine, call) {
    const result = original.call(this, call);
    const { kernelName: name, inputs, attrs } = call;
    if (name !== undefined) runs.push({ name, inputs, outputs: [result].flat(), attrs });
    return result;
  };
  try {
    run();
  } finally {
    delete (engine as Partial<Engine>).runKernelFunc;
  }
  return runs;
}

/** FLOPs by kernel of `run`, except elementwise ones. */
function flopsOf(run: () => void): [string, number][] {
  return kernelsOf(run)
    .filter(({ name }) => /Conv|MatMul/.test(name))
    .map(({ name, inputs, outputs, attrs }) => [name, kernelFlops(name, inputs, outputs, attrs)]);
}

/** `f` and its gradients for `tensors`. */
const withGradients = (f: (...tensors: tf.Tensor[]) => tf.Tensor, ...tensors: tf.Tensor[]) => {
  tf.grads((...given: tf.Tensor[]) => f(...given).sum())(tensors);
};

/** Multiply-adds of a convolution by its definition: each number of the output, each place of the window, each channel of its group. */
function countConvolution(batch: number, out: number[], window: number[], channelsIn: number, channelsOut: number, groups = 1): number {
  const places = (lengths: number[]): number[][] =>
    lengths.reduce<number[][]>((all, length) => all.flatMap((at) => Array.from({ length }, (_, i) => [...at, i])), [[]]);
  let multiplyAdds = 0;
  for (let image = 0; image < batch; image++) {
    for (const _place of places(out)) {
      for (let channel = 0; channel < channelsOut; channel++) {
        const group = Math.floor(channel / (channelsOut / groups));
        for (const _tap of places(window)) {
          for (let from = 0; from < channelsIn; from++) if (Math.floor(from / (channelsIn / groups)) === group) multiplyAdds++;
        }
      }
    }
  }
  return multiplyAdds;
}

const image = () => tf.randomNormal<tf.Rank.R4>([2, 9, 8, 3]);
const filter = () => tf.randomNormal<tf.Rank.R4>([3, 2, 3, 4]);

type Conv2D = Parameters<typeof tf.conv2d>;

test.each<[string, Conv2D[2], Conv2D[3], Conv2D[5], [number, number], number]>([
  // same: Hout = ceil(9/2) = 5, Wout = 8: 2 · 2·5·8 · 3·2·3·4 = 11 520
  ['same padding, strides', [2, 1], 'same', 1, [5, 8], 11_520],
  // valid: 9−3+1 = 7, 8−2+1 = 7: 2 · 2·7·7 · 72 = 14 112
  ['valid padding', 1, 'valid', 1, [7, 7], 14_112],
  // dilation 2: windows of 5 and 3: 5 and 6: 2 · 2·5·6 · 72 = 8 640
  ['dilation', 1, 'valid', 2, [5, 6], 8_640],
  // pads 1+2 and 0+1: 9+3−3+1 = 10, 8+1−2+1 = 8: 2 · 2·10·8 · 72 = 23 040
  [
    'explicit pads',
    1,
    [
      [0, 0],
      [1, 2],
      [0, 1],
      [0, 0],
    ],
    1,
    [10, 8],
    23_040,
  ],
  // pad 1: (9+2−3)/2+1 = 5; for the width tfjs takes the filter's height too: floor((8+2−3)/2+1) = 4: 2 · 2·5·4 · 72 = 5 760
  ['a pad of 1, strides', 2, 1, 1, [5, 4], 5_760],
])('conv2d with %s', (_what, strides, pad, dilations, out, expected) => {
  const run = () => tf.conv2d(image(), filter(), strides, pad, 'NHWC', dilations, pad === 1 ? 'floor' : undefined);
  expect(flopsOf(run)).toEqual([['Conv2D', expected]]);
  expect(2 * countConvolution(2, out, [3, 2], 3, 4)).toBe(expected);
});

test('both gradients of conv2d cost what the forward pass does', () => {
  expect(flopsOf(() => withGradients((x, w) => tf.conv2d(x as tf.Tensor4D, w as tf.Tensor4D, [2, 1], 'same'), image(), filter()))).toEqual([
    ['Conv2D', 11_520],
    ['Conv2DBackpropInput', 11_520],
    ['Conv2DBackpropFilter', 11_520],
  ]);
});

test('conv1d is a conv2d of height 1', () => {
  // [2, 9, 3] by [3, 3, 4], same: 2 · 2·9 · 3·3·4 = 1296
  const run = () =>
    withGradients((x, w) => tf.conv1d(x as tf.Tensor3D, w as tf.Tensor3D, 1, 'same'), tf.ones([2, 9, 3]), tf.ones([3, 3, 4]));
  expect(flopsOf(run).map(([, flops]) => flops)).toEqual([1296, 1296, 1296]);
  expect(2 * countConvolution(2, [1, 9], [1, 3], 3, 4)).toBe(1296);
});

test('transposed convolutions are the gradient for the input, and theirs are a convolution and the gradient for the filter', () => {
  // Each of the 2·9·8 places of x, of 3 channels, is spread over 3·2 places of 2 channels: 2 · 144 · 3 · 6 · 2 = 10 368
  const run = () =>
    withGradients(
      (x, w) => tf.conv2dTranspose(x as tf.Tensor4D, w as tf.Tensor4D, [2, 9, 8, 2], 1, 'same'),
      image(),
      tf.randomNormal([3, 2, 2, 3]),
    );
  expect(flopsOf(run)).toEqual([
    ['Conv2DBackpropInput', 10_368],
    ['Conv2D', 10_368],
    ['Conv2DBackpropFilter', 10_368],
  ]);
  expect(2 * countConvolution(2, [9, 8], [3, 2], 2, 3)).toBe(10_368);
});

test('conv3d and its gradients', () => {
  // [2, 5, 4, 3, 2] by [2, 2, 2, 2, 3], valid: out 4·3·2 = 24: 2 · 2·24 · 8·2·3 = 4608
  const run = () =>
    withGradients(
      (x, w) => tf.conv3d(x as tf.Tensor5D, w as tf.Tensor5D, 1, 'valid'),
      tf.randomNormal([2, 5, 4, 3, 2]),
      tf.randomNormal([2, 2, 2, 2, 3]),
    );
  expect(flopsOf(run)).toEqual([
    ['Conv3D', 4608],
    ['Conv3DBackpropInputV2', 4608],
    ['Conv3DBackpropFilterV2', 4608],
  ]);
  expect(2 * countConvolution(2, [4, 3, 2], [2, 2, 2], 2, 3)).toBe(4608);
});

test('depthwise convolutions and their gradients are convolutions of a group for each channel', () => {
  // [2, 9, 8, 3] by [3, 2, 3, 2], same: 2·9·8·6 = 864 numbers of 3·2 multiply-adds: 10 368
  const run = () =>
    withGradients((x, w) => tf.depthwiseConv2d(x as tf.Tensor4D, w as tf.Tensor4D, 1, 'same'), image(), tf.randomNormal([3, 2, 3, 2]));
  expect(flopsOf(run)).toEqual([
    ['DepthwiseConv2dNative', 10_368],
    ['DepthwiseConv2dNativeBackpropInput', 10_368],
    ['DepthwiseConv2dNativeBackpropFilter', 10_368],
  ]);
  expect(2 * countConvolution(2, [9, 8], [3, 2], 3, 6, 3)).toBe(10_368);
});

test('fused convolutions count the convolution alone, as torch counts addmm', () => {
  const bias = tf.ones([4]);
  expect(
    flopsOf(() => {
      tf.fused.conv2d({ x: image(), filter: filter(), strides: 1, pad: 'valid', bias, activation: 'relu' });
      tf.fused.depthwiseConv2d({ x: image(), filter: tf.randomNormal([3, 2, 3, 2]), strides: 1, pad: 'valid' });
    }),
  ).toEqual([
    ['FusedConv2D', 14_112],
    ['FusedDepthwiseConv2D', 2 * (2 * 7 * 7 * 6) * (3 * 2)],
  ]);
});

test('groups and the channels-first format are in the shapes', () => {
  // 6 channels in 2 groups: the filter has 3. 2 · 2·7·7 · 3·2·3·4 = 14 112
  const grouped = kernelFlops('Conv2D', { x: { shape: [2, 9, 8, 6] }, filter: { shape: [3, 2, 3, 4] } }, [{ shape: [2, 7, 7, 4] }], {});
  expect(grouped).toBe(14_112);
  expect(2 * countConvolution(2, [7, 7], [3, 2], 6, 4, 2)).toBe(14_112);
  const first = kernelFlops('Conv2D', { x: { shape: [2, 3, 9, 8] }, filter: { shape: [3, 2, 3, 4] } }, [{ shape: [2, 4, 7, 7] }], {
    dataFormat: 'NCHW',
  });
  expect(first).toBe(14_112);
});

test('matrix products: transposed, of broadcast batches, and their gradients', () => {
  // aᵀ · b: [4, 5, 3] × [4, 3, 2] = [4, 5, 2]: 2 · 4·5·2 · 3 = 240, and each gradient as much
  const run = () => withGradients((a, b) => tf.matMul(a, b, true, false), tf.randomNormal([4, 3, 5]), tf.randomNormal([4, 3, 2]));
  expect(flopsOf(run)).toEqual([
    ['BatchMatMul', 240],
    ['BatchMatMul', 240],
    ['BatchMatMul', 240],
  ]);
  expect(flopsOf(() => tf.matMul(tf.ones([4, 3, 5]), tf.ones([1, 2, 3]), true, true))).toEqual([['BatchMatMul', 240]]);
});

test('a fused matrix product is 2·M·N·K: bias and activation are not counted, as in aten::addmm', () => {
  const run = () => tf.fused.matMul({ a: tf.ones([32, 784]), b: tf.ones([784, 128]), bias: tf.ones([128]), activation: 'relu' });
  expect(flopsOf(run)).toEqual([['_FusedMatMul', 2 * 32 * 784 * 128]]);
});

test('elementwise kernels count the numbers they give, others nothing', () => {
  const x = tf.ones([4, 1, 3]);
  const runs = kernelsOf(() => {
    x.add(tf.ones([5, 3]));
    x.relu();
    tf.addN([x, x, x]);
    x.transpose();
    x.sum();
    tf.concat([x, x]);
  });
  expect(runs.map(({ name, inputs, outputs, attrs }) => [name, kernelFlops(name, inputs, outputs, attrs)])).toEqual(
    expect.arrayContaining([
      ['Add', 60],
      ['Relu', 12],
      ['AddN', 24],
      ['Transpose', 0],
      ['Sum', 0],
      ['Concat', 0],
    ]),
  );
});

test('all elementwise kernels have the name that tfjs has', () => {
  const shaped = { x: { shape: [7] } };
  const registered = tf.getKernelsForBackend('cpu').map(({ kernelName }) => kernelName);
  const counted = registered.filter((name) => kernelFlops(name, shaped, [{ shape: [7] }], {}) === 7);
  // 40 unary and 22 binary ones; the list of inputs of AddN has one here, which is no addition.
  expect(counted).toHaveLength(62);
});

test('whatever the inputs and attributes are, the answer is a number ≥ 0', () => {
  const hostile = {
    get shape(): number[] {
      throw new Error('no');
    },
  };
  const names = fc.constantFrom('BatchMatMul', 'Conv2D', 'Conv2DBackpropFilter', 'DepthwiseConv2dNative', 'Add', 'AddN', 'constructor');
  const tensor = fc.oneof(
    fc.record({ shape: fc.oneof(fc.array(fc.oneof(fc.integer(), fc.double(), fc.string())), fc.anything()) }),
    fc.constant(hostile),
  );
  const inputs = fc.oneof(fc.anything(), fc.record({ a: tensor, b: tensor, x: tensor, dy: tensor, filter: tensor }));
  fc.assert(
    fc.property(names, inputs, fc.oneof(fc.anything(), fc.array(tensor)), fc.anything(), (name, ...rest) => {
      const flops = kernelFlops(name, ...rest);
      expect(Number.isSafeInteger(flops) && flops >= 0).toBe(true);
    }),
    { seed: 3, numRuns: 2000 },
  );
  expect(kernelFlops('Conv2D', { filter: { shape: [1e9, 1e9, 1e9, 1] } }, [{ shape: [1e9] }], {})).toBe(0);
});

test.for<[equation: string, shapes: number[][], flops: number]>([
  // torch makes a product of matrices of it: 2·B·M·N·K.
  [
    'ij,jk->ik',
    [
      [2, 3],
      [3, 4],
    ],
    2 * 2 * 3 * 4,
  ],
  [
    'bij,bjk->bik',
    [
      [5, 2, 3],
      [5, 3, 4],
    ],
    2 * 5 * 2 * 3 * 4,
  ],
  ['i,i->', [[7], [7]], 2 * 7],
  ['ij , j -> i', [[2, 3], [3]], 2 * 2 * 3],
  [
    'bhqd,bhkd->bhqk',
    [
      [2, 4, 5, 8],
      [2, 4, 6, 8],
    ],
    2 * 2 * 4 * 5 * 6 * 8,
  ],
  // Nothing is summed up: one multiplication a number.
  ['i,j->ij', [[3], [4]], 12],
  [
    'ij,ij->ij',
    [
      [3, 4],
      [3, 4],
    ],
    12,
  ],
  // `i` is summed up before the product.
  [
    'ij,jk->k',
    [
      [2, 3],
      [3, 4],
    ],
    2 * 3 * 4,
  ],
  [
    '...ij,...jk->...ik',
    [
      [5, 2, 3],
      [5, 3, 4],
    ],
    2 * 5 * 2 * 3 * 4,
  ],
  // A sum or a transposition is no product.
  ['ij->ji', [[2, 3]], 0],
])('Einsum %s', ([equation, shapes, flops]) => {
  const [left = '', right = ''] = equation.replaceAll(' ', '').split('->');
  const lengths = new Map(
    left.split(',').flatMap((term, at) => [...term.replace('...', 'B')].map((index, axis) => [index, shapes[at]?.[axis] ?? 0])),
  );
  const output = { shape: [...right.replace('...', 'B')].map((index) => lengths.get(index) ?? 0) };
  const inputs = shapes.map((shape) => ({ shape }));
  expect(kernelFlops('Einsum', inputs, [output], { equation })).toBe(flops);
});

test('an Einsum that cannot be counted is 0', () => {
  const two = [{ shape: [2, 3] }, { shape: [3, 4] }];
  for (const equation of [undefined, 7, '', '->', 'ij', '....', 'ij,jk,kl->il'])
    expect(kernelFlops('Einsum', two, [], { equation })).toBe(0);
  expect(kernelFlops('Einsum', [], [{ shape: [2] }], { equation: 'ij,jk->ik' })).toBe(0);
});

test('Einsum as tfjs calls its kernel', () => {
  const [a, b] = [tf.ones([2, 3]), tf.ones([3, 4])];
  const [run] = kernelsOf(() => void tf.einsum('ij,jk->ik', a, b)).filter(({ name }) => name === 'Einsum');
  expect(kernelFlops('Einsum', run?.inputs, run?.outputs, run?.attrs)).toBe(48);
});
