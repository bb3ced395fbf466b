import { expect, test } from 'vitest';
import { type JudgedSteps, verdictLine } from './step-verdict.ts';

test.each([
  [0.0096, 0.01, 'unchanged', 'unchanged: +0.96 %, less than 1 %'],
  [-0.00996, 0.01, 'unchanged', 'unchanged: −0.996 %, less than 1 %'],
  [0.0009999, 0.001, 'unchanged', 'unchanged: +0.09999 %, less than 0.1 %'],
  [0.0042, 0.01, 'unchanged', 'unchanged: +0.4 %, less than 1 %'],
  [0.01042, 0.0104, 'slower', 'slower: +1.04 %, 1.04 % or more fail the check'],
  [0.123, 0.03, 'slower', 'slower: +12.3 %, 3 % or more fail the check'],
] as const)('the difference %s and the limit %s agree in words', (change, failOn, verdict, line) => {
  const comparison = { change, isCertain: true, confidence: { low: change, high: change, t: 3 } } as JudgedSteps['comparison'];
  expect(verdictLine({ verdict, failOn, comparison, basis: 'usual' }).replace(/ \(.*\)/, '')).toBe(line);
});
