// Brings the hooks of one thread together: the engine's as soon as there is one, the layers' as soon as their package is loaded.
//
// The engine is a global of the process, so ops need nothing from the program. Layers and optimizers are classes of whichever package the
// training code loaded; it is looked for in the first steps, or given.

import { detail } from '../detail.ts';
import { awaitEngine } from './await-engine.ts';
import { CallStacks } from './call-stack.ts';
import { EngineHooks } from './engine-hooks.ts';
import { findTfjs, type TfjsNamespace } from './find-tfjs.ts';
import { installLayerModules, ModuleStack } from './layer-modules.ts';
import type { OpRecorder } from './op-recorder.ts';
import { holdInOptimizers } from './optimizer-stacks.ts';
import { findSteps } from './step-finder.ts';

export interface AttachTfjsOptions {
  /** The namespace that the training code uses, where it was given. */
  readonly tf?: unknown;
  readonly fence: boolean;
  /** Whether the hierarchy of layers is wanted, and stacks, which layers make cheaper. */
  readonly withModules: boolean;
  readonly withStack: boolean;
  /** Called at the end of each optimizer step, where steps are to be found. */
  readonly onStep?: (() => void) | undefined;
}

/** Steps in which the package is looked for: looking through all loaded modules takes some 0.1 ms. */
const lookedFor = 16;

export class TfjsHooks {
  readonly #recorder: OpRecorder;
  readonly #options: AttachTfjsOptions;
  readonly #modules = new ModuleStack();
  readonly #stacks = new CallStacks();
  readonly #removals: (() => void)[] = [];
  #engine: EngineHooks | undefined;
  #looks = 0;

  constructor(recorder: OpRecorder, options: AttachTfjsOptions) {
    this.#recorder = recorder;
    this.#options = options;
    this.#removals.push(awaitEngine((engine) => this.#hook(engine)));
    this.#look();
  }

  /** A step ended: records what the engine holds. */
  endStep(): void {
    if (this.#recorder.detail !== 0) this.#engine?.endStep();
    if (this.#looks < lookedFor) this.#look();
  }

  /** Results begin here. */
  beginWindow(): void {
    this.#engine?.beginWindow();
  }

  /** Takes every hook out; the last one first. */
  remove(): void {
    for (let remove = this.#removals.pop(); remove !== undefined; remove = this.#removals.pop()) remove();
    this.#engine = undefined;
    this.#looks = lookedFor;
  }

  #hook(engine: ConstructorParameters<typeof EngineHooks>[0]): void {
    const hooks = new EngineHooks(engine, this.#recorder, {
      fence: this.#options.fence,
      modules: this.#modules,
      stacks: this.#stacks,
    });
    this.#engine = hooks;
    this.#removals.push(() => hooks.remove());
  }

  #look(): void {
    const { tf, withModules, withStack, onStep } = this.#options;
    if (!withModules && !withStack && onStep === undefined) {
      this.#looks = lookedFor;
      return;
    }
    this.#looks++;
    const found: TfjsNamespace | undefined = findTfjs(tf);
    if (found === undefined) return;
    this.#looks = lookedFor;
    const isWanted = (): boolean => (this.#recorder.detail & detail.stacks) !== 0;
    if (withStack) this.#removals.push(holdInOptimizers(found, this.#stacks, isWanted));
    if (withModules || withStack) {
      this.#removals.push(installLayerModules(found, this.#modules, withStack ? this.#stacks : undefined, isWanted));
    }
    if (onStep !== undefined) this.#removals.push(findSteps(found, onStep));
  }
}
