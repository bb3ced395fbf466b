// The largest value seen for each ordered pair of hosts. A matrix for few hosts: in a balanced cluster each collective touches all
// pairs, which would cost a hundred times as much in a Map.

/** Above this many hosts only seen pairs take memory: a matrix would take over 8 MB. */
const denseMax = 1024;

export class PairMaxima {
  readonly #count: number;
  #dense: Float64Array | undefined;
  readonly #sparse = new Map<number, number>();
  #isEmpty = true;

  constructor(count: number) {
    this.#count = count;
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  raise(from: number, to: number, value: number): void {
    this.#isEmpty = false;
    const pair = from * this.#count + to;
    if (this.#count <= denseMax) {
      this.#dense ??= new Float64Array(this.#count ** 2).fill(Number.NEGATIVE_INFINITY);
      if (value > (this.#dense[pair] as number)) this.#dense[pair] = value;
    } else if (value > (this.#sparse.get(pair) ?? Number.NEGATIVE_INFINITY)) {
      this.#sparse.set(pair, value);
    }
  }

  /** −∞ for a pair that was not seen. */
  of(from: number, to: number): number {
    const pair = from * this.#count + to;
    return this.#dense?.[pair] ?? this.#sparse.get(pair) ?? Number.NEGATIVE_INFINITY;
  }

  each(visit: (from: number, to: number, value: number) => void): void {
    const count = this.#count;
    if (this.#dense !== undefined) {
      for (const [pair, value] of this.#dense.entries())
        if (value !== Number.NEGATIVE_INFINITY) visit(Math.floor(pair / count), pair % count, value);
    }
    for (const [pair, value] of this.#sparse) visit(Math.floor(pair / count), pair % count, value);
  }
}
