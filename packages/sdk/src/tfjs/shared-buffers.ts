// Kernels of TensorFlow whose output lies in the buffer of their input, so that it takes no memory: found by the resident memory of processes
// that kept eight outputs of 16 MiB (TensorFlow 2.21 on a CPU), and so in its sources (slice_op.cc, split_v_op.cc, …).
//
//   Reshape, ExpandDims           always
//   Cast                          to the type it has
//   Slice, StridedSlice           of everything, or of rows that lie at multiples of 64 bytes
//   Unpack, SplitV                along the first axis with such rows, or into one part
//   Transpose                     that moves only axes of length 1
//   Tile, PadV2                   that repeat and add nothing
//   Sum, Mean, Max, …             over axes of length 1
//   AddN, Pack                    of one tensor
//
// On backends other than tfjs-node's such outputs have the data id of their input, and the engine itself knows that they share.

import type { BufferInfo, EngineTensor, KernelCall } from './engine.ts';

/** Alignment of data for vector instructions, bytes (EIGEN_MAX_ALIGN_BYTES). */
const alignment = 64;

type Attributes = Readonly<Record<string, unknown>>;
type Rule = (input: EngineTensor, output: BufferInfo, attributes: Attributes, inputs: object) => boolean;

const always: Rule = () => true;
const isWhole: Rule = ({ size }, { shape }) => size === sizeOf(shape);
const isOnlyOne: Rule = (_input, _output, _attributes, inputs) => Array.isArray(inputs) && inputs.length === 1;
const isPart: Rule = (input, output, attributes, inputs) =>
  isWhole(input, output, attributes, inputs) || (isFirst(attributes.axis, input) && hasAlignedRows(input));

const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...['Reshape', 'ExpandDims', 'Cast'].map((name): [string, Rule] => [name, always]),
  ...['Tile', 'PadV2', 'All', 'Any', 'Max', 'Mean', 'Min', 'Prod', 'Sum'].map((name): [string, Rule] => [name, isWhole]),
  ...['AddN', 'Pack'].map((name): [string, Rule] => [name, isOnlyOne]),
  ...['Unpack', 'SplitV'].map((name): [string, Rule] => [name, isPart]),
  ['Transpose', (input, _output, { perm }) => keepsOrder(perm, input.shape)],
  ['Slice', (input, output, attributes, inputs) => isWhole(input, output, attributes, inputs) || isAlignedSlice(input, output, attributes)],
  [
    'StridedSlice',
    (input, output, attributes, inputs) =>
      Array.isArray(attributes.strides) &&
      attributes.strides.every((stride) => stride === 1) &&
      (isWhole(input, output, attributes, inputs) || isAlignedSlice(input, output, attributes)),
  ],
]);

/** Whether `sharedInput` may find one for kernel `name`. */
export const sharesBuffers = (name: string): boolean => rules.has(name);

/** The input of kernel `call`, of tfjs-node, in whose buffer `output` lies; undefined if it has a buffer of its own. Never throws. */
export function sharedInput({ kernelName, inputs, attrs }: KernelCall, output: BufferInfo): EngineTensor | undefined {
  const rule = kernelName === undefined ? undefined : rules.get(kernelName);
  if (rule === undefined || inputs === undefined) return undefined;
  try {
    const [input] = Object.values(inputs) as (EngineTensor | undefined)[];
    if (input === undefined || input.dtype !== output.dtype || input.dtype === 'string') return undefined;
    return rule(input, output, (attrs ?? {}) as Attributes, inputs) ? input : undefined;
  } catch {
    return undefined; // Not a kernel's inputs at all.
  }
}

/** Whether the slice is contiguous aligned rows of the first axis. */
function isAlignedSlice(input: EngineTensor, output: BufferInfo, { begin }: Attributes): boolean {
  const { shape } = output;
  if (shape.length !== input.shape.length || shape.some((length, axis) => axis > 0 && length !== input.shape[axis])) return false;
  if (shape.length > 1) return hasAlignedRows(input);
  const first: unknown = Array.isArray(begin) ? begin[0] : begin;
  const start = Number(first) < 0 ? Number(first) + input.size : Number(first);
  return (start * widthOf(input)) % alignment === 0 && (sizeOf(shape) * widthOf(input)) % alignment === 0;
}

const hasAlignedRows = (input: EngineTensor): boolean =>
  input.shape.length > 0 && ((input.size / (input.shape[0] as number)) * widthOf(input)) % alignment === 0;

const isFirst = (axis: unknown, { shape }: EngineTensor): boolean => axis === undefined || axis === 0 || axis === -shape.length;

/** Whether the axes longer than 1 stay in their order. */
function keepsOrder(perm: unknown, shape: readonly number[]): boolean {
  if (!Array.isArray(perm)) return false;
  const long = (perm as number[]).filter((axis) => shape[axis] !== 1);
  return long.every((axis, index) => index === 0 || axis > (long[index - 1] as number));
}

const widthOf = ({ dtype }: EngineTensor): number => (dtype === 'bool' ? 1 : dtype === 'complex64' ? 8 : 4);
const sizeOf = (shape: readonly number[]): number => shape.reduce((size, length) => size * length, 1);
