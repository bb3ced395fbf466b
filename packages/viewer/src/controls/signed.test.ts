import { expect, it } from 'vitest';
import { formatMorePart, formatMoreTime } from './signed.ts';

it('shows parts with their sign, to a tenth of a percent', () => {
  const shown = [0.076, -0.12, 0.0001, -0.0001, 0, 1.5, Number.NaN].map((part) => formatMorePart(part).replace('\u2009', ' '));
  expect(shown).toEqual(['+7.6 %', '−12 %', '0 %', '0 %', '0 %', '+150 %', '–']);
});

it('shows times with their sign', () => {
  const shown = [82.7e6, -1200, 0, -0, Number.NaN].map((ns) => formatMoreTime(ns).replace('\u2009', ' '));
  expect(shown).toEqual(['+82.7 ms', '−1.2 µs', '0 ns', '0 ns', '–']);
});
