// Real TensorFlow.js on its cpu and wasm backends, with and without hooks. Over 500 lines: the hooks are one patch of one engine, and each case
// checks the traces that the others leave behind.

import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-wasm';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { allDetail, detail } from '../model/detail.ts';
import { fixedStack } from '../testing/fixed-stack.ts';
import { OpRecording } from '../testing/op-recording.ts';
import type { FoundStack } from './call-stack.ts';
import type { TfjsEngine } from './engine.ts';
import { type EngineHookOptions, EngineHooks } from './engine-hooks.ts';
import { installLayerModules, ModuleStack } from './layer-modules.ts';

const engine = tf.engine() as unknown as TfjsEngine;
const ownMethods = () =>
  Object.keys(Object.getOwnPropertyDescriptors(engine)).filter((key) => typeof Reflect.get(engine, key) === 'function');

const removals: (() => void)[] = [];
afterEach(() => {
  for (const remove of removals.splice(0).reverse()) remove();
  expect(ownMethods()).toEqual([]);
});

function hook(options: Partial<EngineHookOptions> = {}) {
  const recording = new OpRecording();
  const stacks = fixedStack('train.ts(1): step');
  const hooks = new EngineHooks(engine, recording, { modules: { path: '' }, stacks, ...options });
  const remove = () => hooks.remove();
  removals.push(remove);
  return { recording, hooks, remove };
}

/** Values that look random and are the same each time. */
function values(shape: number[], seed: number): tf.Tensor {
  return tf.tidy(() =>
    tf
      .sin(
        tf
          .range(
            0,
            shape.reduce((a, b) => a * b, 1),
          )
          .add(seed),
      )
      .reshape(shape),
  );
}

interface Mlp {
  readonly weights: tf.Variable[];
  readonly loss: () => tf.Scalar;
  dispose(): void;
}

/** Two dense layers, 6 → 5 → 3, and the mean of squares. */
function makeMlp(): Mlp {
  const x = values([4, 6], 1);
  const y = values([4, 3], 2);
  const shapes = [[6, 5], [5], [5, 3], [3]];
  const [w1, b1, w2, b2] = shapes.map((shape, index) => {
    const initial = values(shape, index);
    const variable = tf.variable(initial);
    initial.dispose();
    return variable;
  }) as [tf.Variable, tf.Variable, tf.Variable, tf.Variable];
  const weights = [w1, b1, w2, b2];
  const loss = () => {
    const hidden = tf.relu(tf.add(tf.matMul(x, w1), b1));
    const output = tf.add(tf.matMul(hidden, w2), b2);
    return tf.mean(tf.squaredDifference(output, y)) as tf.Scalar;
  };
  return { weights, loss, dispose: () => tf.dispose([x, y, ...weights]) };
}

function trained(steps: number): number[] {
  const mlp = makeMlp();
  const optimizer = tf.train.adam(0.05);
  for (let step = 0; step < steps; step++) optimizer.minimize(mlp.loss);
  const weights = mlp.weights.flatMap((weight) => [...weight.dataSync()]);
  mlp.dispose();
  optimizer.dispose();
  return weights;
}

