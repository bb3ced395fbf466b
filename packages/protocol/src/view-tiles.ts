// A tile: one track between two times at one level of detail, as the page draws it. Little-endian, columns aligned for typed arrays.
//
//   frame   u32 magic "RTT1"   u32 request   u32 tiles   u32 0   tile …
//   tile    u32 track   u32 level   f64 index   u32 version   u32 flags   u32 items   u32 0   columns   padding to 8
//   spans   f64 start[]   f64 length[]   f32 busy[]   u32 count[]   u32 name[]   u32 event[]   u8 depth[]   u8 kind[]
//   counter f64 time[]   f64 last[]   f64 low[]   f64 high[]   u32 count[]
//
// A tile at `level` covers 2^(level + 10) ns from index · 2^(level + 10) on; its grain is 2^level ns. Events shorter than the grain merge with
// their neighbours of the same depth into one item: `count` events that cover `busy` ns, with the name and number of the longest of them.
// Longer spans stay single and keep their exact times, even beyond the tile.
// `name` is an index into RunModel.names; with `stepBit`, the lower bits are a step number: a month of steps would need millions of names.
// Invariant: decoding reverses encoding; decoding any other bytes throws ProtocolError `bad_message`, in bounded time.

import { ProtocolError } from './errors.ts';

export const tileGrains = 1024;

/** Kinds of items; `openBit` is added while the item has not ended. */
export const itemKinds = ['span', 'instant', 'counter', 'step', 'collective', 'rpc'] as const;
export const openBit = 0x80;

/** The line (`depth`) of the outermost frame of Python; frames inside of it lie below. All other spans have lines from 0 on. */
export const frameLine = 128;

/** Set in a name's number: the other bits are a step's number. */
export const stepBit = 0x8000_0000;

/** The text for a name's number: `ProfilerStep#N`, or the entry of `names`; undefined where there is none. */
export const nameText = (names: readonly string[], name: number): string | undefined =>
  name >= stepBit ? `ProfilerStep#${name - stepBit}` : names[name];

export interface TileKey {
  readonly track: number;
  readonly level: number;
  readonly index: number;
}

const arrays = { f64: Float64Array, f32: Float32Array, u32: Uint32Array, u8: Uint8Array } as const;

/** The columns of a tile, in the order of their bytes: the widest first, so that each is aligned. */
const tileColumns = {
  spans: { start: 'f64', length: 'f64', busy: 'f32', count: 'u32', name: 'u32', event: 'u32', depth: 'u8', kind: 'u8' },
  counter: { time: 'f64', last: 'f64', low: 'f64', high: 'f64', count: 'u32' },
} as const;

type Schemas = typeof tileColumns;
type Arrays = { readonly f64: Float64Array; readonly f32: Float32Array; readonly u32: Uint32Array; readonly u8: Uint8Array };
type Column = Arrays[keyof Arrays];
type ColumnMaker = (typeof arrays)[keyof Arrays];
type Columns<Type extends keyof Schemas> = {
  readonly [Name in keyof Schemas[Type]]: Arrays[Schemas[Type][Name] & keyof Arrays];
};

interface TileAbout extends TileKey {
  /** Version of its process (ViewProcess.version). */
  readonly version: number;
  /** No further events can come into it. */
  readonly complete: boolean;
}

/** Its items are in order of depth, then of start. */
export type SpanTile = TileAbout & Columns<'spans'> & { readonly type: 'spans' };

/** Its values are in order of time; the first may lie before the tile: its value holds when the tile begins. */
export type CounterTile = TileAbout & Columns<'counter'> & { readonly type: 'counter' };

export type Tile = SpanTile | CounterTile;

const schemas = {
  spans: Object.entries(tileColumns.spans),
  counter: Object.entries(tileColumns.counter),
} as const;

/** A tile of the columns that `make` returns; `Values` is the constructor of a column's array. */
export function makeTile<Type extends Tile['type']>(
  type: Type,
  { track, level, index, version, complete }: TileAbout,
  make: (name: keyof Columns<Type>, Values: ColumnMaker) => Column,
): Extract<Tile, { readonly type: Type }> {
  const tile: Record<string, unknown> = { type, track, level, index, version, complete };
  for (const [name, kind] of schemas[type]) tile[name] = make(name as keyof Columns<Type>, arrays[kind]);
  return tile as unknown as Extract<Tile, { readonly type: Type }>;
}

