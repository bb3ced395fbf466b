// Runs by key, the least first: a binary heap with its keys in a column of their own, so that a sift compares numbers that lie side by side.
//
// Invariant: `keys[i]` is the key of `runs[i]`, and ∞ behind the last one.

export interface KeyedRun {
  /** Changed for the first run alone, followed by `settle`. */
  readonly key: number;
}

const roomMin = 64;

export class RunHeap<Run extends KeyedRun> {
  readonly #isAhead: (a: Run, b: Run) => boolean;
  readonly #runs: Run[] = [];
  #keys = new Float64Array(roomMin).fill(Number.POSITIVE_INFINITY);

  /** `isAhead`: the order of two runs of one key. */
  constructor(isAhead: (a: Run, b: Run) => boolean) {
    this.#isAhead = isAhead;
  }

  /** The run with the least key. */
  get first(): Run | undefined {
    return this.#runs[0];
  }

  /** The least key of all others, ∞ without any. */
  get nextKey(): number {
    return Math.min(this.#keys[1] as number, this.#keys[2] as number);
  }

  /** All runs, in no order. */
  get runs(): readonly Run[] {
    return this.#runs;
  }

  push(run: Run): void {
    const { key } = run;
    let at = this.#runs.length;
    if (at + 2 > this.#keys.length) this.#grow();
    const [runs, keys] = [this.#runs, this.#keys];
    runs.push(run);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = runs[parent] as Run;
      if (key > (keys[parent] as number) || (key === keys[parent] && !this.#isAhead(run, above))) break;
      runs[at] = above;
      keys[at] = keys[parent] as number;
      at = parent;
    }
    runs[at] = run;
    keys[at] = key;
  }

  /** Takes the first run out. */
  shift(): void {
    const last = this.#runs.pop();
    this.#keys[this.#runs.length] = Number.POSITIVE_INFINITY;
    if (last !== undefined && this.#runs.length > 0) this.#sink(last);
  }

  /** Moves the first run to its place, as its key has changed. */
  settle(): void {
    this.#sink(this.#runs[0] as Run);
  }

  /** Puts a run in place of the first one. */
  #sink(run: Run): void {
    const [runs, keys] = [this.#runs, this.#keys];
    const { length } = runs;
    const { key } = run;
    let at = 0;
    for (let child = 1; child < length; child = 2 * at + 1) {
      const [left, right] = [keys[child] as number, keys[child + 1] as number];
      if (right < left || (right === left && child + 1 < length && this.#isAhead(runs[child + 1] as Run, runs[child] as Run))) child++;
      const below = keys[child] as number;
      if (below > key || (below === key && !this.#isAhead(runs[child] as Run, run))) break;
      runs[at] = runs[child] as Run;
      keys[at] = below;
      at = child;
    }
    runs[at] = run;
    keys[at] = key;
  }

  #grow(): void {
    const wider = new Float64Array(2 * this.#keys.length).fill(Number.POSITIVE_INFINITY);
    wider.set(this.#keys);
    this.#keys = wider;
  }
}
