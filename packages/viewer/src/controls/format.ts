// Numbers for people: three significant figures, the unit after a thin space, and no jumps in width on a change.
//
// Invariant: no function here throws, whatever the number: a dash stands for NaN.

const minute = 60e9;
const hour = 60 * minute;
const space = '\u2009';
const dash = '–';
const minus = '−';
const units = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
] as const;

/** A number with about three figures: `0.123`, `1.23`, `12.3`, `123`, `1,234`. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return dash;
  if (value < 0) return `${minus}${formatNumber(-value)}`;
  if (value === 0) return '0';
  if (value >= 1e15) return value.toExponential(2);
  if (value >= 100) return grouped(Math.round(value));
  if (value < 0.001) return value.toExponential(1);
  return trimmed(value.toFixed(value >= 10 ? 1 : value >= 1 ? 2 : 3));
}

/** A count: `7`, `1,234`, from a million on `1.23 M`. */
export function formatCount(count: number): string {
  if (!Number.isFinite(count)) return dash;
  if (Math.abs(count) < 1e6)
    return Number.isInteger(count) ? (count < 0 ? `${minus}${grouped(-count)}` : grouped(count)) : formatNumber(count);
  return scaled(count, 1000, ['', 'k', 'M', 'G', 'T']);
}

/**
 * A count with its noun: `1 rank`, `12 ranks`.
 *
 * @example formatMany(2, 'batch', 'batches') // '2 batches'
 */
export const formatMany = (count: number, one: string, many = `${one}s`): string => `${formatCount(count)} ${count === 1 ? one : many}`;

/**
 * The words of the button that shows more of a list: `Show 32 of 56 more ranks`, `Show 8 more ranks`.
 *
 * @param next how many a click shows
 * @param left how many are not shown, at least 1
 */
export const formatMore = (next: number, left: number, one: string): string =>
  `Show ${next < left ? `${formatCount(next)} of ` : ''}${formatCount(left)} more ${left === 1 ? one : `${one}s`}`;

/** A length of time in ns: `850 ns`, `12.3 µs`, `1.23 ms`, `4.56 s`, `2 min 5 s`. */
export function formatDuration(ns: number): string {
  if (!Number.isFinite(ns)) return dash;
  if (ns < 0) return `${minus}${formatDuration(-ns)}`;
  // Units are left early enough that rounding never shows `1,000 µs`.
  if (ns < 999.5) return `${formatNumber(ns)}${space}ns`;
  if (ns < 999.5e3) return `${formatNumber(ns / 1e3)}${space}µs`;
  if (ns < 999.5e6) return `${formatNumber(ns / 1e6)}${space}ms`;
  if (ns < minute) return `${formatNumber(ns / 1e9)}${space}s`;
  const [big, small, bigUnit, smallUnit] = ns < hour ? [minute, 1e9, 'min', 's'] : [hour, minute, 'h', 'min'];
  const smalls = Math.round(ns / small);
  const each = big / small;
  const rest = smalls % each;
  const whole = `${grouped(Math.floor(smalls / each))}${space}${bigUnit}`;
  return rest === 0 ? whole : `${whole} ${rest}${space}${smallUnit}`;
}

/** A clock's uncertainty in ns: `±12.3 µs`; without one, `unaligned`. */
export const formatBound = (ns: number | null | undefined): string =>
  ns === null || ns === undefined ? 'unaligned' : `±${space}${formatDuration(ns)}`;

/** Lengths at the marks of an axis, ns, with as many figures as they need to be different from each other. */
export function axisTexts(values: readonly number[]): string[] {
  const plain = values.map((value) => (value === 0 ? '0' : formatDuration(value)));
  const most = Math.max(...values.map(Math.abs));
  if (new Set(plain).size === plain.length || !(most < minute)) return plain;
  const [size, unit] = units.find(([from]) => most >= from) ?? [1, 'ns'];
  const apart = values.slice(1).map((value, at) => Math.abs(value - (values[at] as number)) / size);
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(Math.min(...apart.filter((by) => by > 0))) - 1e-9)));
  return values.map((value) => `${(value / size).toFixed(decimals)}${space}${unit}`);
}

