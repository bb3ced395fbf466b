// Unions of stretches of time, and their common parts: every share of a step is made of these, so that shares add up exactly.
//
//   A        ────────      ─────            union: disjoint, in order
//   B            ───────────                union
//   sweep    A   AB  │  B  │AB  A           calls back with the set of unions that cover each piece
//
// Invariant: `from[i] < until[i] < from[i + 1]`; stretches that touch are one, and those without length are none.

/** Disjoint stretches in order of time, ns. */
export class Intervals {
  readonly from: number[] = [];
  readonly until: number[] = [];

  /** Adds a stretch that begins no earlier than those before it. */
  add(from: number, until: number): void {
    if (!(until > from)) return;
    const last = this.until.length - 1;
    if (last >= 0 && from <= (this.until[last] as number)) {
      if (until > (this.until[last] as number)) this.until[last] = until;
      return;
    }
    this.from.push(from);
    this.until.push(until);
  }

  get length(): number {
    return this.from.length;
  }

  /** Time that they cover, ns. */
  get total(): number {
    let sum = 0;
    for (let at = 0; at < this.from.length; at++) sum += (this.until[at] as number) - (this.from[at] as number);
    return sum;
  }

  /** Number of the first stretch that ends after `time`. */
  firstAfter(time: number): number {
    let low = 0;
    let high = this.until.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.until[middle] as number) <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Calls back with each piece of them between `from` and `until`. */
  within(from: number, until: number, piece: (from: number, until: number, at: number) => void): void {
    for (let at = this.firstAfter(from); at < this.from.length && (this.from[at] as number) < until; at++) {
      piece(Math.max(from, this.from[at] as number), Math.min(until, this.until[at] as number), at);
    }
  }

  /** Time that they cover between `from` and `until`, ns. */
  covered(from: number, until: number): number {
    let sum = 0;
    this.within(from, until, (start, end) => {
      sum += end - start;
    });
    return sum;
  }
}

/**
 * Cuts `[from, until)` where any of `unions` begins or ends. Calls back with each piece and the set of unions over it: bit i for `unions[i]`,
 * 0 for none. The pieces add up to the whole.
 */
export function sweep(
  unions: readonly Intervals[],
  from: number,
  until: number,
  piece: (covering: number, from: number, until: number) => void,
): void {
  /** By union: its stretch at `time`, or the one after it, and when that begins, or ends. */
  const at = unions.map((union) => union.firstAfter(from));
  const turns = unions.map((union, index) => union.from[at[index] as number] ?? Number.POSITIVE_INFINITY);
  let covering = 0;
  for (let time = from; time < until; ) {
    let end = until;
    for (let index = 0; index < turns.length; index++) {
      if ((turns[index] as number) <= time) {
        const { from: begins, until: ends } = unions[index] as Intervals;
        if ((covering & (1 << index)) !== 0) at[index] = (at[index] as number) + 1;
        const stretch = at[index] as number;
        const begin = begins[stretch] ?? Number.POSITIVE_INFINITY;
        covering = begin <= time ? covering | (1 << index) : covering & ~(1 << index);
        turns[index] = begin <= time ? (ends[stretch] as number) : begin;
      }
      if ((turns[index] as number) < end) end = turns[index] as number;
    }
    piece(covering, time, end);
    time = end;
  }
}
