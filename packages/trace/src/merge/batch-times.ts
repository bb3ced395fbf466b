// When the batches of one source begin, and the order in which a merge reads them: by `since`, then by index.
//
//   index        0    1    2    3    4    5
//   watermark   10   20    ·   30   40   50        2 cannot be read
//   since       −∞   10    ·   20    5   40        4 came after its time and states how far back it reaches; others begin after
//   read         0,  4,  1,  3,  5                 the greatest watermark before them
//
// A run may last a month: a full page of 1024 batches takes 4 bytes a batch (differences of watermarks), where none of them states its own `since`.
//
// Invariant: rows never change, so views of different times share pages. Invariant: `since` of timely batches never falls.

import type { BatchHeader } from '@ranktrace/protocol';
import { countBelow } from '../model/count-below.ts';

const pageRows = 1024;
const firstRows = 16;
/** The difference of a batch that cannot be read. */
const unreadable = 2 ** 32 - 1;

/** What a batch's header promises. */
type BatchPromise = Pick<BatchHeader, 'since' | 'watermark'>;

/** A page's columns by row. */
interface Times {
  /** NaN where the batch cannot be read. */
  readonly since: Float64Array;
  readonly watermarks: Float64Array;
}

interface Page {
  /** The greatest watermark, and the greatest `since`, of all batches before the page. */
  readonly promised: number;
  readonly sinceMax: number;
  /** Timely batches before the page. */
  readonly timelyBefore: number;
  /** Its columns; or, in short, each watermark less the greatest one before it. */
  times: Times | Uint32Array;
}

/** A batch whose `since` is less than an earlier one's. */
interface LateBatch {
  readonly since: number;
  readonly index: number;
  /** Timely batches that are read before it. */
  readonly timelyBefore: number;
}

interface DecodedPage extends Times {
  readonly page: number;
  /** Rows of the timely batches. */
  readonly timely: Uint16Array;
}

/** Times of the batches of a source that grows. */
export class BatchTimes {
  readonly #pages: Page[] = [];
  #length = 0;
  #timely = 0;
  #promised = Number.NEGATIVE_INFINITY;
  #sinceMax = Number.NEGATIVE_INFINITY;
  #late: readonly LateBatch[] = [];
  readonly #newLate: { readonly since: number; readonly index: number }[] = [];

  /** Batches added, the unreadable ones included. */
  get length(): number {
    return this.#length;
  }