/**
 * A time since the trace's start in ns, as exact as `grain` (ns that one pixel shows) requires:
 * `12.345 678 s`, from a minute on `2:05.345`, from an hour on `1:02:05.345`.
 */
export function formatTime(ns: number, grain = 1): string {
  if (!Number.isFinite(ns)) return dash;
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(Math.max(grain, 1) / 1e9) - 1e-9)));
  const scale = 10 ** (9 - decimals);
  const units = Math.round(Math.abs(ns) / scale);
  const perSecond = 10 ** decimals;
  const seconds = Math.floor(units / perSecond);
  const fraction = decimals === 0 ? '' : `.${inThrees(String(units % perSecond).padStart(decimals, '0'))}`;
  const sign = ns < 0 && units > 0 ? minus : '';
  if (seconds < 60) return `${sign}${seconds}${fraction}${space}s`;
  const two = (value: number): string => String(value).padStart(2, '0');
  const clock = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}${fraction}`;
  return seconds < 3600 ? `${sign}${clock.replace(/^0(?=\d:)/, '')}` : `${sign}${Math.floor(seconds / 3600)}:${clock}`;
}

/** ns since 1970, in 2001. Less is no date: times of Chrome's traces count from when their host was started. */
const oldestUnix = 10n ** 18n;

/** Wall-clock time at a trace time, in the reader's time zone: `2026-03-04 05:06:07.123`; undefined without an epoch (`RunModel.unixEpoch`). */
export function formatWallClock(unixEpoch: string | null, ns: number): string | undefined {
  if (unixEpoch === null || !/^\d{1,20}$/.test(unixEpoch) || !Number.isFinite(ns)) return undefined;
  if (BigInt(unixEpoch) < oldestUnix) return undefined;
  const at = new Date(Number((BigInt(unixEpoch) + BigInt(Math.round(ns))) / 1_000_000n));
  if (Number.isNaN(at.getTime())) return undefined;
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

/** `512 B`, `1.5 KiB`, `3.2 GiB`. */
export const formatBytes = (bytes: number): string =>
  Number.isFinite(bytes) ? scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']) : dash;

/** A part of one: `12.3 %`. */
export const formatPercent = (part: number): string => (Number.isFinite(part) ? `${formatNumber(part * 100)}${space}%` : dash);

/** A counter's value with its unit: bytes scaled by 1024, ns as a length of time, anything else as it is. */
export function formatValue(value: number, unit: string): string {
  if (/^(b|bytes?)$/i.test(unit)) return formatBytes(value);
  if (unit === 'ns') return formatDuration(value);
  if (unit === '%') return `${formatNumber(value)}${space}%`;
  const number = Math.abs(value) >= 1e6 ? scaled(value, 1000, ['', 'k', 'M', 'G', 'T']) : formatNumber(value);
  // UCUM's unit of a dimensionless value.
  return unit === '' || unit === '1' ? number : `${number}${space}${unit}`;
}

/** Ranks as ranges: `0–3, 7`; after `most` ranges, `… (12 in all)`. */
export function formatRanks(ranks: readonly number[], most = 8): string {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  const ranges: string[] = [];
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (sorted[end + 1] === (sorted[end] as number) + 1) end++;
    const [first, last] = [sorted[at], sorted[end]];
    ranges.push(end === at ? `${first}` : end === at + 1 ? `${first}, ${last}` : `${first}${dash}${last}`);
    at = end + 1;
  }
  return ranges.length <= most ? ranges.join(', ') : `${ranges.slice(0, most).join(', ')}, … (${sorted.length} in all)`;
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let rest = Math.abs(value);
  let at = 0;
  while (rest >= base * 0.9995 && at < units.length - 1) {
    rest /= base;
    at++;
  }
  const unit = units[at] as string;
  return `${value < 0 ? minus : ''}${formatNumber(rest)}${unit === '' ? '' : `${space}${unit}`}`;
}

const grouped = (whole: number): string => String(whole).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
const trimmed = (digits: string): string => (digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits);
const inThrees = (digits: string): string => digits.replace(/(\d{3})(?=\d)/g, `$1${space}`);
