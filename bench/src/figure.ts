// The figures of a benchmark: one JSON line each, with its ratio to a baseline of the same run.
//
// Invariant: a target on a unit of speed is a ratio. Machines differ by a factor of three, and one machine from hour to hour; a baseline
// measured in turns with the subject (turns.ts) differs with them. The types below refuse any other target.

/** Units whose values depend on the machine and on the hour. */
export type SpeedUnit = 'ns' | 'µs' | 'ms' | 's' | 'events/s' | 'MB/s' | 'M events/s' | 'ms per million messages';

/** The same on every machine, or nearly so: amounts, shares, counts, and times of a simulated clock. */
export type AmountUnit =
  | 'B'
  | 'MiB'
  | '%'
  | 'simulated µs'
  | 'simulated s'
  | 'per million'
  | 'per 100 k steps'
  | 'steps'
  | 'regressions'
  | 'batches'
  | 'descriptors'
  | 'alerts'
  | 'F1'
  | 'cover';

export interface Target<Kind extends 'value' | 'ratio'> {
  readonly at: 'most' | 'least';
  readonly value: number;
  readonly of: Kind;
}

interface Measured<Unit extends string> {
  readonly name: string;
  readonly value: number;
  readonly unit: Unit;
  /** Measured in the same run and unit; `value` ÷ baseline is the figure's ratio. */
  readonly baseline?: Baseline;
}

export interface Baseline {
  readonly name: string;
  readonly value: number;
}

/** A figure before its ratio is computed. */
export type Measurement =
  | (Measured<SpeedUnit | AmountUnit> & { readonly target?: undefined })
  | (Measured<SpeedUnit | AmountUnit> & { readonly baseline: Baseline; readonly target?: Target<'ratio'> })
  | (Measured<AmountUnit> & { readonly target?: Target<'value'> });

export type Figure = Measurement & {
  /** value ÷ baseline. */
  readonly ratio?: number;
};

/** Figures for which this machine lacks something: reported in one line, and no missed target. */
export interface NotMeasured {
  readonly notMeasured: string;
  readonly why: string;
}

/** A figure with its ratio. */
export function figure(measured: Measurement): Figure {
  const { baseline, value } = measured;
  return baseline === undefined ? measured : { ...measured, ratio: value / baseline.value };
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
