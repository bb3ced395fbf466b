// Brings the hooks of one thread together: the engine's as soon as there is one, the layers' as soon as their package is loaded.
//
// The engine is a global of the process, so ops need nothing from the program. Layers and optimizers are classes of whichever package the
// training code loaded; it is looked for in the first steps, or given.

import { threadId } from 'node:worker_threads';
import { stacksKey } from '@ranktrace/protocol';
import { detail } from '../detail.ts';
import { awaitEngine } from './await-engine.ts';
import { CallStacks } from './call-stack.ts';
import { EngineHooks, KnownOps } from './engine-hooks.ts';
import { findTfjs, type TfjsNamespace } from './find-tfjs.ts';
import { installLayerModules, ModuleStack } from './layer-modules.ts';
import type { OpRecorder } from './op-recorder.ts';
import { holdInOptimizers } from './optimizer-stacks.ts';

export interface AttachTfjsOptions {
  /** The namespace that the training code uses, where it was given. */
  readonly tf?: unknown;
  readonly fence: boolean;
  /** Whether allocations may be wanted. */
  readonly withMemory: boolean;
  /** Whether the hierarchy of layers is wanted, and stacks, which layers make cheaper. */
  readonly withModules: boolean;
  /** `'walk'`: each is looked at. */
  readonly withStack: boolean | 'walk';
}

/** Steps in which the package is looked for: looking through all loaded modules takes some 0.1 ms. */
const lookedFor = 16;

export class TfjsHooks {
  readonly #recorder: OpRecorder;
  readonly #options: AttachTfjsOptions;
  readonly #modules = new ModuleStack();
  readonly #known: KnownOps;
  /** Of this thread. */
  readonly stacks: CallStacks;
  readonly #removals: (() => void)[] = [];
  #engine: ConstructorParameters<typeof EngineHooks>[0] | undefined;
  #hooks: EngineHooks | undefined;
  #looks = 0;
  /** Of stacks, as told last. */
  #wrongTold = 0;

  constructor(recorder: OpRecorder, options: AttachTfjsOptions) {
    this.#recorder = recorder;
    this.#options = options;
    this.#known = new KnownOps(recorder);
    this.stacks = new CallStacks({ predicts: options.withStack !== 'walk' });
    this.#removals.push(awaitEngine((engine) => this.#found(engine)));
    this.#look();
  }

  /** Whether ops of an engine are being recorded. */
  get isHooked(): boolean {
    return this.#hooks !== undefined;
  }

  /** A step ended: records what the engine holds. */
  endStep(): void {
    this.#follow();
    this.#hooks?.endStep();
    if (this.#options.withStack === true) this.#beginStep();
    if (this.#looks < lookedFor) this.#look();
  }

  /** Results begin here. */
  beginWindow(): void {
    this.#follow();
    this.#hooks?.beginWindow();
  }

  /** Takes every hook out; the last one first. */
  remove(): void {
    this.#tellStacks();
    for (let remove = this.#removals.pop(); remove !== undefined; remove = this.#removals.pop()) remove();
    this.#hooks?.remove();
    this.#hooks = this.#engine = undefined;
    this.#looks = lookedFor;
  }

  #found(engine: ConstructorParameters<typeof EngineHooks>[0]): void {
    this.#engine = engine;
    this.#follow();
  }

  /** Hooks that record nothing would cost the engine all the same: they come off while ops are not wanted (shed, switched off). */
  #follow(): void {
    const isWanted = (this.#recorder.detail & detail.ops) !== 0;
    if (isWanted && this.#hooks === undefined && this.#engine !== undefined) this.#hooks = this.#hook(this.#engine);
    else if (!isWanted && this.#hooks !== undefined) {
      this.#hooks.remove();
      this.#hooks = undefined;
    }
  }

  #hook(engine: ConstructorParameters<typeof EngineHooks>[0]): EngineHooks {
    const { fence, withMemory } = this.#options;
    return new EngineHooks(engine, this.#recorder, { fence, withMemory, modules: this.#modules, stacks: this.stacks, known: this.#known });
  }

  #beginStep(): void {
    this.stacks.beginStep();
    if (this.stacks.counts?.wrong !== this.#wrongTold) this.#tellStacks();
  }

  /** How far stacks can be trusted. */
  #tellStacks(): void {
    const { counts } = this.stacks;
    if (counts === undefined || counts.taken + counts.walked === 0) return;
    this.#wrongTold = counts.wrong;
    this.#recorder.addMetadata(`${stacksKey}${threadId}`, JSON.stringify(counts));
  }

  #look(): void {
    const { tf, withModules, withStack } = this.#options;
    if (!withModules && withStack === false) {
      this.#looks = lookedFor;
      return;
    }
    this.#looks++;
    const found: TfjsNamespace | undefined = findTfjs(tf);
    if (found === undefined) return;
    this.#looks = lookedFor;
    const isWanted = (): boolean => (this.#recorder.detail & detail.stacks) !== 0;
    if (withStack !== false) this.#removals.push(holdInOptimizers(found, this.stacks, isWanted));
    this.#removals.push(installLayerModules(found, this.#modules, withStack !== false ? this.stacks : undefined, isWanted));
  }
}
