// Where the batches of one source lie in its segment files, by row, in order of arrival, in pages.
//
//   page        0              1              2 (being filled)
//             | · · 2 · · ·  | 1024 rows    | rows … room |        a page whose batches were pruned keeps the rows that have bytes
//
//   row         0   1   2   3
//   sequence    0   1   3   2          row 3 is late: its sequence is below an earlier one's
//   by sequence 0   1   3   2          row(i) = row of the i-th batch by sequence; late rows alone have a table
//
// A run may last a month: memory is that of the stored batches (9 bytes each in full pages) and of the late ones, not of all that ever came.
//
// Invariant: filled rows keep their values, and pruning makes new pages: snapshots share pages, and cost the same for a run of any length.

import { countBelow } from '@ranktrace/trace';
import type { SummaryPlace } from './segment-source.ts';

const pageRows = 1024;
const firstRows = 16;

/** Columns of pages without bytes: pages of a long run are mostly such. */
const no16 = new Uint16Array(0);
const no32 = new Uint32Array(0);
const no64 = new Float64Array(0);

/** Late rows: by arrival, and in order of sequence with their places among all rows by sequence. */
interface LateRows {
  readonly rows: Uint32Array;
  readonly places: Float64Array;
}

class Page {
  /** By row; or that of row 0, if each row's is one more than the one before. */
  sequences: Float64Array | number;
  /** Rows that have bytes, ascending; undefined: all. */
  readonly rows: Uint16Array | undefined;
  /** By row, or by place in `rows`; numbers of files less `#filesFrom`. */
  files: Uint32Array | Uint8Array;
  offsets: Float64Array | Uint32Array;
  lengths: Uint32Array;
  #filesFrom = 0;
  /** Lowest and highest number of a file with its batches. */
  fileMin = Number.POSITIVE_INFINITY;
  fileMax = Number.NEGATIVE_INFINITY;

  constructor(sequences: Float64Array | number, rows: Uint16Array | undefined, room: number) {
    this.sequences = sequences;
    this.rows = rows;
    this.files = room === 0 ? no32 : new Uint32Array(room);
    this.offsets = room === 0 ? no64 : new Float64Array(room);
    this.lengths = room === 0 ? no32 : new Uint32Array(room);
  }

  sequence(row: number): number {
    return typeof this.sequences === 'number' ? this.sequences + row : (this.sequences[row] as number);
  }

  /** The row's place in the columns; −1: it has no bytes. */
  slot(row: number): number {
    const { rows } = this;
    if (rows === undefined) return row;
    const at = countBelow(rows.length, (place) => (rows[place] as number) < row);
    return rows[at] === row ? at : -1;
  }

  file(slot: number): number {
    return this.#filesFrom + (this.files[slot] as number);
  }

  /** Takes 9 bytes a batch instead of 24, where it can, once no row will be added. */
  shorten(): void {
    this.sequences = this.#shortSequences();
    if (this.lengths.length === 0) return;
    if (this.offsets.every((offset) => offset < 2 ** 32)) this.offsets = Uint32Array.from(this.offsets);
    if (this.fileMax - this.fileMin >= 2 ** 8) return;
    this.files = Uint8Array.from(this.files, (file) => file - this.fileMin);
    this.#filesFrom = this.fileMin;
  }

  /** Only before the page is shortened. */
  set(slot: number, file: number, offset: number, length: number): void {
    this.files[slot] = file;
    this.offsets[slot] = offset;
    this.lengths[slot] = length;
    this.fileMin = Math.min(this.fileMin, file);
    this.fileMax = Math.max(this.fileMax, file);
  }

  grow(): void {
    const room = 2 * this.lengths.length;
    const wider = <T extends Float64Array | Uint32Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.sequences = wider(new Float64Array(room), this.sequences as Float64Array);
    this.files = wider(new Uint32Array(room), this.files as Uint32Array);
    this.offsets = wider(new Float64Array(room), this.offsets as Float64Array);
    this.lengths = wider(new Uint32Array(room), this.lengths);
  }

