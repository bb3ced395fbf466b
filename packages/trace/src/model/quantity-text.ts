// Shares and lengths of time as every finding and alert writes them.

/** `7.4 %`. */
export const percentText = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`;

/** `8.42 ms`, with three significant digits; `3.47 h` and `104 d` from two of them on. */
export function lengthText(ns: number): string {
  for (const [unit, size, least] of lengthUnits) if (Math.abs(ns) >= least * size) return `${significant(ns / size)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

/** Units of time: ns of one, and how many of it are written in it. */
const lengthUnits = [
  ['d', 86_400e9, 2],
  ['h', 3600e9, 2],
  ['s', 1e9, 1],
  ['ms', 1e6, 1],
  ['µs', 1e3, 1],
] as const;

/** A length in evidence, ns: ms to a hundredth, so that differences add up; from a second on as `lengthText`. */
export const evidenceLength = (ns: number): string =>
  Math.abs(ns) >= 1e9 ? lengthText(ns) : `${(ns / 1e6).toFixed(Math.abs(ns) < 1e6 ? 3 : 2)} ms`;

/** Three significant digits: `8.42`, `58.5`, `231`. */
export function significant(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
