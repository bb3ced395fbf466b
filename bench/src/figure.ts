// What a benchmark reports: one JSON line per figure, ratios against a baseline of the same run.

export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What it is measured against, in the same unit, in the same run. */
  readonly baseline?: { readonly name: string; readonly value: number };
  /** value ÷ baseline. */
  readonly ratio?: number;
  /** DESIGN's target: `≤` or `≥` a value, or a ratio where the unit is `×`. */
  readonly target?: { readonly at: 'most' | 'least'; readonly value: number; readonly of: 'value' | 'ratio' };
}

/** A figure with its ratio worked out. */
export function figure(about: Omit<Figure, 'ratio'>): Figure {
  return about.baseline === undefined ? about : { ...about, ratio: about.value / about.baseline.value };
}

/** Whether the target holds; undefined where there is none. */
export function meetsTarget({ target, value, ratio }: Figure): boolean | undefined {
  if (target === undefined) return undefined;
  const measured = target.of === 'ratio' ? (ratio as number) : value;
  return target.at === 'most' ? measured <= target.value : measured >= target.value;
}

/** Median of at least one number. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** Rounded for people: four significant digits. */
export const rounded = (value: number): number => Number(value.toPrecision(4));
