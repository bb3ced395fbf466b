// Robust statistics: medians and the like, which a few outliers do not move.

/** The median of values in ascending order; 0 when empty. */
export function medianOfSorted(sorted: ArrayLike<number>): number {
  const { length } = sorted;
  return length === 0 ? 0 : ((sorted[(length - 1) >> 1] as number) + (sorted[length >> 1] as number)) / 2;
}

/** The median; 0 when empty. */
export const median = (values: ArrayLike<number>): number => medianOfSorted(sortedUntilNext(values));

/** Median absolute deviation, scaled to match a normal distribution's standard deviation. */
export function deviation(values: ArrayLike<number>): number {
  const middle = median(values);
  return 1.4826 * medianOfSorted(sortedUntilNext(values, middle));
}

/** Memory of a typed array costs more than sorting a few numbers in it, and medians are taken by the million. */
let room = new Float64Array(1024);

/** The values, or their distances from `from`, in ascending order; the array is used again at the next call. */
function sortedUntilNext(values: ArrayLike<number>, from?: number): Float64Array {
  const { length } = values;
  if (length > room.length) room = new Float64Array(2 * length);
  if (from === undefined) for (let index = 0; index < length; index++) room[index] = values[index] as number;
  else for (let index = 0; index < length; index++) room[index] = Math.abs((values[index] as number) - from);
  return room.subarray(0, length).sort();
}

/**
 * For each value, the median of all others: one of three, as it depends only on the side of the middle on which the missing value was. So a sort
 * without a comparator, which typed arrays do several times faster, is enough.
 *
 *   sorted   … low, high, …      the middle of all others is low and high if a value above is missing, one place on if one below is
 */
export function mediansOfOthers(values: Float64Array): Float64Array {
  const { length } = values;
  if (length < 2) return new Float64Array(length);
  const sorted = sortedUntilNext(values);
  const [low, high] = [(length - 2) >> 1, (length - 1) >> 1];
  const at = (place: number): number => sorted[place] as number;
  const [below, between, above] = [(at(low + 1) + at(high + 1)) / 2, (at(low) + at(high + 1)) / 2, (at(low) + at(high)) / 2];
  const [lowest, highest] = [at(low), at(high)];
  return values.map((value) => (value <= lowest ? below : value <= highest ? between : above));
}

/** For each value, the deviation of all others. Those have at most three different medians, so this costs a few sorts for any count. */
export function deviationsOfOthers(values: Float64Array): Float64Array {
  const middles = mediansOfOthers(values);
  const byMiddle = new Map<number, Float64Array>();
  return Float64Array.from(middles, (middle, index) => {
    let distances = byMiddle.get(middle);
    if (distances === undefined) {
      distances = mediansOfOthers(Float64Array.from(values, (value) => Math.abs(value - middle)));
      byMiddle.set(middle, distances);
    }
    return 1.4826 * (distances[index] as number);
  });
}

/** The sum of the two largest of values ≥ 0. */
export function twoLargest(values: Iterable<number>): number {
  let [most, second] = [0, 0];
  for (const value of values) {
    second = Math.max(second, Math.min(value, most));
    most = Math.max(most, value);
  }
  return most + second;
}

/** Mean; 0 when empty. */
export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let index = 0; index < values.length; index++) sum += values[index] as number;
  return values.length === 0 ? 0 : sum / values.length;
}

/** `total` split into whole numbers proportional to `sizes` (≥ 0): the largest remainders get the units that rounding leaves. The sum is `total`. */
export function shareOut(total: number, sizes: readonly number[]): number[] {
  const sum = sizes.reduce((all, size) => all + size, 0);
  if (sum <= 0) return sizes.map((_, index) => (index === 0 ? total : 0));
  const exact = sizes.map((size) => (size / sum) * total);
  const shares = exact.map(Math.floor);
  let left = total - shares.reduce((all, share) => all + share, 0);
  const byRemainder = exact.map((value, index) => ({ index, rest: value - Math.floor(value) })).sort((a, b) => b.rest - a.rest);
  for (const { index } of byRemainder) {
    if (left <= 0) break;
    shares[index] = (shares[index] as number) + 1;
    left--;
  }
  return shares;
}
