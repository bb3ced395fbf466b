// Data that crosses between the program and a backend:
//
//   tensor.upload     engine.makeTensor: values into a new buffer; on tfjs-node the binding's createTensor (native-binding.ts), inside of the
//                     first op that uses them
//   tensor.dataSync   engine.readSync: waits for the device, and copies
//   tensor.data       engine.read: a promise
//
// A kernel's host reads of its inputs go straight to the backend and are part of the kernel, and so are small arrays (axes, shapes) that a
// kernel of tfjs-node makes for itself.
//
// Invariant: we look for the stack of a copy before it begins: that takes longer than most copies.

import { detail } from '../model/detail.ts';
import { memoryCategory } from '../model/memory-category.ts';
import type { BufferMemory } from './buffer-memory.ts';
import type { FoundStack } from './call-stack.ts';
import { bufferBytes, type TfjsEngine, tensorBytes } from './engine.ts';
import { type BindingWatcher, bytesOfValues, NativeBinding } from './native-binding.ts';
import { idOrNone, type OpRecorder } from './op-recorder.ts';
import type { OverheadSampler } from './overhead-sampler.ts';
import { override } from './override.ts';

/** Ops at the binding of tfjs-node, which the op hooks record. */
export type BindingOps = Pick<BindingWatcher, 'running' | 'run'>;

export interface DataCopyHooks {
  /** Follows the engine to another backend. */
  follow(): void;
  remove(): void;
}

/** Records copies while ops are wanted, with the `stacks` of the program's own copies. Reports the bytes of strings to `memory`. */
export function installDataCopyHooks(
  engine: TfjsEngine,
  recorder: OpRecorder,
  memory: BufferMemory,
  overhead: OverheadSampler,
  stacks: { captureAt(event: string, module: string): FoundStack },
  ops: BindingOps,
): DataCopyHooks {
  const upload: Copy = { name: 'tensor.upload', id: -1, stack: 0 };
  const dataSync: Copy = { name: 'tensor.dataSync', id: -1, stack: 0 };
  let isOn = true;
  // The fence's own copies are not recorded.
  const isWanted = () => isOn && !memory.isQuiet && (recorder.detail & detail.ops) !== 0;
  const bytesOf = (dataId: object) => {
    const info = engine.state.tensorInfo.get(dataId);
    return info === undefined ? 0 : bufferBytes(info);
  };
  // Gradients bring in constants of their own, which belong to no line of the user's code.
  const stack = (name: string) => ((recorder.detail & detail.stacks) === 0 || memory.isBackward ? undefined : stacks.captureAt(name, ''));
  const begin = (copy: Copy) => {
    if (copy.id < 0) copy.id = recorder.name(copy.name);
    const found = stack(copy.name);
    if (found !== undefined && found.id < 0) found.id = recorder.name(found.text);
    copy.stack = found === undefined ? 0 : idOrNone(found.id);
    return recorder.beginCopy(copy.id);
  };
  const end = (copy: Copy, bytes: number) => recorder.endCopy(bytes, copy.stack);

  const native = new NativeBinding(engine, {
    running: ops.running,
    run: (name, run, outputsOf, callOf) => ops.run(name, run, outputsOf, callOf),
    upload: (values, create) => {
      const began = overhead.begin();
      if (!isWanted() || !begin(upload)) return create();
      const entered = overhead.reading(began);
      let left = entered;
      try {
        return create();
      } finally {
        left = overhead.reading(began);
        end(upload, bytesOfValues(values));
        overhead.end(began, entered, left);
      }
    },
  });

  const removeMake = override(engine, 'makeTensor', (make) => (values, shape, dtype, backend) => {
    const began = overhead.begin();
    if (isOn) native.follow();
    const { state } = engine;
    const copiesLater = native.copiesLater(backend);
    const writingBefore = memory.writing;
    memory.writing = copiesLater && state.kernelDepth > 0 && native.keepOwn(values) ? 'own' : 'any';
    if (memory.writing === 'own') {
      const entered = overhead.reading(began);
      try {
        return make.call(engine, values, shape, dtype, backend);
      } finally {
        memory.writing = writingBefore;
        overhead.end(began, entered, overhead.reading(began));
      }
    }
    const accepted = !copiesLater && isWanted() && begin(upload);
    let bytes = 0;
    const entered = overhead.reading(began);
    let left = entered;
    try {
      const tensor = make.call(engine, values, shape, dtype, backend);
      left = overhead.reading(began);
      if (tensor.dtype === 'string') memory.stringWritten(tensor.dataId);
      // Record only values that the program itself brings in; ops and gradients make constants, too.
      if (isWanted() && shape.length > 0 && state.kernelDepth === 0 && state.gradientDepth === 0) {
        memory.categorize(tensor.dataId, memoryCategory.input);
      }
      if (accepted) bytes = tensor.dtype === 'string' ? bytesOf(tensor.dataId) : tensorBytes(tensor);
      return tensor;
    } finally {
      memory.writing = writingBefore;
      if (accepted) end(upload, bytes);
      overhead.end(began, entered, left);
    }
  });

  const removeReadSync = override(engine, 'readSync', (readSync) => (dataId) => {
    const began = overhead.begin();
    if (!isWanted()) return readSync.call(engine, dataId);
    // Read it now: the buffer may move to another backend meanwhile.
    const bytes = bytesOf(dataId);
    if (!begin(dataSync)) return readSync.call(engine, dataId);
    const entered = overhead.reading(began);
    let left = entered;
    try {
      return readSync.call(engine, dataId);
    } finally {
      left = overhead.reading(began);
      end(dataSync, bytes);
      overhead.end(began, entered, left);
    }
  });

  const removeRead = override(engine, 'read', (read) => (dataId) => {
    const began = overhead.begin();
    if (!isWanted()) return read.call(engine, dataId);
    // Backends may copy before they return their promise, so begin the copy with a promise of ours, which then follows theirs.
    const { promise, follow } = promiseToFollow();
    const copied = recorder.copied(recorder.name('tensor.data'), bytesOf(dataId), promise, stack('tensor.data')?.text);
    const entered = overhead.reading(began);
    try {
      follow(read.call(engine, dataId));
    } catch (error) {
      // Thrown, not rejected: the caller gets no promise; ours only ends the copy.
      follow(undefined);
      throw error;
    }
    overhead.end(began, entered, overhead.reading(began));
    return copied;
  });

  return {
    follow: () => native.follow(),
    remove: () => {
      isOn = false;
      removeRead();
      removeReadSync();
      removeMake();
      native.remove();
    },
  };
}

/** A kind of copy. Copies of a kind do not nest. */
interface Copy {
  readonly name: string;
  /** Id from `recorder.name`; −1 when it is not named yet. */
  id: number;
  /** Id of the running copy's stack, from `recorder.name`; 0 for none. */
  stack: number;
}

/** A promise that settles like a promise passed to `follow` later. */
function promiseToFollow(): { promise: Promise<unknown>; follow: (other: unknown) => void } {
  let follow: (other: unknown) => void = () => {};
  const promise = new Promise<unknown>((resolve) => {
    follow = resolve;
  });
  return { promise, follow };
}
