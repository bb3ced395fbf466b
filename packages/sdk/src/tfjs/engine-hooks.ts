// Records the work of a tfjs engine: every op, its tensors and its gradient's origin, data buffers, data copies. The hooks are own properties of
// the engine instance: they see every backend, kernels registered later, custom gradients, and both copies of tfjs when a program has loaded two.
//
//   runKernelFunc   here                    ops: spans on the stack, nested ones inside
//   addTapeNode     tape-links.ts           forward op ↔ backward ops
//   trackTensor, removeDataId               buffer-memory.ts
//   makeTensor, read, readSync              data-copy-hooks.ts
//   the backend's binding                   native-binding.ts
//
// Invariants: results and exceptions are those of the engine without hooks; `remove` leaves no property of ours behind or, if another tool
// has overridden one since, a property that passes everything through. While ops are not wanted, each costs a read of `recorder.detail`.
//
// An op's time includes, beside the kernel, the engine's own work around it, and the search for the op's signature (some 0.1 µs).

import { detail } from '../model/detail.ts';
import { memoryCategory } from '../model/memory-category.ts';
import { backendFacts } from './backend-facts.ts';
import { BufferMemory, type BufferNumbers } from './buffer-memory.ts';
import type { FoundStack } from './call-stack.ts';
import { type DataCopyHooks, installDataCopyHooks } from './data-copy-hooks.ts';
import { DeviceFence } from './device-fence.ts';
import type { EngineTensor, KernelCall, TfjsEngine } from './engine.ts';
import { findTfjs } from './find-tfjs.ts';
import { type FlopsKind, kernelFlops } from './kernel-flops.ts';
import type { NativeOutputs } from './native-binding.ts';
import { type OpName, OpNames } from './op-names.ts';
import { idOrNone, type OpRecorder } from './op-recorder.ts';
import { OpSignatures } from './op-signatures.ts';
import { OverheadSampler } from './overhead-sampler.ts';
import { override } from './override.ts';
import { TapeLinks } from './tape-links.ts';

export interface EngineHookOptions {
  /** Whether memory may be wanted (`detail.memory`); if not, the engine's tensors are not followed. Default true. */
  readonly withMemory?: boolean;
  /** Whether each op waits until the device has run it: times are the device's, and training is slower. Default false: times of the host. */
  readonly fence?: boolean;
  /** Running layers: `Outer/Inner`, '' for none. */
  readonly modules: { readonly path: string };
  readonly stacks: OpStacks;
  /** Knowledge of earlier hooks: hooks come off while ops are not wanted. Default: none yet. */
  readonly known?: KnownOps;
  /** Clock, ms, for the cost of recording. Default: `performance.now`. */
  readonly now?: () => number;
}

/** Knowledge that hooks gather about a thread's ops. */
export class KnownOps {
  readonly names = new OpNames();
  readonly signatures: OpSignatures;
  readonly buffers: BufferNumbers = { lastAddress: 0, window: 0 };

  constructor(recorder: OpRecorder) {
    this.signatures = new OpSignatures(recorder, kernelFlops);
  }
}

/** `CallStacks` (call-stack.ts). */
export interface OpStacks {
  /** The user's caller of the op or copy `event`; its text is '' when no user's code is on the stack. */
  captureAt(event: string, module: string): FoundStack;
  /** The same event, without a request for its stack. */
  pass(event: string, module: string): void;
  /** From now on `capture` returns `stack`; returns the stack held before, to be held again. */
  hold(stack: FoundStack | undefined): FoundStack | undefined;
}

const described = detail.shapes | detail.flops;
const maxKind = (a: FlopsKind, b: FlopsKind): FlopsKind => (a > b ? a : b);

/** Hooks into an engine, from the moment it is made until `remove`. */
export class EngineHooks {
  readonly #engine: TfjsEngine;
  readonly #recorder: OpRecorder;
  readonly #options: EngineHookOptions;
  readonly #overhead: OverheadSampler;
  readonly #memory: BufferMemory;
  readonly #links: TapeLinks;
  readonly #names: OpNames;
  readonly #signatures: OpSignatures;
  readonly #fence: DeviceFence | undefined;
  readonly #runKernelFunc: TfjsEngine['runKernelFunc'];
  readonly #copies: DataCopyHooks;
  readonly #removals: readonly (() => void)[];
  #troubleReported: string | undefined;
  /** The most specific FLOPs of the ops inside the running one. */
  #counted: FlopsKind = 0;
  /** Depth of nested running ops. */
  readonly #running = { depth: 0 };
  #backend: TfjsEngine['backendInstance'];
  #backendReported = '';
  #modulePath = '';
  #moduleId = 0;
  #isOn = true;

