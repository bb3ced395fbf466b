// Finds the forward op of each backward op.
//
//   forward:   op on the tape, number n ──addTapeNode──► node.gradient                    (wrapped: remembers n)
//   backward:  node.gradient(dys), its thunks, the sum of gradients │ node.gradient of the next │ … │ engine.gradients returns
//              ops have the sequence −n                             │ −n of that one
//
// The engine asks one node after the other, each for its gradients at once [tape.js backpropagateGradients], so the backward of the last asked
// node runs; when the outermost or a nested `gradients` returns, the state is that of its call.
//
// A gradient of a gradient runs with the tape on: nodes pushed while the backward of n runs remember n too, so however high the order, a
// backward op names a forward op that was recorded under its own number.
//
// Invariant: results, exceptions and error messages of tfjs are those of the unwrapped functions.

import type { EngineTensor, TapeNode, TfjsEngine } from './engine.ts';
import type { OverheadSampler } from './overhead-sampler.ts';
import { override } from './override.ts';

export class TapeLinks {
  /** Sequence of the running op: > 0 its own, < 0 it belongs to the backward of −sequence, 0 none. The op hooks set and restore it. */
  sequence = 0;
  readonly #engine: TfjsEngine;
  readonly #overhead: OverheadSampler;
  #last = 0;
  /** Number of the forward op whose backward runs, 0 for none. */
  #backwardOf = 0;
  #isOn = true;

  constructor(engine: TfjsEngine, overhead: OverheadSampler) {
    this.#engine = engine;
    this.#overhead = overhead;
  }

  /** Whether a gradient is being computed. */
  get isBackward(): boolean {
    return this.#backwardOf !== 0;
  }

  /** The sequence of an op that begins now. */
  next(): number {
    if (this.#backwardOf !== 0) return -this.#backwardOf;
    const { gradientDepth, kernelDepth } = this.#engine.state;
    return gradientDepth > 0 && kernelDepth === 0 ? ++this.#last : 0;
  }

  /**
   * Hooks into the engine; the returned function removes the hook. Gradients taped meanwhile pass everything through. `saved` is called
   * with each tensor that a forward op keeps for its gradient.
   */
  install(saved: (tensor: EngineTensor) => void): () => void {
    const engine = this.#engine;
    const remove = override(engine, 'addTapeNode', (add) => (...args) => {
      if (!this.#isOn) return add.apply(engine, args);
      const overhead = this.#overhead;
      const began = overhead.begin();
      const tape = engine.state.activeTape;
      const length = tape?.length;
      const entered = overhead.reading(began);
      add.apply(engine, args);
      const left = overhead.reading(began);
      for (const tensor of args[4] ?? []) saved(tensor);
      // Inside an op this may be the node of a clone that the op saves for its gradient: part of the same op.
      const forward = this.#backwardOf !== 0 ? this.#backwardOf : this.sequence;
      if (forward > 0 && tape !== null && tape.length !== length) this.#link(tape.at(-1), forward);
      overhead.end(began, entered, left);
    });
    return () => {
      this.#isOn = false;
      remove();
    };
  }

  #link(node: TapeNode | undefined, forward: number): void {
    const gradient = node?.gradient;
    if (node === undefined || gradient === undefined) return;
    node.gradient = (dys) => {
      if (this.#isOn) this.#backwardOf = forward;
      return gradient(dys);
    };
  }

  /** Runs the engine's `gradients`. */
  run<T>(gradients: () => T): T {
    const outer = this.#backwardOf;
    try {
      return gradients();
    } finally {
      this.#backwardOf = outer;
    }
  }
}
