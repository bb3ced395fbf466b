// An op of TensorFlow's library as the engine's kernel that does the same work, so that shapes and FLOPs are read off it as off any kernel. The library has
// its inputs by place and names its attributes otherwise (tensorflow/core/ops/nn_ops.cc, math_ops.cc); it also has ops of several names for one work.

import type { KernelCall } from './engine.ts';
import type { Shaped } from './kernel-flops.ts';

/** The engine's kernel and the names of its inputs, in the library's order; '': the kernel has no such input. */
type Same = readonly [kernel: string, ...inputs: string[]];

const convolution = (kernel: string): Same => [kernel, 'x', 'filter'];
const inputGradient = (kernel: string): Same => [kernel, '', 'filter', 'dy'];
const filterGradient = (kernel: string): Same => [kernel, 'x', '', 'dy'];

const kernels: ReadonlyMap<string, Same> = new Map<string, Same>([
  ['MatMul', ['BatchMatMul', 'a', 'b']],
  ['_FusedMatMul', ['_FusedMatMul', 'a', 'b']],
  ...['BatchMatMul', 'BatchMatMulV2', 'BatchMatMulV3'].map((name): [string, Same] => [name, ['BatchMatMul', 'a', 'b']]),
  ['_FusedBatchMatMulV2', ['BatchMatMul', 'a', 'b']],
  ...['Conv2D', 'Conv3D', 'DepthwiseConv2dNative'].map((name): [string, Same] => [name, convolution(name)]),
  ['_FusedConv2D', convolution('FusedConv2D')],
  ['_FusedDepthwiseConv2dNative', convolution('FusedDepthwiseConv2D')],
  ...['Conv2DBackpropInput', 'Conv3DBackpropInputV2', 'DepthwiseConv2dNativeBackpropInput'].map((name): [string, Same] => [
    name,
    inputGradient(name),
  ]),
  ...['Conv2DBackpropFilter', 'Conv3DBackpropFilterV2', 'DepthwiseConv2dNativeBackpropFilter'].map((name): [string, Same] => [
    name,
    filterGradient(name),
  ]),
  ...['AddV2', 'BiasAdd'].map((name): [string, Same] => [name, ['Add']]),
  ['Mul', ['Multiply']],
  ['Div', ['RealDiv']],
]);

const attributes: ReadonlyMap<string, string> = new Map([
  ['transpose_a', 'transposeA'],
  ['transpose_b', 'transposeB'],
  ['adj_x', 'transposeA'],
  ['adj_y', 'transposeB'],
  ['data_format', 'dataFormat'],
  ['padding', 'pad'],
  ['keep_dims', 'keepDims'],
]);

/** `given`: the library's attributes, a list of `{ name, value }`. Never throws; what it does not know keeps its name. */
export function nativeCall(name: string, inputs: readonly unknown[], outputs: readonly Shaped[], given: unknown): KernelCall {
  const [kernelName, ...names] = kernels.get(name) ?? [name];
  const named = inputs.map((input, place) => [names[place] || `${place}`, input] as const);
  const attrs: Record<string, unknown> = {};
  for (const attribute of Array.isArray(given) ? (given as unknown[]) : []) {
    const { name: key, value } = (attribute ?? {}) as { name?: unknown; value?: unknown };
    if (typeof key === 'string') attrs[attributes.get(key) ?? key] = value;
  }
  // The library takes the filter's shape as a tensor; the gradient has it.
  if (names[1] === '' && names[0] === 'x') attrs.filterShape = outputs[0]?.shape;
  return { kernelName, inputs: Object.fromEntries(named), attrs };
}
