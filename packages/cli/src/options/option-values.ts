// Values of options, parsed: numbers, shares, steps, ranks, times, names. Each throws commander's InvalidArgumentError, which says what would be right.

import { checkRunName, limits } from '@ranktrace/protocol';
import type { StepRange } from '@ranktrace/trace/blame';
import { InvalidArgumentError } from 'commander';

/** The values of an option that may be given again. */
export const listed = (text: string, before: readonly string[] = []): readonly string[] => [...before, text];

/** A whole number from 1 to `max`. */
export const positive = (max: number): ((text: string) => number) => whole(1, max);

/** A whole number within bounds. */
export function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** Length of a window, s. */
export function windowSeconds(text: string): number {
  const value = Number(text);
  if (/^\d{1,4}(\.\d{1,3})?$/.test(text) && value > 0 && value <= limits.windowMsMax / 1000) return value;
  throw new InvalidArgumentError(`It must be seconds above 0, up to ${limits.windowMsMax / 1000}, such as 2 or 0.5.`);
}

const rowsMax = 1_000_000;

/** -1, as in torch: all. */
export function rowLimit(text: string): number {
  const value = Number(text);
  if (text === '-1') return Number.POSITIVE_INFINITY;
  if (/^\d+$/.test(text) && value >= 1 && value <= rowsMax) return value;
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${rowsMax}, or -1 for all.`);
}

/** A share, of text in per cent. */
export function percent(text: string): number {
  const share = percentIn(text);
  if (share === undefined) throw new InvalidArgumentError('It must be per cent of the step, such as 3, 3% or 2.5%.');
  // 0.03 may be a mistyped 3 %: a gate that tight would fail by chance alone.
  if (share === 0 || share >= 0.001 || text.includes('%')) return share;
  const meant = Number((1e4 * share).toFixed(4));
  throw new InvalidArgumentError(`It is per cent: write ${meant} for a share of ${text}, or ${text}% if that is meant.`);
}

/** The same bounds as `rules.step_time.change`. */
export function changePercent(text: string): number {
  const share = percent(text);
  if (share >= 0.001 && share <= 9) return share;
  throw new InvalidArgumentError('It must be 0.1% to 900% of the step.');
}

/** `300-400`, or one step. */
export function stepRange(text: string): StepRange {
  const [, from, to = from] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text.trim()) ?? [];
  const [first, last] = [Number(from), Number(to)];
  if (first <= last) return { first, last };
  throw new InvalidArgumentError('It must be FROM-TO with the lower step first, such as 300-400, or one step.');
}

/** ns of `1.5s`, `300ms`, `40us`. */
export function traceTimeIn(text: string): number {
  const [, number, unit = 's'] = /^(-?\d{1,12}(?:\.\d{1,9})?)\s*(s|ms|us|µs|ns)?$/.exec(text.trim()) ?? [];
  const size = { s: 1e9, ms: 1e6, us: 1e3, µs: 1e3, ns: 1 }[unit];
  if (number !== undefined && size !== undefined) return Number(number) * size;
  throw new InvalidArgumentError('It must be a time such as 1.5s, 300ms or 40us.');
}

/** `0-3,8`. */
export function rankList(text: string): readonly StepRange[] {
  return text.split(',').map((part) => {
    const [, from, to = from] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part.trim()) ?? [];
    const [first, last] = [Number(from), Number(to)];
    if (first <= last && last <= limits.rankMax) return { first, last };
    throw new InvalidArgumentError('It must be ranks and ranges of ranks, such as 0-3,8.');
  });
}

/** The valid name of a run. */
export function runName(text: string): string {
  try {
    return checkRunName(text);
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}

/** `3`, `3%` or `2.5 %` as a share; undefined for anything else. */
function percentIn(text: string): number | undefined {
  const [, number] = /^(\d{1,4}(?:\.\d{1,6})?)\s*%?$/.exec(text.trim()) ?? [];
  return number === undefined ? undefined : Number(number) / 100;
}
