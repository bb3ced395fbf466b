// Rows in the order of (start, longest first), as torch sorts its events: an outer event comes before those inside it.
//
// A radix sort of the starts, 16 bits a pass: a comparison sort of indexes costs 400 ns a row at a million rows, this 40. Times of one
// profile span far less than 2^48 ns (3 days), so there are two or three passes; rows of equal start are sorted afterwards. Few rows are sorted
// 8 bits a pass: their counts, not the rows, would take the time.
//
// Invariant: stable. Rows with equal start and length keep their order.

const radixBits = 16;
const radixBitsOfFew = 8;
/** Rows up to which they are few. */
const fewRows = 1 << 14;

/** Runs of one start up to this long are sorted in place: the platform's sort costs an array and a closure. */
const runMax = 16;

/** Indexes of the rows in order; `start` and `duration` in ns, `length` rows. */
export function sortByTime(start: Float64Array, duration: Float64Array, length: number): Uint32Array {
  let order = new Uint32Array(length);
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let sorted = true;
  for (let row = 0; row < length; row++) {
    order[row] = row;
    const time = start[row] as number;
    if (time < last) sorted = false;
    if (time < first) first = time;
    if (time > last) last = time;
  }
  if (!sorted) {
    let spare = new Uint32Array(length);
    const buckets = 1 << (length <= fewRows ? radixBitsOfFew : radixBits);
    const counts = new Uint32Array(buckets + 1);
    for (let scale = 1; (last - first) / scale >= 1; scale *= buckets) {
      counts.fill(0);
      const digit = (row: number): number => Math.floor(((start[row] as number) - first) / scale) % buckets;
      for (let at = 0; at < length; at++) {
        const bucket = digit(order[at] as number) + 1;
        counts[bucket] = (counts[bucket] as number) + 1;
      }
      for (let bucket = 1; bucket <= buckets; bucket++) counts[bucket] = (counts[bucket] as number) + (counts[bucket - 1] as number);
      for (let at = 0; at < length; at++) {
        const row = order[at] as number;
        const bucket = digit(row);
        const to = counts[bucket] as number;
        counts[bucket] = to + 1;
        spare[to] = row;
      }
      [order, spare] = [spare, order];
    }
  }
  // Runs of one start, longest first.
  for (let from = 0; from < length; ) {
    const time = start[order[from] as number];
    let to = from + 1;
    while (to < length && start[order[to] as number] === time) to++;
    if (to - from > runMax) order.subarray(from, to).sort((a, b) => (duration[b] as number) - (duration[a] as number) || a - b);
    else if (to - from > 1) insertionSort(order, duration, from, to);
    from = to;
  }
  return order;
}

/** Puts a short run in order, longest first; stable. */
function insertionSort(order: Uint32Array, duration: Float64Array, from: number, to: number): void {
  for (let at = from + 1; at < to; at++) {
    const row = order[at] as number;
    const length = duration[row] as number;
    let into = at;
    for (; into > from && (duration[order[into - 1] as number] as number) < length; into--) order[into] = order[into - 1] as number;
    order[into] = row;
  }
}
