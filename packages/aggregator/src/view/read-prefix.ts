// The part of a growing source that was read: its batches up to a place. A late batch that fills a gap moves those behind it to later places, so that reading
// on from there would take some of them twice, and leave the late one out.
//
//   read     0 1 2 · 4 5 |          a gap, then a batch that fills it, and another gap
//   then     0 1 2 3 4 5 · 7        place 4 is another batch than before, and as many are missing
//
// Invariant: only a source with a gap can change in front of a place, so others cost no reading.

import type { BatchSource } from '@ranktrace/trace';

export class ReadPrefix {
  #count = 0;
  #missing = 0;
  /** Sequence of the last one, where there is a gap. */
  #last: number | undefined;

  /** The source is read up to `count`, default its end. */
  note(source: BatchSource, count: number = source.count): void {
    this.#count = count;
    this.#missing = source.missing;
    this.#last = this.#sequenceIn(source);
  }

  /** Whether other batches lie at the places that were read. */
  hasChanged(source: BatchSource): boolean {
    if (this.#missing === 0) return false;
    return source.missing < this.#missing || this.#sequenceIn(source) !== this.#last;
  }

  #sequenceIn(source: BatchSource): number | undefined {
    if (this.#missing === 0 || this.#count === 0 || this.#count > source.count) return undefined;
    return source.batch(this.#count - 1, [])?.header.sequence;
  }
}
