// Calls of the tfjs-node backend to TensorFlow's library, at its binding, where the engine does not see them:
//
//   createTensor      copies an array into a tensor of the library. `write` only kept the array: the first op that uses it pays for the copy
//   executeOp         runs an op; outside a kernel of the engine when it decodes or encodes an image, or writes a summary
//   loadSavedModel, runSavedModel
//
// The binding's own methods cannot be replaced (N-API makes them read-only), so the backend gets a copy of it with others. Not an heir: V8 makes an
// object slow that becomes a prototype, and the backend reads some of its constants at each op.

import type { EngineBackend, KernelCall, TfjsEngine } from './engine.ts';
import { nativeCall } from './native-call.ts';
import { override } from './override.ts';

/** Shapes and types of the outputs, as the engine names types. */
export type NativeOutputs = readonly { readonly shape: number[]; readonly dtype: string }[];

/** An output of an op. `dtype` is a number of the library's. */
interface OutputMetadata {
  readonly shape: number[];
  readonly dtype: number;
}

export interface TfBinding {
  createTensor(shape: number[], dtype: number, values: unknown): number;
  executeOp(name: string, attributes: unknown, inputs: unknown, outputs: unknown): OutputMetadata[];
  loadSavedModel(...args: unknown[]): unknown;
  runSavedModel(...args: unknown[]): OutputMetadata[];
}

interface NativeBackend extends EngineBackend {
  readonly binding: TfBinding;
  /** Called with the inputs of each op before it is executed. */
  getInputTensorIds?(tensors: readonly unknown[]): number[];
}

/** Records calls at the binding. */
export interface BindingWatcher {
  /** Depth of nested running ops: a call of the binding inside an op is part of that op. */
  readonly running: { readonly depth: number };
  /** `create` copies `values`, as `createTensor` takes them. Returns its result. */
  upload(values: unknown, create: () => number): number;
  /** `run` runs op `name`. Returns its result. `callOf`: what it was called with, after `run`; without it, nothing is known. */
  run<T>(name: string, run: () => T, outputsOf: (result: T) => NativeOutputs, callOf?: (outputs: NativeOutputs) => KernelCall): T;
}

/** Arrays of at most this many numbers that a kernel makes for its own use (axes, shapes, begins) are part of the kernel. */
const ownNumbersMax = 16;

/** The last of these that have not yet reached the binding. */
class OwnArrays {
  readonly #arrays: unknown[] = Array.from({ length: 16 }, () => undefined);
  #last = 0;

  add(values: unknown): void {
    this.#last = (this.#last + 1) & 15;
    this.#arrays[this.#last] = values;
  }

  /** Whether `values` are among them; removes them. */
  take(values: unknown): boolean {
    const arrays = this.#arrays;
    for (let ago = 0; ago < 16; ago++) {
      const at = (this.#last - ago) & 15;
      if (arrays[at] !== values) continue;
      arrays[at] = undefined;
      return true;
    }
    return false;
  }
}

/** The binding of an engine's backend, if that is one of tfjs-node. */
export class NativeBinding {
  readonly #engine: TfjsEngine;
  readonly #watcher: BindingWatcher;
  /** The engine's backend at the last look. */
  #seen: EngineBackend | null | undefined;
  #backend: NativeBackend | undefined;
  #remove: (() => void) | undefined;
  readonly #own = new OwnArrays();
  readonly #inputs: LastInputs = { tensors: [] };

  constructor(engine: TfjsEngine, watcher: BindingWatcher) {
    this.#engine = engine;
    this.#watcher = watcher;
    this.follow();
  }

  /** Whether `backend`, the engine's own by default, copies written values only when an op first uses them. */
  copiesLater(backend: EngineBackend | null | undefined = this.#seen): boolean {
    return this.#backend !== undefined && backend === this.#backend;
  }

