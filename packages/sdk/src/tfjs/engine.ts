// The parts of the TensorFlow.js engine that we use, as types. We import nothing from tfjs: the engine is the one that the training code loaded,
// found as `globalThis._tfengine` (await-engine.ts). From @tensorflow/tfjs-core 4.22, dist/engine.js and dist/tape.js.
//
// Every caller, the engine included, looks methods up on the instance at each call, so an own property on the instance sees all calls.

/** A tensor, a variable, or a backend's `TensorInfo` (which has no `dispose`). */
export interface EngineTensor {
  readonly shape: number[];
  readonly dtype: string;
  /** Key of the data buffer; clones and reshapes share it. */
  readonly dataId: object;
  /** Elements. */
  readonly size: number;
  dispose(): void;
}

export interface EngineBackend {
  readSync(dataId: object): unknown;
  /** Backends of tfjs-node only: whether its kernels run on a GPU. */
  readonly isUsingGpuDevice?: boolean;
}

/** The engine's record of a data buffer. */
export interface BufferInfo {
  readonly backend: EngineBackend;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** 0 for complex64, whose parts only the backend knows, and for strings made by kernels. */
  readonly bytes: number;
}

/** A tensor whose buffer is replaced by each update. */
export interface EngineVariable extends EngineTensor {
  readonly trainable: boolean;
}

export type GradientThunks = Record<string, () => EngineTensor>;

export interface TapeNode {
  gradient?: (dys: unknown) => GradientThunks;
}

export interface EngineScope {
  readonly name: string;
  readonly track: unknown[];
}

/** Replaced as a whole by `engine.reset()`. */
export interface EngineState {
  readonly numTensors: number;
  readonly numDataBuffers: number;
  /** Bytes of all tensors: tensors that share a buffer each count. */
  readonly numBytes: number;
  readonly tensorInfo: { get(dataId: object): BufferInfo | undefined };
  readonly gradientDepth: number;
  /** Depth of nested kernels; the tape is on only at depth 0. */
  kernelDepth: number;
  /** Whether `tf.profile` runs. */
  profiling: boolean;
  readonly activeTape: TapeNode[] | null;
  readonly activeScope?: EngineScope | null;
  readonly registeredVariables: Readonly<Record<string, EngineVariable | undefined>>;
}

/** By name; an array for kernels that take a list (Concat, AddN, Pack); `null` and `undefined` for optional ones that are absent. */
export type KernelInputs = object;

/** Argument of `runKernelFunc`: a registered kernel has a name, a custom gradient has functions. */
export interface KernelCall {
  readonly kernelName?: string;
  readonly inputs?: KernelInputs;
  readonly attrs?: object;
}

export interface TfjsEngine {
  state: EngineState;
  readonly backendName?: string | null;
  /** The backend named `backendName`, once it exists. */
  readonly backendInstance?: EngineBackend | null;
  readonly registry: Readonly<Record<string, EngineBackend>>;
  runKernelFunc(call: KernelCall): EngineTensor | EngineTensor[];
  addTapeNode(
    kernelName: string,
    inputs: unknown,
    outputs: unknown,
    gradients: unknown,
    saved: readonly EngineTensor[] | undefined,
    attrs: unknown,
  ): void;
  gradients(...args: unknown[]): { readonly grads: readonly (EngineTensor | null | undefined)[] };
  trackTensor(tensor: EngineTensor, backend?: EngineBackend): void;
  removeDataId(dataId: object, backend: EngineBackend): void;
  makeTensor(values: unknown, shape: number[], dtype?: string, backend?: EngineBackend): EngineTensor;
  read(dataId: object): Promise<unknown>;
  readSync(dataId: object): unknown;
}

/** Bytes of one element as tfjs counts them; 0 for strings. */
function bytesPerElement(dtype: string): number {
  if (dtype === 'float32' || dtype === 'int32') return 4;
  if (dtype === 'bool') return 1;
  return dtype === 'complex64' ? 8 : 0;
}

/** Bytes that a data buffer holds, complex64 with its parts; for strings, the engine's count from when they were written. */
export function bufferBytes(info: BufferInfo): number {
  if (info.dtype !== 'complex64') return info.bytes;
  return info.shape.reduce((size, length) => size * length, bytesPerElement('complex64'));
}

/** Bytes that the values of `tensor` take; 0 for strings. */
export function tensorBytes(tensor: EngineTensor): number {
  return tensor.size * bytesPerElement(tensor.dtype);
}

/** 1 when the buffers of `backend` lie in the memory of a device, 0 for host memory. */
export function deviceTypeOf(engine: TfjsEngine, backend: EngineBackend): 0 | 1 {
  if (backend.isUsingGpuDevice === true) return 1;
  return engine.registry.webgl === backend || engine.registry.webgpu === backend ? 1 : 0;
}
