// The data buffers of an engine: each allocation and each free, once per buffer. Clones, reshapes and variables share buffers, so we count no
// tensors, while `engine.state.numBytes` counts every tensor.
//
//   trackTensor    sees every tensor; the engine's own count of buffers shows whether this one brought a new buffer
//   removeDataId   sees every buffer that a backend releases, also one released late (webgl, after a pending read)
//
// TensorFlow's library gives some outputs the buffer of their input (shared-buffers.ts), with a data id of their own: such a buffer is freed with
// the last of its data ids.
//
// Invisible here: scratch memory inside a kernel, which backends allocate without the engine, or as small tensors of axes and shapes. A buffer
// that moves to another backend stays the same.
//
// `total` starts at the engine's sum over tensors, as no list of live buffers exists: an upper bound of the live bytes, exact when nothing was
// live. While memory is not wanted we look nothing up; later `total` becomes the engine's sum less the bytes that tensors shared when recording
// stopped: exact when they share as much when it resumes, as they do from step to step.

import { detail } from '../model/detail.ts';
import { memoryCategory } from '../model/memory-category.ts';
import {
  type BufferInfo,
  bufferBytes,
  deviceTypeOf,
  type EngineBackend,
  type EngineVariable,
  type KernelCall,
  type TfjsEngine,
} from './engine.ts';
import type { OpRecorder } from './op-recorder.ts';
import type { OverheadSampler } from './overhead-sampler.ts';
import { override } from './override.ts';
import { sharedInput } from './shared-buffers.ts';

/**
 * The number of a buffer lies in the engine's own record of it, where only we can see it: a WeakMap of our own would cost 170 ns a buffer, more
 * than all other work to record it.
 */
const address = Symbol('address');
/** Its category, as recorded in this window: window · 8 + category. */
const reported = Symbol('category');
/** The data id whose buffer it shares, as the engine's record of it. */
const owner = Symbol('owner');
/** Data ids that lie in the buffer, itself included until it is released; undefined: itself alone. */
const sharers = Symbol('sharers');
/** The recording that saw this: shares and frees between two recordings are unknown. */
const seenIn = Symbol('recording');
/** Marks a data id as a kernel's own. */
const own = Symbol('own');
interface NumberedId {
  [own]?: true;
}
interface NumberedBuffer extends BufferInfo {
  [address]?: number;
  [reported]?: number;
  [owner]?: NumberedBuffer;
  [sharers]?: number;
  [seenIn]?: number;
}

/** State that stays on the buffers, so that the next recorder must continue it. */
export interface BufferNumbers {
  /** Buffers are numbered in the order of their first sight, from 1 on. */
  lastAddress: number;
  /** Number of result windows begun. */
  window: number;
}

/** Variables of optimizers have only the engine's number as a name, and are not trainable; or they are powers, so scalars [optimizers/*.js]. */
const isOptimizerState = (name: string, { trainable, shape }: EngineVariable): boolean =>
  (!trainable || shape.length === 0) && /^\d+$/.test(name);

export class BufferMemory {
  /** Bytes allocated and freed so far. */
  allocated = 0;
  freed = 0;
  /** While true, nothing counts: the profiler's own tensors come and go. */
  isQuiet = false;
  /** Set while an array becomes a tensor, whose buffer is its own whatever kernel runs; `own`: for a kernel's own use, which is not recorded. */
  writing: 'no' | 'any' | 'own' = 'no';
  /** The innermost running kernel, if its output may lie in the buffer of its input. */
  kernel: KernelCall | undefined;
  readonly #engine: TfjsEngine;
  readonly #recorder: OpRecorder;
  readonly #overhead: OverheadSampler;
  readonly #numbers: BufferNumbers;
  #total: number;
  /** `engine.state.numBytes` less `#total`, when recording stopped. */
  #shared = 0;
  #wasWanted = false;
  /** Number of recordings begun. */
  #recordings = 0;
  #state: unknown;
  #backend: EngineBackend | undefined;
  #deviceType: 0 | 1 = 0;
  #isOn = true;
  readonly #isBackward: () => boolean;

  /** `isBackward`: whether a gradient is being computed. `numbers`: those of the buffers seen so far. */
  constructor(engine: TfjsEngine, recorder: OpRecorder, overhead: OverheadSampler, isBackward: () => boolean, numbers: BufferNumbers) {
    this.#numbers = numbers;
    this.#isBackward = isBackward;
    this.#engine = engine;
    this.#recorder = recorder;
    this.#overhead = overhead;
    this.#state = engine.state;
    this.#total = engine.state.numBytes;
  }

