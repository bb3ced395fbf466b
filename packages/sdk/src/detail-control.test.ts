import { expect, test } from 'vitest';
import { allDetail, detail } from './detail.ts';
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

/** What is shed over so many seconds of 50 ms steps, of each of which recording takes `percent`. */
function shedOver(control: DetailControl, seconds: number, percent: number): string[] {
  return Array.from({ length: 20 * seconds }, () => control.step(percent / 2, 50)?.what ?? []).flat();
}

const order = ['stacks', 'memory and modules', 'shapes and FLOPs', 'ops', 'nested spans'];

test('over its budget detail goes in the order of what it costs, one kind a second, after the first three', () => {
  const { control: given, bits } = control();
  expect(shedOver(given, 3, 1)).toEqual([]);
  expect(shedOver(given, 1, 1)).toEqual(['stacks']);
  expect(bits()).toBe(allDetail & ~detail.stacks);
  expect(shedOver(given, 20, 1)).toEqual(order.slice(1, 4));
  expect(shedOver(given, 20, 3)).toEqual(order.slice(4));
  expect(bits()).toBe(detail.spans);
});

test('within its budget nothing goes', () => {
  const { control: given, bits } = control();
  expect(shedOver(given, 60, 0.49)).toEqual([]);
  expect(bits()).toBe(allDetail);
});

test('what is not recorded is passed over', () => {
  const { control: given } = control({ wanted: detail.ops | detail.spans | detail.nestedSpans, idle: detail.ops | detail.spans });
  given.active = true;
  expect(shedOver(given, 20, 3)).toEqual(['ops', 'nested spans']);
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