  /** The engine may have another backend than before. */
  follow(): void {
    const backend = this.#engine.backendInstance;
    if (backend === this.#seen) return;
    this.remove();
    this.#seen = backend;
    if (!isNative(backend)) return;
    this.#backend = backend;
    const inputs = this.#inputs;
    const { running } = this.#watcher;
    const removals = [override(backend, 'binding', (binding) => watched(binding, this.#watcher, this.#own, inputs))];
    if (typeof backend.getInputTensorIds === 'function') {
      removals.push(
        override(backend as Required<NativeBackend>, 'getInputTensorIds', (idsOf) => (tensors) => {
          if (running.depth === 0) inputs.tensors = tensors;
          return idsOf.call(backend, tensors);
        }),
      );
    }
    this.#remove = () => {
      for (const remove of removals.toReversed()) remove();
    };
  }

  /** A kernel makes a tensor from `values`. True: it is part of the kernel. */
  keepOwn(values: unknown): boolean {
    if (!ArrayBuffer.isView(values) || (values as Float32Array).length > ownNumbersMax) return false;
    this.#own.add(values);
    return true;
  }

  remove(): void {
    this.#remove?.();
    this.#remove = this.#backend = this.#seen = undefined;
  }
}

function isNative(backend: EngineBackend | null | undefined): backend is NativeBackend {
  const { binding } = (backend ?? {}) as Partial<NativeBackend>;
  return typeof binding?.createTensor === 'function' && typeof binding.executeOp === 'function';
}

/** Inputs of the op that is executed next, outside of a kernel of the engine. */
interface LastInputs {
  tensors: readonly unknown[];
}

/** `own`: arrays that are not recorded. */
function watched(binding: TfBinding, watcher: BindingWatcher, own: OwnArrays, inputs: LastInputs): TfBinding {
  const { running } = watcher;
  /** Runs op `name` with the last inputs; inside of a kernel of the engine it is part of that. */
  const runOp = (name: string, attributes: unknown, run: () => OutputMetadata[]): OutputMetadata[] => {
    if (running.depth > 0) return run();
    const { tensors } = inputs;
    inputs.tensors = [];
    return watcher.run(name, run, outputsOf, (results) => nativeCall(name, tensors, results, attributes));
  };
  const methods: Partial<TfBinding> = {
    createTensor: (shape, dtype, values) =>
      own.take(values)
        ? binding.createTensor(shape, dtype, values)
        : watcher.upload(values, () => binding.createTensor(shape, dtype, values)),
    executeOp: (name, attributes, ids, outputs) =>
      running.depth > 0
        ? binding.executeOp(name, attributes, ids, outputs)
        : runOp(name, attributes, () => binding.executeOp(name, attributes, ids, outputs)),
    loadSavedModel: (...args) => {
      const run = () => binding.loadSavedModel(...args);
      return running.depth > 0 ? run() : watcher.run('LoadSavedModel', run, () => []);
    },
    runSavedModel: (...args) => runOp('RunSavedModel', [], () => binding.runSavedModel(...args)),
  };
  const copy = {};
  for (const [name, { value, enumerable = false }] of Object.entries(Object.getOwnPropertyDescriptors(binding))) {
    Object.defineProperty(copy, name, { value: methods[name as keyof TfBinding] ?? (value as unknown), enumerable, configurable: true });
  }
  return copy as TfBinding;
}

/** Types by the library's numbers (tensorflow/c/tf_datatype.h); the backend makes int32 of all others. */
const types: ReadonlyMap<number, string> = new Map([
  [1, 'float32'],
  [7, 'string'],
  [8, 'complex64'],
  [10, 'bool'],
]);

const outputsOf = (outputs: readonly OutputMetadata[]): NativeOutputs =>
  outputs.map(({ shape, dtype }) => ({ shape, dtype: types.get(dtype) ?? 'int32' }));

/** Bytes of an array of numbers, or of one of encoded strings. */
export function bytesOfValues(values: unknown): number {
  if (ArrayBuffer.isView(values)) return values.byteLength;
  return Array.isArray(values) ? values.reduce((sum: number, value) => sum + bytesOfValues(value), 0) : 0;
}
