// Floating point operations of an op from its inputs, by torch's formulas (torch/csrc/profiler/util.cpp, computeFlops).
//
//   aten::conv2d            2 · N · Hout · Wout · Kh · Kw · Cin · Cout / groups     Hout = ⌊(H + 2·padding − dilation·(Kh − 1) − 1) / stride⌋ + 1
//   aten::mm, addmm         2 · M · N · K          aten::bmm, baddbmm   2 · B · M · N · K
//   aten::mul, add          numbers in the first tensor
//
// All other ops have 0: no attention, no conv1d or conv3d, nothing of the backward pass. A product counts only where torch counts it.

type Sizes = readonly number[];

/** The ops that have a formula. */
export const opsWithFlops: ReadonlySet<string> = new Set([
  'aten::conv2d',
  'aten::mm',
  'aten::addmm',
  'aten::bmm',
  'aten::baddbmm',
  'aten::mul',
  'aten::add',
]);

/**
 * Floating point operations of one call. `shapes`, `types` and `concrete` are the JSON texts of `Input Dims`, `Input type` and
 * `Concrete Inputs`, empty if not recorded; inputs that fit no formula give 0.
 *
 * @example functionFlops('aten::mm', '[[2, 3], [3, 4]]', '', '') // 48
 */
export function functionFlops(op: string, shapes: string, types: string, concrete: string): number {
  if (shapes === '' || !opsWithFlops.has(op)) return 0;
  const dims = JSON.parse(shapes) as unknown[];
  switch (op) {
    case 'aten::conv2d':
      return conv2d(dims, concrete === '' ? [] : (JSON.parse(concrete) as unknown[]));
    case 'aten::mm':
      return matrixProduct(dims[0], dims[1], 2);
    case 'aten::addmm':
      return matrixProduct(dims[1], dims[2], 2);
    case 'aten::bmm':
      return matrixProduct(dims[0], dims[1], 3);
    case 'aten::baddbmm':
      return matrixProduct(dims[1], dims[2], 3);
    default: {
      const isTensor = types === '' || !['Scalar', ''].includes((JSON.parse(types) as unknown[])[0] as string);
      return isTensor && isSizes(dims[0]) ? product(dims[0]) : 0;
    }
  }
}

const isSizes = (value: unknown): value is Sizes => Array.isArray(value) && value.every(Number.isSafeInteger);

const product = (sizes: Sizes): number => sizes.reduce((all, size) => all * size, 1);

function matrixProduct(left: unknown, right: unknown, rank: 2 | 3): number {
  if (!isSizes(left) || !isSizes(right) || left.length !== rank || right.length !== rank) return 0;
  return 2 * product(left) * (right[rank - 1] as number);
}

/** Two numbers of a concrete input such as `[1, 1]`; torch uses a single number for both. */
function pair(value: unknown): readonly [number, number] | undefined {
  const numbers = typeof value === 'string' ? [...value.matchAll(/-?\d+/g)].map(Number) : [];
  const [height, width = height] = numbers;
  return height === undefined || width === undefined ? undefined : [height, width];
}

function conv2d(dims: readonly unknown[], concrete: readonly unknown[]): number {
  const [input, weight] = dims;
  const [stride, padding, dilation] = [pair(concrete[3]), pair(concrete[4]), pair(concrete[5])];
  const groups = Number(concrete[6]);
  if (!isSizes(input) || !isSizes(weight) || input.length !== 4 || weight.length !== 4) return 0;
  if (stride === undefined || padding === undefined || dilation === undefined) return 0;
  if (stride[0] === 0 || stride[1] === 0 || !(groups > 0)) return 0;
  const [batch, channels, ...extent] = input as readonly [number, number, number, number];
  const [filters, , ...kernel] = weight as readonly [number, number, number, number];
  const out = ([0, 1] as const).map((side) =>
    Math.trunc((extent[side] + 2 * padding[side] - dilation[side] * (kernel[side] - 1) - 1) / stride[side] + 1),
  );
  return Math.floor((2 * batch * product(out) * product(kernel) * channels * filters) / groups);
}
