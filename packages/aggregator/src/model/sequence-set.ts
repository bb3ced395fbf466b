// The set of sequence numbers of one source: a sorted list of ranges, mostly one.
//
//   numbers   0 1 2 3 4 · · 7 8 · 10          · = missing
//   ranges   [0        5)  [7  9) [10 11)     starts[i] < ends[i] < starts[i+1]
//
// Batches arrive in order except for redeliveries, so `add` almost always moves the last end by one.

export class SequenceSet {
  #starts: number[] = [];
  #ends: number[] = [];
  #count = 0;

  /** A copy that later `add`s do not change. */
  copy(): SequenceSet {
    const copy = new SequenceSet();
    copy.#starts = [...this.#starts];
    copy.#ends = [...this.#ends];
    copy.#count = this.#count;
    return copy;
  }

  /** Numbers in the set. */
  get count(): number {
    return this.#count;
  }

  /** Numbers from 0 to the largest that are not in the set. */
  get missing(): number {
    return (this.#ends.at(-1) ?? 0) - this.#count;
  }

  /** Numbers from 0 to below `end` that are not in the set. */
  missingBelow(end: number): number {
    let missing = 0;
    for (const { from, to } of this.gaps()) {
      if (from >= end) break;
      missing += Math.min(to, end) - from;
    }
    return missing;
  }

  has(sequence: number): boolean {
    const index = this.#rangeAt(sequence);
    return index >= 0 && sequence < (this.#ends[index] as number);
  }

  /** Adds the numbers from `from` to `last`, both included; whether any was new. */
  addRange(from: number, last: number): boolean {
    if (from === last) return this.add(last);
    const starts = this.#starts;
    const ends = this.#ends;
    // Merges the ranges that touch the new one: those from `first` to before `next`.
    let first = this.#rangeAt(from);
    if (first < 0 || (ends[first] as number) < from) first++;
    let next = first;
    let [start, end, had] = [from, last + 1, 0];
    for (; next < starts.length && (starts[next] as number) <= last + 1; next++) {
      start = Math.min(start, starts[next] as number);
      end = Math.max(end, ends[next] as number);
      had += (ends[next] as number) - (starts[next] as number);
    }
    starts.splice(first, next - first, start);
    ends.splice(first, next - first, end);
    this.#count += end - start - had;
    return end - start > had;
  }

  /** Adds a number; whether it was new. */
  add(sequence: number): boolean {
    const starts = this.#starts;
    const ends = this.#ends;
    const index = this.#rangeAt(sequence);
    if (index >= 0 && sequence < (ends[index] as number)) return false;
    this.#count++;
    const joinsLeft = index >= 0 && ends[index] === sequence;
    const joinsRight = starts[index + 1] === sequence + 1;
    if (joinsLeft && joinsRight) {
      ends.splice(index, 1);
      starts.splice(index + 1, 1);
    } else if (joinsLeft) ends[index] = sequence + 1;
    else if (joinsRight) starts[index + 1] = sequence;
    else {
      starts.splice(index + 1, 0, sequence);
      ends.splice(index + 1, 0, sequence + 1);
    }
    return true;
  }

  /** The missing ranges below the largest number: `from` included, `to` not. */
  *gaps(): Generator<{ readonly from: number; readonly to: number }> {
    let from = 0;
    for (const [index, start] of this.#starts.entries()) {
      if (start > from) yield { from, to: start };
      from = this.#ends[index] as number;
    }
  }

  /** The last range that starts at or before `sequence`, -1 when there is none. */
  #rangeAt(sequence: number): number {
    const starts = this.#starts;
    const last = starts.length - 1;
    if (last < 0 || (starts[last] as number) <= sequence) return last;
    let low = 0;
    let high = last;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((starts[middle] as number) <= sequence) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
