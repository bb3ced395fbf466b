// The target of the tfjs hooks: the part of `Recorder` (../record/recorder.ts) that they use. Ids come from `name`.

export interface OpRecorder {
  /** Detail wanted right now: bits of `detail` (../model/detail.ts). */
  readonly detail: number;
  /** The id of a text; −1 when there is no room to define it now. */
  name(text: string): number;
  /** If true, `endOp` must follow in the same turn. */
  beginOp(name: number): boolean;
  /**
   * `signature`: text of a JSON object whose members become arguments. `sequence`: > 0 the op's own, < 0 that of the forward op whose backward
   * op it is. `allocated`, `freed`: bytes of data buffers while it ran. 0: none.
   */
  endOp(signature: number, stack: number, module: number, sequence: number, allocated: number, freed: number): void;
  /** `bytes` < 0: freed; `total` bytes are live then; `deviceType` 0: host memory, 1: a device's. */
  memory(bytes: number, total: number, address: number, deviceType: 0 | 1): void;
  /** The category of the buffer at `address`, of `bytes` bytes: a `memoryCategory`. */
  memoryCategory(address: number, category: number, bytes: number, deviceType: 0 | 1): void;
  /** If true, `endCopy` must follow in the same turn. */
  beginCopy(name: number): boolean;
  endCopy(bytes: number, stack?: number): void;
  /** Returns a promise that settles like `promise`. */
  copied<T>(name: number, bytes: number, promise: Promise<T>, stack?: string): Promise<T>;
  /** A fact about the rank. */
  addMetadata(key: string, value: string): void;
  /** Totals of the engine: tensors, data buffers, and bytes as `tf.memory()` counts them (shared buffers twice). */
  engineMemory(tensors: number, buffers: number, bytes: number): void;
  /** Adds time spent on recording, ms. */
  addOverhead(ms: number): void;
  /** Counts an argument that could not be recorded. */
  dropArgument(): void;
}

/** An id for an argument; none when there is no room to define it now. */
export const idOrNone = (id: number) => Math.max(id, 0);
