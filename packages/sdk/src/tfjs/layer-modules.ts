// The running layer: the names from the model down to the layer, joined by `.` as torch names its modules (`net.encoder.dense_1`).
//
// Every layer and every model used as a layer runs through `Layer.prototype.apply`, so we wrap that. `fit`, `predict` and `evaluate` call no
// `apply` of the model itself: we also wrap the functions in which they run its layers, and there the model's name leads the names of its
// layers (it is not the module of the losses and updates that run beside them).
//
// Calls with symbolic tensors build a model and run nothing: they pass through.
//
// Invariant: the path after a call is the path before it, also when the call throws.
// Invariant: a repeated `enter` of a name at one place allocates nothing. At most `pathsMax` paths exist; layers beyond that have the path
// of the last layer with its own.

import { override } from './override.ts';

const pathsMax = 16_384;
const nameCharsMax = 256;

/** The path of the running layer of this thread. */
export class ModuleStack {
  #node = new ModuleNode('', '', undefined);
  #paths = 0;
  /** Number of layers inside the last one with a path of its own. */
  #over = 0;

  /** Names joined by `.`, outermost first; '' outside of layers. The same place returns the same string. */
  get path(): string {
    return this.#node.path;
  }

  /** The layer `name` begins. `leave` must follow. */
  enter(name: string): void {
    if (this.#over > 0) this.#over++;
    else this.#descend(this.#node.known(name) ?? this.#define(name, true));
  }

  /** The layers of model `name` are about to run, outside of it: their paths contain it, but `path` does not change. `leave` must follow. */
  lead(name: string): void {
    if (this.#over > 0) this.#over++;
    else this.#descend(this.#node.knownLead(name) ?? this.#define(name, false));
  }

  /** Ends the last `enter` or `lead`; without one, does nothing. */
  leave(): void {
    if (this.#over > 0) this.#over--;
    else this.#node = this.#node.outer ?? this.#node;
  }

  #descend(node: ModuleNode | undefined): void {
    if (node === undefined) this.#over = 1;
    else this.#node = node;
  }

  #define(name: string, runs: boolean): ModuleNode | undefined {
    if (this.#paths >= pathsMax) return undefined;
    this.#paths++;
    return this.#node.add(name, runs);
  }
}

class ModuleNode {
  /** Path of layers that run here. */
  readonly path: string;
  readonly outer: ModuleNode | undefined;
  readonly #prefix: string;
  readonly #layers = new Map<string, ModuleNode>();
  readonly #leads = new Map<string, ModuleNode>();

  constructor(path: string, prefix: string, outer: ModuleNode | undefined) {
    this.path = path;
    this.#prefix = prefix;
    this.outer = outer;
  }

  known(name: string): ModuleNode | undefined {
    return this.#layers.get(name);
  }

  knownLead(name: string): ModuleNode | undefined {
    return this.#leads.get(name);
  }

  add(name: string, runs: boolean): ModuleNode {
    // JavaScript callers, or a layer's class, may pass anything.
    const path = `${this.#prefix}${String(name).slice(0, nameCharsMax)}`;
    const node = new ModuleNode(runs ? path : this.path, `${path}.`, this);
    (runs ? this.#layers : this.#leads).set(name, node);
    return node;
  }
}

/** Notified when the code of a layer runs, so that its stack need not be looked up op by op (`CallStacks` is one). */
export interface LayerScopes {
  enter(kind?: object): void;
  leave(): void;
  /** Runs code that goes on after it returned, until its promise settles. */
  follow<T>(run: () => T): T;
  /** The same for code that runs already and whose caller is still on the stack. */
  followWhile(goesOn: () => boolean): void;
}

/** The classes of the tfjs namespace that we wrap; tfjs-core alone has none of them. */
export interface LayersNamespace {
  readonly layers?: { readonly Layer?: { readonly prototype: object } };
  readonly LayersModel?: { readonly prototype: object };
  readonly Sequential?: { readonly prototype: object };
}

interface Layer {
  readonly name: string;
  readonly built?: boolean;
  apply(...args: unknown[]): unknown;
}

type RunBatch = (...args: unknown[]) => unknown;

interface Model extends Layer {
  readonly layers: readonly Layer[];
  /** Whether `fit` or `fitDataset` runs. */
  readonly isTraining?: boolean;
  standardizeUserData(...args: unknown[]): unknown;
  predictLoop: RunBatch;
  makeTrainFunction(): RunBatch;
  makeTestFunction(): unknown;
  testFunction?: RunBatch;
  /** Made anew by each `compile`. */
  readonly lossFunctions?: object;
}

interface SequentialModel extends Layer {
  /** The inner model that runs its layers; named after it with `_model` at the end. */
  readonly model?: Model | null;
  build(...args: unknown[]): unknown;
}

const trainingMethods = ['fit', 'fitDataset', 'trainOnBatch', 'evaluateDataset'] as const;
const sequentialMethods = ['fit', 'fitDataset', 'trainOnBatch', 'evaluate', 'evaluateDataset', 'predict', 'predictOnBatch'] as const;

/**
 * Keeps `modules` at the running layer, for all models of `tf`, existing ones too, until the caller calls the returned function. Enters
 * `scopes`, if given, while `scopesWanted()`. Does nothing for a namespace without layers.
 *
 * @example const remove = installLayerModules(tf, modules); model.fit(x, y); // modules.path in an op: 'sequential_1.dense_Dense1'
 */
export function installLayerModules(
  tf: LayersNamespace,
  modules: ModuleStack,
  scopes?: LayerScopes,
  scopesWanted: () => boolean = () => true,
): () => void {
  const layerPrototype = tf.layers?.Layer?.prototype as Layer | undefined;
  if (layerPrototype === undefined) return () => {};
  let installed = true;
  /** For the model inside a sequential one: the name that the user knows. */
  const names = new WeakMap<object, string>();

  const run = (layer: Layer, enter: 'enter' | 'lead', kind: object | undefined, f: RunBatch, receiver: unknown, args: unknown[]) => {
    const scoped = scopes !== undefined && scopesWanted();
    modules[enter](names.get(layer) ?? nameOf(layer));
    if (scoped) scopes.enter(kind);
    try {
      return f.apply(receiver, args);
    } finally {
      if (scoped) scopes.leave();
      modules.leave();
    }
  };
  // The layer itself is the kind of code: its content (cells, inner layers, overridden methods) is fixed when it is built.
  const kindOf = (layer: Layer) => (layer.built === true ? layer : undefined);

  const removals = [
    override(layerPrototype, 'apply', (original) => {
      return function (this: Layer, ...args) {
        return installed && isRun(args[0]) ? run(this, 'enter', kindOf(this), original, this, args) : original.apply(this, args);
      };
    }),
  ];

  // In `model.fit(x, y, { callbacks: fitCallback(…) })` the argument installs this after `model.fit` was read: we catch that call in a method that
  // it calls before its first `await`.
  const noticed = new WeakSet<Model>();
  const notice = (model: Model): void => {
    if (!installed || scopes === undefined || noticed.has(model)) return;
    noticed.add(model);
    if (model.isTraining === true) scopes.followWhile(() => model.isTraining === true);
  };

  const modelPrototype = tf.LayersModel?.prototype as Model | undefined;
  if (modelPrototype !== undefined) {
    const led = (model: Model, kind: (model: Model) => object | undefined, f: RunBatch): RunBatch =>
      function (this: unknown, ...args) {
        return installed ? run(model, 'lead', kind(model), f, this, args) : f.apply(this, args);
      };
    // Training and testing also run losses, metrics and an optimizer, which `compile` fixes.
    const compiled = new WeakMap<object, { readonly train: object; readonly test: object }>();
    const kindOfCompiled = (use: 'train' | 'test') => (model: Model) => {
      const losses = model.lossFunctions;
      if (typeof losses !== 'object') return undefined;
      if (!compiled.has(losses)) compiled.set(losses, { train: {}, test: {} });
      return compiled.get(losses)?.[use];
    };
    removals.push(
      override(modelPrototype, 'predictLoop', (original) => {
        return function (this: Model, ...args) {
          return led(this, kindOf, original).apply(this, args);
        };
      }),
      override(modelPrototype, 'makeTrainFunction', (original) => {
        return function (this: Model) {
          notice(this);
          const train = original.call(this);
          return installed ? led(this, kindOfCompiled('train'), train) : train;
        };
      }),
      override(modelPrototype, 'makeTestFunction', (original) => {
        return function (this: Model) {
          const test = original.call(this);
          if (!installed || this.testFunction === undefined) return test;
          this.testFunction = led(this, kindOfCompiled('test'), this.testFunction);
          return this.testFunction;
        };
      }),
    );
    if (scopes !== undefined)
      removals.push(
        override(modelPrototype, 'standardizeUserData', (original) => {
          return function (this: Model, ...args) {
            notice(this);
            return original.apply(this, args);
          };
        }),
        ...overrideAll(
          modelPrototype,
          trainingMethods,
          (method) =>
            function (this: Model, ...args) {
              if (!installed) return method.apply(this, args);
              noticed.add(this);
              return scopes.follow(() => method.apply(this, args));
            },
        ),
      );
  }

  const sequentialPrototype = tf.Sequential?.prototype as SequentialModel | undefined;
  if (sequentialPrototype !== undefined) {
    const nameInner = (model: SequentialModel) => {
      if (installed && model.model) names.set(model.model, model.name);
    };
    // A model built before gets its name in its methods, one built now in `build`.
    removals.push(
      ...overrideAll(
        sequentialPrototype,
        sequentialMethods,
        (method) =>
          function (this: SequentialModel, ...args) {
            nameInner(this);
            return method.apply(this, args);
          },
      ),
    );
    removals.push(
      override<SequentialModel, 'build'>(sequentialPrototype, 'build', (original) => {
        return function (this: SequentialModel, ...args) {
          const result = original.apply(this, args);
          nameInner(this);
          return result;
        };
      }),
    );
  }

  return () => {
    installed = false;
    for (const remove of removals) remove();
  };
}

/** Overrides those of `names` that `prototype` has; the returned functions undo that. */
function overrideAll(prototype: object, names: readonly string[], replace: (method: RunBatch) => RunBatch): (() => void)[] {
  const methods = prototype as Record<string, RunBatch>;
  return names
    .filter((name) => typeof methods[name] === 'function')
    .map((name) => override(methods, name, (method) => replace(method as RunBatch)));
}

/**
 * A sequential model has a model inside that runs its layers: `NAME_model`, in one chain, whose input is named after its first layer
 * [models.js, Sequential.add and build]. A model without a name of its own gets that one.
 */
function nameOf(layer: Layer): string {
  const { name, layers } = layer as Layer & Partial<Model>;
  const [input, first] = layers ?? [];
  const isInside = String(name).endsWith('_model') && first !== undefined && input?.name === `${first.name}_input`;
  return isInside ? name.slice(0, -'_model'.length) : name;
}

/** Whether a layer called with `inputs` runs: symbolic tensors have no data. */
function isRun(inputs: unknown): boolean {
  const first: unknown = Array.isArray(inputs) ? inputs[0] : inputs;
  return typeof first === 'object' && first !== null && 'dataId' in first;
}
