import { runInThisContext } from 'node:vm';
import * as tf from '@tensorflow/tfjs';
import * as core from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { CallStacks } from './call-stack.ts';
import { installLayerModules, ModuleStack } from './layer-modules.ts';

interface Engine {
  runKernelFunc(call: { kernelName?: string }): unknown;
}

beforeAll(() => tf.setBackend('cpu'));

let modules: ModuleStack;
let remove: () => void;
beforeEach(() => {
  modules = new ModuleStack();
  remove = installLayerModules(tf, modules);
});
afterEach(() => {
  remove();
  expect(modules.path).toBe('');
});

/** `kernel @ path`, each once, of the ops inside `run`; clones and reshapes left out. */
async function opsOf(run: () => unknown): Promise<string[]> {
  const engine = tf.engine() as unknown as Engine;
  const original = engine.runKernelFunc;
  const seen = new Set<string>();
  engine.runKernelFunc = function (this: Engine, call) {
    if (call.kernelName !== undefined && !/^(Identity|Reshape)$/.test(call.kernelName)) seen.add(`${call.kernelName} @ ${modules.path}`);
    return original.call(this, call);
  };
  try {
    await run();
  } finally {
    delete (engine as Partial<Engine>).runKernelFunc;
  }
  return [...seen];
}

const sequential = (name?: string) =>
  tf.sequential({
    ...(name === undefined ? {} : { name }),
    layers: [tf.layers.dense({ units: 3, inputShape: [4], name: 'first', useBias: false }), tf.layers.reLU({ name: 'relu' })],
  });

test('the path is of the layer that runs', async () => {
  const model = sequential('net');
  expect(await opsOf(() => model.apply(tf.ones([2, 4])))).toEqual(['_FusedMatMul @ net.first', 'Relu @ net.relu']);
});

test('models inside of models have theirs', async () => {
  const input = tf.input({ shape: [4] });
  const inner = sequential('encoder');
  const head = tf.layers.dense({ units: 1, name: 'head', useBias: false }).apply(inner.apply(input)) as tf.SymbolicTensor;
  const model = tf.model({ inputs: input, outputs: head, name: 'whole' });
  expect(await opsOf(() => model.apply(tf.ones([2, 4])))).toEqual([
    '_FusedMatMul @ whole.encoder.first',
    'Relu @ whole.encoder.relu',
    '_FusedMatMul @ whole.head',
  ]);
});

test('a layer alone, one that wraps another and a recurrent one', async () => {
  const dense = tf.layers.dense({ units: 2, name: 'alone', useBias: false });
  expect(await opsOf(() => dense.apply(tf.ones([2, 4])))).toContain('_FusedMatMul @ alone');
  const inner = tf.layers.dense({ units: 2, name: 'inner', useBias: false });
  const wrapped = tf.layers.timeDistributed({ layer: inner, name: 'steps' });
  const ops = await opsOf(() => wrapped.apply(tf.ones([2, 3, 4])));
  expect(ops.filter((op) => op.startsWith('_FusedMatMul'))).toEqual(['_FusedMatMul @ steps']);
  const lstm = tf.layers.lstm({ units: 2, name: 'lstm' });
  expect(new Set((await opsOf(() => lstm.apply(tf.ones([2, 3, 4])))).map((op) => op.split(' @ ')[1]))).toEqual(new Set(['lstm']));
});

test('predict, evaluate and fit lead with the name of the model; losses and updates are of no layer', async () => {
  const model = sequential('net');
  expect(await opsOf(() => model.predict(tf.ones([2, 4])))).toEqual(
    expect.arrayContaining(['_FusedMatMul @ net.first', 'Relu @ net.relu']),
  );
  model.compile({ loss: 'meanSquaredError', optimizer: 'sgd' });
  const fitted = await opsOf(() => model.fit(tf.ones([2, 4]), tf.ones([2, 3]), { verbose: 0 }));
  expect(fitted).toEqual(expect.arrayContaining(['_FusedMatMul @ net.first', 'Mean @ ', 'Sub @ ']));
  const evaluated = await opsOf(() => model.evaluate(tf.ones([2, 4]), tf.ones([2, 3])));
  expect(evaluated).toEqual(expect.arrayContaining(['_FusedMatMul @ net.first', 'Mean @ ']));
});

