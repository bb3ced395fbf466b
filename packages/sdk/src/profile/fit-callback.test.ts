// A real model on the cpu backend: `fit` and `fitDataset` call back, and files show the result.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readRun } from '../../../../test/setup/trace-events.ts';
import { fitCallback } from './fit-callback.ts';
import { type Profile, profile } from './profile.ts';

let directory: string;
let prof: Profile;

beforeAll(async () => {
  await tf.setBackend('cpu');
});
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-fit-'));
  prof = profile({ run: 'test', rank: 0, worldSize: 1, directory, sampleIntervalMs: 0 });
});
afterEach(async () => {
  await prof.stop();
  rmSync(directory, { recursive: true, force: true });
});

function compiled(): tf.Sequential {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [4] })] });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError', metrics: ['mae'] });
  return model;
}
const data = (rows: number): [tf.Tensor, tf.Tensor] => [tf.ones([rows, 4]), tf.ones([rows, 1])];

async function read() {
  const { events, findings, processes } = await readRun(join(directory, 'test'), 'test');
  const names = (kind: string) => events.filter((event) => event.kind === kind).map(({ name }) => name);
  const batchSize = processes[0]?.metadata.get('batch_size');
  return { events, findings, batchSize, steps: names('step'), counters: names('counter').filter((name) => !name.startsWith('tf ')) };
}
const stepNames = (count: number) => Array.from({ length: count }, (_, step) => `ProfilerStep#${step}`);
const times = (name: string, count: number) => Array.from({ length: count }, () => name);

test.for(['auto', 'batch', 'epoch', 'never', 5] as const)('every batch is a step, with yieldEvery %s', async (yieldEvery) => {
  const [xs, ys] = data(20);
  // 5 batches an epoch.
  await compiled().fit(xs, ys, { epochs: 3, batchSize: 4, verbose: 0, yieldEvery, callbacks: fitCallback(prof) });
  const { steps, findings, batchSize } = await read();
  expect(steps).toEqual(stepNames(15));
  expect(batchSize).toBe('4');
  expect(prof.stepNum).toBe(15);
  expect(findings).toEqual([]);
});

test('epochs are spans around their steps, loss and metrics counters, phases stay what they are', async () => {
  const [xs, ys] = data(8);
  const history = await compiled().fit(xs, ys, { epochs: 2, batchSize: 4, verbose: 0, validationSplit: 0.5, callbacks: fitCallback(prof) });
  const { events, counters } = await read();
  const epochs = events.filter(({ category }) => category === 'fit');
  expect(epochs.map(({ name, state, arguments: args }) => [name, state, args])).toEqual([
    ['epoch 0', 'whole', { epoch: 0 }],
    ['epoch 1', 'whole', { epoch: 1 }],
  ]);
  const step = events.find(({ name }) => name === 'ProfilerStep#1');
  const second = epochs[1];
  expect(step?.start).toBeLessThan((second?.start ?? 0) + (second?.length ?? 0));
  expect((step?.start ?? 0) + (step?.length ?? 0)).toBeGreaterThan(second?.start ?? Number.POSITIVE_INFINITY);
  expect([...(step?.phases?.keys() ?? [])]).toEqual([]);
  expect(counters.toSorted()).toEqual(['epoch loss', 'epoch mae', 'loss', 'mae', 'val_loss', 'val_mae'].flatMap((name) => times(name, 2)));
  const last = (name: string) => events.findLast((event) => event.name === name)?.value;
  expect(last('val_loss')).toBe(history.history.val_loss?.at(-1));
  expect(last('epoch loss')).toBeCloseTo(history.history.loss?.at(-1) as number, 6);
});

test('as a CustomCallback, and with fitDataset', async () => {
  const rows = tf.data.array(Array.from({ length: 6 }, () => ({ xs: [1, 2, 3, 4], ys: [1] }))).batch(2);
  const callback = new tf.CustomCallback(fitCallback(prof));
  await compiled().fitDataset(rows as never, { epochs: 2, verbose: 0, callbacks: [callback] });
  const { steps, batchSize } = await read();
  expect([steps, batchSize]).toEqual([stepNames(6), undefined]);
});

