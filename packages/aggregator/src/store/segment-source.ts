// The places of one incarnation's batches, and their reading in order of sequence.
//
//   row        0   1   2   3        rows are in order of arrival
//   sequence   0   1   3   2
//   order      0   1   3   2        order[i] = row of the i-th batch by sequence; built when something arrived out of order
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
  #rows = 0;
  #sequences = new Float64Array(16);
  #segments = new Uint32Array(16);
  #offsets = new Float64Array(16);
  #lengths = new Uint32Array(16);
  #inOrder = true;
  #order: Uint32Array | undefined;
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

  /**
   * The source as it is now: batches that come later do not show. Cheap, because filled rows never change and columns are shared.
   */
  snapshot(): SegmentSource {
    const latest = this.#latestLife();
    const copy = new SegmentSource(this, this.#files, this.#windowBytes, () => latest);
    copy.#present = this.#present.copy();
    copy.#rows = this.#rows;
    copy.#sequences = this.#sequences;
    copy.#segments = this.#segments;
    copy.#offsets = this.#offsets;
    copy.#lengths = this.#lengths;
    copy.#inOrder = this.#inOrder;
    copy.#order = this.#order;
    return copy;
  }

  /** Whether this is the latest incarnation of its rank. */
  get isLatest(): boolean {
    return this.life === this.#latestLife();
  }

  /** Number of batches, including places of those that pruning joined with others. */
  get count(): number {
    return this.#rows;
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
    const row = this.count;
    if (!this.#present.addRange(from, sequence)) return false;
    this.#rows++;
    if (row === this.#sequences.length) this.#grow();
    if (row > 0 && from < (this.#sequences[row - 1] as number)) this.#inOrder = false;
    this.#sequences[row] = from;
    this.#segments[row] = file;
    this.#offsets[row] = offset;
    this.#lengths[row] = length;
    this.#order = undefined;
    return true;
  }

  /**
   * Replaces the batches in `file` by those in `summaries`, in a file of their own. Snapshots stay unchanged: they read the old file, as long as it
   * exists.
   */
  replace(file: number, summaries: readonly SummaryPlace[]): void {
    const firsts = new Map(summaries.map((summary) => [summary.from, summary]));
    this.#segments = this.#segments.slice();
    this.#offsets = this.#offsets.slice();
    this.#lengths = this.#lengths.slice();
    for (let row = 0; row < this.#rows; row++) {
      if (this.#segments[row] !== file) continue;
      const summary = firsts.get(this.#sequences[row] as number);
      this.#segments[row] = summary?.file ?? file;
      this.#offsets[row] = summary?.offset ?? 0;
      this.#lengths[row] = summary?.length ?? 0;
    }
    this.#window = undefined;
  }

  /** Sequence number of the `index`-th batch, 0 ≤ index < count; the first one of a batch that stands for several. */
  sequence(index: number): number {
    return this.#sequences[this.#row(index)] as number;
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
    const file = this.#segments[row] as number;
    const offset = this.#offsets[row] as number;
    const length = this.#lengths[row] as number;
    if (length === 0) return undefined;
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
    const file = this.#segments[first] as number;
    const offset = this.#offsets[first] as number;
    let ours = this.#lengths[first] as number;
    let end = offset + ours;
    const bytesMax = this.#windowBytes();
    for (let next = index + 1; next < this.count; next++) {
      const row = this.#row(next, arrived);
      const nextOffset = this.#offsets[row] as number;
      const nextEnd = nextOffset + (this.#lengths[row] as number);
      if (this.#segments[row] !== file || nextOffset < end || nextEnd - offset > bytesMax) break;
      ours += (this.#lengths[row] as number) + frameHeaderBytes;
      if (2 * ours < nextEnd - offset) break;
      end = nextEnd;
    }
    return end - offset;
  }

  #row(index: number, arrived = false): number {
    if (index < 0 || index >= this.count) throw new RangeError(`Batch index must be 0 to ${this.count - 1}, got ${index}`);
    if (this.#inOrder || arrived) return index;
    if (this.#order === undefined) {
      const sequences = this.#sequences;
      this.#order = Uint32Array.from({ length: this.count }, (_, row) => row).sort(
        (a, b) => (sequences[a] as number) - (sequences[b] as number),
      );
    }
    return this.#order[index] as number;
  }

  #grow(): void {
    const rows = this.#sequences.length * 2;
    const grow = <T extends Float64Array | Uint32Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.#sequences = grow(new Float64Array(rows), this.#sequences);
    this.#segments = grow(new Uint32Array(rows), this.#segments);
    this.#offsets = grow(new Float64Array(rows), this.#offsets);
    this.#lengths = grow(new Uint32Array(rows), this.#lengths);
  }
}
