// The tfjs that the training code has loaded. Never a second copy: this only searches loaded modules.
//
// All tfjs packages are CommonJS for node (4.22: `main`, no `exports`), so `import` of one goes through `require.cache` as `require` does,
// and one search there finds them all, in npm's, pnpm's and yarn's layouts alike: the real path of a main module ends with
// `node_modules/<package>/dist/…`. The cache belongs to this thread; another thread has its own tfjs.
//
// Invariant: never throws, and never runs code of a module that is still loading.

import { createRequire } from 'node:module';
import type { TfjsEngine } from './engine.ts';
import type { LayersNamespace } from './layer-modules.ts';

/** The parts of tfjs that we use, from whichever of its packages. */
export interface TfjsNamespace extends LayersNamespace {
  engine(): TfjsEngine;
  memory(): { readonly numTensors: number; readonly numDataBuffers: number; readonly numBytes: number };
  getBackend(): string;
  readonly Optimizer?: TfjsClass;
  readonly SGDOptimizer?: TfjsClass;
  readonly MomentumOptimizer?: TfjsClass;
  readonly RMSPropOptimizer?: TfjsClass;
  readonly AdamOptimizer?: TfjsClass;
  readonly AdamaxOptimizer?: TfjsClass;
  readonly AdagradOptimizer?: TfjsClass;
  readonly AdadeltaOptimizer?: TfjsClass;
}

/** A class by its prototype, whose methods are hooked. */
export interface TfjsClass {
  readonly prototype: object;
}

/** Packages, the most complete first: those of tfjs-node hold all of tfjs. */
const packages = [
  '@tensorflow/tfjs-node-gpu',
  '@tensorflow/tfjs-node',
  '@tensorflow/tfjs',
  '@tensorflow/tfjs-layers',
  '@tensorflow/tfjs-core',
] as const;
type TfjsPackage = (typeof packages)[number];

/** Paths of the main modules of 4.x. */
const mainModule = /[\\/]node_modules[\\/]@tensorflow[\\/](tfjs(?:-[a-z]+)*)[\\/]dist[\\/](?:index|tf(?:-[a-z]+)?\.node)\.js$/;

/**
 * `given` if it is a tfjs namespace, else the one loaded on this thread; undefined if there is none (yet). Among several copies it prefers the
 * one whose engine is the thread's own, `globalThis._tfengine`, then the most complete package.
 */
export function findTfjs(given?: unknown): TfjsNamespace | undefined {
  if (isTfjs(given)) return given;
  const loaded = loadedPackages();
  const found = packages.flatMap((name) => (name === '@tensorflow/tfjs-layers' ? [] : (loaded.get(name) ?? []))).filter(isTfjs);
  const best = found.find(hasThreadEngine) ?? found[0];
  if (best === undefined || best.layers !== undefined) return best;
  // tfjs-core alone, or beside tfjs-layers, which has no engine of its own.
  const layers = loaded.get('@tensorflow/tfjs-layers')?.find((module) => 'layers' in module);
  return layers === undefined ? best : withLayers(best, layers as LayersNamespace);
}

/** The exports of the loaded main modules. */
function loadedPackages(): Map<TfjsPackage, object[]> {
  const byPackage = new Map<TfjsPackage, object[]>();
  const { cache } = createRequire(process.execPath); // Any path gives the one cache; a bundler may leave no `import.meta.url`.
  for (const path of Object.keys(cache)) {
    const name = packages.find((known) => known === `@tensorflow/${mainModule.exec(path)?.[1]}`);
    const module = cache[path];
    if (name === undefined || module?.loaded !== true) continue;
    const exports: unknown = module.exports;
    if (typeof exports === 'object' && exports !== null) byPackage.set(name, [...(byPackage.get(name) ?? []), exports]);
  }
  return byPackage;
}

function withLayers(core: TfjsNamespace, { layers, LayersModel, Sequential }: LayersNamespace): TfjsNamespace {
  // The core's exports are getters, also through the prototype; the three names of layers stand before them.
  return Object.assign(Object.create(core) as TfjsNamespace, { layers, LayersModel, Sequential });
}

/** Whether it is the namespace of one of tfjs's packages with an engine. */
export function isTfjs(module: unknown): module is TfjsNamespace {
  if ((typeof module !== 'object' && typeof module !== 'function') || module === null) return false;
  try {
    return typeof (module as Partial<TfjsNamespace>).engine === 'function';
  } catch {
    return false; // A namespace whose modules wait for one another.
  }
}

function hasThreadEngine(tf: TfjsNamespace): boolean {
  try {
    return tf.engine() === (globalThis as { _tfengine?: unknown })._tfengine;
  } catch {
    return false;
  }
}
