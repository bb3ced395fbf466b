// Quantiles of a stream in bounded memory: exact for the first values, then a histogram with buckets of equal relative width (DDSketch:
// Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees", VLDB 2019).
//
//   value   … -γ²   -γ    -1   0   1    γ    γ²  …         γ = (1 + 1 %) / (1 − 1 %), or of another accuracy
//   bucket  …   -2    -1       0      1    2    …          a bucket's value is within 1 % of any value in it
//
// Values are ns, so values below 1 count as 0. Up to 2^53 there are 1,838 buckets of 1 % on each side; a sketch holds the range it has seen.

/** Values kept exactly, so that the report of a short run is exact. */
const exactMax = 256;

export class QuantileSketch {
  readonly #gamma: number;
  readonly #perLog: number;
  #count = 0;
  #least = Number.POSITIVE_INFINITY;
  #most = Number.NEGATIVE_INFINITY;
  #exact: number[] | undefined = [];
  /** Counts of the buckets, from `#first` up. */
  #buckets = new Float64Array(0);
  #first = 0;

  /** `accuracy`: largest relative error of a value. */
  constructor(accuracy = 0.01) {
    this.#gamma = (1 + accuracy) / (1 - accuracy);
    this.#perLog = 1 / Math.log(this.#gamma);
  }

  get count(): number {
    return this.#count;
  }

  /** Whether values are kept as they are: the first 256. */
  get isExact(): boolean {
    return this.#exact !== undefined;
  }

  /** The smallest value; undefined without any. */
  get least(): number | undefined {
    return this.#count === 0 ? undefined : this.#least;
  }

  get most(): number | undefined {
    return this.#count === 0 ? undefined : this.#most;
  }

  /** Adds a finite value. */
  add(value: number): void {
    this.#count++;
    this.#least = Math.min(this.#least, value);
    this.#most = Math.max(this.#most, value);
    if (this.#exact === undefined) {
      this.#fill(value);
      return;
    }
    this.#exact.push(value);
    if (this.#exact.length <= exactMax) return;
    for (const kept of this.#exact) this.#fill(kept);
    this.#exact = undefined;
  }

  /** Values at `shares` (0 … 1) of the sorted values, interpolated between neighbours as `quantile` does; undefined without any. */
  quantiles<const S extends readonly number[]>(shares: S): { readonly [K in keyof S]: number } | undefined {
    if (this.#count === 0) return undefined;
    const at = this.#lookUp();
    return shares.map((share) => {
      const place = (this.#count - 1) * share;
      const [low, high] = [at(Math.floor(place)), at(Math.ceil(place))];
      return low + (high - low) * (place - Math.floor(place));
    }) as { readonly [K in keyof S]: number };
  }

  /** Returns a look-up of the value at a place, 0 … count − 1, in ascending order. */
  #lookUp(): (place: number) => number {
    const sorted = this.#exact?.toSorted((a, b) => a - b);
    if (sorted !== undefined) return (place) => sorted[place] as number;
    return (place) => {
      let before = 0;
      let bucket = 0;
      for (; bucket < this.#buckets.length - 1; bucket++) {
        before += this.#buckets[bucket] as number;
        if (before > place) break;
      }
      return Math.min(this.#most, Math.max(this.#least, this.#middleOf(bucket + this.#first)));
    };
  }

  #fill(value: number): void {
    const bucket = this.#bucketOf(value);
    const { length } = this.#buckets;
    if (bucket < this.#first || bucket >= this.#first + length) this.#widen(bucket);
    const at = bucket - this.#first;
    this.#buckets[at] = (this.#buckets[at] as number) + 1;
  }

  /** Grows the range to hold `bucket` and a margin beyond it: values mostly come in clusters. */
  #widen(bucket: number): void {
    const { length } = this.#buckets;
    const margin = 16;
    const from = length === 0 ? bucket - margin : Math.min(this.#first, bucket - margin);
    const to = length === 0 ? bucket + margin : Math.max(this.#first + length, bucket + margin);
    const wider = new Float64Array(to - from);
    if (length > 0) wider.set(this.#buckets, this.#first - from);
    this.#buckets = wider;
    this.#first = from;
  }

  #bucketOf(value: number): number {
    const size = Math.abs(value);
    if (size < 1) return 0;
    const bucket = 1 + Math.floor(Math.log(size) * this.#perLog);
    return value < 0 ? -bucket : bucket;
  }

  /** The value with the same relative error to both ends of its bucket. */
  #middleOf(bucket: number): number {
    if (bucket === 0) return 0;
    const value = (2 * this.#gamma ** Math.abs(bucket)) / (this.#gamma + 1);
    return bucket < 0 ? -value : value;
  }
}
