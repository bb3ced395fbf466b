// One Kineto file as a window of its rank's time: rows of all its tables in one order, and the role of each event.
//
//   a file in memory      one piece
//   a file on disk        ├──────┼──────┼──────┤     pieces, read when a batch needs them; the last ones read stay
//
// Invariant: an event is exactly one of span, step and collective.

import { isCounted } from '../match/collective-number.ts';
import { sortByTime } from '../model/sort-by-time.ts';
import { type CutOf, findCollectives, type KinetoCollectives } from './kineto-collectives.ts';
import { type EventRoles, KinetoPiece } from './kineto-piece.ts';
import { KinetoSteps } from './kineto-source-steps.ts';
import { eventColumns, type KinetoTable } from './kineto-table.ts';
import { type KinetoTally, tallyOf } from './kineto-tally.ts';
import { PieceRows, pieceAt, type SpilledRows } from './spilled-rows.ts';

export interface WindowCounts {
  readonly span: number;
  readonly instant: number;
  readonly counter: number;
  readonly step: number;
  readonly collective: number;
}

/** Part of a window: the places `[from, until)` of a piece's own order. */
export interface PartOfPiece {
  readonly piece: KinetoPiece;
  readonly from: number;
  readonly until: number;
}

export class KinetoWindow implements EventRoles {
  readonly table: KinetoTable;
  readonly collectives: KinetoCollectives;
  readonly steps: KinetoSteps;
  readonly tally: KinetoTally;
  /** Number of items. */
  readonly length: number;
  /** Rows of the table's events that are steps. */
  readonly stepRows: Uint32Array;
  readonly #pieces: Pieces;
  /** By row of the table's events: 0 a span, 2 i + 1 collective i, 2 i + 2 step i. */
  readonly #roles: Uint32Array;
  /** By collective: 1 if it is a span after all. */
  readonly #isApart: Uint8Array;
  #apart = 0;

  /** `fromEnd`: 0 for the last window of its rank, 1 for the one before, … `cutOf`: where ranks agreed from which moment to count. */
  constructor(table: KinetoTable, fromEnd: number, cutOf?: CutOf) {
    this.table = table;
    this.tally = tallyOf(table);
    const { columns, length } = table.events;
    const events = sortByTime(columns.start, columns.duration, length);
    this.collectives = findCollectives(table, fromEnd, cutOf);
    this.#isApart = new Uint8Array(this.collectives.length);
    this.steps = new KinetoSteps(table, events);
    this.#roles = new Uint32Array(length);
    const { event } = this.steps.steps.columns;
    for (let step = 0; step < this.steps.steps.length; step++) this.#roles[event[step] as number] = 2 * step + 2;
    for (let row = 0; row < this.collectives.length; row++) this.#roles[this.collectives.columns.event[row] as number] = 2 * row + 1;
    // A collective of our own recorder may have a step's name.
    this.stepRows = event
      .slice(0, this.steps.steps.length)
      .filter((row) => this.stepOf(row) >= 0)
      .sort();
    this.#pieces = table.spilled === undefined ? new OnePiece(table, this, events) : new SpilledPieces(table, this, table.spilled);
    this.length = this.#pieces.length;
  }

  /** Groups of collectives with counted numbers. */
  get countedGroups(): ReadonlySet<string> {
    const { columns, length } = this.collectives;
    const groups = new Set<number>();
    for (let row = 0; row < length; row++) if (isCounted(columns.sequence[row] as number)) groups.add(columns.group[row] as number);
    return new Set([...groups].map((group) => this.table.strings.get(group)));
  }

  /** Turns a group's collectives with counted numbers into spans; returns how many. */
  setApart(group: string): number {
    const { columns, length } = this.collectives;
    const label = this.table.strings.find(group);
    let count = 0;
    for (let row = 0; row < length; row++) {
      if (columns.group[row] !== label || !isCounted(columns.sequence[row] as number)) continue;
      this.#isApart[row] = 1;
      count++;
    }
    this.#apart += count;
    return count;
  }

  /** Key of the item at `place`: ns from the table's epoch at which it is known. */
  keyOf(place: number): number {
    const [{ piece, from }] = [...this.pieces(place, place + 1)] as [PartOfPiece];
    return piece.keyOf(from);
  }

  /** The items at places `[from, until)`, in order; a piece holds until the next but one is taken. */
  pieces(from: number, until: number): Iterable<PartOfPiece> {
    return this.#pieces.parts(from, until);
  }

  collectiveOf(event: number): number {
    const role = this.#roles[event] as number;
    return role % 2 === 1 && this.#isApart[(role - 1) / 2] === 0 ? (role - 1) / 2 : -1;
  }

  stepOf(event: number): number {
    const role = this.#roles[event] as number;
    return role > 0 && role % 2 === 0 ? role / 2 - 1 : -1;
  }

  /** First key and last end, ns from the table's epoch. */
  get extent(): { readonly first: number; readonly last: number } {
    return this.length === 0 ? { first: 0, last: 0 } : { first: this.keyOf(0), last: this.tally.end };
  }

  get counts(): WindowCounts {
    const { events, memory, memoryCategories, instants, counters } = this.tally.rows;
    const step = this.stepRows.length;
    const collective = this.collectives.length - this.#apart;
    return { span: events - step - collective, instant: memory + memoryCategories + instants, counter: counters, step, collective };
  }
}

