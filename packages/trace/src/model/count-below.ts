/** How many of the numbers from 0 to below `end` are below, where all below come first: a binary search. */
export function countBelow(end: number, isBelow: (at: number) => boolean): number {
  let [low, high] = [0, end];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (isBelow(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
