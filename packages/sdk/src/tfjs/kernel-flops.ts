// Floating-point operations of tfjs kernels (4.22), after torch's own formulas (torch/csrc/profiler/util.cpp), a multiply-add counted as 2.
//
//   matrix product      2·B·M·N·K           = 2 · |output| · K                    aten::mm, aten::bmm; a fused one as aten::addmm:
//                                                                                 bias and activation are not counted
//   convolution         2·N·out·k·Cin·Cout/groups = 2 · |output| / Cout · |filter|   aten::conv2d, here for 1d and 3d as well; places
//                                                                                 in the padding count, as in torch
//   depthwise           2·N·out·k·Cin·multiplier  = 2 · |output| · k              a convolution with groups = Cin
//   Einsum              as the matrix product that torch makes of it:             aten::bmm, aten::mul
//                       2 · (output's and summed indices), without summed ones |output|
//   elementwise         |output|                                                  aten::add, aten::mul
//
// |x| is the numbers in x, k the places of the filter's window (Kh·Kw), out the places of the output (Hout·Wout). A tfjs filter is
// [k…, Cin/groups, Cout], so that |filter| holds the groups already; and since the output's shape is known, strides, padding, dilations
// and the data format need not be.
//
// Where torch has no formula we have one: both gradients of a convolution do as many multiply-adds as its forward pass, with `dy` in the
// place of the output (a transposed convolution is the gradient for the input), and other elementwise kernels count as add does.
//
// Backends compose kernels: on tfjs-node a `_FusedMatMul` runs a BatchMatMul, which the engine sees as an op of its own. Of the two the inner one
// counts (engine-hooks.ts), while a FusedConv2D, whose inner ops are only the bias and the activation, counts itself.
//
// Invariant: never throws; a kernel that cannot be counted gives 0.

/** The part of a tensor that counting needs. */
export interface Shaped {
  readonly shape: readonly number[];
}

/** A kernel's inputs by name, as in `runKernelFunc`: tensors, or a list of them. */
export type KernelInputs = Readonly<Record<string, unknown>>;

type Formula = (inputs: KernelInputs, outputs: readonly Shaped[], attrs: Readonly<Record<string, unknown>>) => number;

/**
 * Floating-point operations of one run of kernel `name`; 0 for kernels without a formula above and for impossible shapes.
 *
 * @example kernelFlops('BatchMatMul', { a, b }, [c], { transposeA: false, transposeB: false }) // 2·M·N·K of [M, K] × [K, N]
 */
export function kernelFlops(name: string, inputs: unknown, outputs: unknown, attrs: unknown): number {
  const formula = formulas.get(name);
  if (formula === undefined) return 0;
  try {
    const flops = formula((inputs ?? {}) as KernelInputs, outputs as readonly Shaped[], (attrs ?? {}) as Record<string, unknown>);
    return Number.isSafeInteger(flops) && flops > 0 ? flops : 0;
  } catch {
    return 0; // Not a kernel's inputs at all.
  }
}

/** 2: products of matrices and convolutions; 1: one operation a number; 0: not counted. */
export type FlopsKind = 0 | 1 | 2;

/** The way to count kernel `name`. */
export function flopsKindOf(name: string): FlopsKind {
  const formula = formulas.get(name);
  if (formula === undefined) return 0;
  return formula === elementwise || formula === sumOfList ? 1 : 2;
}

const matrixProduct: Formula = (inputs, outputs, attrs) => {
  const { shape } = inputs.a as Shaped;
  const k = shape.at(attrs.transposeA === true ? -2 : -1);
  return 2 * count(outputs[0]?.shape) * (k ?? 0);
};

const convolution: Formula = (inputs, outputs) => convolved(outputs[0]?.shape, shapeOf(inputs.filter));
const convolutionInputGradient: Formula = (inputs) => convolved(shapeOf(inputs.dy), shapeOf(inputs.filter));
const convolutionFilterGradient: Formula = (inputs, _outputs, attrs) => convolved(shapeOf(inputs.dy), attrs.filterShape);

const depthwise: Formula = (inputs, outputs) => depthwiseConvolved(outputs[0]?.shape, shapeOf(inputs.filter));
const depthwiseInputGradient: Formula = (inputs) => depthwiseConvolved(shapeOf(inputs.dy), shapeOf(inputs.filter));
const depthwiseFilterGradient: Formula = (inputs, _outputs, attrs) => depthwiseConvolved(shapeOf(inputs.dy), attrs.filterShape);

const elementwise: Formula = (_inputs, outputs) => count(outputs[0]?.shape);

