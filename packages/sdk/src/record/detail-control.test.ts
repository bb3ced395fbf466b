import { expect, test } from 'vitest';
import { allDetail, detail } from '../model/detail.ts';
import { DetailControl, type DetailControlParts } from './detail-control.ts';

function control(parts: Partial<DetailControlParts> = {}): { control: DetailControl; bits: () => number } {
  const word = new Int32Array(1);
  const control = new DetailControl({
    word,
    wanted: allDetail,
    idle: allDetail,
    asked: false,
    budget: 0.005,
    hasOps: () => true,
    ...parts,
  });
  return { control, bits: () => word[0] as number };
}

/** The detail shed over this many seconds of 50 ms steps, in each of which recording takes `percent`. */
function shedOver(control: DetailControl, seconds: number, percent: number): string[] {
  return Array.from({ length: 20 * seconds }, () => control.step(percent / 2, 50)?.what ?? []).flat();
}

const order = ['stacks', 'memory and modules', 'shapes and FLOPs', 'ops', 'nested spans'];

test('over its budget detail goes in the order of what it costs, one kind a second, after the first three', () => {
  const { control: given, bits } = control();
  expect(shedOver(given, 3, 1)).toEqual([]);
  expect(shedOver(given, 1, 1)).toEqual(['stacks']);
  expect(bits()).toBe(allDetail & ~detail.stacks);
  expect(shedOver(given, 3, 1)).toEqual(order.slice(1, 4));
  // Ops are sampled, more and more seldom; nested spans go when recording takes four times the budget.
  expect(new Set(shedOver(given, 60, 1))).toEqual(new Set(['ops']));
  expect(given.every).toBe(64);
  expect(shedOver(given, 20, 3)).toEqual(order.slice(4));
  expect(bits() & ~detail.ops).toBe(detail.spans);
});

/**
 * Steps of 50 ms in which recording takes `base` %, and with ops `ops` % more; returns the share that it took, %, and for each step whether its
 * ops were recorded.
 */
function run(given: DetailControl, bits: () => number, steps: number, base: number, ops: number, from = 0) {
  const recorded: boolean[] = [];
  const every: number[] = [];
  let took = 0;
  for (let step = from; step < from + steps; step++) {
    if (given.isSampling) given.beginStep(step);
    const isRecorded = (bits() & detail.ops) !== 0;
    recorded.push(isRecorded);
    const share = base + (isRecorded ? ops : 0);
    took += share / steps;
    // Judged every 16 steps, as by the judge.
    given.step(share / 2, 50);
    if (every.at(-1) !== given.every) every.push(given.every);
  }
  return { recorded, every, took };
}

test.for([
  [0.6, 2],
  [1.3, 4],
  [6, 16],
  [31, 64],
  [500, 64],
])('ops that take %s %% of a step are recorded in one step of %s', ([ops, every]) => {
  const { control: given, bits } = control({ wanted: detail.ops | detail.spans, idle: detail.ops | detail.spans });
  run(given, bits, 2000, 0.02, ops as number);
  expect(given.every).toBe(every);
  const { recorded, took, every: everies } = run(given, bits, 640, 0.02, ops as number, 2048);
  expect(everies).toEqual([every]);
  expect(recorded.flatMap((isRecorded, step) => (isRecorded ? [step] : []))).toEqual(
    Array.from({ length: 640 / (every as number) }, (_, at) => at * (every as number)),
  );
  if ((ops as number) < 100) expect(took).toBeLessThan(0.52);
});

test('at least one step of any 64 has its ops', () => {
  const { control: given, bits } = control();
  const { recorded } = run(given, bits, 4000, 3, 80);
  for (let from = 0; from + 64 <= recorded.length; from++) expect(recorded.slice(from, from + 64)).toContain(true);
});

