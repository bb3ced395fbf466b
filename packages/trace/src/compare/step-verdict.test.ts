import { expect, test } from 'vitest';
import { levelOfSeries, type SeriesLevel } from '../detect/compare-series.ts';
import { type JudgedSteps, judgeSteps, provableLine, verdictLine } from './step-verdict.ts';

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

const level = (times: readonly number[]): SeriesLevel => levelOfSeries(times) as SeriesLevel;

test('a difference that is certain is not one that cannot be distinguished from scatter, in either direction', () => {
  const times = [100, 108, 95, 101, 105];
  const [short, long] = [level(times), level(times.map((time) => 1.28 * time))];
  const [slower, faster] = [judgeSteps(short, long, 0.03), judgeSteps(long, short, 0.03)];
  expect([slower.verdict, faster.verdict]).toEqual(['slower', 'faster']);
  // 21.9 % less are 28 % more the other way round.
  for (const judged of [slower, faster]) {
    const [, percent] = /a difference under (\d+\.\d) % cannot/.exec(provableLine(judged)) ?? [];
    expect(Math.abs(100 * judged.comparison.change)).toBeGreaterThan(Number(percent));
  }
});

test('a limit is proposed only where it is one that --fail-on takes', () => {
  const advice = (times: readonly number[]): string =>
    provableLine(judgeSteps(level([100, 101, 99]), level(times), 0.03)).replace(/.*would not fail this check: /, '');
  expect(advice([100, 125, 95, 105])).toBe('record more steps, or choose --fail-on 545');
  expect(advice([100, 120, 90])).toBe('record more steps');
});
