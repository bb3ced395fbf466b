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
const of = (...findings: readonly ViewFinding[]) => alertMarks({ findings, bins: [0, 10, 20], times: [1000, 2000, 4000] });

test('an alert is marked where its first affected step began, within the bin in proportion', () => {
  expect(of(finding({ onsetStep: 15 }), finding({ onsetStep: 0, severity: 'note' }))).toEqual([
    { time: 1000, text: 'Since step 0: slower', isOpen: false },
    { time: 3000, text: 'Since step 15: slower', isOpen: true },
  ]);
});

test('findings without an onset have no mark; one before all bins has its own time, if any', () => {
  expect(of(finding({}))).toEqual([]);
  expect(alertMarks({ findings: [finding({ onsetStep: 3, from: 77 })], bins: [], times: [] })).toMatchObject([{ time: 77 }]);
  expect(alertMarks(undefined)).toEqual([]);
});

test('a mark is found within reach', () => {
  const marks = of(finding({ onsetStep: 10 }));
  expect([alertMarksAt(marks, 1900, 100).length, alertMarksAt(marks, 1800, 100).length]).toEqual([1, 0]);
});
