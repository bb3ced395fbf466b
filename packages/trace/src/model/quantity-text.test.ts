import { expect, it } from 'vitest';
import { lengthText } from './quantity-text.ts';

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
