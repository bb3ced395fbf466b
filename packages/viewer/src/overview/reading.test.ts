import { expect, it } from 'vitest';
import { viewProcess } from '../testing/view-model.ts';
import { comparedText, isReading, noStepsText, readingText } from './reading.ts';

const plain = (text: string): string => text.replaceAll(/\s/g, ' ');

it('says how much of a run is read, and never that all is while it is not', () => {
  const texts = [0, 17, 58.9, 99.99].map((read) => plain(readingText({ read, total: 100 })));
  expect(texts).toEqual(['Reading 0 %', 'Reading 17 %', 'Reading 58 %', 'Reading 99 %']);
  expect([isReading({ read: 0, total: 1 }), isReading({ read: 1799, total: 1800 }), isReading({ read: 1800, total: 1800 })]).toEqual([
    true,
    true,
    false,
  ]);
  // A run without batches.
  expect([isReading({ read: 0, total: 0 }), plain(readingText({ read: 0, total: 0 }))]).toEqual([false, 'Reading 0 %']);
});

it('says which steps are compared meanwhile', () => {
  const read = { read: 58, total: 100 };
  expect(plain(comparedText(read, { steps: 71, fromStep: 0, toStep: 70 }))).toBe(
    'Reading 58 %: this is of steps 0–70, which all ranks have reported so far.',
  );
  expect(plain(comparedText(read, { steps: 0, fromStep: 0, toStep: 0 }))).toBe('Reading 58 % …');
});

it('calls a run empty once it is read, not at 17 %', () => {
  const nobody = { live: false, processes: [] };
  expect(noStepsText(nobody, {}, true)).toBe('No step yet that all ranks have reported.');
  expect(noStepsText(nobody, {}, false)).toBe('There is nothing in this run.');
  expect(noStepsText({ ...nobody, live: true }, {}, false)).toBe('No rank has said anything yet.');
  const ranks = { live: false, processes: [viewProcess(0)] };
  expect(noStepsText(ranks, { fromStep: 5, toStep: 9 }, false)).toBe('No rank has steps 5–9.');
  expect(noStepsText(ranks, { fromStep: 5, toStep: 9 }, true)).toBe('No step yet that all ranks have reported.');
  expect(noStepsText(ranks, {}, false)).toMatch(/^No steps were recorded/);
  expect(noStepsText({ ...ranks, live: true }, {}, false)).toMatch(/^No step has ended yet/);
});
