// The signature of an op's call, as JSON text of the arguments that Kineto gives its ops [pytorch torch/csrc/profiler/kineto: "Input Dims",
// "Input type", "Concrete Inputs"]: one entry per input in the kernel's order, nested for a list of tensors, whose type is `TensorList`.
// An input that is absent has the dims [] and the type ''. `Concrete Inputs` has '' for each tensor and then `name=value` for each attribute,
// because a tfjs kernel takes its attributes by name. `Output Dims`, `Output type` (outputs are always a flat list) and `kernel_backend` are ours.
//
// Invariant: the text fits one string of the wire format; parts that do not fit are omitted, the least informative first.

import { limits } from '@ranktrace/protocol';
import { detail } from '../model/detail.ts';
import type { KernelCall } from './engine.ts';

type Shaped = { readonly shape: number[]; readonly dtype: string };

/** Floating point operations of one call of a kernel; 0 when unknown. */
export type KernelFlops = (
  kernelName: string,
  inputs: Record<string, Shaped>,
  outputs: readonly { readonly shape: number[] }[],
  attributes: unknown,
) => number;

/** Undefined when the op threw. */
export type KernelOutputs = Shaped | readonly Shaped[] | undefined;

export interface OpDescription {
  readonly call: KernelCall;
  readonly outputs: KernelOutputs;
  readonly backend: string;
  /** Bits of `detail`. */
  readonly wanted: number;
}

/** Characters of one attribute; longer ones are omitted. */
const attributeLengthMax = 128;

/**
 * Attributes that describe the work. Omits those that the output's shape implies, and those that may differ at each call (seeds, fill values,
 * begins of slices), which would make every call a signature of its own.
 */
export const describedAttributes: readonly string[] = [
  ...['strides', 'pad', 'dataFormat', 'dilations', 'dimRoundingMode', 'filterSize', 'filterShape', 'inputShape', 'depthRadius'],
  ...['transposeA', 'transposeB', 'equation', 'activation', 'includeBatchInIndex'],
  ...['axis', 'keepDims', 'reductionIndices', 'exclusive', 'reverse', 'dim', 'dims', 'perm', 'reps', 'dtype', 'batchDims'],
  ...['paddings', 'crops', 'mode', 'blockShape', 'blockSize', 'alignCorners', 'halfPixelCenters', 'interpolation', 'fillMode'],
  ...['depth', 'k', 'sorted', 'numSamples', 'normalized', 'numSegments', 'numOrSizeSplits', 'outputRaggedRank', 'side'],
];

/** The text; undefined when even its shortest form does not fit. */
export function signatureText(op: OpDescription, flopsOf: KernelFlops): string | undefined {
  const { call, outputs, backend, wanted } = op;
  const outputList = outputs === undefined ? [] : Array.isArray(outputs) ? (outputs as readonly Shaped[]) : [outputs as Shaped];
  const rest: { kernel_backend: string; flops?: number } = { kernel_backend: backend };
  if ((wanted & detail.flops) !== 0 && call.kernelName !== undefined) {
    const flops = flopsOrNone(flopsOf, call, outputList);
    if (flops > 0) rest.flops = flops;
  }
  if ((wanted & detail.shapes) === 0) return fitting(rest);
  const inputs = inputsOf(call.inputs);
  const shapes = {
    'Input Dims': inputs.map(dimsOf),
    'Input type': inputs.map(typeOf),
    'Output Dims': outputList.map(dimsOf),
    'Output type': outputList.map(typeOf),
    ...rest,
  };
  const concrete = [...inputs.map(() => ''), ...attributesOf(call.attrs)];
  return (
    (concrete.length > inputs.length ? fitting({ ...shapes, 'Concrete Inputs': concrete }) : undefined) ?? fitting(shapes) ?? fitting(rest)
  );
}

function fitting(members: Record<string, unknown>): string | undefined {
  const text = JSON.stringify(members);
  // Nearly always ASCII, where the length is enough.
  return text.length * 3 <= limits.stringBytesMax || Buffer.byteLength(text) <= limits.stringBytesMax ? text : undefined;
}

/** A program may call a kernel with any inputs, and a formula may fail on them: that must not stop training. */
function flopsOrNone(flopsOf: KernelFlops, { kernelName = '', inputs = {}, attrs }: KernelCall, outputs: readonly Shaped[]): number {
  try {
    return flopsOf(kernelName, inputs as Record<string, Shaped>, outputs, attrs);
  } catch {
    return 0;
  }
}

/** One entry per argument: kernels that take one list have an array for their inputs. */
const inputsOf = (inputs: object | undefined): readonly unknown[] =>
  inputs === undefined || inputs === null ? [] : Array.isArray(inputs) ? [inputs] : Object.values(inputs);

const shapedOf = (value: unknown): Shaped | undefined =>
  Array.isArray((value as Partial<Shaped> | null | undefined)?.shape) ? (value as Shaped) : undefined;

const dimsOf = (input: unknown): unknown => (Array.isArray(input) ? input.map(dimsOf) : (shapedOf(input)?.shape ?? []));

const typeOf = (input: unknown): string => (Array.isArray(input) ? 'TensorList' : (shapedOf(input)?.dtype ?? ''));

function attributesOf(attributes: object | undefined): string[] {
  return Object.entries(attributes ?? {}).flatMap(([name, value]) => {
    if (!describedAttributes.includes(name) || value === undefined || value === null || typeof value === 'function') return [];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return text === undefined || text.length > attributeLengthMax ? [] : [`${name}=${text}`];
  });
}