  /** Adds the next batch by index; undefined: it cannot be read. */
  add(header: BatchPromise | undefined): void {
    const row = this.#length % pageRows;
    if (row === 0) this.#addPage();
    const page = this.#pages.at(-1) as Page;
    if (row === (page.times as Times).since.length) page.times = wider(page.times as Times);
    const { since: sinces, watermarks } = page.times as Times;
    const since = header === undefined ? Number.NaN : (header.since ?? this.#promised);
    sinces[row] = since;
    watermarks[row] = header?.watermark ?? this.#promised;
    if (header !== undefined) {
      if (since < this.#sinceMax) this.#newLate.push({ since, index: this.#length });
      else {
        this.#sinceMax = since;
        this.#timely++;
      }
      this.#promised = Math.max(this.#promised, header.watermark);
    }
    this.#length++;
    if (row === pageRows - 1) page.times = shortened(page);
  }

  /** The order of the batches so far; later ones do not change it. */
  order(): BatchOrder {
    const order = new BatchOrder(this.#pages, this.#length, this.#timely, this.#late);
    if (this.#newLate.length === 0) return order;
    const added = this.#newLate.map(({ since, index }) => ({ since, index, timelyBefore: order.timelyBefore(since, index) }));
    this.#newLate.length = 0;
    this.#late = [...this.#late, ...added].sort((a, b) => a.since - b.since || a.index - b.index);
    return new BatchOrder(this.#pages, this.#length, this.#timely, this.#late);
  }

  #addPage(): void {
    const times = { since: new Float64Array(firstRows), watermarks: new Float64Array(firstRows) };
    this.#pages.push({ promised: this.#promised, sinceMax: this.#sinceMax, timelyBefore: this.#timely, times });
  }
}

/** Readable batches in the order in which a merge reads them, with their times in ns on the rank's clock. */
export class BatchOrder {
  readonly #pages: readonly Page[];
  readonly #count: number;
  readonly #timely: number;
  readonly #late: readonly LateBatch[];
  /** Only these, by place; undefined: all. */
  readonly #chosen: readonly number[] | undefined;
  /** The page that was read last. */
  #decoded: DecodedPage | undefined;

  /** `count`: batches, of which `timely` are timely. */
  constructor(pages: readonly Page[], count: number, timely: number, late: readonly LateBatch[], chosen?: readonly number[]) {
    this.#pages = pages;
    this.#count = count;
    this.#timely = timely;
    this.#late = late;
    this.#chosen = chosen;
  }

  /** Number of places. */
  get length(): number {
    return this.#chosen?.length ?? this.#timely + this.#late.length;
  }

  /** Index of the batch at `place`, from 0; undefined after the last. */
  at(place: number): number | undefined {
    if (this.#chosen !== undefined) return this.#chosen[place];
    const late = countBelow(this.#late.length, (at) => (this.#late[at] as LateBatch).timelyBefore + at < place);
    const next = this.#late[late];
    if (next !== undefined && next.timelyBefore + late === place) return next.index;
    return place - late < this.#timely ? this.#timelyIndex(place - late) : undefined;
  }

  /** No event of the batch at `index` starts before this. */
  since(index: number): number {
    return this.#page(Math.floor(index / pageRows)).since[index % pageRows] as number;
  }

  /** The batch's own promise for those after it. */
  watermark(index: number): number {
    return this.#page(Math.floor(index / pageRows)).watermarks[index % pageRows] as number;
  }

  /** Indexes of the batches with a watermark of at least `from`, and a `since` of at most `until`, in order. */
  within(from: number, until = Number.POSITIVE_INFINITY): readonly number[] {
    const found: number[] = [];
    const take = (index: number): void => {
      if (this.watermark(index) >= from && this.since(index) <= until) found.push(index);
    };
    const pages = Math.ceil(this.#count / pageRows);
    // Before a page with a greater promise, no watermark is greater than that promise.
    const first = countBelow(Math.max(0, pages - 1), (at) => (this.#pages[at + 1] as Page).promised < from);
    for (let page = first; page < pages && (this.#pages[page] as Page).sinceMax <= until; page++) {
      for (const row of this.#page(page).timely) if (page * pageRows + row < this.#count) take(page * pageRows + row);
    }
    if (this.#late.length === 0) return found;
    for (const { index } of this.#late) take(index);
    return found.sort((a, b) => this.since(a) - this.since(b) || a - b);
  }

  /** Only the batches at `indexes`, in that order. */
  only(indexes: readonly number[]): BatchOrder {
    return new BatchOrder(this.#pages, this.#count, this.#timely, this.#late, indexes);
  }

  /** Timely batches that are read before one of `since` at `index`. */
  timelyBefore(since: number, index: number): number {
    const page = countBelow(Math.max(0, this.#pages.length - 1), (at) => (this.#pages[at + 1] as Page).sinceMax <= since);
    const { timely, since: sinces } = this.#page(page);
    const isBefore = (row: number): boolean => {
      const at = sinces[row] as number;
      return at < since || (at === since && page * pageRows + row < index);
    };
    return (this.#pages[page] as Page).timelyBefore + countBelow(timely.length, (at) => isBefore(timely[at] as number));
  }

  #timelyIndex(place: number): number {
    const known = this.#decoded;
    const before = known && (this.#pages[known.page] as Page).timelyBefore;
    const isKnown = known !== undefined && before !== undefined && place >= before && place < before + known.timely.length;
    const page = isKnown ? known.page : countBelow(this.#pages.length - 1, (at) => (this.#pages[at + 1] as Page).timelyBefore <= place);
    return page * pageRows + (this.#page(page).timely[place - (this.#pages[page] as Page).timelyBefore] as number);
  }

  #page(page: number): DecodedPage {
    if (this.#decoded?.page !== page) {
      const rows = Math.min(pageRows, this.#count - page * pageRows);
      this.#decoded = decoded(page, this.#pages[page] as Page, rows);
    }
    return this.#decoded as DecodedPage;
  }
}

/** The full page's columns in short, if they can be. */
function shortened({ promised, times }: Page): Times | Uint32Array {
  const { since, watermarks } = times as Times;
  const differences = new Uint32Array(pageRows);
  let greatest = promised;
  for (let row = 0; row < pageRows; row++) {
    if (Number.isNaN(since[row])) {
      differences[row] = unreadable;
      continue;
    }
    const watermark = watermarks[row] as number;
    const difference = watermark - greatest;
    const isShort = since[row] === greatest && difference >= 0 && difference < unreadable && Number.isInteger(difference);
    if (!isShort || greatest + difference !== watermark) return times;
    differences[row] = difference;
    greatest = watermark;
  }
  return differences;
}

/** The first `rows` of a page. */
function decoded(page: number, { promised, sinceMax, times }: Page, rows: number): DecodedPage {
  const { since, watermarks } = times instanceof Uint32Array ? lengthened(times, promised) : times;
  const timely = new Uint16Array(rows);
  let [count, greatest] = [0, sinceMax];
  for (let row = 0; row < rows; row++) {
    const at = since[row] as number;
    // Of an unreadable batch it is NaN.
    if (!(at >= greatest)) continue;
    greatest = at;
    timely[count++] = row;
  }
  return { page, since, watermarks, timely: timely.subarray(0, count) };
}

function lengthened(differences: Uint32Array, promised: number): Times {
  const [since, watermarks] = [new Float64Array(pageRows), new Float64Array(pageRows)];
  let greatest = promised;
  for (let row = 0; row < pageRows; row++) {
    const difference = differences[row] as number;
    since[row] = difference === unreadable ? Number.NaN : greatest;
    if (difference !== unreadable) greatest += difference;
    watermarks[row] = greatest;
  }
  return { since, watermarks };
}

function wider({ since, watermarks }: Times): Times {
  const [more, most] = [new Float64Array(2 * since.length), new Float64Array(2 * since.length)];
  more.set(since);
  most.set(watermarks);
  return { since: more, watermarks: most };
}
