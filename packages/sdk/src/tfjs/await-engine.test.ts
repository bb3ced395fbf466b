// These tests load copies of tfjs-core as programs do: each from a folder of its own.

import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { fixedStack } from '../testing/fixed-stack.ts';
import { OpRecording } from '../testing/op-recording.ts';
import { awaitEngine } from './await-engine.ts';
import type { EngineTensor, TfjsEngine } from './engine.ts';
import { EngineHooks } from './engine-hooks.ts';

interface Core {
  engine(): TfjsEngine;
  registerBackend(name: string, factory: () => unknown): boolean;
  registerKernel(kernel: object): void;
  setBackend(name: string): Promise<boolean>;
  KernelBackend: new () => object;
  tensor1d(values: number[]): EngineTensor;
  square(x: EngineTensor): EngineTensor;
}

const require = createRequire(import.meta.url);
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-tfjs-'));
let copies = 0;

/** Loads one more copy of tfjs-core. */
function loadCore(): Core {
  const modules = join(folder, String(++copies), 'node_modules');
  const dist = join(modules, '@tensorflow/tfjs-core/dist');
  mkdirSync(dist, { recursive: true });
  const bundle = require.resolve('@tensorflow/tfjs-core');
  copyFileSync(bundle, join(dist, 'tf-core.node.js'));
  const own = createRequire(bundle);
  for (const name of ['seedrandom', 'node-fetch', 'long']) {
    const manifest = own.resolve.paths(name)?.map((path) => join(path, name, 'package.json')) ?? [];
    const found = manifest.find((path) => {
      try {
        return own.resolve(path) === path;
      } catch {
        return false;
      }
    });
    if (found !== undefined) symlinkSync(dirname(found), join(modules, name));
  }
  return require(join(dist, 'tf-core.node.js')) as Core;
}

const property = () => Object.getOwnPropertyDescriptor(globalThis, '_tfengine');
const removals: (() => void)[] = [];

beforeEach(() => {
  Reflect.deleteProperty(globalThis, '_tfengine');
});
afterEach(() => {
  for (const remove of removals.splice(0).reverse()) remove();
  expect(property()?.set).toBeUndefined();
});
afterAll(() => {
  Reflect.deleteProperty(globalThis, '_tfengine');
  rmSync(folder, { recursive: true });
});

test('the engine is reported when tfjs makes it, and lies where tfjs would have put it', () => {
  const engines: TfjsEngine[] = [];
  removals.push(awaitEngine((engine) => engines.push(engine)));
  const core = loadCore();
  expect(engines).toEqual([core.engine()]);
  expect(property()).toEqual({ value: core.engine(), writable: true, configurable: true, enumerable: true });
});

test('one that is there is reported at once', () => {
  const core = loadCore();
  const engines: TfjsEngine[] = [];
  awaitEngine((engine) => engines.push(engine))();
  expect(engines).toEqual([core.engine()]);
});

test('what waits no more is not called, and leaves nothing', () => {
  const engines: TfjsEngine[] = [];
  awaitEngine((engine) => engines.push(engine))();
  expect(property()).toBeUndefined();
  loadCore();
  expect(engines).toEqual([]);
});

test.each(['the first', 'the second', 'none'])('several may wait, and %s of them stop', (who) => {
  const reported: string[] = [];
  const stops = ['the first', 'the second'].map((name) => [name, awaitEngine(() => reported.push(name))] as const);
  for (const [name, stop] of stops) if (name === who) stop();
  const core = loadCore();
  expect(reported.sort()).toEqual(['the first', 'the second'].filter((name) => name !== who));
  expect(property()?.value).toBe(core.engine());
});

test('two copies of tfjs share the engine: the ops of both are recorded', async () => {
  const recording = new OpRecording();
  removals.push(
    awaitEngine((engine) => {
      const stacks = fixedStack('');
      const hooks = new EngineHooks(engine, recording, { modules: { path: '' }, stacks });
      removals.push(() => hooks.remove());
    }),
  );
  const [first, second] = [loadCore(), loadCore()];
  expect(second.engine()).toBe(first.engine());
  expect(second.tensor1d).not.toBe(first.tensor1d);
  class Backend extends first.KernelBackend {
    write = () => ({});
    numDataIds = () => 0;
    disposeData = () => true;
  }
  first.registerBackend('two-copies', () => new Backend());
  // The second copy registers for both: the registry of kernels is shared too.
  second.registerKernel({
    kernelName: 'Square',
    backendName: 'two-copies',
    kernelFunc: ({ inputs }: { inputs: { x: EngineTensor } }) => ({ dataId: {}, shape: inputs.x.shape, dtype: 'float32' }),
  });
  await first.setBackend('two-copies');
  first.square(first.tensor1d([1, 2]));
  second.square(second.tensor1d([1, 2, 3]));
  expect(recording.ops.map(({ name, signature }) => [name, signature['Input Dims']])).toEqual([
    ['Square', [[2]]],
    ['Square', [[3]]],
  ]);
});
