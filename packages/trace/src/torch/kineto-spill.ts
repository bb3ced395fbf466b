// Moves the rows of a file that outgrows memory to a block store, while the file is read.
//
//   table ──take──► run: its rows by time, in blocks of 512 ──► store            a run for each table, and each time that memory is full
//              └──► marked rows: those by which collectives and steps are found
//
// Texts of arguments go into the blocks; all other strings stay, for names and shapes repeat.
//
// Invariant: runs are in the order of the file, and equal times within a run too, so a stable sort of what was read back gives the same order as one of
// the whole file.

import type { BlockStore } from '../model/block-store.ts';
import { packRows } from '../model/column-block.ts';
import { type Column, ColumnTable } from '../model/column-table.ts';
import { sortByTime } from '../model/sort-by-time.ts';
import { isKernelName, isLaunchName, recordedCollective } from './kineto-collectives.ts';
import { stepName } from './kineto-source-steps.ts';
import { eventColumns, type KinetoKind, type KinetoTable, kinetoKinds } from './kineto-table.ts';
import { KinetoTally } from './kineto-tally.ts';
import { blockColumns, type SpilledBlocks, SpilledRows, spilledColumns, spilledEventColumns, timeColumn } from './spilled-rows.ts';

/** Pieces and blocks in the rows that memory holds. A piece is read from blocks of all runs, so blocks are small. */
const piecesPerMemory = 8;
const blocksPerMemory = 1024;
const blockRowsMin = 16;

const columnNames = Object.keys(eventColumns) as (keyof typeof eventColumns)[];

const nameUnknown = 0;
const nameOther = 1;
const nameMarked = 2;

export class KinetoSpill {
  readonly #tally = new KinetoTally();
  readonly #blocks: SpilledBlocks;
  readonly #marked: ColumnTable<typeof spilledEventColumns>;
  readonly #store: BlockStore;
  readonly #table: KinetoTable;
  #runs = 0;
  /** Rows of `communications` that refer to marked rows, not to rows of the table. */
  #communications = 0;
  /** By string: whether events of that name are marked. */
  #names = new Uint8Array(1024);
  /** Texts of arguments of marked rows. */
  readonly #arguments = new Map<number, string>();

  readonly #rowsMax: number;

  /** `rowsMax`: rows that memory holds. */
  constructor(table: KinetoTable, store: BlockStore, rowsMax: number) {
    this.#rowsMax = rowsMax;
    const { budget } = table;
    this.#table = table;
    this.#store = store;
    this.#marked = new ColumnTable(spilledEventColumns, budget);
    this.#blocks = Object.fromEntries(kinetoKinds.map((kind) => [kind, new ColumnTable(blockColumns, budget)])) as never;
  }

  /** Takes all rows and arguments out of the table. Throws the store's errors. */
  take(): void {
    const table = this.#table;
    const { events } = table;
    const row = new Uint32Array(events.length);
    for (let at = 0; at < row.length; at++) row[at] = this.#tally.rows.events + at;
    const mark = this.#mark(row);
    this.#tally.add(table);
    for (const kind of kinetoKinds) {
      const { columns, length } = table[kind];
      if (length === 0) continue;
      const all: Readonly<Record<string, Column>> = kind === 'events' ? { ...columns, row, mark } : columns;
      const lengths = kind === 'events' ? events.columns.duration : new Float64Array(length);
      this.#write(kind, all, sortByTime(all[timeColumn(kind)] as Float64Array, lengths, length), length);
      table[kind].clear();
    }
    table.arguments.clear();
    this.#runs++;
  }