  constructor(engine: TfjsEngine, recorder: OpRecorder, options: EngineHookOptions) {
    this.#engine = engine;
    this.#recorder = recorder;
    this.#options = options;
    this.#overhead = new OverheadSampler(recorder, options.now ?? (() => performance.now()));
    this.#links = new TapeLinks(engine, this.#overhead);
    const { known = new KnownOps(recorder) } = options;
    this.#names = known.names;
    this.#signatures = known.signatures;
    this.#memory = new BufferMemory(engine, recorder, this.#overhead, () => this.#links.isBackward, known.buffers);
    this.#runKernelFunc = engine.runKernelFunc;
    this.#fence = options.fence === true ? new DeviceFence(engine, this.#runKernelFunc, this.#memory) : undefined;
    const removeMemory = options.withMemory === false ? () => {} : this.#memory.install();
    this.#copies = installDataCopyHooks(engine, recorder, this.#memory, this.#overhead, options.stacks, {
      running: this.#running,
      run: (name, run, outputsOf, callOf) => this.#recordRun(name, run, outputsOf, callOf),
    });
    this.#removals = [
      removeMemory,
      () => this.#copies.remove(),
      this.#links.install((tensor) => this.#memory.categorize(tensor.dataId, memoryCategory.activation)),
      override(
        engine,
        'gradients',
        (gradients) =>
          (...args) =>
            this.#keepGradients(this.#links.run(() => gradients.apply(engine, args))),
      ),
      override(engine, 'runKernelFunc', () => (call) => this.#runOp(call)),
    ];
  }

  remove(): void {
    this.#isOn = false;
    // Last in, first out: the engine is then the original object, in V8's eyes too (deleting another property makes it a slow one).
    for (const remove of this.#removals.toReversed()) remove();
  }

  /** A result window begins. */
  beginWindow(): void {
    this.#memory.beginWindow();
    // Results need it, too, whenever the program chose its backend.
    this.#backendReported = '';
  }

  /** A step ended: records the engine's totals. */
  endStep(): void {
    const { numTensors, numDataBuffers, numBytes } = this.#engine.state;
    this.#recorder.engineMemory(numTensors, numDataBuffers, numBytes);
    this.#reportBackend();
    this.#memory.categorizeVariables();
  }

  /** Records the backend: the meaning of op times depends on it. */
  #reportBackend(): void {
    const { backendName } = this.#engine;
    if (backendName === null || backendName === undefined || backendName === this.#backendReported) return;
    this.#backendReported = backendName;
    const { facts, trouble } = backendFacts(this.#engine, backendName, this.#fence !== undefined, findTfjs());
    for (const [key, value] of facts) this.#recorder.addMetadata(key, value);
    if (trouble !== undefined && trouble !== this.#troubleReported) process.emitWarning(trouble, 'RanktraceWarning');
    this.#troubleReported = trouble;
  }

  #keepGradients(result: ReturnType<TfjsEngine['gradients']>): ReturnType<TfjsEngine['gradients']> {
    if (!this.#isOn) return result;
    const began = this.#overhead.begin();
    for (const grad of result.grads) if (grad != null) this.#memory.categorize(grad.dataId, memoryCategory.gradient);
    this.#overhead.end(began);
    return result;
  }

  get #isWanted(): boolean {
    return this.#isOn && (this.#recorder.detail & detail.ops) !== 0 && this.#fence?.isWaiting !== true;
  }

  #runOp(call: KernelCall): EngineTensor | EngineTensor[] {
    const began = this.#overhead.begin();
    const wanted = this.#recorder.detail;
    if (!this.#isOn || (wanted & detail.ops) === 0) return this.#runKernelFunc.call(this.#engine, call);
    if (this.#fence?.isWaiting) return this.#runKernelFunc.call(this.#engine, call);
    return this.#recordOp(call, wanted, began);
  }

  /** `began`: from the sampler. */
  #recordOp(call: KernelCall, wanted: number, began: number): EngineTensor | EngineTensor[] {
    const recorder = this.#recorder;
    const engine = this.#engine;
    const overhead = this.#overhead;
    const links = this.#links;
    const memory = this.#memory;
    const op =
      call.kernelName === undefined ? this.#names.ofScope(engine.state.activeScope?.name ?? '') : this.#names.ofKernel(call.kernelName);
    if (op.id < 0) op.id = recorder.name(op.text);
    const module = (wanted & detail.modules) === 0 ? 0 : this.#idOfModule();
    const outer = links.sequence;
    const sequence = links.next();
    links.sequence = sequence;
    // A backward op has the stack of its forward op, which readers find by the sequence: a walk here would show the engine's loop.
    const found = (wanted & detail.stacks) === 0 ? undefined : this.#stackOf(op, sequence);
    if (found !== undefined && found.id < 0) found.id = recorder.name(found.text);
    const stack = found === undefined ? 0 : idOrNone(found.id);
    // Kernels call nothing of the user's: ops inside a named one have its stack.
    const holds = found !== undefined && found.id !== 0 && call.kernelName !== undefined;
    const heldBefore = holds ? this.#options.stacks.hold(found) : undefined;
    const { allocated, freed, kernel } = memory;
    if (op.mayShare || kernel !== undefined) memory.kernel = op.mayShare ? call : undefined;
    const countedBefore = this.#counted;
    this.#counted = 0;
    if (engine.backendInstance !== this.#backend) {
      this.#backend = engine.backendInstance;
      this.#copies.follow();
    }
    this.#running.depth++;
    let outputs: EngineTensor | EngineTensor[] | undefined;
    const isRecorded = recorder.beginOp(op.id);
    const entered = overhead.reading(began);
    let left = entered;
    try {
      outputs = this.#runKernelFunc.call(engine, call);
      this.#fence?.wait(call, outputs);
      return outputs;
    } finally {
      left = overhead.reading(began);
      this.#running.depth--;
      if (memory.kernel !== kernel) memory.kernel = kernel;
      if (holds) this.#options.stacks.hold(heldBefore);
      links.sequence = outer;
      // A composed kernel runs its parts as ops: FLOPs that they have counted do not count again.
      const counted = this.#counted;
      const counts = op.flopsKind > counted ? wanted : wanted & ~detail.flops;
      this.#counted = maxKind(maxKind(countedBefore, counted), op.flopsKind);
      if (isRecorded) {
        const isDescribed = (wanted & described) !== 0 && op !== this.#names.other;
        const signature = isDescribed ? this.#signatures.id(op, call, outputs, engine.backendName ?? '', counts) : 0;
        if ((wanted & detail.memory) === 0) recorder.endOp(signature, stack, module, sequence, 0, 0);
        else recorder.endOp(signature, stack, module, sequence, memory.allocated - allocated, memory.freed - freed);
      }
      overhead.end(began, entered, left);
    }
  }

  /** Records an op that the backend of tfjs-node runs without a kernel of the engine. */
  #recordRun<T>(
    name: string,
    run: () => T,
    outputsOf: (result: T) => NativeOutputs,
    callOf: (outputs: NativeOutputs) => KernelCall = () => ({ kernelName: name }),
  ): T {
    if (!this.#isWanted) return run();
    const recorder = this.#recorder;
    const overhead = this.#overhead;
    const began = overhead.begin();
    const wanted = recorder.detail;
    const op = this.#names.ofKernel(name);
    if (op.id < 0) op.id = recorder.name(op.text);
    const module = (wanted & detail.modules) === 0 ? 0 : this.#idOfModule();
    const found = (wanted & detail.stacks) === 0 ? undefined : this.#stackOf(op, 0);
    if (found !== undefined && found.id < 0) found.id = recorder.name(found.text);
    this.#running.depth++;
    const isRecorded = recorder.beginOp(op.id);
    let outputs: NativeOutputs | undefined;
    const entered = overhead.reading(began);
    let left = entered;
    try {
      const result = run();
      left = overhead.reading(began);
      outputs = outputsOf(result);
      return result;
    } finally {
      this.#running.depth--;
      if (isRecorded) {
        const isDescribed = (wanted & described) !== 0 && op !== this.#names.other;
        const signature = isDescribed ? this.#signatures.id(op, callOf(outputs ?? []), outputs, this.#engine.backendName ?? '', wanted) : 0;
        recorder.endOp(signature, found === undefined ? 0 : idOrNone(found.id), module, 0, 0, 0);
      }
      overhead.end(began, entered, left);
    }
  }

  #stackOf(op: OpName, sequence: number): FoundStack | undefined {
    const { stacks, modules } = this.#options;
    if (sequence >= 0) return stacks.captureAt(op.text, modules.path);
    stacks.pass(op.text, modules.path);
    return undefined;
  }

  /** Cached, for the same path stays for many ops. */
  #idOfModule(): number {
    const { path } = this.#options.modules;
    if (path !== this.#modulePath || this.#moduleId < 0) {
      this.#modulePath = path;
      this.#moduleId = path === '' ? 0 : this.#recorder.name(path);
    }
    return idOrNone(this.#moduleId);
  }
}
