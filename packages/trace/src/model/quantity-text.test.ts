import { expect, it } from 'vitest';
import { lengthsText, lengthText } from './quantity-text.ts';

it.each([
  [0, '0 ns'],
  [1e3, '1.00 µs'],
  [231e6, '231 ms'],
  [600e9, '600 s'],
  [7199e9, '7199 s'],
  [12_500e9, '3.47 h'],
  [-12_500e9, '-3.47 h'],
  [9e15, '104 d'],
])('%d ns are written as %s', (ns, text) => expect(lengthText(ns)).toBe(text));

it.each([
  [[1.2e6, 3.4e6, 9e6], '1.20/3.40/9.00 ms'],
  [[0.4, 60, 700], '0/60/700 ns'],
  [[0, -12e6, -120e6], '0.00/-12.0/-120 ms'],
  [[1800e9, 7200e9, 12_600e9], '0.50/2.00/3.50 h'],
  [[0, 43_200e9, 9e15], '0.00/0.50/104 d'],
])('several lengths are in the unit of the last: %j', (lengths, text) => expect(lengthsText(lengths)).toBe(text));
