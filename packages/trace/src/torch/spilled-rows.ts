// The rows of a file that outgrew memory, in a block store: read back in pieces, each all rows of a stretch of time.
//
//   run 0   ▒▒▒▒│▒▒▒▒│▒▒▒▒│▒▒▒▒        a run per table and per fill of memory, each in order of time, in blocks
//   run 1        ▒│▒▒▒▒│▒▒▒▒│▒
//   pieces  ├──0──┼──1──┼──2──┤        about as many rows each
//
// Invariant: memory holds the places of blocks, and the pieces that are in use.

import type { BlockStore } from '../model/block-store.ts';
import { RowBlock } from '../model/column-block.ts';
import { type ColumnKind, ColumnTable } from '../model/column-table.ts';
import type { ReadBudget } from '../model/read-budget.ts';
import type { StringTable } from '../model/string-table.ts';
import {
  counterColumns,
  eventColumns,
  flowColumns,
  instantColumns,
  type KinetoKind,
  type KinetoTable,
  kinetoKinds,
  memoryCategoryColumns,
  memoryColumns,
} from './kineto-table.ts';
import { itemKinds, type KinetoTally } from './kineto-tally.ts';

/** An event on disk. */
export const spilledEventColumns = {
  ...eventColumns,
  /** Its row in the file. */
  row: 'u32',
  /** 1 + its place among the marked rows, 0 if it is none. */
  mark: 'u32',
} as const;

export const spilledColumns = {
  events: spilledEventColumns,
  memory: memoryColumns,
  memoryCategories: memoryCategoryColumns,
  instants: instantColumns,
  counters: counterColumns,
  flows: flowColumns,
} as const;

/** Blocks of runs, in the order of runs, and within one in order of time. */
export const blockColumns = {
  place: 'f64',
  bytes: 'f64',
  rows: 'u32',
  run: 'u32',
  /** Times of the first row and of the last one, ns from the table's epoch. */
  first: 'f64',
  last: 'f64',
} as const;

export type SpilledBlocks = Readonly<Record<KinetoKind, ColumnTable<typeof blockColumns>>>;

/** The column with the times of a table. */
export const timeColumn = (kind: KinetoKind): 'start' | 'time' => (kind === 'events' ? 'start' : 'time');

/** Tables that one piece of a file, or all of it, is in. */
export type KinetoRows = Pick<KinetoTable, KinetoKind> & { readonly strings: StringTable; readonly arguments: Pick<StringTable, 'get'> };

/** Room for the rows of one piece. */
export class PieceRows implements KinetoRows {
  readonly events: ColumnTable<typeof spilledEventColumns>;
  readonly memory: KinetoTable['memory'];
  readonly memoryCategories: KinetoTable['memoryCategories'];
  readonly instants: KinetoTable['instants'];
  readonly counters: KinetoTable['counters'];
  readonly flows: KinetoTable['flows'];
  readonly strings: StringTable;
  /** By index, as `StringTable`; 0 is none. */
  readonly texts: string[] = [''];
  readonly arguments = { get: (index: number): string => this.texts[index] as string };

  constructor({ strings, budget }: { readonly strings: StringTable; readonly budget: ReadBudget }) {
    this.strings = strings;
    this.events = new ColumnTable(spilledEventColumns, budget);
    this.memory = new ColumnTable(memoryColumns, budget);
    this.memoryCategories = new ColumnTable(memoryCategoryColumns, budget);
    this.instants = new ColumnTable(instantColumns, budget);
    this.counters = new ColumnTable(counterColumns, budget);
    this.flows = new ColumnTable(flowColumns, budget);
  }

  clear(): void {
    // The next rows fill all columns: there is no need of zeros.
    for (const kind of kinetoKinds) this[kind].length = 0;
    this.texts.length = 1;
  }
}

export class SpilledRows {
  readonly tally: KinetoTally;
  /** Piece `i` has the rows with times from `cuts[i]` to below `cuts[i + 1]`. */
  readonly cuts: Float64Array;
  /** By place of a marked event: its row in the table's `events`. */
  rowOfMark = new Uint32Array(0);
  /** By row of the table's `events`: its row in the file. */
  fileRows = new Uint32Array(0);
  readonly #blocks: SpilledBlocks;
  readonly #store: BlockStore;