interface Pieces {
  readonly length: number;
  parts(from: number, until: number): Iterable<PartOfPiece>;
}

/** A file in memory: all of its rows are one piece. */
class OnePiece implements Pieces {
  readonly #piece: KinetoPiece;

  constructor(table: KinetoTable, window: KinetoWindow, events: Uint32Array) {
    this.#piece = new KinetoPiece(table, window, { events, stepRows: window.stepRows });
  }

  get length(): number {
    return this.#piece.order.length;
  }

  *parts(from: number, until: number): Iterable<PartOfPiece> {
    yield { piece: this.#piece, from, until };
  }
}

/** A batch may lie across two pieces. */
const piecesKept = 2;

class SpilledPieces implements Pieces {
  readonly length: number;
  readonly #table: KinetoTable;
  readonly #window: KinetoWindow;
  readonly #spilled: SpilledRows;
  /** Place of each piece's first item; after the last, the number of all. */
  readonly #firsts: Float64Array;
  /** Rows of steps by the piece of their end: a step is known then, maybe in a later piece than it begins in. */
  readonly #stepsByPiece = new Map<number, number[]>();
  /** The pieces in use, the newest last. */
  readonly #kept: { index: number; readonly rows: PieceRows; piece: KinetoPiece | undefined }[] = [];

  constructor(table: KinetoTable, window: KinetoWindow, spilled: SpilledRows) {
    this.#table = table;
    this.#window = window;
    this.#spilled = spilled;
    const items = spilled.itemsOfPieces();
    const { columns } = table.events;
    for (const event of window.stepRows) {
      const begins = pieceAt(spilled.cuts, columns.start[event] as number);
      const ends = pieceAt(spilled.cuts, (columns.start[event] as number) + (columns.duration[event] as number));
      items[begins] = (items[begins] as number) - 1;
      items[ends] = (items[ends] as number) + 1;
      const ofPiece = this.#stepsByPiece.get(ends);
      if (ofPiece === undefined) this.#stepsByPiece.set(ends, [event]);
      else ofPiece.push(event);
    }
    this.#firsts = new Float64Array(items.length + 1);
    for (let index = 0; index < items.length; index++) this.#firsts[index + 1] = (this.#firsts[index] as number) + (items[index] as number);
    this.length = this.#firsts[items.length] as number;
  }

  *parts(from: number, until: number): Iterable<PartOfPiece> {
    for (let index = pieceAt(this.#firsts, from); index < this.#spilled.pieces && (this.#firsts[index] as number) < until; index++) {
      const [first, end] = [this.#firsts[index] as number, this.#firsts[index + 1] as number];
      if (end <= from) continue;
      yield { piece: this.#piece(index), from: Math.max(from, first) - first, until: Math.min(until, end) - first };
    }
  }

  #piece(index: number): KinetoPiece {
    const at = this.#kept.findIndex((kept) => kept.index === index);
    const [kept] = at >= 0 ? this.#kept.splice(at, 1) : this.#kept.length < piecesKept ? [] : this.#kept.splice(0, 1);
    const slot = kept ?? { index: -1, rows: new PieceRows(this.#table), piece: undefined };
    if (slot.index !== index || slot.piece === undefined) {
      slot.index = -1;
      slot.piece = this.#load(index, slot.rows);
      slot.index = index;
    }
    this.#kept.push(slot);
    return slot.piece;
  }

  #load(index: number, rows: PieceRows): KinetoPiece {
    this.#spilled.load(index, rows);
    const { events } = rows;
    const { rowOfMark } = this.#spilled;
    const markedRow = (row: number): number => {
      const mark = events.columns.mark[row] as number;
      return mark === 0 ? -1 : (rowOfMark[mark - 1] as number);
    };
    const roles: EventRoles = {
      collectives: this.#window.collectives,
      steps: this.#window.steps,
      collectiveOf: (row) => (markedRow(row) < 0 ? -1 : this.#window.collectiveOf(markedRow(row))),
      stepOf: (row) => (markedRow(row) < 0 ? -1 : this.#window.stepOf(markedRow(row))),
    };
    return new KinetoPiece(rows, roles, { stepRows: this.#stepRows(index, rows), fileRows: events.columns.row });
  }

  /** Rows of the steps that end in a piece, in the order of the file; those that begin in an earlier one are added to its rows. */
  #stepRows(index: number, { events }: PieceRows): Uint32Array {
    const { rowOfMark } = this.#spilled;
    const wanted = new Set(this.#stepsByPiece.get(index));
    if (wanted.size === 0) return new Uint32Array(0);
    const rows: number[] = [];
    for (let row = 0; row < events.length; row++) {
      const mark = events.columns.mark[row] as number;
      if (mark > 0 && wanted.delete(rowOfMark[mark - 1] as number)) rows.push(row);
    }
    const from = this.#table.events.columns;
    for (const event of wanted) {
      const row = events.addRows(1);
      for (const name of Object.keys(eventColumns) as (keyof typeof eventColumns)[])
        events.columns[name][row] = from[name][event] as number;
      events.columns.others[row] = 0;
      events.columns.mark[row] = 1 + rowOfMark.indexOf(event);
      // Events are marked in the order of the file.
      events.columns.row[row] = this.#spilled.fileRows[event] as number;
      rows.push(row);
    }
    return Uint32Array.from(rows).sort((a, b) => (events.columns.row[a] as number) - (events.columns.row[b] as number));
  }
}
