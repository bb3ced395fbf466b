// Numbers and ranks in the form of an alert's one line.

import { significant } from '../model/quantity-text.ts';
import { ranksText as ranksTextOf } from '../model/ranks-text.ts';
import { displayText } from '../model/shown-name.ts';
import { alertLimits } from './alert-limits.ts';

/** `3.2 MiB`. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let [size, unit] = [bytes, 0];
  for (; Math.abs(size) >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return `${unit === 0 ? Math.round(size) : significant(size)} ${units[unit]}`;
}

/** `rank 3`, `ranks 0, 1, 2 and 5 more`. */
export const ranksText = (ranks: readonly number[]): string => ranksTextOf(ranks, alertLimits.alertRanksNamedMax);

/** A rank's name cut to fit a line, without characters that end a line or move a cursor. */
export const nameText = (name: string): string => displayText(name, nameCharsMax);

const nameCharsMax = 64;