  /** `rowsPerPiece`: of all tables, nearly; there are more where more have one time. */
  constructor(store: BlockStore, blocks: SpilledBlocks, tally: KinetoTally, rowsPerPiece: number) {
    this.#store = store;
    this.#blocks = blocks;
    this.tally = tally;
    this.cuts = cutsOf(blocks, rowsPerPiece);
  }

  /** Number of pieces. */
  get pieces(): number {
    return this.cuts.length - 1;
  }

  /** Number of items in each piece, by their times. */
  itemsOfPieces(): Float64Array {
    const items = new Float64Array(this.pieces);
    for (const kind of itemKinds) {
      const { columns, length } = this.#blocks[kind];
      for (let at = 0; at < length; at++) {
        let piece = pieceAt(this.cuts, columns.first[at] as number);
        let counted = 0;
        // Only a block across a cut is read.
        if ((columns.last[at] as number) >= (this.cuts[piece + 1] as number)) {
          const block = this.#read(kind, at);
          for (; (columns.last[at] as number) >= (this.cuts[piece + 1] as number); piece++) {
            const below = block.below(timeColumn(kind), this.cuts[piece + 1] as number);
            items[piece] = (items[piece] as number) + below - counted;
            counted = below;
          }
        }
        items[piece] = (items[piece] as number) + (columns.rows[at] as number) - counted;
      }
    }
    return items;
  }

  /** Replaces the rows in `into` by those of piece `index`. */
  load(index: number, into: PieceRows): void {
    into.clear();
    const [from, until] = [this.cuts[index] as number, this.cuts[index + 1] as number];
    for (const kind of kinetoKinds) {
      const { columns, length } = this.#blocks[kind];
      for (let at = 0; at < length; at++) {
        if ((columns.first[at] as number) >= until || (columns.last[at] as number) < from) continue;
        const block = this.#read(kind, at);
        const table = into[kind] as ColumnTable<Readonly<Record<string, ColumnKind>>>;
        const row = table.length;
        block.appendTo(table, block.below(timeColumn(kind), from), block.below(timeColumn(kind), until));
        if (block.texts.length > 0) this.#addTexts(into, table.columns.others as Uint32Array, row, table.length, block.texts);
      }
    }
  }

  /** Appends to `marked` the unmarked events with one of these correlations; no order. */
  appendCorrelated(marked: ColumnTable<typeof spilledEventColumns>, correlations: ReadonlySet<number>): void {
    for (let at = 0; at < this.#blocks.events.length; at++) {
      const block = this.#read('events', at);
      for (let row = 0; row < block.rows; row++) {
        if (block.get('mark', row) === 0 && correlations.has(block.get('correlation', row))) block.appendTo(marked as never, row, row + 1);
      }
    }
  }

  #addTexts({ texts }: PieceRows, others: Uint32Array, from: number, until: number, added: readonly string[]): void {
    const before = texts.length - 1;
    for (const text of added) texts.push(text);
    for (let row = from; row < until; row++) if (others[row] !== 0) others[row] = (others[row] as number) + before;
  }

  #read(kind: KinetoKind, at: number): RowBlock {
    const { columns } = this.#blocks[kind];
    return new RowBlock(spilledColumns[kind], this.#store.read(columns.place[at] as number, columns.bytes[at] as number));
  }
}

/** The piece that a time is in. */
export function pieceAt(cuts: Float64Array, time: number): number {
  let [from, to] = [0, cuts.length - 1];
  while (to - from > 1) {
    const middle = (from + to) >> 1;
    if ((cuts[middle] as number) <= time) from = middle;
    else to = middle;
  }
  return from;
}

/** Times between pieces, at first rows of blocks; before all and after all. */
function cutsOf(blocks: SpilledBlocks, rowsPerPiece: number): Float64Array {
  const starts = kinetoKinds.flatMap((kind) => {
    const { columns, length } = blocks[kind];
    return Array.from({ length }, (_, at) => ({ time: columns.first[at] as number, rows: columns.rows[at] as number }));
  });
  starts.sort((a, b) => a.time - b.time);
  const cuts = [Number.NEGATIVE_INFINITY];
  let rows = 0;
  for (const start of starts) {
    if (rows >= rowsPerPiece && start.time > (cuts.at(-1) as number)) {
      cuts.push(start.time);
      rows = 0;
    }
    rows += start.rows;
  }
  return Float64Array.from([...cuts, Number.POSITIVE_INFINITY]);
}
