// Robust statistics of a few dozen numbers, sorted in place, for the end of each block in a detector.
//
// Invariant: nothing here allocates. The caller owns the scratch space.

/** Numbers in a typed array of either width. */
export type NumberArray = Float32Array | Float64Array;

/** Sorts the first `count` numbers by insertion, the quickest way for so few. */
export function sortNumbers(values: NumberArray, count: number): void {
  for (let at = 1; at < count; at++) {
    const value = values[at] as number;
    let to = at;
    for (; to > 0 && (values[to - 1] as number) > value; to--) values[to] = values[to - 1] as number;
    values[to] = value;
  }
}

/** The median of `from` … `to` − 1 (at least one number), which stay as they are. `scratch` holds them sorted afterwards. */
export function medianOfRange(values: NumberArray, from: number, to: number, scratch: Float64Array): number {
  for (let at = from; at < to; at++) scratch[at - from] = values[at] as number;
  sortNumbers(scratch, to - from);
  return middleOf(scratch, to - from);
}

/**
 * Standard deviation from the median distance to `center` (× 1.4826, right for normal noise). Uses the sorted numbers that `medianOfRange`
 * left in `scratch`, and turns them into distances.
 */
export function deviationOfSorted(scratch: Float64Array, count: number, center: number): number {
  for (let at = 0; at < count; at++) scratch[at] = Math.abs((scratch[at] as number) - center);
  sortNumbers(scratch, count);
  return 1.4826 * middleOf(scratch, count);
}

/** Standard deviation of the first `count` numbers (two or more) from the differences of neighbours: a steady rise is no noise. */
export function deviationOfNeighbours(values: NumberArray, count: number, scratch: Float64Array): number {
  for (let at = 1; at < count; at++) scratch[at - 1] = (values[at] as number) - (values[at - 1] as number);
  sortNumbers(scratch, count - 1);
  return deviationOfSorted(scratch, count - 1, middleOf(scratch, count - 1)) / Math.SQRT2;
}

/** The rise per number (least squares) of the first `count`, if a straight line explains at least `share` of their variation; else 0. */
export function steadyRise(values: NumberArray, count: number, share: number): number {
  const [origin, middle] = [values[0] as number, (count - 1) / 2];
  let [sum, squares, together] = [0, 0, 0];
  for (let at = 0; at < count; at++) {
    const value = (values[at] as number) - origin;
    sum += value;
    squares += value * value;
    together += (at - middle) * value;
  }
  const own = (count * (count * count - 1)) / 12;
  const variation = squares - (sum * sum) / count;
  return together > 0 && together * together >= share * own * variation ? together / own : 0;
}

/** Mean of the middle half of the first `count` numbers: isolated spikes drop out on either side. Sorts them. */
export function midmean(values: NumberArray, count: number): number {
  sortNumbers(values, count);
  const cut = count >> 2;
  let sum = 0;
  for (let at = cut; at < count - cut; at++) sum += values[at] as number;
  return sum / (count - 2 * cut);
}

/** The one of two numbers that is nearer to `reference`; `reference` itself if it lies between them. */
export function nearerOf(a: number, b: number, reference: number): number {
  if (a > reference && b > reference) return Math.min(a, b);
  return a < reference && b < reference ? Math.max(a, b) : reference;
}

function middleOf(sorted: NumberArray, count: number): number {
  const middle = count >> 1;
  return count % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** Fit of one shape to a stretch: its residuals, and its break. */
export interface ShapeFit {
  /** Sum of squared residuals. */
  squares: number;
  /** The first number of the second piece. */
  at: number;
}

/** The best step (least squares) over `from` … `to` − 1: two levels, the second beginning between `first` and `last`. */
export function fitStep(values: NumberArray, from: number, to: number, first: number, last: number, fit: ShapeFit): void {
  let sum = 0;
  let squares = 0;
  const origin = values[from] as number;
  for (let at = from; at < to; at++) {
    const value = (values[at] as number) - origin;
    sum += value;
    squares += value * value;
  }
  fit.squares = Number.POSITIVE_INFINITY;
  fit.at = last;
  let left = 0;
  for (let at = from; at <= last; at++) {
    if (at >= first && at > from) {
      const right = sum - left;
      const rest = squares - (left * left) / (at - from) - (right * right) / (to - at);
      if (rest < fit.squares) {
        fit.squares = rest;
        fit.at = at;
      }
    }
    left += (values[at] as number) - origin;
  }
}

/**
 * The best ramp (least squares) over `from` … `to` − 1: a level, then a straight rise. It has as many parameters as a step, so the two compare
 * by their residuals.
 */
export function fitRamp(values: NumberArray, from: number, to: number, fit: ShapeFit): void {
  const count = to - from;
  let sum = 0;
  let squares = 0;
  const origin = values[from] as number;
  for (let at = from; at < to; at++) {
    const value = (values[at] as number) - origin;
    sum += value;
    squares += value * value;
  }
  const variation = squares - (sum * sum) / count;
  fit.squares = variation;
  fit.at = from;
  // From the end backwards: the rise of each number behind the break, times its value.
  let behind = 0;
  let weighted = 0;
  for (let at = to - 1; at >= from; at--) {
    // The break moves one back: every number behind it is one further up the rise.
    weighted += behind;
    behind += (values[at] as number) - origin;
    const length = to - 1 - at;
    if (length < 1) continue;
    const risen = (length * (length + 1)) / 2;
    const risenSquares = (length * (length + 1) * (2 * length + 1)) / 6;
    const together = weighted - (risen * sum) / count;
    const own = risenSquares - (risen * risen) / count;
    const rest = variation - (together * together) / own;
    if (rest < fit.squares) {
      fit.squares = rest;
      fit.at = at;
    }
  }
}
