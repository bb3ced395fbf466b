// Where the batches of one incarnation of one rank lie, and reading them in order of sequence.
//
//   row        0   1   2   3        rows are in order of arrival
//   sequence   0   1   3   2
//   order      0   1   3   2        order[i] = row of the i-th batch by sequence; built when something arrived out of order
//
// Reading ahead: as long as the next batches lie close behind this one (others' bytes between them at most as many as ours), they are
// read in the same call. A run of one rank is read in large pieces, 64 interleaved ranks each read only what is theirs.

import { frameHeaderBytes } from '@ranktrace/protocol';
import type { SegmentFiles } from './segment-files.ts';
import { SequenceSet } from './sequence-set.ts';

interface Window {
  readonly file: number;
  readonly from: number;
  readonly bytes: Buffer;
}

export class SegmentSource {
  readonly rank: number;
  /** One life of the rank's process; later ones sort later. */
  readonly incarnation: string;
  readonly #files: SegmentFiles;
  readonly #windowBytes: () => number;
  #present = new SequenceSet();
  #sequences = new Float64Array(16);
  #segments = new Uint32Array(16);
  #offsets = new Float64Array(16);
  #lengths = new Uint32Array(16);
  #inOrder = true;
  #order: Uint32Array | undefined;
  #window: Window | undefined;

  constructor(rank: number, incarnation: string, files: SegmentFiles, windowBytes: () => number) {
    this.rank = rank;
    this.incarnation = incarnation;
    this.#files = files;
    this.#windowBytes = windowBytes;
  }

  /**
   * The source as it is now: batches that come later do not show. Cheap, because filled rows never change and columns are shared.
   */
  snapshot(): SegmentSource {
    const copy = new SegmentSource(this.rank, this.incarnation, this.#files, this.#windowBytes);
    copy.#present = this.#present.copy();
    copy.#sequences = this.#sequences;
    copy.#segments = this.#segments;
    copy.#offsets = this.#offsets;
    copy.#lengths = this.#lengths;
    copy.#inOrder = this.#inOrder;
    copy.#order = this.#order;
    return copy;
  }

  /** Batches there are. */
  get count(): number {
    return this.#present.count;
  }

  /** Batches missing between sequence 0 and the largest there is. */
  get missing(): number {
    return this.#present.missing;
  }

  /** The missing sequences as ranges: `from` included, `to` not. */
  gaps(): Generator<{ readonly from: number; readonly to: number }> {
    return this.#present.gaps();
  }

  has(sequence: number): boolean {
    return this.#present.has(sequence);
  }

  /** Notes where a batch lies: payload `offset` and `length` in bytes; whether it was new. */
  add(sequence: number, file: number, offset: number, length: number): boolean {
    const row = this.count;
    if (!this.#present.add(sequence)) return false;
    if (row === this.#sequences.length) this.#grow();
    if (row > 0 && sequence < (this.#sequences[row - 1] as number)) this.#inOrder = false;
    this.#sequences[row] = sequence;
    this.#segments[row] = file;
    this.#offsets[row] = offset;
    this.#lengths[row] = length;
    this.#order = undefined;
    return true;
  }

  /** Sequence number of the `index`-th batch, 0 ≤ index < count. */
  sequence(index: number): number {
    return this.#sequences[this.#row(index)] as number;
  }

  /** Bytes of the `index`-th batch in order of sequence, 0 ≤ index < count. They stay valid. Throws AggregatorError `store_…`. */
  read(index: number): Uint8Array {
    return this.#read(index, false);
  }

  /** The same in order of arrival, in which later batches never change an earlier `index`. */
  readArrived(index: number): Uint8Array {
    return this.#read(index, true);
  }

  #read(index: number, arrived: boolean): Uint8Array {
    const row = this.#row(index, arrived);
    const file = this.#segments[row] as number;
    const offset = this.#offsets[row] as number;
    const length = this.#lengths[row] as number;
    const window = this.#window;
    if (window !== undefined && window.file === file && offset >= window.from && offset + length <= window.from + window.bytes.length) {
      return window.bytes.subarray(offset - window.from, offset - window.from + length);
    }
    const bytes = this.#files.read(file, offset, this.#readableTogether(index, arrived));
    // A piece with one batch only would keep its memory and help nobody.
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