  /** Hooks into the engine; the returned function removes the hooks. */
  install(): () => void {
    const engine = this.#engine;
    const removeTrack = override(engine, 'trackTensor', (track) => (tensor, backend) => {
      const overhead = this.#overhead;
      const began = overhead.begin();
      if (!this.#isWanted()) return track.call(engine, tensor, backend);
      if (this.writing === 'own') {
        (tensor.dataId as NumberedId)[own] = true;
        return track.call(engine, tensor, backend);
      }
      const { state } = engine;
      const { numDataBuffers } = state;
      const entered = overhead.reading(began);
      track.call(engine, tensor, backend);
      const left = overhead.reading(began);
      // A string's bytes are known once `makeTensor` has written them: `stringWritten`.
      if (state.numDataBuffers !== numDataBuffers) this.#allocated(state.tensorInfo.get(tensor.dataId));
      overhead.end(began, entered, left);
    });
    const removeRemove = override(engine, 'removeDataId', (remove) => (dataId, backend) => {
      const overhead = this.#overhead;
      const began = overhead.begin();
      if (!this.#isWanted() || (dataId as NumberedId)[own] === true) return remove.call(engine, dataId, backend);
      const info = engine.state.tensorInfo.get(dataId);
      const entered = overhead.reading(began);
      remove.call(engine, dataId, backend);
      const left = overhead.reading(began);
      if (info !== undefined && info.backend === backend) this.#freed(info);
      overhead.end(began, entered, left);
    });
    return () => {
      this.#isOn = false;
      removeRemove();
      removeTrack();
    };
  }

  /** A string tensor got its values. */
  stringWritten(dataId: object): void {
    if (this.#isWanted()) this.#allocated(this.#engine.state.tensorInfo.get(dataId));
  }

  /** Whether a gradient is being computed. */
  get isBackward(): boolean {
    return this.#isBackward();
  }

  /** A result window begins: its readers do not have earlier records. */
  beginWindow(): void {
    this.#numbers.window++;
    this.categorizeVariables();
  }

  /** Records which buffers are parameters and which are optimizer state; an update puts them into new ones. */
  categorizeVariables(): void {
    if (!this.#isWanted()) return;
    const { registeredVariables } = this.#engine.state;
    for (const name in registeredVariables) {
      const variable = registeredVariables[name];
      if (variable === undefined) continue;
      this.categorize(variable.dataId, isOptimizerState(name, variable) ? memoryCategory.optimizerState : memoryCategory.parameter);
    }
  }

  /** Records the category of `dataId`'s buffer, unless it has one of higher rank. */
  categorize(dataId: object, category: number): void {
    if (!this.#isWanted()) return;
    const info: NumberedBuffer | undefined = this.#engine.state.tensorInfo.get(dataId);
    if (info !== undefined) this.#report(info, category);
  }

  #report(tensor: NumberedBuffer, category: number): void {
    const info = this.#ownerOf(tensor);
    const known = info[reported] ?? 0;
    if (known >> 3 === this.#numbers.window && (known & 7) >= category) return;
    info[reported] = (this.#numbers.window << 3) | category;
    info[address] ??= ++this.#numbers.lastAddress;
    this.#recorder.memoryCategory(info[address], category, bufferBytes(info), this.#deviceTypeOf(info.backend));
  }

  #isWanted(): boolean {
    if (!this.#isOn || this.isQuiet) return false;
    const isWanted = (this.#recorder.detail & detail.memory) !== 0;
    if (isWanted !== this.#wasWanted || this.#engine.state !== this.#state) this.#turn(isWanted);
    return isWanted;
  }

  /** Recording begins or stops, or `engine.reset()` released everything without reporting single buffers. */
  #turn(isWanted: boolean): void {
    const { state } = this.#engine;
    if (state !== this.#state) {
      this.#state = state;
      this.#shared = 0;
      this.#total = state.numBytes;
    } else if (isWanted) {
      this.#recordings++;
      this.#total = Math.max(state.numBytes - this.#shared, 0);
    } else {
      this.#shared = state.numBytes - this.#total;
    }
    this.#wasWanted = isWanted;
  }

  #allocated(info: NumberedBuffer | undefined): void {
    if (info === undefined) return;
    const bytes = bufferBytes(info);
    if (bytes === 0 || this.#isShared(info)) return;
    this.allocated += bytes;
    info[address] = ++this.#numbers.lastAddress;
    this.#record(info, bytes);
    if (this.#isBackward()) this.#report(info, memoryCategory.autogradDetail);
  }

  #freed(tensor: NumberedBuffer): void {
    const info = this.#ownerOf(tensor);
    if (info[seenIn] === this.#recordings && info[sharers] !== undefined && --info[sharers] > 0) return;
    const bytes = bufferBytes(info);
    if (bytes === 0) return;
    this.freed += bytes;
    info[address] ??= ++this.#numbers.lastAddress;
    this.#record(info, -bytes);
  }

  /** Whether a new data id lies in an existing buffer; then it counts as part of it. */
  #isShared(info: NumberedBuffer): boolean {
    // Only the backends of tfjs-node report whether they use a GPU; in the others a shared buffer has one data id.
    if (this.kernel === undefined || this.writing !== 'no' || info.backend.isUsingGpuDevice === undefined) return false;
    const input = sharedInput(this.kernel, info);
    const source: NumberedBuffer | undefined = input === undefined ? undefined : this.#engine.state.tensorInfo.get(input.dataId);
    if (source === undefined || source.backend !== info.backend) return false;
    const shared = this.#ownerOf(source);
    shared[sharers] = (shared[seenIn] === this.#recordings ? (shared[sharers] ?? 1) : 1) + 1;
    shared[seenIn] = info[seenIn] = this.#recordings;
    info[owner] = shared;
    return true;
  }

  #ownerOf(info: NumberedBuffer): NumberedBuffer {
    return info[seenIn] === this.#recordings ? (info[owner] ?? info) : info;
  }

  #record(info: NumberedBuffer, bytes: number): void {
    this.#total += bytes;
    this.#recorder.memory(bytes, this.#total, info[address] as number, this.#deviceTypeOf(info.backend));
  }

  #deviceTypeOf(backend: EngineBackend): 0 | 1 {
    if (backend !== this.#backend) {
      this.#backend = backend;
      this.#deviceType = deviceTypeOf(this.#engine, backend);
    }
    return this.#deviceType;
  }
}
