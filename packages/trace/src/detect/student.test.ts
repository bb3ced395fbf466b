import { expect, test } from 'vitest';
import { type Significance, studentQuantile } from './student.ts';

const fivePerCent: Significance = { share: 0.05, normal: 1.959964 };
const fourDeviations: Significance = { share: 6.334248e-5, normal: 4 };

// scipy.stats.t.isf(share / 2, degrees)
test.each([
  [1, 12.706205, 10_050.439],
  [2, 4.302653, 125.64112],
  [3, 3.182446, 32.616397],
  [4, 2.776445, 17.448228],
  [5.5, 2.501859, 10.870187],
  [8, 2.306004, 7.595055],
  [20, 2.085963, 5.035538],
  [100, 1.983972, 4.176598],
  [Number.POSITIVE_INFINITY, 1.959964, 4],
])('is what tables have for %d degrees of freedom', (degrees, ofFivePerCent, ofFourDeviations) => {
  expect(studentQuantile(fivePerCent, degrees) / ofFivePerCent).toBeCloseTo(1, 3);
  expect(studentQuantile(fourDeviations, degrees) / ofFourDeviations).toBeCloseTo(1, 3);
});
