import { expect, test } from 'vitest';
import { kernelFlops } from './kernel-flops.ts';
import { nativeCall } from './native-call.ts';

const of = (...shape: number[]) => ({ shape, dtype: 'float32' });
/** An attribute as the backend of tfjs-node passes it. */
const attribute = (name: string, value: unknown) => ({ name, type: 1, value });

function flops(name: string, inputs: readonly unknown[], output: ReturnType<typeof of>, attributes: unknown = []): number {
  const { kernelName = '', inputs: named, attrs } = nativeCall(name, inputs, [output], attributes);
  return kernelFlops(kernelName, named, [output], attrs);
}

// A convolution of [2, 8, 8, 3] with [3, 3, 3, 4]: each of 2·8·8·4 outputs is a sum of 27 products; both gradients have as many.
const [x, filter, y, sizes] = [of(2, 8, 8, 3), of(3, 3, 3, 4), of(2, 8, 8, 4), of(4)];
const convolution = 2 * (2 * 8 * 8 * 4) * 27;

test.for<[name: string, expected: number, actual: number]>([
  ['MatMul', 2 * 5 * 7 * 6, flops('MatMul', [of(5, 6), of(6, 7)], of(5, 7))],
  ['MatMul, transposed', 2 * 5 * 7 * 6, flops('MatMul', [of(6, 5), of(6, 7)], of(5, 7), [attribute('transpose_a', true)])],
  ['_FusedMatMul', 2 * 5 * 7 * 6, flops('_FusedMatMul', [of(5, 6), of(6, 7), of(7)], of(5, 7))],
  ['BatchMatMulV2', 3 * 2 * 5 * 7 * 6, flops('BatchMatMulV2', [of(3, 5, 6), of(3, 7, 6)], of(3, 5, 7), [attribute('adj_y', true)])],
  ['Conv2D', convolution, flops('Conv2D', [x, filter], y, [attribute('strides', [1, 1, 1, 1]), attribute('padding', 'SAME')])],
  ['_FusedConv2D', convolution, flops('_FusedConv2D', [x, filter, of(4)], y)],
  ['Conv2DBackpropInput', convolution, flops('Conv2DBackpropInput', [sizes, filter, y], x)],
  ['Conv2DBackpropFilter', convolution, flops('Conv2DBackpropFilter', [x, sizes, y], filter)],
  // A filter of [3, 3, 3, 2] makes 6 channels, each of 9 products.
  [
    '_FusedDepthwiseConv2dNative',
    2 * (8 * 8 * 6) * 9,
    flops('_FusedDepthwiseConv2dNative', [of(1, 8, 8, 3), of(3, 3, 3, 2)], of(1, 8, 8, 6)),
  ],
  [
    'DepthwiseConv2dNativeBackpropFilter',
    2 * (8 * 8 * 6) * 9,
    flops('DepthwiseConv2dNativeBackpropFilter', [of(1, 8, 8, 3), sizes, of(1, 8, 8, 6)], of(3, 3, 3, 2)),
  ],
  ['AddV2', 20, flops('AddV2', [of(4, 5), of(5)], of(4, 5))],
  ['BiasAdd', 20, flops('BiasAdd', [of(4, 5), of(5)], of(4, 5))],
  ['Mul', 20, flops('Mul', [of(4, 5), of(5)], of(4, 5))],
  ['Relu', 20, flops('Relu', [of(4, 5)], of(4, 5))],
  ['DecodePng', 0, flops('DecodePng', [of()], of(4, 5))],
])('%s: its FLOPs', ([, expected, actual]) => expect(actual).toBe(expected));

test('its inputs keep their order, and attributes have the engine’s names', () => {
  expect(nativeCall('Conv2D', [x, filter], [y], [attribute('padding', 'SAME'), attribute('data_format', 'NHWC')])).toEqual({
    kernelName: 'Conv2D',
    inputs: { x, filter },
    attrs: { pad: 'SAME', dataFormat: 'NHWC' },
  });
  expect(Object.values(nativeCall('Conv2DBackpropInput', [sizes, filter, y], [x], []).inputs ?? {})).toEqual([sizes, filter, y]);
});

test('calls that make no sense are no error', () => {
  for (const attributes of [undefined, null, 7, [null, 3, {}, { name: 4 }]]) {
    for (const inputs of [[], [undefined], [null, 3, 'x']]) {
      for (const name of ['MatMul', 'Conv2DBackpropFilter', 'Unheard', '__proto__']) {
        expect(flops(name, inputs, of(2, 2), attributes)).toBe(0);
      }
    }
  }
});
