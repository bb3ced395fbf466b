// The hooks of a thread over its steps, with real TensorFlow.js on its cpu backend.

import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { allDetail, detail } from '../model/detail.ts';
import { OpRecording } from '../testing/op-recording.ts';
import { type AttachTfjsOptions, TfjsHooks } from './attach-tfjs.ts';

const removals: (() => void)[] = [];
afterEach(() => {
  for (const remove of removals.splice(0)) remove();
});

beforeAll(async () => {
  await tf.setBackend('cpu');
});

function attach(options: Partial<AttachTfjsOptions>): { recording: OpRecording; hooks: TfjsHooks } {
  const recording = new OpRecording();
  const hooks = new TfjsHooks(recording, { tf, fence: false, withMemory: true, withModules: false, withStack: false, ...options });
  removals.push(() => hooks.remove());
  return { recording, hooks };
}

const reportedOfStacks = (recording: OpRecording): Record<string, number>[] =>
  recording.metadata.flatMap((line) => {
    const [, text] = /^ranktrace\.stacks\.\d+ (.*)$/.exec(line) ?? [];
    return text === undefined ? [] : [JSON.parse(text) as Record<string, number>];
  });

test('how stacks were found is reported in the end', () => {
  const { recording, hooks } = attach({ withStack: true });
  const x = tf.ones([2]);
  for (let step = 0; step < 40; step++) {
    tf.relu(x).dispose();
    hooks.endStep();
  }
  expect(reportedOfStacks(recording)).toEqual([]);
  hooks.remove();
  const [reported, ...more] = reportedOfStacks(recording);
  expect(more).toEqual([]);
  expect(reported).toMatchObject({ wrong: 0, wrongExpected: 0 });
  expect(reported?.taken).toBeGreaterThan(20);
  expect((reported?.taken ?? 0) + (reported?.walked ?? 0)).toBe(41); // The copy of `x`, and each step's op.
  x.dispose();
});

test('a wrong one is reported at the end of its step', () => {
  const { recording, hooks } = attach({ withStack: true });
  const x = tf.ones([2]);
  const one = () => tf.relu(x);
  const other = () => tf.relu(x);
  let step = 0;
  for (; step < 2000 && reportedOfStacks(recording).length === 0; step++) {
    (step < 20 ? one() : other()).dispose();
    hooks.endStep();
  }
  expect(reportedOfStacks(recording)).toMatchObject([{ wrong: 1, wrongExpected: 63 }]);
  expect(step).toBeGreaterThan(20);
  x.dispose();
});

test("with 'walk' each stack is looked at, and nothing is reported", () => {
  const { recording, hooks } = attach({ withStack: 'walk' });
  const x = tf.ones([2]);
  const one = () => tf.relu(x);
  const other = () => tf.relu(x);
  for (let step = 0; step < 40; step++) {
    (step % 20 < 19 ? one() : other()).dispose();
    hooks.endStep();
  }
  const stacks = recording.ops.filter(({ name }) => name === 'Relu').map(({ stack }) => stack);
  expect(new Set(stacks).size).toBe(2);
  expect(stacks[19]).toBe(stacks[39]);
  expect(stacks.filter((stack) => stack === stacks[19])).toHaveLength(2);
  hooks.remove();
  expect(reportedOfStacks(recording)).toEqual([]);
  x.dispose();
});

test('hooks that come off and on know the ops and the buffers of before', () => {
  const { recording, hooks } = attach({ withStack: true });
  const kept = tf.ones([2]);
  tf.relu(kept);
  const texts = recording.texts.length;
  const { address = 0 } = recording.memoryRecords.at(-1) ?? {};
  for (const wanted of [0, allDetail & ~detail.stacks]) {
    recording.detail = wanted;
    hooks.endStep();
    expect(hooks.isHooked).toBe(wanted !== 0);
    // Ops that are not recorded in this step still count: else the judge would take a sampled step's end for a program without tfjs.
    expect(hooks.hasEngine).toBe(true);
  }
  tf.relu(kept);
  expect(recording.texts).toHaveLength(texts);
  expect(recording.memoryRecords.at(-1)?.address).toBe(address + 1);
  // Categories are recorded anew in each result window, also by hooks that were not there before.
  const variable = tf.variable(kept);
  const reported = () => recording.categories.filter((line) => line.includes('PARAMETER')).length;
  for (let cycle = 1; cycle <= 3; cycle++) {
    for (const wanted of [0, allDetail]) {
      recording.detail = wanted;
      hooks.endStep();
    }
    hooks.beginWindow();
    expect(reported()).toBe(1 + cycle);
  }
  tf.dispose([kept, variable]);
  expect(recording.memoryRecords.at(-1)?.address).toBe(address - 1);
});