test('a model that was made before is found by the name that it has', async () => {
  remove();
  const model = sequential('old');
  model.predict(tf.ones([1, 4]));
  remove = installLayerModules(tf, modules);
  expect(await opsOf(() => model.predict(tf.ones([2, 4])))).toContain('_FusedMatMul @ old.first');
});

test('building a model with symbolic tensors enters nothing', () => {
  const paths: string[] = [];
  class Spy extends tf.layers.Layer {
    static className = 'Spy';
    override computeOutputShape(shape: tf.Shape) {
      paths.push(modules.path);
      return shape;
    }
  }
  tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] }), new Spy()] });
  expect(new Set(paths)).toEqual(new Set(['']));
});

test('an exception in a layer leaves the path as it was', () => {
  class Failing extends tf.layers.Layer {
    static className = 'Failing';
    override call(): tf.Tensor {
      throw new Error(`in ${modules.path}`);
    }
  }
  const model = tf.sequential({ name: 'net', layers: [tf.layers.dense({ units: 3, inputShape: [4] }), new Failing({ name: 'bad' })] });
  expect(() => model.apply(tf.ones([2, 4]))).toThrow('in net.bad');
  expect(modules.path).toBe('');
});

test('removal restores the prototypes', () => {
  const names = ['apply', 'predictLoop', 'makeTrainFunction', 'makeTestFunction', 'fit', 'build', 'predict'];
  const methods = () => {
    const owners = [tf.layers.Layer.prototype, tf.LayersModel.prototype, tf.Sequential.prototype];
    return owners.flatMap((owner) => names.map((name) => Object.getOwnPropertyDescriptor(owner, name)));
  };
  remove();
  const before = methods();
  remove = installLayerModules(tf, modules, new CallStacks());
  expect(methods()).not.toEqual(before);
  remove();
  expect(methods()).toEqual(before);
});

test('a wrapper put over ours stays, and ours passes through once removed', async () => {
  const prototype = tf.layers.Layer.prototype as { apply: (...args: unknown[]) => unknown };
  const ours = prototype.apply;
  let theirs = 0;
  prototype.apply = function (this: unknown, ...args) {
    theirs++;
    return ours.apply(this, args);
  };
  remove();
  expect(await opsOf(() => sequential('net').apply(tf.ones([2, 4])))).toEqual(['_FusedMatMul @ ', 'Relu @ ']);
  expect(theirs).toBeGreaterThan(0);
  prototype.apply = ours;
  remove();
  delete (prototype as Partial<typeof prototype>).apply;
  Object.defineProperty(prototype, 'apply', { value: original, writable: true, configurable: true, enumerable: true });
});
const original = (tf.layers.Layer.prototype as { apply: unknown }).apply;

test('a namespace without layers is left alone', () => {
  const alone: object = core;
  installLayerModules(alone, modules)();
  installLayerModules({ layers: {} }, modules)();
});

class Twice extends tf.layers.Layer {
  static className = 'Twice';
  override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
    return tf.tidy(() => tf.mul(Array.isArray(inputs) ? (inputs[0] as tf.Tensor) : inputs, 2));
  }
}

const withTwice = () =>
  tf.sequential({
    layers: [tf.layers.dense({ units: 3, inputShape: [4], activation: 'relu' }), new Twice(), tf.layers.dense({ units: 2 })],
  });

/** A hook that a stack shows as code of tfjs; the SDK's own is not the user's either. */
const hook = runInThisContext('(original, capture, seen) => function (call) { seen.push(capture()); return original.call(this, call); }', {
  filename: '/app/node_modules/@tensorflow/tfjs-core/dist/tf-core.node.js',
}) as (original: Engine['runKernelFunc'], capture: () => string, seen: string[]) => Engine['runKernelFunc'];

