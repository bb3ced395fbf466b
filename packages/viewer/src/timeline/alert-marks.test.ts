import type { ViewFinding } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { alertMarks, alertMarksAt } from './alert-marks.ts';

const finding = (about: Partial<ViewFinding>): ViewFinding => ({
  severity: 'alert',
  kind: 'step_time',
  text: 'slower',
  ranks: [],
  ...about,
});
/** Steps 100 to 129 in bins of ten: of 100 ns each, then 200, then 300. */
const steps = { bins: [100, 110, 120], times: [1000, 2000, 4000], toStep: 129, slowest: [100, 200, 300] };
const of = (...findings: readonly ViewFinding[]) => alertMarks({ ...steps, findings }, 500);

test('an alert is marked where its first affected step began, within the bin in proportion, in the last bin, too', () => {
  expect(of(finding({ onsetStep: 115 }), finding({ onsetStep: 129 }), finding({ onsetStep: 100, severity: 'note' }))).toEqual([
    { time: 1000, text: 'Since step 100: slower', isOpen: false },
    { time: 3000, text: 'Since step 115: slower', isOpen: true },
    { time: 6700, text: 'Since step 129: slower', isOpen: true },
  ]);
});

test('one whose step is not there is at its own time, else at the nearest step, and says so', () => {
  expect(of(finding({ onsetStep: 3, from: 77 }))).toMatchObject([{ time: 77, text: 'Since step 3: slower' }]);
  const early = 'Since step 3: slower (step 3 is not on this page)';
  expect(of(finding({ onsetStep: 3 }), finding({ onsetStep: 130 }))).toMatchObject([{ time: 1000, text: early }, { time: 7000 }]);
  const empty = { findings: [finding({ onsetStep: 3 })], bins: [], times: [], toStep: 0, slowest: [] };
  expect(alertMarks(empty, 500)).toMatchObject([{ time: 500, text: early }]);
});

test('findings without an onset have no mark', () => {
  expect(of(finding({}))).toEqual([]);
  expect(alertMarks(undefined, 500)).toEqual([]);
});

test('a mark is found within reach', () => {
  const marks = of(finding({ onsetStep: 110 }));
  expect([alertMarksAt(marks, 1900, 100).length, alertMarksAt(marks, 1800, 100).length]).toEqual([1, 0]);
});