  /** The same rows, without those that `placeOf` gives no bytes. `filled`: its number of rows. */
  with(filled: number, placeOf: (row: number, slot: number) => SummaryPlace | undefined): Page {
    const kept: number[] = [];
    const places: SummaryPlace[] = [];
    for (let row = 0; row < filled; row++) {
      const slot = this.slot(row);
      const place = slot < 0 || this.lengths[slot] === 0 ? undefined : placeOf(row, slot);
      if (place === undefined) continue;
      kept.push(row);
      places.push(place);
    }
    // Rows are still added to the last page.
    const isSparse = filled === pageRows;
    const page = isSparse
      ? new Page(this.#shortSequences(), kept.length === 0 ? no16 : Uint16Array.from(kept), kept.length)
      : new Page((this.sequences as Float64Array).slice(), undefined, this.lengths.length);
    for (const [at, { file, offset, length }] of places.entries()) page.set(isSparse ? at : (kept[at] as number), file, offset, length);
    if (isSparse) page.shorten();
    return page;
  }

  #shortSequences(): Float64Array | number {
    const first = this.sequence(0);
    for (let row = 1; row < pageRows; row++) if (this.sequence(row) !== first + row) return this.sequences;
    return first;
  }
}

export class BatchPlaces {
  #pages: Page[] = [];
  #count = 0;
  #greatest = Number.NEGATIVE_INFINITY;
  /** Rows that came after one with a greater sequence; snapshots share the list and count their own part. */
  #late: number[] = [];
  #lateCount = 0;
  #lateBySequence: LateRows | undefined;

  get count(): number {
    return this.#count;
  }

  /** The places as they are now. */
  snapshot(): BatchPlaces {
    const copy = new BatchPlaces();
    copy.#pages = this.#pages;
    copy.#count = this.#count;
    copy.#greatest = this.#greatest;
    copy.#late = this.#late;
    copy.#lateCount = this.#lateCount;
    copy.#lateBySequence = this.#lateBySequence;
    return copy;
  }

  add(sequence: number, file: number, offset: number, length: number): void {
    const row = this.#count % pageRows;
    if (row === 0) this.#pages.push(new Page(new Float64Array(firstRows), undefined, firstRows));
    const page = this.#pages.at(-1) as Page;
    if (row === page.lengths.length) page.grow();
    (page.sequences as Float64Array)[row] = sequence;
    page.set(row, file, offset, length);
    if (sequence < this.#greatest) {
      this.#late.push(this.#count);
      this.#lateCount++;
      this.#lateBySequence = undefined;
    }
    this.#greatest = Math.max(this.#greatest, sequence);
    this.#count++;
    if (row === pageRows - 1) page.shorten();
  }

  /** Replaces the batches in `file` by `summaries`; a batch has none if an earlier one's summary stands for it. */
  replace(file: number, summaries: readonly SummaryPlace[]): void {
    const firsts = new Map(summaries.map((summary) => [summary.from, summary]));
    this.#pages = this.#pages.map((page, at) => {
      if (file < page.fileMin || file > page.fileMax) return page;
      return page.with(Math.min(pageRows, this.#count - at * pageRows), (row, slot) =>
        page.file(slot) === file
          ? firsts.get(page.sequence(row))
          : { from: 0, file: page.file(slot), offset: page.offsets[slot] as number, length: page.lengths[slot] as number },
      );
    });
  }

  sequence(row: number): number {
    return this.#page(row).sequence(row % pageRows);
  }

  /** Bytes of the batch; 0: it has none. */
  length(row: number): number {
    const page = this.#page(row);
    return page.lengths[page.slot(row % pageRows)] ?? 0;
  }

  /** The batch's file and its offset there; of a batch with bytes. */
  place(row: number): { readonly file: number; readonly offset: number } {
    const page = this.#page(row);
    const slot = page.slot(row % pageRows);
    return { file: page.file(slot), offset: page.offsets[slot] as number };
  }

  /** The row of the `index`-th batch in order of sequence. */
  row(index: number): number {
    if (this.#lateCount === 0) return index;
    this.#lateBySequence ??= this.#lateRows();
    const { rows, places } = this.#lateBySequence;
    const before = countBelow(rows.length, (at) => (places[at] as number) < index);
    return places[before] === index ? (rows[before] as number) : this.#timely(index - before);
  }

  /** The `index`-th row that is not late. */
  #timely(index: number): number {
    return index + countBelow(this.#lateCount, (at) => (this.#late[at] as number) - at <= index);
  }

  #lateRows(): LateRows {
    const late = this.#late.slice(0, this.#lateCount).map((row) => ({ row, sequence: this.sequence(row) }));
    late.sort((a, b) => a.sequence - b.sequence);
    const timely = this.#count - late.length;
    const places = late.map(({ sequence }, at) => at + countBelow(timely, (index) => this.sequence(this.#timely(index)) < sequence));
    return { rows: Uint32Array.from(late, ({ row }) => row), places: Float64Array.from(places) };
  }

  #page(row: number): Page {
    return this.#pages[Math.floor(row / pageRows)] as Page;
  }
}
