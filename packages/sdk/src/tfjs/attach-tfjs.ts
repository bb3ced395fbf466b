// Connects the hooks of one thread: the engine's as soon as it exists, the layers' as soon as their package is loaded.
//
// The engine is a global of the process, so ops need nothing from the program. Layers and optimizers are classes of whichever package the
// training code loaded; we look for it at the first tensors and ops, unless it is given.

import { threadId } from 'node:worker_threads';
import { stacksKey } from '@ranktrace/protocol';
import { detail } from '../model/detail.ts';
import { awaitEngine } from './await-engine.ts';
import { awaitTfjs } from './await-tfjs.ts';
import type { CallStacks } from './call-stack.ts';
import { EngineHooks, KnownOps } from './engine-hooks.ts';
import type { TfjsNamespace } from './find-tfjs.ts';
import { type LayerHookOptions, LayerHooks } from './layer-hooks.ts';
import type { OpRecorder } from './op-recorder.ts';

export interface AttachTfjsOptions extends LayerHookOptions {
  /** The namespace that the training code uses, if given. */
  readonly tf?: unknown;
  readonly fence: boolean;
  /** Whether allocations may be wanted. */
  readonly withMemory: boolean;
  /** Hooks of layers that exist already. Default: new ones. */
  readonly layers?: LayerHooks | undefined;
  /** Called once with the package, after its layers are hooked. */
  readonly onTfjs?: ((tf: TfjsNamespace) => void) | undefined;
}

export class TfjsHooks {
  readonly #recorder: OpRecorder;
  readonly #options: AttachTfjsOptions;
  readonly #known: KnownOps;
  readonly #layers: LayerHooks;
  readonly #stopAwaiting: () => void;
  readonly #stopLooking: () => void;
  #engine: ConstructorParameters<typeof EngineHooks>[0] | undefined;
  #hooks: EngineHooks | undefined;
  #isRemoved = false;
  /** Wrong stacks, as recorded last. */
  #wrongReported = 0;

  constructor(recorder: OpRecorder, options: AttachTfjsOptions) {
    this.#recorder = recorder;
    this.#options = options;
    this.#known = new KnownOps(recorder);
    this.#layers = options.layers ?? new LayerHooks(options);
    this.#layers.attach(recorder);
    this.#stopAwaiting = awaitEngine((engine) => this.#found(engine));
    const isLookedFor = this.#layers.isNeeded || options.onTfjs !== undefined;
    this.#stopLooking = isLookedFor ? awaitTfjs((tf) => this.#foundPackage(tf), options.tf) : () => {};
  }

  /** The stacks of this thread. */
  get stacks(): CallStacks {
    return this.#layers.stacks;
  }

  /** Whether hooks record an engine's ops now. */
  get isHooked(): boolean {
    return this.#hooks !== undefined;
  }

  /** Whether there is an engine with ops, hooked or not. */
  get hasEngine(): boolean {
    return this.#engine !== undefined;
  }

  /** A step ended: records the engine's totals. */
  endStep(): void {
    this.follow();
    this.#hooks?.endStep();
    if (this.#options.withStack === true) this.#beginStep();
  }

  /** Results begin here. */
  beginWindow(): void {
    this.follow();
    this.#hooks?.beginWindow();
  }

  /** Hooks that record nothing would still slow the engine: they come off while ops are not wanted (shed, switched off). */
  follow(): void {
    const isWanted = (this.#recorder.detail & detail.ops) !== 0;
    if (isWanted && this.#hooks === undefined && this.#engine !== undefined) this.#hooks = this.#hook(this.#engine);
    else if (!isWanted && this.#hooks !== undefined) {
      this.#hooks.remove();
      this.#hooks = undefined;
    }
  }

  /** Removes every hook; the last one first. */
  remove(): void {
    this.#isRemoved = true;
    this.#reportStacks();
    this.#layers.remove();
    // The hooks that look for the package lie around the others or, if those came off and on meanwhile, inside of them.
    this.#stopLooking();
    this.#stopAwaiting();
    this.#hooks?.remove();
    this.#stopLooking();
    this.#hooks = this.#engine = undefined;
  }

  #found(engine: ConstructorParameters<typeof EngineHooks>[0]): void {
    this.#engine = engine;
    this.follow();
  }

  #foundPackage(tf: TfjsNamespace): void {
    if (this.#isRemoved) return;
    this.#layers.install(tf);
    this.#options.onTfjs?.(tf);
  }

  #hook(engine: ConstructorParameters<typeof EngineHooks>[0]): EngineHooks {
    const { fence, withMemory } = this.#options;
    return new EngineHooks(engine, this.#recorder, {
      fence,
      withMemory,
      modules: this.#layers.modules,
      stacks: this.stacks,
      known: this.#known,
    });
  }

  #beginStep(): void {
    this.stacks.beginStep();
    if (this.stacks.counts?.wrong !== this.#wrongReported) this.#reportStacks();
  }

  /** Records how reliable stacks are. */
  #reportStacks(): void {
    const { counts } = this.stacks;
    if (counts === undefined || counts.taken + counts.walked === 0) return;
    this.#wrongReported = counts.wrong;
    this.#recorder.addMetadata(`${stacksKey}${threadId}`, JSON.stringify(counts));
  }
}

/** Hooks tfjs; training goes on without its ops when a hook meets an unknown engine. */
export function hookTfjs(warn: (text: string) => void, ...parts: ConstructorParameters<typeof TfjsHooks>): TfjsHooks | undefined {
  try {
    return new TfjsHooks(...parts);
  } catch (error) {
    warn(`ops of TensorFlow.js are not recorded: ${String(error)}`);
    return undefined;
  }
}
