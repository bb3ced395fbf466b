// Numbers as torch.profiler prints them (autograd/profiler_util.py), with Python's rounding.

import { TraceError } from '../model/errors.ts';

/**
 * Like toFixed, but exact halves go to the even digit, as in Python's `%.nf`: 3.125 is 3.12 there and 3.13 in JavaScript. Only a fraction
 * with few bits is an exact half; every other double rounds the same way in both.
 */
export function toFixedEven(value: number, digits: number): string {
  const rounded = value.toFixed(digits);
  const doubled = Math.abs(value) * 2 * 10 ** digits;
  // An exact half has an odd number of half units, and scaling back must give the same double: no rounding took place.
  if (doubled % 2 !== 1 || doubled / (2 * 10 ** digits) !== Math.abs(value) || !isDyadic(value, digits)) return rounded;
  const lower = (doubled - 1) / 2;
  const even = lower % 2 === 0 ? lower : lower + 1;
  return (Math.sign(value) * (even / 10 ** digits)).toFixed(digits);
}

/** Whether the value is a multiple of 2^-(digits + 1): only then can k · 10^-n be half-way in binary. */
const isDyadic = (value: number, digits: number): boolean => Number.isInteger(value * 2 ** (digits + 1));

const microsPer = { s: 1e6, ms: 1e3, us: 1 } as const;

/** A time in µs. Throws TraceError `bad_option` for another unit, which only callers without types can give. */
export function formatTime(micros: number, unit?: keyof typeof microsPer): string {
  const chosen = unit ?? (micros >= 1e6 ? 's' : micros >= 1e3 ? 'ms' : 'us');
  if (!Object.hasOwn(microsPer, chosen)) {
    throw new TraceError('bad_option', `Cannot print the table: timeUnit must be one of s, ms, us, got "${chosen}"`);
  }
  return `${toFixedEven(micros / microsPer[chosen], 3)}${chosen}`;
}

/** A share in percent; `NaN` if the whole is 0. */
export function formatShare(part: number, whole: number): string {
  return whole === 0 ? 'NaN' : `${toFixedEven((part * 100) / whole, 2)}%`;
}

/** Bytes, in units of 1024. */
export function formatMemory(bytes: number): string {
  const [kb, mb, gb] = [1024, 1024 ** 2, 1024 ** 3];
  const size = Math.abs(bytes);
  if (size >= gb) return `${toFixedEven(bytes / gb, 2)} GB`;
  if (size >= mb) return `${toFixedEven(bytes / mb, 2)} MB`;
  if (size >= kb) return `${toFixedEven(bytes / kb, 2)} KB`;
  return `${bytes} B`;
}