  /** Ends the file: the table keeps marked rows alone, and `spilled` reads the others. */
  finish(): void {
    this.take();
    const table = this.#table;
    for (const kind of kinetoKinds) table[kind].release();
    const spilled = new SpilledRows(this.#store, this.#blocks, this.#tally, this.#rowsMax / piecesPerMemory);
    const marks = this.#marked.length;
    const launched = this.#launchedKernels();
    if (launched.size > 0) spilled.appendCorrelated(this.#marked, launched);
    const marked = this.#marked.columns;
    const order = Uint32Array.from({ length: this.#marked.length }, (_, place) => place);
    if (order.length > marks) order.sort((a, b) => (marked.row[a] as number) - (marked.row[b] as number));
    const rowOfMark = new Uint32Array(order.length);
    for (let row = 0; row < order.length; row++) rowOfMark[order[row] as number] = row;
    const { events, communications } = table;
    events.addRows(order.length);
    for (const name of columnNames) {
      const [to, from] = [events.columns[name], marked[name]];
      for (let row = 0; row < order.length; row++) to[row] = from[order[row] as number] as number;
      // Else all marked rows would be in memory twice.
      this.#marked.drop(name);
    }
    events.columns.others.fill(0);
    for (const [place, text] of this.#arguments) events.columns.others[rowOfMark[place] as number] = table.arguments.index(text);
    const { event } = communications.columns;
    for (let row = 0; row < communications.length; row++) event[row] = rowOfMark[event[row] as number] as number;
    spilled.fileRows = order.map((place) => marked.row[place] as number);
    spilled.rowOfMark = rowOfMark.subarray(0, marks);
    table.spilled = spilled;
    this.#marked.release();
    this.#arguments.clear();
    this.#names = new Uint8Array(0);
  }

  /** Correlations of kernels that only the annotation around their launch explains: the launches are needed, too. */
  #launchedKernels(): ReadonlySet<number> {
    const { strings, communications } = this.#table;
    const { columns, length } = this.#marked;
    const annotation = strings.find('user_annotation');
    const launched = new Set<number>();
    let annotated = false;
    let next = 0;
    for (let place = 0; place < length; place++) {
      const name = strings.get(columns.name[place] as number);
      if (columns.category[place] === annotation && isLaunchName(name)) annotated = true;
      if (communications.columns.event[next] === place && next < communications.length) next++;
      else if (columns.correlation[place] !== 0 && isKernelName(name)) launched.add(columns.correlation[place] as number);
    }
    return annotated ? launched : new Set();
  }

  #write(kind: KinetoKind, columns: Readonly<Record<string, Column>>, order: Uint32Array, length: number): void {
    const schema = spilledColumns[kind];
    const times = columns[timeColumn(kind)] as Float64Array;
    const texts = 'others' in schema ? { column: 'others', texts: this.#table.arguments } : undefined;
    const blocks = this.#blocks[kind];
    const rowsPerBlock = Math.max(blockRowsMin, Math.floor(this.#rowsMax / blocksPerMemory));
    for (let from = 0; from < length; from += rowsPerBlock) {
      const until = Math.min(length, from + rowsPerBlock);
      const bytes = packRows(schema, columns, order, from, until, texts);
      const row = blocks.add();
      blocks.columns.place[row] = this.#store.write(bytes);
      blocks.columns.bytes[row] = bytes.length;
      blocks.columns.rows[row] = until - from;
      blocks.columns.run[row] = this.#runs;
      blocks.columns.first[row] = times[order[from] as number] as number;
      blocks.columns.last[row] = times[order[until - 1] as number] as number;
    }
  }

  /** Copies the table's marked events; returns 1 + the place of each, by row. `fileRows`: by row, its row in the file. */
  #mark(fileRows: Uint32Array): Uint32Array {
    const { events, communications, strings, arguments: texts } = this.#table;
    const { columns, length } = events;
    const annotation = strings.find('user_annotation');
    const recorded = strings.find(recordedCollective);
    const mark = new Uint32Array(length);
    const about = communications.columns.event;
    this.#nameAll();
    let next = this.#communications;
    for (let row = 0; row < length; row++) {
      const describes = next < communications.length && about[next] === row;
      const category = columns.category[row] as number;
      const isNamed = this.#names[columns.name[row] as number] === nameMarked;
      if (!describes && !isNamed && category !== annotation && category !== recorded) continue;
      const place = this.#marked.add();
      for (const name of columnNames) {
        const value = columns[name][row] as number;
        if (value !== 0) this.#marked.columns[name][place] = value;
      }
      this.#marked.columns.row[place] = fileRows[row] as number;
      this.#marked.columns.others[place] = 0;
      if (columns.others[row] !== 0 && stepName.test(strings.get(columns.name[row] as number)))
        this.#arguments.set(place, texts.get(columns.others[row] as number));
      mark[row] = place + 1;
      if (describes) about[next++] = place;
    }
    this.#communications = next;
    return mark;
  }

  /** Judges the names that are new since the last time. Launches and blocking collectives are annotations, which are marked as such. */
  #nameAll(): void {
    const { strings } = this.#table.strings;
    if (strings.length > this.#names.length) {
      const wider = new Uint8Array(2 * strings.length);
      wider.set(this.#names);
      this.#names = wider;
    }
    for (let index = strings.length - 1; index >= 0 && this.#names[index] === nameUnknown; index--) {
      const text = strings[index] as string;
      this.#names[index] = isKernelName(text) || stepName.test(text) ? nameMarked : nameOther;
    }
  }
}