/** An index that is in one input alone and not in the output is summed up first, as torch does. */
const einsum: Formula = (inputs, outputs, attrs) => {
  const tensors = (Array.isArray(inputs) ? inputs : Object.values(inputs)) as Shaped[];
  if (tensors.length !== 2 || typeof attrs.equation !== 'string') return 0;
  const [left = '', right = ''] = attrs.equation.replaceAll(' ', '').split('->');
  const terms = left.split(',').map((term, index) => indicesOf(term, (tensors[index] as Shaped).shape));
  const [a, b] = terms as [Map<string, number>, Map<string, number>];
  const isKept = (index: string) => index.startsWith('.') || right.includes(index);
  const summed = [...a].filter(([index]) => b.has(index) && !isKept(index)).reduce((product, [, length]) => product * length, 1);
  const isProduct = [...a.keys()].some((index) => b.has(index) && !isKept(index));
  return (isProduct ? 2 * summed : 1) * count(outputs[0]?.shape);
};

/** Lengths by index; the indices behind `...` are named from the end. */
function indicesOf(term: string, shape: readonly number[]): Map<string, number> {
  const [before = '', after] = term.split('...');
  const names = [...before];
  if (after !== undefined) {
    const more = shape.length - before.length - after.length;
    for (let index = more; index > 0; index--) names.push(`.${index}`);
    names.push(...after);
  }
  return new Map(names.map((name, axis) => [name, shape[axis] as number]));
}

/** A sum of n tensors is n − 1 additions. */
const sumOfList: Formula = (inputs, outputs) => (Object.keys(inputs).length - 1) * count(outputs[0]?.shape);

const formulas: ReadonlyMap<string, Formula> = new Map<string, Formula>([
  ['BatchMatMul', matrixProduct],
  ['_FusedMatMul', matrixProduct],
  ['Conv2D', convolution],
  ['FusedConv2D', convolution],
  ['Conv3D', convolution],
  ['Conv2DBackpropInput', convolutionInputGradient],
  ['Conv3DBackpropInputV2', convolutionInputGradient],
  ['Conv2DBackpropFilter', convolutionFilterGradient],
  ['Conv3DBackpropFilterV2', convolutionFilterGradient],
  ['DepthwiseConv2dNative', depthwise],
  ['FusedDepthwiseConv2D', depthwise],
  ['DepthwiseConv2dNativeBackpropInput', depthwiseInputGradient],
  ['DepthwiseConv2dNativeBackpropFilter', depthwiseFilterGradient],
  ['Einsum', einsum],
  ['AddN', sumOfList],
  ...[
    ...['Abs', 'Acos', 'Acosh', 'Asin', 'Asinh', 'Atan', 'Atanh', 'Ceil', 'ClipByValue', 'Cos', 'Cosh', 'Elu', 'Erf', 'Exp', 'Expm1'],
    ...['Floor', 'IsFinite', 'IsInf', 'IsNan', 'LeakyRelu', 'Log', 'Log1p', 'LogicalNot', 'Neg', 'Reciprocal', 'Relu', 'Relu6', 'Round'],
    ...['Rsqrt', 'Selu', 'Sigmoid', 'Sign', 'Sin', 'Sinh', 'Softplus', 'Sqrt', 'Square', 'Step', 'Tan', 'Tanh'],
    ...['Add', 'Atan2', 'BitwiseAnd', 'EluGrad', 'Equal', 'FloorDiv', 'Greater', 'GreaterEqual', 'Less', 'LessEqual', 'LogicalAnd'],
    ...['LogicalOr', 'Maximum', 'Minimum', 'Mod', 'Multiply', 'NotEqual', 'Pow', 'Prelu', 'RealDiv', 'SquaredDifference', 'Sub'],
  ].map((name): [string, Formula] => [name, elementwise]),
]);

/** 2 · |output| / Cout · |filter| */
function convolved(output: unknown, filter: unknown): number {
  const channels = Array.isArray(filter) ? (filter.at(-1) as unknown) : 0;
  const places = count(output) / (typeof channels === 'number' ? channels : 0);
  return Number.isInteger(places) ? 2 * places * count(filter) : 0;
}

/** 2 · |output| · k; `filter` is [k…, Cin, multiplier]. */
function depthwiseConvolved(output: unknown, filter: unknown): number {
  return Array.isArray(filter) && filter.length === 4 ? 2 * count(output) * count(filter.slice(0, 2)) : 0;
}

function shapeOf(tensor: unknown): unknown {
  return (tensor as Shaped).shape;
}

/** Numbers in a tensor of `shape`; 0 for an invalid shape. */
function count(shape: unknown): number {
  if (!Array.isArray(shape)) return 0;
  let product = 1;
  for (const length of shape as unknown[]) {
    if (typeof length !== 'number' || !Number.isInteger(length) || length < 0) return 0;
    product *= length;
  }
  return product;
}
