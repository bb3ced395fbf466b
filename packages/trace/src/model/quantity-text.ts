// Shares and lengths of time as every finding and alert writes them.

/** `7.4 %`. */
export const percentText = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`;

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

/** A length in evidence, ns: ms to a hundredth, so that differences add up; from a second on as `lengthText`. */
export const evidenceLength = (ns: number): string =>
  Math.abs(ns) >= 1e9 ? lengthText(ns) : `${(ns / 1e6).toFixed(Math.abs(ns) < 1e6 ? 3 : 2)} ms`;

/** Three significant digits: `8.42`, `58.5`, `231`. */
export function significant(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
