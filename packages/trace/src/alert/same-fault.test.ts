import { expect, it } from 'vitest';
import { isSameFault } from './same-fault.ts';

const steps = { first: 512, last: 1599 };
const alert = { rule: 'step_time_drift', cause: 'straggler', ranks: [1], onsetStep: 408 };
const found = { kind: 'straggler', ranks: [1], steps };

it('a slow rise is the fault of the steps in which it stands out, which begin later than it', () => {
  expect(isSameFault(alert, found)).toBe(true);
  expect(isSameFault({ ...alert, onsetStep: 1600 }, found)).toBe(false);
  expect(isSameFault({ ...alert, ranks: [2] }, found)).toBe(false);
  // A jump has its steps at once.
  expect(isSameFault({ ...alert, rule: 'step_time' }, found)).toBe(false);
  expect(isSameFault({ ...alert, rule: 'step_time', onsetStep: 450 }, found)).toBe(true);
});