test('a profile that runs already is not stopped', async () => {
  prof.start();
  const [xs, ys] = data(4);
  const callbacks = fitCallback(prof);
  for (let call = 0; call < 2; call++) await compiled().fit(xs, ys, { epochs: 1, batchSize: 2, verbose: 0, callbacks });
  expect(prof.stepNum).toBe(4);
  prof.step();
  await prof.stop();
  expect((await read()).steps).toEqual(stepNames(5));
});

test('a second training with a profile that is over goes on without', async () => {
  const [xs, ys] = data(4);
  const warnings: string[] = [];
  const warned = ({ message }: Error) => void warnings.push(message);
  process.on('warning', warned);
  const callbacks = fitCallback(prof);
  for (let call = 0; call < 2; call++) await compiled().fit(xs, ys, { epochs: 1, batchSize: 2, verbose: 0, callbacks });
  await new Promise(setImmediate);
  process.off('warning', warned);
  expect(warnings.join()).toMatch(/^this training is not recorded: Cannot start the profile: it was stopped/);
  expect((await read()).steps).toEqual(stepNames(2));
});

describe('a training that threw', () => {
  const throws = {
    onBatchEnd: () => {
      throw new Error('mine');
    },
  };
  async function fail(callbacks: ReturnType<typeof fitCallback>): Promise<void> {
    const [xs, ys] = data(8);
    const training = compiled().fit(xs, ys, { epochs: 1, batchSize: 2, verbose: 0, callbacks: [callbacks, throws] });
    await expect(training).rejects.toThrow('mine');
  }

  test('leaves room for the next one, with a profile of its own', async () => {
    const left = profile({ run: 'left', rank: 0, worldSize: 1, directory, sampleIntervalMs: 0 });
    await fail(fitCallback(left));
    const [xs, ys] = data(4);
    await compiled().fit(xs, ys, { epochs: 1, batchSize: 2, verbose: 0, callbacks: fitCallback(prof) });
    expect((await read()).steps).toEqual(stepNames(2));
    await left.stop();
    expect((await readRun(join(directory, 'left'), 'left')).processes.map(({ rank }) => rank)).toEqual([0]);
  });

  test('is followed by another with the same callback, which ends the profile', async () => {
    const callbacks = fitCallback(prof);
    await fail(callbacks);
    const [xs, ys] = data(4);
    await compiled().fit(xs, ys, { epochs: 1, batchSize: 2, verbose: 0, callbacks });
    expect(prof.stepNum).toBe(3);
    prof.step();
    expect(prof.stepNum).toBe(3);
    const { steps, events } = await read();
    expect(steps).toEqual(stepNames(3));
    expect(events.filter(({ category }) => category === 'fit').map(({ name, state }) => `${name} ${state}`)).toEqual([
      'epoch 0 whole',
      'epoch 0 whole',
    ]);
  });
});

test('a training that is stopped early closes its epoch', async () => {
  const [xs, ys] = data(8);
  const model = compiled();
  const stopEarly = {
    onBatchEnd: (batch: number) => {
      model.stopTraining = batch === 1;
    },
  };
  await model.fit(xs, ys, { epochs: 5, batchSize: 2, verbose: 0, callbacks: [fitCallback(prof), stopEarly] });
  const { steps, events } = await read();
  expect(steps).toEqual(stepNames(2));
  expect(events.filter(({ category }) => category === 'fit').map(({ name, state }) => `${name} ${state}`)).toEqual(['epoch 0 whole']);
});

test('a wrong option throws out of fit, as out of start', async () => {
  const [xs, ys] = data(2);
  const callbacks = fitCallback(profile({ run: 'no such/name' }));
  await expect(compiled().fit(xs, ys, { verbose: 0, callbacks })).rejects.toThrow('Bad option run');
});

