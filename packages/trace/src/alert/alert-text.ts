// Numbers and ranks as an alert's one line says them.

import { displayText } from '../timeline/shown-name.ts';
import { alertLimits } from './alert-limits.ts';

/** `7.4 %`. */
export const percentText = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** `8.42 ms`, with three significant digits. */
export function lengthText(ns: number): string {
  const units = [
    ['s', 1e9],
    ['ms', 1e6],
    ['µs', 1e3],
  ] as const;
  for (const [unit, size] of units) if (Math.abs(ns) >= size) return `${significant(ns / size)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

/** `3.2 MiB`. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let [size, unit] = [bytes, 0];
  for (; Math.abs(size) >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return `${unit === 0 ? Math.round(size) : significant(size)} ${units[unit]}`;
}

/** `rank 3`, `ranks 0, 1, 2 and 5 more`. */
export function ranksText(ranks: readonly number[]): string {
  const shown = ranks.slice(0, alertLimits.alertRanksNamedMax).join(', ');
  const more = ranks.length - alertLimits.alertRanksNamedMax;
  return `rank${ranks.length === 1 ? '' : 's'} ${shown}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Of a name that a rank gave, what fits in a line, and nothing that ends one or moves a cursor. */
export const nameText = (name: string): string => displayText(name, nameCharsMax);

const nameCharsMax = 64;

function significant(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
