// What the backend of tfjs-node hands to TensorFlow's library at its binding, where the engine does not see it:
//
//   createTensor      copies an array into a tensor of the library. `write` only kept the array: the first op that uses it pays for the copy
//   executeOp         runs an op; not for a kernel of the engine where an image is decoded or encoded, or a summary written
//   loadSavedModel, runSavedModel
//
// The binding's own methods cannot be replaced (N-API defines them for good), so the backend gets an object in its place that inherits from it.

import type { EngineBackend, TfjsEngine } from './engine.ts';
import { override } from './override.ts';

/** Shapes and types that came out, as the engine names types. */
export type NativeOutputs = readonly { readonly shape: number[]; readonly dtype: string }[];

/** What an op gives. `dtype` is a number of the library's. */
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
}

/** Records what passes the binding. */
export interface BindingWatcher {
  /** Whether what runs now is recorded as a kernel of the engine, or not at all. */
  readonly isInKernel: boolean;
  /** `create` copies `values`, as `createTensor` takes them. Gives what it gives. */
  upload(values: unknown, create: () => number): number;
  /** `run` runs op `name`. Gives what it gives. */
  run<T>(name: string, run: () => T, outputsOf: (result: T) => NativeOutputs): T;
}

/** Arrays of at most so many numbers that a kernel makes for its own use (axes, shapes, begins) are part of the kernel. */
const ownNumbersMax = 16;
/** Of these, those that the binding has not got yet. */
const ownArraysMax = 16;

/** The binding of the backend that an engine uses, if that is one of tfjs-node. */
export class NativeBinding {
  readonly #engine: TfjsEngine;
  readonly #watcher: BindingWatcher;
  /** The engine's backend when it was looked at last. */
  #seen: EngineBackend | null | undefined;
  #backend: NativeBackend | undefined;
  #remove: (() => void) | undefined;
  readonly #own: unknown[] = [];

  constructor(engine: TfjsEngine, watcher: BindingWatcher) {
    this.#engine = engine;
    this.#watcher = watcher;
    this.follow();
  }

  /** Whether what is written to `backend`, the engine's own by default, is copied when an op first uses it. */
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
    this.#remove = override(backend, 'binding', (binding) => watched(binding, this.#watcher, this.#own));
  }

  /** A kernel makes a tensor of `values` for its own use. */
  keepOwn(values: unknown): void {
    if (!ArrayBuffer.isView(values) || (values as Float32Array).length > ownNumbersMax) return;
    if (this.#own.length >= ownArraysMax) this.#own.shift();
    this.#own.push(values);
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

/** `own`: arrays that are not to be recorded. */
function watched(binding: TfBinding, watcher: BindingWatcher, own: unknown[]): TfBinding {
  const runWhole: BindingWatcher['run'] = (name, run, outputsOf) => (watcher.isInKernel ? run() : watcher.run(name, run, outputsOf));
  const methods: Partial<TfBinding> = {
    createTensor: (shape, dtype, values) => {
      const at = own.lastIndexOf(values);
      if (at < 0) return watcher.upload(values, () => binding.createTensor(shape, dtype, values));
      own.splice(at, 1);
      return binding.createTensor(shape, dtype, values);
    },
    executeOp: (name, attributes, inputs, outputs) =>
      watcher.isInKernel
        ? binding.executeOp(name, attributes, inputs, outputs)
        : watcher.run(name, () => binding.executeOp(name, attributes, inputs, outputs), outputsOf),
    loadSavedModel: (...args) =>
      runWhole(
        'LoadSavedModel',
        () => binding.loadSavedModel(...args),
        () => [],
      ),
    runSavedModel: (...args) => runWhole('RunSavedModel', () => binding.runSavedModel(...args), outputsOf),
  };
  const heir = Object.create(binding) as TfBinding;
  // Properties that it inherits cannot be assigned: they are not writable.
  for (const [name, value] of Object.entries(methods)) Object.defineProperty(heir, name, { value, configurable: true });
  return heir;
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