describe.each(['cpu', 'wasm'])('on %s', (backend) => {
  beforeAll(async () => {
    await tf.setBackend(backend);
  });

  test('an op has its kernel as name, and what it was called with', () => {
    const { recording } = hook();
    const a = tf.ones([2, 3]);
    const b = tf.ones([3, 4]);
    tf.matMul(a, b, false, false);
    const { signature, ...op } = recording.ops.at(-1) as (typeof recording.ops)[number];
    expect(op).toMatchObject({ name: 'BatchMatMul', stack: 'train.ts(1): step', module: '', depth: 0, sequence: 0, allocated: 32 });
    expect(signature).toMatchObject({ 'Output type': ['float32'], kernel_backend: backend, flops: 2 * 2 * 3 * 4 });
    const dims = signature['Input Dims'] as number[][];
    expect(dims.map((dim) => dim.slice(-2))).toEqual([
      [2, 3],
      [3, 4],
    ]);
    expect(signature['Input type']).toEqual(['float32', 'float32']);
    expect(signature['Concrete Inputs']).toEqual(['', '', 'transposeA=false', 'transposeB=false']);
  });

  test('lists of tensors are one input; types are distinguished; absent inputs are there', () => {
    const { recording } = hook();
    const last = () => recording.ops.at(-1)?.signature;
    tf.concat([tf.ones([2, 3]), tf.ones([2, 5])], 1);
    const concat = recording.ops.find(({ name }) => name === 'Concat');
    expect(concat?.signature).toMatchObject({
      'Input Dims': [
        [
          [2, 3],
          [2, 5],
        ],
      ],
      'Input type': ['TensorList'],
      'Output Dims': [[2, 8]],
      'Concrete Inputs': ['', 'axis=1'],
    });
    tf.cast(tf.tensor1d([1, 2], 'float32'), 'int32');
    expect(last()).toMatchObject({ 'Input type': ['float32'], 'Output type': ['int32'] });
    tf.greater(tf.scalar(1), tf.scalar(2));
    expect(last()).toMatchObject({ 'Input Dims': [[], []], 'Output type': ['bool'] });
    tf.fused.matMul({ a: tf.ones([1, 2]) as tf.Tensor2D, b: tf.ones([2, 1]) as tf.Tensor2D, activation: 'relu' });
    const fused = recording.ops.find(({ name }) => name === '_FusedMatMul');
    expect(fused?.signature['Input type']).toEqual(['float32', 'float32', '', '']);
    expect(fused?.signature['Concrete Inputs']).toContain('activation=relu');
  });

  test('calls that differ in anything reported have texts of their own', () => {
    const { recording } = hook();
    const x = tf.ones([1, 4, 4, 1]) as tf.Tensor4D;
    for (const [size, strides, pad] of [
      [2, 1, 'same'],
      [2, 1, 'valid'],
      [2, 2, 'same'],
      [3, 1, 'same'],
      [2, 1, 'same'],
    ] as const) {
      tf.maxPool(x, size, strides, pad);
    }
    const texts = recording.ops.filter(({ name }) => name === 'MaxPool').map(({ signature }) => JSON.stringify(signature));
    expect(new Set(texts).size).toBe(4);
    expect(texts[4]).toBe(texts[0]);
  });

  test('training gives the same weights with hooks, bit by bit', () => {
    const plain = trained(5);
    const { recording, remove } = hook();
    const hooked = trained(5);
    remove();
    expect(hooked).toEqual(plain);
    expect(trained(5)).toEqual(plain);
    expect(recording.openDepth).toBe(0);
    expect(ownMethods()).toEqual([]);
  });

  test('a backward op names the forward op that it belongs to', () => {
    const mlp = makeMlp();
    const { recording } = hook();
    tf.dispose(tf.variableGrads(mlp.loss).grads);
    const forward = new Map(recording.ops.filter(({ sequence }) => sequence > 0).map((op) => [op.sequence, op]));
    const pairs = recording.ops.flatMap((op) => (op.sequence < 0 ? [`${op.name} < ${forward.get(-op.sequence)?.name}`] : []));
    // Each forward number belongs to one op.
    expect(forward.size).toBe(recording.ops.filter(({ sequence }) => sequence > 0).length);
    expect([...forward.values()].filter(({ name }) => name === 'BatchMatMul')).toHaveLength(2);
    expect(pairs).toEqual(expect.arrayContaining(['BatchMatMul < BatchMatMul', 'Sum < Add', 'Step < Relu']));
    // In x · w1, x wants no gradient: 1 product; in hidden · w2, both do: 2.
    const [first, second] = [...forward.values()].filter(({ name }) => name === 'BatchMatMul');
    const products = (of: number | undefined) => recording.ops.filter((op) => op.name === 'BatchMatMul' && op.sequence === -(of ?? 0));
    expect(products(first?.sequence).map(({ signature }) => signature['Output Dims'])).toEqual([[expect.arrayContaining([6, 5])]]);
    expect(products(second?.sequence)).toHaveLength(2);
    mlp.dispose();
  });

  test('memory records are the buffers that live, whoever shares them', () => {
    const { recording } = hook();
    const before = engine.state.numBytes;
    const mlp = makeMlp();
    const optimizer = tf.train.adam(0.05);
    for (let step = 0; step < 3; step++) optimizer.minimize(mlp.loss);
    // Outside the loop nothing shares a buffer, so the engine's sum over tensors is one over buffers.
    expect(recording.recordedBytes).toBe(engine.state.numBytes - before);
    expect(recording.memoryRecords.at(-1)?.total).toBe(engine.state.numBytes);
    const kept = tf.ones([10]);
    const held = recording.recordedBytes;
    // The wasm backend's Identity copies, so a clone has a buffer of its own there.
    const clones = [backend === 'cpu' ? kept.clone() : kept.reshape([5, 2]), kept.reshape([2, 5])];
    expect(recording.recordedBytes).toBe(held);
    kept.dispose();
    expect(recording.recordedBytes).toBe(held);
    tf.dispose(clones);
    expect(recording.recordedBytes).toBe(held - 40);
    mlp.dispose();
    optimizer.dispose();
    // Gradients, moments, everything: each buffer was freed under the address of its allocation.
    const live = new Map<number, number>();
    for (const { address, bytes, deviceType } of recording.memoryRecords) {
      live.set(address, (live.get(address) ?? 0) + bytes);
      expect(deviceType).toBe(0);
    }
    expect([...live.values()].filter((bytes) => bytes < 0)).toEqual([]);
    expect([...live.values()].reduce((a, b) => a + b, 0)).toBe(recording.recordedBytes);
  });

  test('an op reports the bytes allocated and freed while it ran; tidy frees outside of ops', () => {
    const { recording } = hook();
    const a = tf.ones([8]);
    tf.tidy(() => {
      tf.neg(tf.neg(a));
    });
    expect(recording.ops.map(({ name, allocated, freed }) => [name, allocated, freed])).toEqual([
      ['Neg', 32, 0],
      ['Neg', 32, 0],
    ]);
    expect(recording.memoryRecords.map(({ bytes }) => bytes)).toEqual([32, 32, 32, -32, -32]);
    expect(new Set(recording.memoryRecords.map(({ address }) => address)).size).toBe(3);
  });

  test('the stack of a copy is looked for before the copy begins', async () => {
    const order: string[] = [];
    const stacks = {
      ...fixedStack(''),
      captureAt: (event: string) => {
        order.push(`stack of ${event}`);
        return { text: 'train.ts(1): step', id: -1 };
      },
    };
    const { recording } = hook({ stacks });
    const { beginCopy, copied } = recording;
    recording.beginCopy = (name) => {
      order.push(`${recording.texts[name]} begins`);
      return beginCopy.call(recording, name);
    };
    recording.copied = (name, ...rest) => {
      order.push(`${recording.texts[name]} begins`);
      return copied.call(recording, name, ...rest) as never;
    };
    const x = tf.tensor1d([1, 2]);
    x.dataSync();
    await x.data();
    expect(order).toEqual(['tensor.upload', 'tensor.dataSync', 'tensor.data'].flatMap((name) => [`stack of ${name}`, `${name} begins`]));
  });

  test('copies from and to the backend have their bytes', async () => {
    const { recording } = hook();
    const a = tf.tensor1d([1, 2, 3]);
    expect([...a.dataSync()]).toEqual([1, 2, 3]);
    expect([...(await a.data())]).toEqual([1, 2, 3]);
    const s = tf.tensor1d(['häb', 'x']);
    expect(await s.data()).toEqual(['häb', 'x']);
    expect(recording.copies).toEqual([
      'tensor.upload 12',
      'tensor.dataSync 12',
      'tensor.data 12 resolved',
      'tensor.upload 5',
      'tensor.data 5 resolved',
    ]);
    expect(recording.memoryRecords.map(({ bytes }) => bytes)).toEqual([12, 5]);
    tf.dispose([a, s]);
    expect(recording.recordedBytes).toBe(0);
    expect(() => engine.readSync({})).toThrow(TypeError);
    expect(() => engine.read({})).toThrow(TypeError);
    expect(recording.openDepth).toBe(0);
  });

  test('layers are reported, nested ones too, in fit', async () => {
    const modules = new ModuleStack();
    const dense = (name: string, units: number) => tf.layers.dense({ units, name, inputShape: [4], kernelInitializer: 'ones' });
    const encoder = tf.sequential({ name: 'encoder', layers: [dense('deep', 4)] });
    const model = tf.sequential({ name: 'net', layers: [dense('first', 4), encoder, dense('head', 1)] });
    model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
    const { recording } = hook({ modules });
    removals.push(installLayerModules(tf as never, modules));
    const [x, y] = [tf.ones([8, 4]), tf.ones([8, 1])];
    await model.fit(x, y, { epochs: 1, batchSize: 4, verbose: 0 });
    const products = recording.ops.filter(({ name }) => name === '_FusedMatMul').map(({ module }) => module);
    expect(products.slice(0, 3)).toEqual(['net.first', 'net.encoder.deep', 'net.head']);
    expect(products.slice(3)).toEqual(products.slice(0, 3));
    expect(recording.openDepth).toBe(0);
  });
});

