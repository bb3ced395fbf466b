import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { allDetail, detail } from '../model/detail.ts';
import { DetailControl } from './detail-control.ts';
import { OverheadJudge } from './overhead-judge.ts';
import { Recorder } from './recorder.ts';
import { createRing, RingWriter } from './ring.ts';

const warnings: string[] = [];
const listen = ({ name, message }: Error): void => {
  if (name === 'RanktraceWarning') warnings.push(message);
};
beforeEach(() => {
  warnings.length = 0;
  process.on('warning', listen);
});
afterEach(() => {
  process.off('warning', listen);
});

/** Judges this many seconds of 20 steps each, in which recording takes `share`. */
async function judged(wanted: number, seconds: number, share: number, asked = false): Promise<string[]> {
  const word = new Int32Array(1);
  const recorder = new Recorder({ ring: new RingWriter(createRing(65_536)), now: () => 1, context: new AsyncLocalStorage(), idBase: 0 });
  const control = new DetailControl({ word, wanted, idle: wanted, asked, budget: 0.005, hasOps: () => true });
  const judge = new OverheadJudge(recorder, control, 0.005);
  for (let at = 0; at < seconds; at++) {
    recorder.overheadMs += 1000 * share;
    recorder.stepsMs += 1000;
    judge.judge();
  }
  // Node emits warnings with the next tick.
  await new Promise((resolve) => setImmediate(resolve));
  return warnings;
}

test('a warning comes once, after warm-up, and names the option that costs most and what to set it to', async () => {
  expect(await judged(allDetail, 3, 0.1)).toEqual([]);
  expect(await judged(allDetail, 60, 0.1)).toEqual([
    'stacks are not recorded any more: recording took 10.00 % of the steps, over overheadBudget, 0.50 %; to keep within it set withStack: false; to record all the same set overheadBudget: 0.15',
  ]);
});

test('options that ask for nothing are not named', async () => {
  const { memory, ops, shapes, flops } = detail;
  expect(await judged(ops | memory, 10, 0.02)).toEqual([
    expect.stringMatching(
      /^memory and modules are not .*; to keep within it set profileMemory: false; to record all the same set overheadBudget: 0.03$/,
    ),
  ]);
  warnings.length = 0;
  expect(await judged(ops | shapes | flops, 10, 0.02)).toEqual([
    expect.stringMatching(/^shapes and FLOPs are not .*; to keep within it set recordShapes: false and withFlops: false; /),
  ]);
  warnings.length = 0;
  expect(await judged(ops, 10, 0.02)).toEqual([
    'ops are recorded in one step of 4 from here on: recording took 2.00 % of the steps, over overheadBudget, 0.50 %; to have those of chosen steps set a schedule that records few steps, such as schedule: { wait: 90, warmup: 1, active: 9 }; to record all set overheadBudget: 0.03',
  ]);
});

test('around the active steps of a schedule, held detail alone is shed, and the warning says so', async () => {
  expect(await judged(allDetail, 60, 0.1, true)).toEqual([
    "outside of the schedule's active steps, which have all, stacks are not recorded any more: recording took 10.00 % of the steps, over overheadBudget, 0.50 %; to hold none set flightRecorderSteps: 0; to hold all set overheadBudget: 0.15",
  ]);
});

test('within its budget there is none', async () => {
  expect(await judged(allDetail, 60, 0.004)).toEqual([]);
});
