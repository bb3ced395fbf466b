// A stand-in for the backend of tfjs-node: the cpu backend's kernels behind a binding. As there, it keeps a written array, which passes
// `createTensor` when a kernel first uses it; each kernel is one `executeOp`, with its axes and shapes as small tensors; results of Reshape have
// a data id of their own; a fused matrix product is composed of ops.

import * as tf from '@tensorflow/tfjs';
import { MathBackendCPU } from '@tensorflow/tfjs-backend-cpu';

/** Methods that cannot be replaced, like those of a native addon. */
const makeBinding = (calls: string[]): object =>
  Object.defineProperties(
    {},
    {
      createTensor: {
        value: (shape: number[], _dtype: number, values: ArrayLike<unknown>) => {
          calls.push(`createTensor ${values.length}`);
          return shape.length;
        },
      },
      executeOp: {
        value: (name: string) => {
          calls.push(`executeOp ${name}`);
          return [{ id: 1, shape: [2, 3], dtype: 1 }];
        },
      },
    },
  );

export class LibraryBackend extends MathBackendCPU {
  readonly isUsingGpuDevice: boolean;
  /** Calls that reached the binding. */
  readonly calls: string[] = [];
  readonly binding = makeBinding(this.calls) as {
    createTensor(shape: number[], dtype: number, values: unknown): number;
    executeOp(name: string, attributes: unknown, inputs: unknown, outputs: number): unknown[];
  };
  readonly #kept = new Map<object, unknown>();

  constructor(isUsingGpuDevice: boolean) {
    super();
    this.isUsingGpuDevice = isUsingGpuDevice;
  }

  override write(...args: Parameters<MathBackendCPU['write']>): object {
    const dataId = super.write(...args);
    this.#kept.set(dataId, args[0]);
    return dataId;
  }

  /** Passes those of `tensors` to the library that it does not have yet. */
  pass(tensors: readonly tf.TensorInfo[]): void {
    for (const { dataId, shape } of tensors) {
      const values = this.#kept.get(dataId);
      if (this.#kept.delete(dataId)) this.binding.createTensor(shape, 1, values);
    }
  }

  /** The library has the results of kernels already. */
  keepNothingOf(outputs: tf.TensorInfo | tf.TensorInfo[]): void {
    for (const { dataId } of [outputs].flat()) this.#kept.delete(dataId);
  }

  /** Decodes an image, with no kernel around it. */
  decode(): void {
    this.binding.executeOp('DecodePng', [], [], 1);
  }
}

/** Registers one under `name`; the caller sets it as backend. */
export function registerLibraryBackend(name: string, { isUsingGpuDevice = false } = {}): void {
  tf.registerBackend(name, () => new LibraryBackend(isUsingGpuDevice));
  for (const { kernelName, kernelFunc } of tf.getKernelsForBackend('cpu')) {
    tf.registerKernel({ kernelName, backendName: name, kernelFunc: behindBinding(kernelName, kernelFunc) });
  }
  tf.unregisterKernel('_FusedMatMul', name);
  tf.registerKernel({
    kernelName: '_FusedMatMul',
    backendName: name,
    kernelFunc: ({ inputs }) => {
      const { a, b, bias } = inputs as unknown as Record<'a' | 'b' | 'bias', tf.Tensor2D>;
      return tf.tidy(() => (bias === undefined ? tf.matMul(a, b) : tf.add(tf.matMul(a, b), bias)));
    },
  });
}

function behindBinding(name: string, kernel: tf.KernelFunc): tf.KernelFunc {
  return (args) => {
    const backend = args.backend as LibraryBackend;
    const own = name === 'Identity' ? [] : [tf.tensor1d([1, 2], 'int32')];
    backend.pass([...(Object.values(args.inputs) as tf.TensorInfo[]), ...own]);
    if (name !== 'Identity') backend.binding.executeOp(name, [], [], 1);
    const output = kernel(args);
    tf.dispose(own);
    if (name !== 'Identity') backend.keepNothingOf(output);
    if (name !== 'Reshape') return output;
    const { dataId, shape, dtype } = output as tf.TensorInfo;
    const copy = backend.makeTensorInfo(shape, dtype, backend.readSync(dataId) as tf.backend_util.TypedArray);
    backend.disposeData(dataId);
    backend.keepNothingOf(copy);
    return copy;
  };
}
