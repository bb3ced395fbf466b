// Facts from the layers and optimizers of the training code: the running layer, and its place in the program.
//
// Layers and optimizers are classes of whichever package the training code loaded. Their hooks may come before there is anything to record
// (`fitCallback`): `model.fit` calls back when it runs already, and by then its caller is no longer visible.

import { detail } from '../model/detail.ts';
import { CallStacks } from './call-stack.ts';
import type { TfjsNamespace } from './find-tfjs.ts';
import { installLayerModules, ModuleStack } from './layer-modules.ts';
import { holdInOptimizers } from './optimizer-stacks.ts';

export interface LayerHookOptions {
  /** Whether the hierarchy of layers is wanted, and stacks, which layers make cheaper. */
  readonly withModules: boolean;
  /** `'walk'`: walks each stack. */
  readonly withStack: boolean | 'walk';
}

export class LayerHooks {
  readonly modules = new ModuleStack();
  readonly stacks: CallStacks;
  readonly #options: LayerHookOptions;
  #wanted: { readonly detail: number } | undefined;
  #removals: (() => void)[] = [];

  constructor(options: LayerHookOptions) {
    this.#options = options;
    this.stacks = new CallStacks({ predicts: options.withStack !== 'walk' });
  }

  /** Whether there is anything to hook. */
  get isNeeded(): boolean {
    return this.#options.withModules || this.#options.withStack !== false;
  }

  /** Hooks the classes of `tf`; nothing when some are hooked already. */
  install(tf: TfjsNamespace): void {
    if (this.#removals.length > 0 || !this.isNeeded) return;
    const isWanted = (): boolean => ((this.#wanted?.detail ?? 0) & detail.stacks) !== 0;
    const withStack = this.#options.withStack !== false;
    if (withStack) this.#removals.push(holdInOptimizers(tf, this.stacks, isWanted));
    this.#removals.push(installLayerModules(tf, this.modules, withStack ? this.stacks : undefined, isWanted));
  }

  /** Recording begins: `recorder.detail` decides whether stacks are wanted. */
  attach(recorder: { readonly detail: number }): void {
    this.#wanted = recorder;
  }

  remove(): void {
    this.#wanted = undefined;
    for (let remove = this.#removals.pop(); remove !== undefined; remove = this.#removals.pop()) remove();
  }
}
