// The ops that a thread runs, by kernel or by the scope of a custom gradient.

import { type FlopsKind, flopsKindOf } from './kernel-flops.ts';
import { sharesBuffers } from './shared-buffers.ts';

/** A kernel or a custom gradient. */
export interface OpName {
  readonly text: string;
  /** Number unique to this op. */
  readonly code: number;
  readonly flopsKind: FlopsKind;
  /** Whether its output may lie in the buffer of its input. */
  readonly mayShare: boolean;
  /** Id from `recorder.name`; −1 when it is not named yet. */
  id: number;
}

/** Distinct ops: kernels, and custom gradients by scope, whose names a program may make up as it goes; all further ones share one. */
const opsMax = 4096;
/** Scopes that the engine itself opens; their names do not describe the op. */
const unnamedScopes: readonly string[] = ['', 'unnamed scope', 'forward', 'backward'];
const customGradient = 'customGrad';
const otherOps = '(other ops)';

export class OpNames {
  readonly #kernels = new Map<string, OpName>();
  /** Custom gradients, by their scope. */
  readonly #scopes = new Map<string, OpName>();
  /** Stands for those beyond the bound. */
  readonly other: OpName = { text: otherOps, code: opsMax, flopsKind: 0, mayShare: false, id: -1 };

  ofKernel(kernel: string): OpName {
    return this.#kernels.get(kernel) ?? this.#add(this.#kernels, kernel, kernel, flopsKindOf(kernel));
  }

  /** A custom gradient has the name of the op or the `tf.tidy` around it. */
  ofScope(scope: string): OpName {
    const known = this.#scopes.get(scope);
    if (known !== undefined) return known;
    // tfjs-core appends it to distinguish ops from kernels [ops/operation.js, OP_SCOPE_SUFFIX].
    return this.#add(this.#scopes, scope, unnamedScopes.includes(scope) ? customGradient : scope.replace(/__op$/, ''), 0);
  }

  #add(ops: Map<string, OpName>, key: string, text: string, flopsKind: FlopsKind): OpName {
    const code = this.#kernels.size + this.#scopes.size;
    if (code >= opsMax) return this.other;
    const op = { text, code, flopsKind, mayShare: ops === this.#kernels && sharesBuffers(text), id: -1 };
    ops.set(key, op);
    return op;
  }
}