describe('whatever the backend', () => {
  beforeAll(async () => {
    await tf.setBackend('cpu');
  });

  test('a custom gradient is an op named by its scope, with its kernels inside', () => {
    const { recording } = hook();
    const square = tf.customGrad((x, save) => {
      (save as tf.GradSaveFunc)([x as tf.Tensor]);
      return { value: tf.mul(x as tf.Tensor, x as tf.Tensor), gradFunc: (dy, saved) => tf.mul(tf.mul(dy, 2), saved[0] as tf.Tensor) };
    });
    const x = tf.tensor1d([3, 4]);
    tf.tidy('mine', () => square(x));
    square(x);
    tf.losses.softmaxCrossEntropy(tf.ones([2, 3]), tf.ones([2, 3]));
    const names = recording.ops.map(({ name, parent }) => `${parent}/${name}`);
    expect(names.slice(0, 4)).toEqual(['mine/Multiply', '/mine', 'customGrad/Multiply', '/customGrad']);
    expect(recording.ops.some(({ name }) => name === 'softmaxCrossEntropy')).toBe(true);
    expect(recording.ops.every(({ name }) => !name.includes('__op'))).toBe(true);

    recording.clear();
    const [gradient] = tf.grads((v) => square(v as tf.Tensor).sum())([x]);
    expect([...(gradient as tf.Tensor).dataSync()]).toEqual([6, 8]);
    const custom = recording.ops.find(({ name }) => name === 'customGrad');
    expect(custom?.sequence).toBeGreaterThan(0);
    const backward = recording.ops.filter(({ sequence }) => sequence === -(custom?.sequence ?? 0));
    expect(backward.map(({ name }) => name)).toEqual(expect.arrayContaining(['Multiply', 'Multiply']));
    // Ops inside a custom gradient are not on the tape, and have no number.
    expect(recording.ops.filter(({ parent }) => parent === 'customGrad').every(({ sequence }) => sequence === 0)).toBe(true);
  });

  test('gradients of gradients name recorded forward ops, and are right', () => {
    const cube = (x: tf.Tensor) => tf.mul(tf.mul(x, x), x).sum() as tf.Scalar;
    const second = tf.grad((x) => tf.grad(cube)(x).sum());
    const x = tf.tensor1d([1, 2]);
    const plain = [...second(x).dataSync()];
    expect(plain).toEqual([6, 12]);
    const { recording } = hook();
    expect([...second(x).dataSync()]).toEqual(plain);
    const own = new Set(recording.ops.map(({ sequence }) => sequence).filter((sequence) => sequence > 0));
    const linked = recording.ops.map(({ sequence }) => -sequence).filter((sequence) => sequence > 0);
    expect(linked.length).toBeGreaterThan(4);
    expect(linked.filter((sequence) => !own.has(sequence))).toEqual([]);
  });

  test('what throws, throws the same, and leaves nothing open', () => {
    const boom = new Error('boom');
    const failing = (where: 'forward' | 'gradient' | 'thunk') =>
      tf.customGrad((x) => {
        if (where === 'forward') throw boom;
        return {
          value: tf.neg(x as tf.Tensor),
          gradFunc: () => {
            throw boom;
          },
        };
      });
    const { recording } = hook();
    const x = tf.tensor1d([1]);
    const caught = (run: () => unknown) => {
      try {
        run();
      } catch (error) {
        return error;
      }
      return undefined;
    };
    expect(caught(() => failing('forward')(x))).toBe(boom);
    expect(caught(() => tf.grad((v) => failing('gradient')(v).sum())(x))).toBe(boom);
    tf.registerKernel({
      kernelName: 'Throwing',
      backendName: 'cpu',
      kernelFunc: () => {
        throw boom;
      },
    });
    expect(caught(() => tf.engine().runKernel('Throwing', { x }))).toBe(boom);
    expect(recording.ops.at(-1)).toMatchObject({ name: 'Throwing', signature: { 'Input Dims': [[1]], 'Output Dims': [] } });
    tf.unregisterKernel('Throwing', 'cpu');

    tf.registerKernel({ kernelName: 'Lazy', backendName: 'cpu', kernelFunc: ({ inputs }) => tf.neg(inputs.x as tf.Tensor) });
    tf.registerGradient({
      kernelName: 'Lazy',
      gradFunc: () => ({
        x: () => {
          throw boom;
        },
      }),
    });
    const lazy = (v: tf.Tensor) => tf.engine().runKernel('Lazy', { x: v }) as tf.Tensor;
    expect(caught(() => tf.grad((v) => lazy(v).sum())(x))).toBe(boom);
    tf.unregisterGradient('Lazy');
    // Without a gradient: tfjs's own error.
    expect(() => tf.grad((v) => lazy(v).sum())(x)).toThrow('gradient function not found for Lazy');
    tf.registerGradient({ kernelName: 'Lazy', gradFunc: () => ({ y: () => x }) });
    expect(() => tf.grad((v) => lazy(v).sum())(x)).toThrow('Cannot backprop through input x. Available gradients found: y.');
    tf.unregisterGradient('Lazy');
    tf.unregisterKernel('Lazy', 'cpu');

    expect(recording.openDepth).toBe(0);
    // Later ops are no part of the aborted backward.
    tf.neg(x);
    expect(recording.ops.at(-1)?.sequence).toBe(0);
  });

  test('complex numbers count with their parts', () => {
    const { recording } = hook();
    const [real, imaginary] = [tf.ones([4]), tf.ones([4])];
    const held = recording.recordedBytes;
    const complex = tf.complex(real, imaginary);
    expect(recording.recordedBytes - held).toBe(32);
    complex.dispose();
    expect(recording.recordedBytes).toBe(held);
    tf.dispose([real, imaginary]);
  });

  test('only what is wanted is recorded, op by op', () => {
    const { recording } = hook();
    const x = tf.ones([2]);
    recording.clear();
    recording.detail = 0;
    tf.neg(x);
    expect([recording.ops, recording.memoryRecords, recording.copies]).toEqual([[], [], []]);
    recording.detail = detail.ops;
    tf.neg(x);
    expect(recording.ops).toEqual([
      { name: 'Neg', parent: '', depth: 0, signature: {}, stack: '', module: '', sequence: 0, allocated: 0, freed: 0 },
    ]);
    expect(recording.memoryRecords).toEqual([]);
    recording.detail = detail.ops | detail.flops;
    tf.neg(x);
    expect(recording.ops.at(-1)?.signature).toEqual({ kernel_backend: 'cpu', flops: 2 });
    recording.detail = detail.ops | detail.shapes;
    tf.neg(x);
    expect(recording.ops.at(-1)?.signature).not.toHaveProperty('flops');
    const total = engine.state.numBytes;
    recording.detail = allDetail;
    tf.neg(x);
    // Allocations from the time when memory was not wanted are in the total.
    expect(recording.memoryRecords.at(-1)?.total).toBe(total + 8);
  });

  test('training goes on when there is no room to record', () => {
    const plain = trained(2);
    const { recording } = hook();
    recording.isFull = true;
    expect(trained(2)).toEqual(plain);
    expect(recording.ops).toEqual([]);
    recording.isFull = false;
    const x = tf.ones([2]);
    tf.neg(x);
    tf.neg(x);
    expect(recording.ops.map(({ name, signature }) => [name, signature['Input Dims']])).toEqual([
      ['Neg', [[2]]],
      ['Neg', [[2]]],
    ]);
  });

  test('a tool that overrides after us keeps its override, and ours passes everything through', () => {
    const { recording, remove } = hook();
    const seen: unknown[] = [];
    const ours = engine.runKernelFunc;
    engine.runKernelFunc = (call) => {
      seen.push(call.kernelName);
      return ours.call(engine, call);
    };
    const theirs = engine.runKernelFunc;
    const x = tf.ones([2]);
    remove();
    expect(ownMethods()).toEqual(['runKernelFunc']);
    expect(engine.runKernelFunc).toBe(theirs);
    recording.clear();
    expect([...tf.neg(x).dataSync()]).toEqual([-1, -1]);
    expect(seen).toEqual(['Neg']);
    expect(recording.ops).toEqual([]);
    Reflect.deleteProperty(engine, 'runKernelFunc');
  });

  test('a tool that overrode before us is called, and is there again afterwards', () => {
    const seen: unknown[] = [];
    const original = engine.runKernelFunc;
    engine.runKernelFunc = (call) => {
      seen.push(call.kernelName);
      return original.call(engine, call);
    };
    const theirs = engine.runKernelFunc;
    const { recording, remove } = hook();
    const x = tf.ones([2]);
    tf.neg(x);
    remove();
    expect(engine.runKernelFunc).toBe(theirs);
    expect([seen, recording.outline]).toEqual([['Neg'], ['Neg']]);
    Reflect.deleteProperty(engine, 'runKernelFunc');
  });

  test('gradients taped with hooks run without them', () => {
    const { recording, remove } = hook();
    const x = tf.tensor1d([2]);
    const gradient = tf.grad((v) => {
      const y = tf.square(v).sum();
      remove();
      return y;
    })(x);
    recording.clear();
    expect([...gradient.dataSync()]).toEqual([4]);
    expect(recording.ops).toEqual([]);
  });

  test('what the engine holds becomes counters', () => {
    const { recording, hooks } = hook();
    hooks.endStep();
    expect(recording.metadata).toEqual(['tf.backend cpu', 'tf.op_times host', `tf.version ${tf.version_core}`]);
    const { numTensors, numDataBuffers, numBytes } = tf.memory();
    expect(recording.counters).toEqual([`tf tensors ${numTensors}`, `tf data buffers ${numDataBuffers}`, `tf bytes ${numBytes} bytes`]);
  });

  test('buffers are distinguished by what they are to the training', () => {
    // Test files share the engine, and a model of another one leaves its variables there.
    tf.disposeVariables();
    const { recording, hooks } = hook();
    const w = tf.variable(tf.ones([4, 2]), true, 'w');
    const optimizer = tf.train.adam(0.1);
    const x = tf.ones([3, 4]);
    optimizer.minimize(
      () =>
        tf
          .matMul(x, w as tf.Tensor2D)
          .square()
          .mean() as tf.Scalar,
    );
    hooks.endStep();
    const categories = new Set(recording.categories.map((line) => line.split(' ')[1]));
    for (const name of ['PARAMETER', 'OPTIMIZER_STATE', 'ACTIVATION', 'GRADIENT', 'AUTOGRAD_DETAIL', 'INPUT'])
      expect(categories).toContain(name);
    // Recorded once, and anew in each result window.
    const reported = recording.categories.filter((line) => line.endsWith('PARAMETER 32')).length;
    hooks.endStep();
    expect(recording.categories.filter((line) => line.endsWith('PARAMETER 32'))).toHaveLength(reported);
    hooks.beginWindow();
    expect(recording.categories.filter((line) => line.endsWith('PARAMETER 32'))).toHaveLength(reported + 1);
    tf.dispose([w, x]);
    optimizer.dispose();
  });

  test('kernels inside of a named kernel have its stack, without looking', () => {
    let captures = 0;
    let held: FoundStack | undefined;
    const stacks = {
      ...fixedStack(''),
      captureAt: () => held ?? { text: `a.ts(${++captures}): f`, id: -1 },
      hold: (stack: FoundStack | undefined) => {
        const before = held;
        held = stack;
        return before;
      },
    };
    const { recording } = hook({ stacks });
    // The kernel saves a clone of its input for the gradient.
    tf.grad((x) => tf.square(x))(tf.tensor1d([1]));
    const nested = recording.ops.filter(({ depth }) => depth > 0);
    expect(nested.length).toBeGreaterThan(0);
    for (const op of nested) expect(op.stack).toBe(recording.ops.find(({ name, depth }) => name === op.parent && depth === 0)?.stack);
    expect(held).toBeUndefined();
  });
});
