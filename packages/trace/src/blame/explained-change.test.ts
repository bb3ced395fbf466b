import { expect, it } from 'vitest';
import { explainedText, workText } from './explained-change.ts';

const ms = 1e6;

it.each([
  ['rank 1 works 40.22 ms more per step, 40.11 ms of it in forward', 40.22, 40.11],
  ['rank 1 works 40.22 ms more per step, 40.22 ms of it in forward', 40.22, 40.22],
  ['rank 1 works 52.60 ms more per step: 62.55 ms more in forward, 9.95 ms less in other phases', 52.6, 62.55],
  ['rank 1 works 5.00 ms less per step, 3.00 ms of it in forward', -5, -3],
  ['rank 1 works 5.00 ms less per step: 7.00 ms less in forward, 2.00 ms more in other phases', -5, -7],
])('says %s', (text, total, inPhase) => {
  expect(workText('rank 1 works', total * ms, 'forward', inPhase * ms)).toBe(text);
});

it.each([
  ['steps are 49.00 ms longer: 5.82 ms by transfers, 43.18 ms not explained', 49, [['transfers', 5.82]]],
  [
    'steps are 49.00 ms longer: 52.60 ms by that, 0.40 ms by transfers, −4.00 ms not explained',
    49,
    [
      ['that', 52.6],
      ['transfers', 0.4],
    ],
  ],
  [
    'steps are 6.00 ms longer: 6.00 ms by that',
    6,
    [
      ['that', 6],
      ['transfers', 0.001],
    ],
  ],
  ['steps are 5.00 ms shorter: 6.00 ms by that, −1.00 ms not explained', -5, [['that', -6]]],
  ['steps are 5.00 ms longer: none of it is explained', 5, [['transfers', 0]]],
] as const)('says %s', (text, change, parts) => {
  expect(
    explainedText(
      change * ms,
      parts.map(([by, length]) => [by, length * ms] as const),
    ),
  ).toBe(text);
});

it('adds up as it is written, however its figures are rounded', () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = (at: number): number => ((seed * 7919 * at) % 10_007) / 100 + 0.00499;
    const text = explainedText(random(1) * ms, [
      ['that', random(2) * ms],
      ['transfers', (random(3) - 50) * ms],
    ]);
    const figures = [...text.matchAll(/(−?)([\d.]+) ms/g)].map(
      ([, minus, figure]) => Math.round(100 * Number(figure)) * (minus === '' ? 1 : -1),
    );
    const [whole = 0, ...parts] = figures;
    expect(parts.reduce((sum, part) => sum + part, 0)).toBe(whole);
  }
});