describe.each(['sequential', 'functional'])('a %s model, stacks and modules', (kind) => {
  const name = `${kind}_net`;
  function make(): tf.LayersModel {
    const layers = [tf.layers.dense({ units: 3, inputShape: [4], name: `${kind}_a` }), tf.layers.dense({ units: 1, name: `${kind}_b` })];
    const input = tf.input({ shape: [4] });
    const model =
      kind === 'sequential'
        ? tf.sequential({ name, layers })
        : tf.model({ name, inputs: input, outputs: layers.reduce((output, layer) => layer.apply(output) as tf.SymbolicTensor, input) });
    model.compile({ optimizer: 'adam', loss: 'meanSquaredError', metrics: ['mae'] });
    return model;
  }
  const asked = () => profile({ run: 'test', rank: 0, worldSize: 1, directory, sampleIntervalMs: 0, withStack: true, withModules: true });
  afterEach(() => tf.disposeVariables());

  async function expectAll(recorded: Profile, caller: RegExp): Promise<void> {
    const { events } = await read();
    const ops = events.filter(({ category }) => category === 'cpu_op');
    expect(ops.length).toBeGreaterThan(40);
    const modules = new Set(ops.map(({ arguments: { 'Module Hierarchy': path } }) => path));
    expect([...modules].filter((path) => path !== undefined).toSorted()).toEqual([`${name}.${kind}_a`, `${name}.${kind}_b`]);
    // Includes the stacks of backward ops, which are those of their forward ops.
    const names = new Set(ops.map((op) => op.name));
    const others = [...recorded.events()].filter((op) => names.has(op.name) && !op.stack.some((frame) => caller.test(frame)));
    expect(others.map((op) => `${op.name}: ${op.stack.join(';')}`)).toEqual([]);
  }

  test('in the words of the README', async function inTheWords() {
    const model = make();
    const [xs, ys] = data(20);
    // `model.fit` is read before any ranktrace code runs.
    let made: Profile | undefined;
    const callbacks = () => {
      made = asked();
      return fitCallback(made);
    };
    await model.fit(xs, ys, { epochs: 2, batchSize: 4, verbose: 0, validationSplit: 0.5, callbacks: callbacks() });
    await expectAll(made as Profile, /fit-callback\.test\.ts\(\d+\): inTheWords$/);
  });

  test('with fitDataset', async function withDataset() {
    const model = make();
    const rows = tf.data.array(Array.from({ length: 12 }, () => ({ xs: [1, 2, 3, 4], ys: [1] }))).batch(2);
    let made: Profile | undefined;
    const callbacks = () => {
      made = asked();
      return fitCallback(made);
    };
    await model.fitDataset(rows as never, { epochs: 2, verbose: 0, callbacks: callbacks() });
    await expectAll(made as Profile, /fit-callback\.test\.ts\(\d+\): withDataset$/);
  });

  test('made before, and for two trainings', async function twice() {
    const model = make();
    const [xs, ys] = data(20);
    for (let training = 0; training < 2; training++) {
      const made = asked();
      const callbacks = fitCallback(made);
      await model.fit(xs, ys, { epochs: 2, batchSize: 4, verbose: 0, callbacks });
      await expectAll(made, /fit-callback\.test\.ts\(\d+\): twice$/);
    }
  });
});

test('a callback whose profile is stopped unused leaves nothing behind', async () => {
  const methods = (target: object) => Object.entries(Object.getOwnPropertyDescriptors(target)).map(([name, { value }]) => [name, value]);
  const classes = [tf.LayersModel, tf.Sequential, tf.layers.Layer, tf.AdamOptimizer].map((one) => one.prototype as object);
  const before = classes.map(methods);
  const unused = profile({ directory, withStack: true, withModules: true });
  fitCallback(unused);
  expect(classes.map(methods)).not.toEqual(before);
  await unused.stop();
  expect(classes.map(methods)).toEqual(before);
});
