// A profile without requested detail, over its budget: it records ops of some steps, the same numbers on each rank, and states it everywhere.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readRun } from '../../../../test/setup/trace-events.ts';
import { ProfilerAction } from '../model/schedule.ts';
import { type Profile, profile } from './profile.ts';
import { recordFunction } from './record-function.ts';

let directory: string;
const warnings: string[] = [];
const listen = ({ name, message }: Error): void => {
  if (name === 'RanktraceWarning') warnings.push(message);
};

beforeEach(async () => {
  await tf.setBackend('cpu');
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-sampled-'));
  warnings.length = 0;
  process.on('warning', listen);
});
afterEach(() => {
  process.off('warning', listen);
  rmSync(directory, { recursive: true });
});

const start = (options: Parameters<typeof profile>[0]): Profile =>
  profile({ run: 'test', directory, sampleIntervalMs: 0, ...options }).start();

/** Steps of one product, one span and some idle ms, until `isOver`. */
async function train(prof: Profile, isOver: () => boolean): Promise<void> {
  const x = tf.ones<tf.Rank.R2>([32, 32]);
  while (!isOver()) {
    recordFunction('forward', () => tf.matMul(x, x).dispose());
    prof.step();
    await wait(4);
  }
  x.dispose();
}

test('ops are recorded as soon as the host is switched on again', async () => {
  const prof = start({ recordShapes: true });
  const work = (name: string): void => recordFunction(name, () => tf.square(3).dispose());
  work('before');
  prof.toggleCollectionDynamic(false, ['cpu']);
  work('off');
  prof.step();
  work('off');
  prof.toggleCollectionDynamic(true, ['cpu']);
  work('after');
  work('after');
  prof.step();
  await prof.stop();
  const counts = Object.fromEntries([...prof.keyAverages()].map(({ key, count }) => [key, count]));
  expect(counts).toMatchObject({ before: 1, after: 2, Square: 3 });
  expect(counts.off).toBeUndefined();
});

test('ops of one step in 64 are recorded, and everything says so', async () => {
  const prof = start({ overheadBudget: 0 });
  await train(prof, () => warnings.length > 0);
  const from = prof.stepNum;
  await train(prof, () => prof.stepNum >= from + 320);
  await prof.stop();

  expect(warnings).toEqual([
    expect.stringMatching(/^ops are recorded in one step of 64 from here on: recording took \d+\.\d\d % of the steps, /),
  ]);
  const { events, findings, processes } = await readRun(join(directory, 'test'), 'test');
  expect(findings).toContain(
    'ops are recorded in one step of 64 on rank 0: recording all of them takes more of the steps than overheadBudget',
  );
  const steps = events.filter(({ kind }) => kind === 'step');
  const ops = events.filter(({ name }) => name === 'BatchMatMul');
  const late = ops.filter(({ start }) => start >= (steps[from + 1]?.start ?? 0));
  const recorded = late.map(({ start }) => steps.findIndex((step) => start < step.start + step.length));
  expect(recorded).toEqual(
    Array.from({ length: 5 }, (_, at) => (Math.floor(from / 64) + at + 1) * 64).filter((step) => step < steps.length),
  );
  // Nothing else is sampled.
  expect(events.filter(({ name }) => name === 'forward')).toHaveLength(steps.length);

  const reported = JSON.parse(processes[0]?.metadata.get('ranktrace.sampled.ops') ?? '') as Record<string, number>;
  expect(reported).toEqual({ every: 64, steps: steps.length, recorded: ops.length });
  const averages = prof.keyAverages();
  expect([...averages].find(({ key }) => key === 'BatchMatMul')?.count).toBe(ops.length);
  expect(averages.table()).toContain(`\nops of ${ops.length} of ${steps.length} steps: recording all would pass overheadBudget\n`);
  expect(averages.table({ header: 'mine' })).toContain(`mine\nops of ${ops.length} of ${steps.length} steps`);
});

test('a fence is asked for by name: each step has its ops', async () => {
  const prof = start({ overheadBudget: 0, experimentalConfig: { fence: true } });
  // Time for more than three judgements.
  const until = performance.now() + 5500;
  await train(prof, () => performance.now() > until);
  await prof.stop();
  expect(warnings).toEqual([]);
  const averages = prof.keyAverages();
  expect([...averages].find(({ key }) => key === 'BatchMatMul')?.count).toBe(prof.stepNum);
  expect(averages.table()).not.toContain('overheadBudget');
});

test('around the active steps of a schedule only what is held is sampled: tables are whole, and the finding says held', async () => {
  const tables: string[] = [];
  const active = 3;
  let isActive = false;
  const prof = start({
    overheadBudget: 0,
    schedule: () => (isActive ? ProfilerAction.RECORD : ProfilerAction.NONE),
    onTraceReady: (ready) => tables.push(ready.keyAverages().table()),
  });
  await train(prof, () => warnings.length > 0);
  const from = prof.stepNum;
  await train(prof, () => prof.stepNum >= from + 64);
  isActive = true;
  const activeFrom = prof.stepNum + 1;
  await train(prof, () => prof.stepNum >= activeFrom + active);
  await prof.stop();
  expect(warnings).toEqual([
    expect.stringMatching(/^outside of the schedule's active steps, which have all, ops are recorded in one step of 64 /),
  ]);
  expect(tables).toHaveLength(1);
  expect(tables[0]).toContain('BatchMatMul');
  expect(tables[0]).not.toContain('overheadBudget');
  const { findings } = await readRun(join(directory, 'test'), 'test');
  // A slow machine is judged once more meanwhile: then nested spans go, too, and only those that are held.
  expect(findings.filter((finding) => !finding.startsWith('held nested spans were not recorded to the end'))).toEqual([
    'held ops are recorded in one step of 64 on rank 0: recording all of them takes more of the steps than overheadBudget',
  ]);
});