/** Runs `run` and calls each of `captures`, which must be bound so as to have no frame, at each op. */
async function atOps(captures: (() => string)[], run: () => unknown): Promise<string[][]> {
  const engine = tf.engine() as unknown as Engine;
  const seen = captures.map((): string[] => []);
  engine.runKernelFunc = captures.reduce((inner, capture, i) => hook(inner, capture, seen[i] as string[]), engine.runKernelFunc);
  try {
    await run();
  } finally {
    delete (engine as Partial<Engine>).runKernelFunc;
  }
  return seen;
}

test('stacks of ops in models and in fit are those of a look at each op', async () => {
  remove();
  const [looking, scoped] = [new CallStacks(), new CallStacks()];
  remove = installLayerModules(tf, modules, scoped);
  const model = withTwice();
  model.compile({ loss: (y, x) => tf.abs(tf.sub(y, x)), optimizer: 'sgd' });
  const captures = [looking, scoped].map((stacks) => stacks.capture.bind(stacks));
  const [expected = [], given = []] = await atOps(captures, async () => {
    for (let i = 0; i < 4; i++) tf.variableGrads(() => tf.mean(model.apply(tf.ones([2, 4])) as tf.Tensor));
    model.predict(tf.ones([2, 4]));
    await model.fit(tf.ones([8, 4]), tf.ones([8, 2]), { verbose: 0, batchSize: 2 });
  });
  const fit = expected.indexOf('');
  expect(fit).toBeGreaterThan(80);
  expect(given.slice(0, fit)).toEqual(expected.slice(0, fit));
  for (const [i, stack] of given.entries()) {
    if (expected[i] === '') expect(stack).toMatch(/^[^;]*layer-modules\.test\.ts\(\d+\): /);
    else expect(stack).toBe(expected[i]);
  }
  expect(expected.slice(fit).filter((stack) => /: loss/.test(stack)).length).toBeGreaterThanOrEqual(8);
  expect(expected.filter((stack) => /: call/.test(stack)).length).toBeGreaterThanOrEqual(9);
});

test('ops inside of layers of tfjs take no look of their own, once the layers were tried', async () => {
  remove();
  const scoped = new CallStacks();
  remove = installLayerModules(tf, modules, scoped);
  const layers = [tf.layers.dense({ units: 3, inputShape: [4], activation: 'relu' }), tf.layers.dense({ units: 2 })];
  const [model, x] = [tf.sequential({ layers }), tf.ones([2, 4])];
  const step = () => tf.tidy(() => void model.apply(x));
  const capture = scoped.capture.bind(scoped);
  await atOps([capture], step); // Builds the model,
  await atOps([capture], step); // and tries it.
  const prepare = Object.getOwnPropertyDescriptor(Error, 'prepareStackTrace');
  let looks = 0;
  let value: unknown;
  Object.defineProperty(Error, 'prepareStackTrace', {
    configurable: true,
    get: () => value,
    set: (next) => {
      value = next;
      if (next !== undefined) looks++;
    },
  });
  try {
    const [stacks = []] = await atOps([capture], step);
    // The stacks at the entry of the model.
    expect(stacks.length).toBeGreaterThan(3);
    expect(looks).toBe(1);
  } finally {
    Reflect.deleteProperty(Error, 'prepareStackTrace');
    if (prepare !== undefined) Object.defineProperty(Error, 'prepareStackTrace', prepare);
  }
});

test('paths are counted, and what is over has the path of the last layer that has its own', () => {
  const stack = new ModuleStack();
  for (let i = 0; i < 20_000; i++) {
    stack.enter(`layer${i}`);
    stack.leave();
  }
  stack.enter('layer0');
  stack.enter('new');
  stack.enter('newer');
  expect(stack.path).toBe('layer0');
  stack.leave();
  stack.leave();
  expect(stack.path).toBe('layer0');
  stack.leave();
  stack.leave(); // One too many.
  expect(stack.path).toBe('');
  stack.enter('x'.repeat(999));
  expect(stack.path).toBe('');
  stack.leave();
});
