import { expect, test } from 'vitest';
import {
  axisTexts,
  formatBound,
  formatBytes,
  formatCount,
  formatDuration,
  formatMany,
  formatMore,
  formatNumber,
  formatPercent,
  formatRanks,
  formatTime,
  formatValue,
  formatWallClock,
} from './format.ts';

const thin = (text: string): string => text.replaceAll('\u2009', ' ');

test.each([
  [
    [12.15e6, 12.2e6, 12.25e6],
    ['12.15 ms', '12.20 ms', '12.25 ms'],
  ],
  [
    [14.399e6, 14.4e6, 14.401e6],
    ['14.399 ms', '14.400 ms', '14.401 ms'],
  ],
  [
    [0, 5e6, 10e6],
    ['0', '5 ms', '10 ms'],
  ],
  [
    [0, 500e3, 1e6],
    ['0', '500 µs', '1 ms'],
  ],
])('marks of an axis at %j ns read %j', (values, texts) => expect(axisTexts(values).map(thin)).toEqual(texts));

test.each([
  [0, '0'],
  [0.00012, '1.2e-4'],
  [0.1234, '0.123'],
  [1.5, '1.5'],
  [12.34, '12.3'],
  [1234.4, '1,234'],
  [-3, '−3'],
  [Number.NaN, '–'],
])('the number %d reads %s', (value, text) => expect(formatNumber(value)).toBe(text));

test.each([
  [0, '0 ns'],
  [850, '850 ns'],
  [999.6, '1 µs'],
  [12_340, '12.3 µs'],
  [1_234_567, '1.23 ms'],
  [999_600_000, '1 s'],
  [125e9, '2 min 5 s'],
  [120e9, '2 min'],
  [3599.9e9, '60 min'],
  [7260e9, '2 h 1 min'],
  [-5000, '−5 µs'],
  [Number.POSITIVE_INFINITY, '–'],
])('a length of %d ns reads %s', (ns, text) => expect(thin(formatDuration(ns))).toBe(text));

test.each([
  [1_234_567_890, 1, '1.234 567 890 s'],
  [1_234_567_890, 1e6, '1.235 s'],
  [1_234_567_890, 1e9, '1 s'],
  [65e9, 1e8, '1:05.0'],
  [3725e9, 1e9, '1:02:05'],
  [-1.5e9, 1e8, '−1.5 s'],
  [-0.1, 1e9, '0 s'],
  [59.9999e9, 1e9, '1:00'],
])('a time of %d ns at a grain of %d reads %s', (ns, grain, text) => expect(thin(formatTime(ns, grain))).toBe(text));

test('counts stay exact below a million', () => {
  expect(formatCount(999_999)).toBe('999,999');
  expect(thin(formatCount(1_234_567))).toBe('1.23 M');
});

test('bytes are scaled by 1024, and never say 1,024 of a unit', () => {
  expect(thin(formatBytes(1023.9))).toBe('1 KiB');
  expect(thin(formatBytes(128 * 2 ** 20))).toBe('128 MiB');
});

test('values know their units', () => {
  expect(thin(formatValue(2 ** 31, 'bytes'))).toBe('2 GiB');
  expect(thin(formatValue(1500, 'ns'))).toBe('1.5 µs');
  expect(formatValue(2.36, '1')).toBe('2.36');
  expect(thin(formatValue(40, 'W'))).toBe('40 W');
});

test('an unaligned clock has no bound', () => {
  expect(formatBound(null)).toBe('unaligned');
  expect(thin(formatBound(12_000))).toBe('± 12 µs');
  expect(thin(formatPercent(0.123))).toBe('12.3 %');
});

test('wall-clock times keep their milliseconds however far the epoch is', () => {
  expect(formatWallClock('1766000000123456789', 1e6)).toMatch(/^2025-12-1\d \d\d:\d\d:20\.124$/);
  expect(formatWallClock(null, 0)).toBeUndefined();
  // Chromium's times of a host that was started 8 hours ago.
  expect(formatWallClock('30688537463000', 0)).toBeUndefined();
  expect(formatWallClock('no number', 0)).toBeUndefined();
});

test('ranks are reported as ranges', () => {
  expect(formatRanks([3, 1, 2, 7, 0])).toBe('0–3, 7');
  expect(formatRanks([4, 5])).toBe('4, 5');
  expect(formatRanks([0, 2, 4, 6], 2)).toBe('0, 2, … (4 in all)');
});

test('says how many more of a list a click shows, and how many there are', () => {
  expect([formatMore(32, 56, 'rank'), formatMore(32, 8, 'rank'), formatMore(32, 1, 'rank')]).toEqual([
    'Show 32 of 56 more ranks',
    'Show 8 more ranks',
    'Show 1 more rank',
  ]);
});

test('counts one thing as one', () => {
  expect([formatMany(1, 'rank'), formatMany(0, 'rank'), formatMany(1234, 'rank')]).toEqual(['1 rank', '0 ranks', '1,234 ranks']);
  expect([formatMany(1, 'batch', 'batches'), formatMany(2, 'batch', 'batches')]).toEqual(['1 batch', '2 batches']);
});