test('after a slow hour ops come back, and what was too often is not tried again', () => {
  const { control: given, bits } = control({ wanted: detail.ops | detail.spans, idle: detail.ops | detail.spans });
  run(given, bits, 1000, 0.02, 30);
  expect(given.every).toBe(64);
  run(given, bits, 20_000, 0.02, 0.1, 1000);
  const after = given.every;
  expect(after).toBeLessThan(64);
  const { every } = run(given, bits, 20_000, 0.02, 0.1, 21_000);
  expect(every).toEqual([after]);
  // A varying load does not make the interval swing without end.
  const swings: number[] = [];
  for (let hour = 0; hour < 40; hour++) swings.push(...run(given, bits, 2000, 0.02, hour % 2 === 0 ? 3 : 0.1, 50_000 + hour * 2000).every);
  expect(new Set(swings.slice(-20)).size).toBe(1);
});

test('steps that are asked for, by schedule or number, have their ops, sampled or not', () => {
  const { control: given, bits } = control({ asked: true });
  run(given, bits, 2000, 0.02, 30);
  expect(given.every).toBe(64);
  given.beginStep(2001);
  expect(bits() & detail.ops).toBe(0);
  given.captures = true;
  expect(bits()).toBe(allDetail);
  const { skipped } = given;
  given.beginStep(2002);
  expect(bits()).toBe(allDetail);
  expect(given.skipped).toBe(skipped);
  given.captures = false;
  given.beginStep(2003);
  expect(bits() & detail.ops).toBe(0);
  given.active = true;
  expect(bits()).toBe(allDetail);
});

test('steps that are switched off by hand are not judged: ops do not become more frequent by them', () => {
  const { control: given, bits } = control({ wanted: detail.ops | detail.spans, idle: detail.ops | detail.spans });
  run(given, bits, 2000, 0.02, 6);
  run(given, bits, 2000, 0.02, 3);
  const { every } = given;
  given.toggle(~0, false);
  run(given, bits, 20_000, 0, 0);
  given.toggle(~0, true);
  expect(given.every).toBe(every);
});

test('within its budget nothing goes', () => {
  const { control: given, bits } = control();
  expect(shedOver(given, 60, 0.49)).toEqual([]);
  expect(bits()).toBe(allDetail);
});

test('what is not recorded is passed over', () => {
  const { control: given } = control({ wanted: detail.ops | detail.spans | detail.nestedSpans, idle: detail.ops | detail.spans });
  given.active = true;
  expect(shedOver(given, 20, 3)).toEqual(['ops', 'ops', 'nested spans']);
});

test('without ops there are none to shed', () => {
  const { control: given, bits } = control({ hasOps: () => false });
  expect(shedOver(given, 20, 1)).toEqual([]);
  expect(bits()).toBe(allDetail);
});

test('in active steps nothing goes that was asked for, and what went outside of them is back', () => {
  const { control: given, bits } = control({ asked: true });
  expect(shedOver(given, 4, 1)).toEqual(['stacks']);
  given.active = true;
  expect(bits()).toBe(allDetail);
  expect(shedOver(given, 20, 50)).toEqual([]);
  given.active = false;
  expect(bits()).toBe(allDetail & ~detail.stacks);
});

test('nothing of a step that was asked for by number goes, and what went before is back for it', () => {
  const { control: given, bits } = control({ wanted: allDetail, idle: detail.spans });
  given.active = true;
  expect(shedOver(given, 4, 1)).toEqual(['stacks']);
  given.active = false;
  expect(bits()).toBe(detail.spans);
  given.captures = true;
  expect(bits()).toBe(allDetail);
  expect(shedOver(given, 20, 50)).toEqual([]);
  given.captures = false;
  expect(bits()).toBe(detail.spans);
});

test('a budget of 1 is no bound', () => {
  expect(shedOver(control({ budget: 1 }).control, 60, 99)).toEqual([]);
});

test('switched off by hand is off until it is switched on, whatever the schedule says', () => {
  const { control: given, bits } = control({ idle: detail.spans });
  given.toggle(detail.ops | detail.spans, false);
  expect(bits()).toBe(0);
  given.active = true;
  expect(bits()).toBe(allDetail & ~(detail.ops | detail.spans));
  given.toggle(~0, true);
  expect(bits()).toBe(allDetail);
  given.close();
  expect(bits()).toBe(0);
});
