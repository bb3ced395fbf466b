// Waits until the device has computed an op's output, so that the op's time is the device's and not that of dispatching it: a tiny read.
// The bindings of tfjs-node have no way to wait, only `dataSync`, so we slice one element out of the output and read it.
//
// The wait leaves no trace: no tape, no profile of `tf.profile`, no tensor, no data copy, no memory record.
//
// The cpu and wasm backends and tfjs-node without a GPU run a kernel before they return: there we do not wait.

import type { BufferMemory } from './buffer-memory.ts';
import type { EngineBackend, EngineTensor, KernelCall, TfjsEngine } from './engine.ts';

const synchronousBackends: readonly string[] = ['cpu', 'wasm'];

/** Whether the backend has run a kernel when it returns. */
const isSynchronous = (name: string, backend: EngineBackend | null | undefined): boolean =>
  synchronousBackends.includes(name) || backend?.isUsingGpuDevice === false;

export class DeviceFence {
  readonly #engine: TfjsEngine;
  readonly #runKernelFunc: TfjsEngine['runKernelFunc'];
  readonly #memory: BufferMemory;

  /** `runKernelFunc`: the engine's own, which records nothing. */
  constructor(engine: TfjsEngine, runKernelFunc: TfjsEngine['runKernelFunc'], memory: BufferMemory) {
    this.#engine = engine;
    this.#runKernelFunc = runKernelFunc;
    this.#memory = memory;
  }

  /** Whether the running op is one of the fence's own. */
  isWaiting = false;

  /**
   * Waits for the `outputs` of `call`, and with them for all earlier work of the device. Never throws: on an error it does not wait. Not after
   * `Identity`: the engine clones tensors that an op saves for its gradient before the op returns, and the clone would have the op's time.
   */
  wait({ kernelName }: KernelCall, outputs: EngineTensor | readonly EngineTensor[] | undefined): void {
    const engine = this.#engine;
    if (kernelName === 'Identity' || outputs === undefined || isSynchronous(engine.backendName ?? '', engine.backendInstance)) return;
    const output = Array.isArray(outputs) ? (outputs.at(-1) as EngineTensor | undefined) : (outputs as EngineTensor);
    if (output === undefined || output.dtype === 'string' || output.size === 0) return;
    const { state } = engine;
    const { profiling } = state;
    this.isWaiting = true;
    this.#memory.isQuiet = true;
    state.profiling = false;
    // At depth 0 the tape would record the slice as part of the model.
    state.kernelDepth++;
    try {
      this.#read(output);
    } catch {
      // The op itself went well: hide this error from its caller.
    } finally {
      state.kernelDepth--;
      state.profiling = profiling;
      this.#memory.isQuiet = false;
      this.isWaiting = false;
    }
  }

  #read(output: EngineTensor): void {
    const engine = this.#engine;
    const backend = engine.state.tensorInfo.get(output.dataId)?.backend;
    if (backend === undefined) return;
    // Only the backend knows the parts of a complex tensor.
    if (output.size === 1 || output.dtype === 'complex64') {
      backend.readSync(output.dataId);
      return;
    }
    const attrs = { begin: output.shape.map(() => 0), size: output.shape.map(() => 1) };
    const sliced = this.#runKernelFunc.call(engine, { kernelName: 'Slice', inputs: { x: output }, attrs });
    const first = Array.isArray(sliced) ? (sliced[0] as EngineTensor) : sliced;
    try {
      backend.readSync(first.dataId);
    } finally {
      // It is the last tensor in the scope's list, and would stay there until the scope ends.
      const track = engine.state.activeScope?.track;
      if (track?.at(-1) === first) track.pop();
      first.dispose();
    }
  }
}
