// The horizon of each member of a merge, and the slowest member: a tree of minima, so that a batch of one of a thousand ranks does not
// check all the others.
//
//                 [1] least of all
//            [2]           [3]            node n: the lesser of 2n and 2n + 1
//         [4]   [5]     [6]   [7]         leaves: the members' horizons; unused leaves are ∞

export class Horizons {
  #tree = new Float64Array(2).fill(Number.POSITIVE_INFINITY);
  #count = 0;

  /** Adds a member, at −∞; returns its number. */
  add(): number {
    const member = this.#count++;
    const leaves = this.#leaves;
    if (member === leaves) {
      const grown = new Float64Array(4 * leaves).fill(Number.POSITIVE_INFINITY);
      grown.set(this.#tree.subarray(leaves), 2 * leaves);
      this.#tree = grown;
      for (let node = 2 * leaves - 1; node > 0; node--) this.#lift(node);
    }
    this.set(member, Number.NEGATIVE_INFINITY);
    return member;
  }

  of(member: number): number {
    return this.#tree[this.#leaves + member] as number;
  }

  set(member: number, horizon: number): void {
    const leaf = this.#leaves + member;
    this.#tree[leaf] = horizon;
    for (let node = leaf >> 1; node > 0; node >>= 1) this.#lift(node);
  }

  /** The least horizon; ∞ when all members have ended. */
  get least(): number {
    return this.#tree[1] as number;
  }

  /** The first member at the least horizon; undefined when all have ended. */
  get slowest(): number | undefined {
    if (this.least === Number.POSITIVE_INFINITY) return undefined;
    const leaves = this.#leaves;
    let node = 1;
    while (node < leaves) node = (this.#tree[2 * node] as number) <= (this.#tree[2 * node + 1] as number) ? 2 * node : 2 * node + 1;
    return node - leaves;
  }

  get #leaves(): number {
    return this.#tree.length >> 1;
  }

  #lift(node: number): void {
    this.#tree[node] = Math.min(this.#tree[2 * node] as number, this.#tree[2 * node + 1] as number);
  }
}
