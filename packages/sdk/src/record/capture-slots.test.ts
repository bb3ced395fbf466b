import { expect, test } from 'vitest';
import { recordingLimits } from '../model/recording-limits.ts';
import { AskedSteps, captureSlotsBytes, StepRequests } from './capture-slots.ts';

function slots(): { asked: AskedSteps; requests: StepRequests } {
  const words = new Int32Array(new SharedArrayBuffer(captureSlotsBytes));
  return { asked: new AskedSteps(words), requests: new StepRequests(words) };
}

const stepsOf = (asked: AskedSteps, from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, index) => from + index).filter((step) => asked.step(step));

test('the steps that are asked for are those, and nothing before and after', () => {
  const { asked, requests } = slots();
  expect(stepsOf(asked, 0, 10)).toEqual([]);
  requests.ask(12, 14);
  expect(requests.open[0]?.began).toBeUndefined();
  expect(stepsOf(asked, 10, 20)).toEqual([12, 13, 14]);
  expect(requests.open[0]?.began).toBe(12);
  requests.answered(12, 14);
  expect(requests.open).toEqual([]);
});

test('who comes late records the rest, and says from which step; who is past it says so, too', () => {
  const { asked, requests } = slots();
  requests.ask(5, 12);
  requests.ask(1, 3);
  expect(stepsOf(asked, 10, 20)).toEqual([10, 11, 12]);
  expect(requests.open.map(({ began }) => began)).toEqual([10, 10]);
});

test('requests may overlap, and come while others run', () => {
  const { asked, requests } = slots();
  requests.ask(3, 5);
  expect(stepsOf(asked, 0, 5)).toEqual([3, 4]);
  requests.ask(5, 7);
  requests.ask(9, 9);
  expect(stepsOf(asked, 5, 12)).toEqual([5, 6, 7, 9]);
});

test('asked again, before and after the answer, nothing happens', () => {
  const { asked, requests } = slots();
  expect([requests.ask(3, 5), requests.ask(3, 5)]).toEqual([true, true]);
  expect(requests.open).toHaveLength(1);
  stepsOf(asked, 0, 8);
  requests.answered(3, 5);
  expect(requests.ask(3, 5)).toBe(true);
  expect(requests.open).toEqual([]);
});

test('more requests than there are slots are refused, until one is answered', () => {
  const { asked, requests } = slots();
  for (let step = 0; step < recordingLimits.captureSlots; step++) expect(requests.ask(step, step)).toBe(true);
  expect(requests.ask(100, 101)).toBe(false);
  requests.answered(2, 2);
  expect(requests.ask(100, 101)).toBe(true);
  expect(stepsOf(asked, 99, 103)).toEqual([100, 101]);
});
