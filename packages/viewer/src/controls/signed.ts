// Differences for people: with their sign, and without one where the difference rounds to zero.

import { formatDuration, formatPercent } from './format.ts';

/** `+7.6 %`, `−12 %`, `0 %`: to a tenth of a percent; a dash for NaN. */
export function formatMorePart(part: number): string {
  const tenths = Math.round(part * 1000) / 1000;
  return `${tenths > 0 ? '+' : ''}${formatPercent(tenths === 0 ? 0 : tenths)}`;
}

/** `+82.7 ms`, `−1.2 µs`, `0 ns`. */
export const formatMoreTime = (ns: number): string => `${ns > 0 ? '+' : ''}${formatDuration(ns === 0 ? 0 : ns)}`;
