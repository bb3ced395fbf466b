// `model.fit` on TensorFlow's own library: with the callback and without a change, every op has its layer and the line that called `fit`.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { repository } from '../setup/ranktrace-command.ts';
import { readRun } from '../setup/trace-events.ts';
import { nativeMain } from './native-tfjs.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-native-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const training = (callbacks: string) => `
  import { createRequire } from 'node:module';
  const tf = createRequire(import.meta.url)(${JSON.stringify(nativeMain)});
  const model = tf.sequential({ name: 'net' });
  model.add(tf.layers.conv2d({ name: 'conv', inputShape: [8, 8, 1], filters: 4, kernelSize: 3, activation: 'relu' }));
  model.add(tf.layers.flatten({ name: 'flat' }));
  model.add(tf.layers.dense({ name: 'out', units: 3, activation: 'softmax' }));
  model.compile({ optimizer: 'adam', loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  const [xs, ys] = [tf.randomNormal([40, 8, 8, 1]), tf.oneHot(tf.zeros([40], 'int32'), 3)];
  await model.fit(xs, ys, { epochs: 2, batchSize: 4, verbose: 0, validationSplit: 0.2${callbacks} });
  console.log(tf.getBackend());
`;

async function run(flags: readonly string[], program: string): Promise<void> {
  const environment = {
    ...{ RANKTRACE_DIRECTORY: directory, RANKTRACE_RUN: 'test', RANKTRACE_WITH_STACK: '1', RANKTRACE_WITH_MODULES: '1' },
    RANKTRACE_EXIT_DEADLINE_MS: '60000',
  };
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '--input-type=module', '-e', program], {
    cwd: repository,
    env: { ...process.env, ...environment },
  });
  expect(stdout).toContain('tensorflow');
}

async function expectAll(): Promise<void> {
  const { events, findings } = await readRun(join(directory, 'test'), 'test');
  expect(findings).toEqual([]);
  const steps = events.filter(({ kind }) => kind === 'step');
  expect(steps).toHaveLength(16);
  const ops = events.filter(({ category, start }) => category === 'cpu_op' && start > (steps[0]?.start ?? 0));
  expect(ops.length).toBeGreaterThan(1000);
  const forward = ops.filter(({ arguments: args }) => args['Fwd thread id'] === undefined);
  expect(forward.length).toBeGreaterThan(500);
  expect(forward.filter(({ arguments: args }) => !/eval1|file:/.test(`${args['Call stack']}`)).map(({ name }) => name)).toEqual([]);
  const layers = new Set(ops.map(({ arguments: args }) => args['Module Hierarchy']));
  expect([...layers].filter((layer) => layer !== undefined).toSorted()).toEqual(['net.conv', 'net.flat', 'net.out']);
}

test('with fitCallback', async () => {
  await run([], `import { fitCallback, profile } from '@ranktrace/sdk';\n${training(', callbacks: fitCallback(profile())')}`);
  await expectAll();
});

test('with register', async () => {
  await run(['--import', '@ranktrace/sdk/register'], training(''));
  await expectAll();
});
