// One incarnation's batches: which of them came, and their reading in order of sequence.
//
// Pruning makes one batch of several, which stands for all their sequences. In an open store it takes the row of the first of them, and the rows of
// the others stay, without bytes: readers by index find each batch at its old index while the run continues.
//
//   row        0   1   2   3   4        batches 0 to 2 pruned
//   bytes      0–2 ·   ·   3   4
//
// Reading ahead: while the next batches lie close behind this one (at most as many bytes of others between them as of our own), the source reads them
// in the same call. It reads a run of one rank in large pieces; each of 64 interleaved ranks reads only its own.

import { frameHeaderBytes } from '@ranktrace/protocol';
import { SequenceSet } from '../model/sequence-set.ts';
import { BatchPlaces } from './batch-places.ts';
import type { SegmentFiles } from './segment-files.ts';

/** Place of a batch that stands for the sequences from `from` on. */
export interface SummaryPlace {
  readonly from: number;
  readonly file: number;
  readonly offset: number;
  readonly length: number;
}

interface Window {
  readonly file: number;
  readonly from: number;
  readonly bytes: Buffer;
}

export class SegmentSource {
  readonly rank: number;
  /** One life of the rank's process; later ones sort later. */
  readonly incarnation: string;
  /**
   * Number of this incarnation among the run's, by the arrival of first batches: 0, 1, 2, … A clock that is set back between two incarnations cannot
   * swap them.
   */
  readonly life: number;
  readonly #latestLife: () => number;
  readonly #files: SegmentFiles;
  readonly #windowBytes: () => number;
  #present = new SequenceSet();
  #places = new BatchPlaces();
  #window: Window | undefined;

  /** `latestLife`: returns the latest incarnation of its rank at the time of the call. */
  constructor(
    identity: { readonly rank: number; readonly incarnation: string; readonly life: number },
    files: SegmentFiles,
    windowBytes: () => number,
    latestLife: () => number,
  ) {
    this.rank = identity.rank;
    this.incarnation = identity.incarnation;
    this.life = identity.life;
    this.#latestLife = latestLife;
    this.#files = files;
    this.#windowBytes = windowBytes;
  }

  /** The source as it is now: batches that come later do not show. */
  snapshot(): SegmentSource {
    const latest = this.#latestLife();
    const copy = new SegmentSource(this, this.#files, this.#windowBytes, () => latest);
    copy.#present = this.#present.copy();
    copy.#places = this.#places.snapshot();
    return copy;
  }

  /** Whether this is the latest life of its rank. */
  get isLatest(): boolean {
    return this.life === this.#latestLife();
  }

  /** Number of batches, including places of those that pruning joined with others. */
  get count(): number {
    return this.#places.count;
  }

  /** Batches missing between sequence 0 and the largest. */
  get missing(): number {
    return this.#present.missing;
  }

  /** The missing ones below `sequence`. */
  missingBelow(sequence: number): number {
    return this.#present.missingBelow(sequence);
  }

  /** The missing sequences as ranges: `from` included, `to` not. */
  gaps(): Generator<{ readonly from: number; readonly to: number }> {
    return this.#present.gaps();
  }

  has(sequence: number): boolean {
    return this.#present.has(sequence);
  }

  /** Notes the place of a batch that stands for `from` to `sequence`: payload `offset` and `length` in bytes; returns whether it was new. */
  add(from: number, sequence: number, file: number, offset: number, length: number): boolean {
    if (!this.#present.addRange(from, sequence)) return false;
    this.#places.add(from, file, offset, length);
    return true;
  }

  /**
   * Replaces the batches in `file` by those in `summaries`, in a file of their own. Snapshots stay unchanged: they read the old file, as long as it
   * exists.
   */
  replace(file: number, summaries: readonly SummaryPlace[]): void {
    this.#places.replace(file, summaries);
    this.#window = undefined;
  }

  /** Sequence number of the `index`-th batch, 0 ≤ index < count; the first one of a batch that stands for several. */
  sequence(index: number): number {
    return this.#places.sequence(this.#row(index));
  }

  /**
   * Bytes of the `index`-th batch in order of sequence, 0 ≤ index < count; undefined for one that pruning joined with an earlier one. They stay
   * valid.
   * Throws AggregatorError `store_…`.
   */
  read(index: number): Uint8Array | undefined {
    return this.#read(index, false);
  }

  /** The same in order of arrival, in which later batches never change an earlier `index`. */
  readArrived(index: number): Uint8Array | undefined {
    return this.#read(index, true);
  }

  #read(index: number, arrived: boolean): Uint8Array | undefined {
    const row = this.#row(index, arrived);
    const length = this.#places.length(row);
    if (length === 0) return undefined;
    const { file, offset } = this.#places.place(row);
    const window = this.#window;
    if (window !== undefined && window.file === file && offset >= window.from && offset + length <= window.from + window.bytes.length) {
      return window.bytes.subarray(offset - window.from, offset - window.from + length);
    }
    const bytes = this.#files.read(file, offset, this.#readableTogether(index, arrived));
    // A window with one batch only would hold memory for nothing.
    this.#window = bytes.length > length ? { file, from: offset, bytes } : undefined;
    return bytes.subarray(0, length);
  }

  #readableTogether(index: number, arrived: boolean): number {
    const first = this.#row(index, arrived);
    const { file, offset } = this.#places.place(first);
    let ours = this.#places.length(first);
    let end = offset + ours;
    const bytesMax = this.#windowBytes();
    for (let next = index + 1; next < this.count; next++) {
      const row = this.#row(next, arrived);
      const length = this.#places.length(row);
      if (length === 0) break;
      const place = this.#places.place(row);
      const nextEnd = place.offset + length;
      if (place.file !== file || place.offset < end || nextEnd - offset > bytesMax) break;
      ours += length + frameHeaderBytes;
      if (2 * ours < nextEnd - offset) break;
      end = nextEnd;
    }
    return end - offset;
  }

  #row(index: number, arrived = false): number {
    if (index < 0 || index >= this.count) throw new RangeError(`Batch index must be 0 to ${this.count - 1}, got ${index}`);
    return arrived ? index : this.#places.row(index);
  }
}
