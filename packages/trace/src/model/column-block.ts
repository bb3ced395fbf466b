// Rows of a column table as one block of bytes for a block store, and back. Numbers are in the machine's own byte order: a block never leaves it.
//
//   rows  characters  width │ by text: characters │ by column: its value where all rows have one, else NaN │ f64 │ u32 │ text │ u8 columns
//
// One column may refer to texts. A block has its own list of them, so that a reader needs no other part of the file.

import { type Column, type ColumnKind, type ColumnTable, kindBytes } from './column-table.ts';
import type { StringTable } from './string-table.ts';

type Schema = Readonly<Record<string, ColumnKind>>;

const headWords = 4;
const kinds: readonly ColumnKind[] = ['f64', 'u32', 'u8'];

const byKind = (schema: Schema): readonly (readonly [name: string, kind: ColumnKind])[] =>
  kinds.flatMap((kind) => Object.entries(schema).filter(([, of]) => of === kind));

const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;

/** Texts that one column refers to by index; 0 is none. */
export interface BlockTexts {
  readonly column: string;
  readonly texts: Pick<StringTable, 'get'>;
}

/** The block of the rows `order[from, until)` of `columns`, which have the kinds of `schema`. */
export function packRows(
  schema: Schema,
  columns: Readonly<Record<string, Column>>,
  order: Uint32Array,
  from: number,
  until: number,
  texts?: BlockTexts,
): Uint8Array {
  const rows = until - from;
  const ordered = byKind(schema);
  const own = texts === undefined ? undefined : new OwnTexts(texts, columns[texts.column] as Column, order, from, until);
  const lengths = own?.texts ?? [];
  const characters = lengths.join('');
  // One byte a character, where all are Latin; nearly all of a trace's texts are.
  const width = isLatin(characters) ? 1 : 2;
  const constants = ordered.map(([name]) => (name === own?.column ? Number.NaN : constantOf(columns[name] as Column, order, from, until)));
  const head = aligned(4 * (headWords + lengths.length)) + 8 * ordered.length;
  const columnBytes = ordered.reduce(
    (sum, [, kind], index) => sum + (Number.isNaN(constants[index]) ? aligned(rows * kindBytes[kind]) : 0),
    0,
  );
  const bytes = new Uint8Array(head + columnBytes + aligned(width * characters.length));
  const words = new Uint32Array(bytes.buffer, 0, headWords + lengths.length);
  words.set([rows, characters.length, width, lengths.length]);
  for (let index = 0; index < lengths.length; index++) words[headWords + index] = (lengths[index] as string).length;
  new Float64Array(bytes.buffer, head - 8 * ordered.length, ordered.length).set(constants);
  let at = head;
  for (const [index, [name, kind]] of ordered.entries()) {
    if (!Number.isNaN(constants[index])) continue;
    const into = viewOf(bytes, kind, at, rows);
    if (name === own?.column) into.set(own.indexes);
    else {
      const column = columns[name] as Column;
      for (let row = 0; row < rows; row++) into[row] = column[order[from + row] as number] as number;
    }
    at += aligned(rows * kindBytes[kind]);
  }
  const into = width === 1 ? bytes.subarray(at) : new Uint16Array(bytes.buffer, at, characters.length);
  for (let index = 0; index < characters.length; index++) into[index] = characters.charCodeAt(index);
  return bytes;
}

/** A block that `packRows` made, read back: `bytes` has a buffer of its own. */
export class RowBlock {
  readonly rows: number;
  readonly texts: readonly string[];
  readonly #columns = new Map<string, Column | number>();

  constructor(schema: Schema, bytes: Uint8Array) {
    const [rows, characters, width, texts] = new Uint32Array(bytes.buffer, bytes.byteOffset, headWords) as unknown as [
      number,
      number,
      number,
      number,
    ];
    const ordered = byKind(schema);
    const lengths = new Uint32Array(bytes.buffer, bytes.byteOffset + 4 * headWords, texts);
    let at = aligned(4 * (headWords + texts));
    const constants = new Float64Array(bytes.buffer, bytes.byteOffset + at, ordered.length);
    at += 8 * ordered.length;
    for (const [index, [name, kind]] of ordered.entries()) {
      const constant = constants[index] as number;
      if (!Number.isNaN(constant)) {
        this.#columns.set(name, constant);
        continue;
      }
      this.#columns.set(name, viewOf(bytes, kind, at, rows));
      at += aligned(rows * kindBytes[kind]);
    }
    this.rows = rows;
    this.texts = textsOf(bytes, at, characters, width, lengths);
  }

  /** Value of a column in one row. */
  get(name: string, row: number): number {
    const column = this.#columns.get(name) as Column | number;
    return typeof column === 'number' ? column : (column[row] as number);
  }

  /** Number of rows whose `name`, which ascends, is below `value`. */
  below(name: string, value: number): number {
    let [from, to] = [0, this.rows];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.get(name, middle) < value) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** Appends the rows `[from, until)` to a table with the same columns. */
  appendTo(table: ColumnTable<Schema>, from: number, until: number): void {
    const at = table.addRows(until - from);
    for (const [name, column] of this.#columns) {
      const into = table.columns[name] as Column;
      if (typeof column === 'number') into.fill(column, at, table.length);
      else into.set(column.subarray(from, until), at);
    }
  }
}

/** The distinct texts that rows refer to, and the rows' indexes into them: 0 for none, else 1 + the text's place. */
class OwnTexts {
  readonly column: string;
  readonly texts: string[] = [];
  readonly indexes: Uint32Array;

  constructor({ column, texts }: BlockTexts, values: Column, order: Uint32Array, from: number, until: number) {
    this.column = column;
    this.indexes = new Uint32Array(until - from);
    const places = new Map<number, number>();
    for (let at = from; at < until; at++) {
      const index = values[order[at] as number] as number;
      if (index === 0) continue;
      let place = places.get(index);
      if (place === undefined) {
        place = this.texts.push(texts.get(index));
        places.set(index, place);
      }
      this.indexes[at - from] = place;
    }
  }
}

function viewOf({ buffer, byteOffset }: Uint8Array, kind: ColumnKind, at: number, rows: number): Column {
  if (kind === 'f64') return new Float64Array(buffer, byteOffset + at, rows);
  return kind === 'u32' ? new Uint32Array(buffer, byteOffset + at, rows) : new Uint8Array(buffer, byteOffset + at, rows);
}

/** The value that all rows have; NaN if they differ. */
function constantOf(column: Column, order: Uint32Array, from: number, until: number): number {
  const first = column[order[from] as number] as number;
  for (let at = from + 1; at < until; at++) if (column[order[at] as number] !== first) return Number.NaN;
  return first;
}

function isLatin(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0xff) return false;
  return true;
}

/** Characters handed to one call of String.fromCharCode: its arguments go on the stack. */
const atOnce = 4096;

function textsOf(bytes: Uint8Array, at: number, characters: number, width: number, lengths: Uint32Array): string[] {
  const from = bytes.byteOffset + at;
  const codes = width === 1 ? new Uint8Array(bytes.buffer, from, characters) : new Uint16Array(bytes.buffer, from, characters);
  let all = '';
  for (let index = 0; index < characters; index += atOnce)
    all += String.fromCharCode.apply(undefined, codes.subarray(index, index + atOnce) as unknown as number[]);
  const texts: string[] = [];
  let begin = 0;
  for (const length of lengths) {
    texts.push(all.slice(begin, begin + length));
    begin += length;
  }
  return texts;
}