const columnOf = (tile: Tile, name: string): Column => (tile as unknown as Readonly<Record<string, Column>>)[name] as Column;

/** A tile that shares no memory with `tile`. */
export const copyTile = (tile: Tile): Tile => makeTile(tile.type, tile, (name) => columnOf(tile, name).slice());

const itemBytesOf = (type: Tile['type']): number => schemas[type].reduce((sum, [, kind]) => sum + arrays[kind].BYTES_PER_ELEMENT, 0);

const magic = 0x31545452;
const headerBytes = 16;
const tileHeaderBytes = 32;
const completeFlag = 1;
const counterFlag = 2;
const itemBytes = { spans: itemBytesOf('spans'), counter: itemBytesOf('counter') } as const;
const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;

/** The ns that a tile of this level covers. */
export const tileWidth = (level: number): number => 2 ** level * tileGrains;

export const tileBytes = (tile: Tile): number => tileHeaderBytes + padded(itemsOf(tile) * itemBytes[tile.type]);

const itemsOf = (tile: Tile): number => (tile.type === 'spans' ? tile.start : tile.time).length;

/** Encodes one frame; `request` is the id of the request it answers. */
export function encodeTiles(request: number, tiles: readonly Tile[]): Uint8Array {
  const bytes = new Uint8Array(tiles.reduce((sum, tile) => sum + tileBytes(tile), headerBytes));
  const view = new DataView(bytes.buffer);
  for (const [at, value] of [magic, request, tiles.length].entries()) view.setUint32(4 * at, value, true);
  let at = headerBytes;
  for (const tile of tiles) {
    view.setUint32(at, tile.track, true);
    view.setUint32(at + 4, tile.level, true);
    view.setFloat64(at + 8, tile.index, true);
    view.setUint32(at + 16, tile.version, true);
    view.setUint32(at + 20, (tile.complete ? completeFlag : 0) | (tile.type === 'counter' ? counterFlag : 0), true);
    view.setUint32(at + 24, itemsOf(tile), true);
    let column = at + tileHeaderBytes;
    for (const [name] of schemas[tile.type]) {
      const values = columnOf(tile, name);
      bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), column);
      column += values.byteLength;
    }
    at += tileBytes(tile);
  }
  return bytes;
}

/** Decodes a frame; columns are views of `bytes` (which must begin at a multiple of 8). Throws ProtocolError `bad_message`. */
export function decodeTiles(bytes: Uint8Array): { readonly request: number; readonly tiles: Tile[] } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < headerBytes || view.getUint32(0, true) !== magic) throw bad('it must begin with "RTT1"');
  const count = view.getUint32(8, true);
  const tiles: Tile[] = [];
  let at = headerBytes;
  for (let tile = 0; tile < count; tile++) {
    if (at + tileHeaderBytes > bytes.length) throw bad(`it must hold ${count} tiles, got ${tile}`);
    const flags = view.getUint32(at + 20, true);
    const items = view.getUint32(at + 24, true);
    const type = (flags & counterFlag) !== 0 ? 'counter' : 'spans';
    const size = tileHeaderBytes + padded(items * itemBytes[type]);
    if (at + size > bytes.length) throw bad(`tile ${tile} must hold ${items} items, got ${bytes.length - at} bytes`);
    const about = {
      track: view.getUint32(at, true),
      level: view.getUint32(at + 4, true),
      index: view.getFloat64(at + 8, true),
      version: view.getUint32(at + 16, true),
      complete: (flags & completeFlag) !== 0,
    };
    let column = bytes.byteOffset + at + tileHeaderBytes;
    tiles.push(
      makeTile(type, about, (_, Values) => {
        const values = new Values(bytes.buffer as ArrayBuffer, column, items);
        column += values.byteLength;
        return values;
      }),
    );
    at += size;
  }
  return { request: view.getUint32(4, true), tiles };
}

const bad = (what: string): ProtocolError => new ProtocolError('bad_message', `Cannot decode tiles: ${what}`);
