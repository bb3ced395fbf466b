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

interface TileAbout extends TileKey {
  /** Version of its process (ViewProcess.version). */
  readonly version: number;
  /** No further events can come into it. */
  readonly complete: boolean;
}

export interface SpanTile extends TileAbout {
  readonly type: 'spans';
  /** In order of depth, then of start. */
  readonly start: Float64Array;
  readonly length: Float64Array;
  readonly busy: Float32Array;
  readonly count: Uint32Array;
  readonly name: Uint32Array;
  readonly event: Uint32Array;
  readonly depth: Uint8Array;
  readonly kind: Uint8Array;
}

export interface CounterTile extends TileAbout {
  readonly type: 'counter';
  /** In order of time; the first may lie before the tile: its value holds when the tile begins. */
  readonly time: Float64Array;
  readonly last: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  readonly count: Uint32Array;
}

export type Tile = SpanTile | CounterTile;

const magic = 0x31545452;
const headerBytes = 16;
const tileHeaderBytes = 32;
const completeFlag = 1;
const counterFlag = 2;
const spanBytes = 34;
const counterBytes = 36;
const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;

/** The ns that a tile of this level covers. */
export const tileWidth = (level: number): number => 2 ** level * tileGrains;

export const tileBytes = (tile: Tile): number =>
  tileHeaderBytes + padded(tile.type === 'spans' ? tile.start.length * spanBytes : tile.time.length * counterBytes);

/** Encodes one frame; `request` is the id of the request it answers. */
export function encodeTiles(request: number, tiles: readonly Tile[]): Uint8Array {
  const bytes = new Uint8Array(tiles.reduce((sum, tile) => sum + tileBytes(tile), headerBytes));
  const view = new DataView(bytes.buffer);
  for (const [at, value] of [magic, request, tiles.length].entries()) view.setUint32(4 * at, value, true);
  let at = headerBytes;
  for (const tile of tiles) {
    const isCounter = tile.type === 'counter';
    const items = isCounter ? tile.time.length : tile.start.length;
    view.setUint32(at, tile.track, true);
    view.setUint32(at + 4, tile.level, true);
    view.setFloat64(at + 8, tile.index, true);
    view.setUint32(at + 16, tile.version, true);
    view.setUint32(at + 20, (tile.complete ? completeFlag : 0) | (isCounter ? counterFlag : 0), true);
    view.setUint32(at + 24, items, true);
    let column = at + tileHeaderBytes;
    for (const values of columnsOf(tile)) {
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
    const isCounter = (flags & counterFlag) !== 0;
    const size = tileHeaderBytes + padded(items * (isCounter ? counterBytes : spanBytes));
    if (at + size > bytes.length) throw bad(`tile ${tile} must hold ${items} items, got ${bytes.length - at} bytes`);
    const about = {
      track: view.getUint32(at, true),
      level: view.getUint32(at + 4, true),
      index: view.getFloat64(at + 8, true),
      version: view.getUint32(at + 16, true),
      complete: (flags & completeFlag) !== 0,
    };
    const columns = new ColumnReader(bytes, at + tileHeaderBytes, items);
    tiles.push(
      isCounter
        ? {
            type: 'counter',
            ...about,
            time: columns.f64(),
            last: columns.f64(),
            low: columns.f64(),
            high: columns.f64(),
            count: columns.u32(),
          }
        : {
            type: 'spans',
            ...about,
            start: columns.f64(),
            length: columns.f64(),
            busy: columns.f32(),
            count: columns.u32(),
            name: columns.u32(),
            event: columns.u32(),
            depth: columns.u8(),
            kind: columns.u8(),
          },
    );
    at += size;
  }
  return { request: view.getUint32(4, true), tiles };
}

class ColumnReader {
  readonly #buffer: ArrayBufferLike;
  readonly #items: number;
  #at: number;

  constructor(bytes: Uint8Array, at: number, items: number) {
    this.#buffer = bytes.buffer;
    this.#at = bytes.byteOffset + at;
    this.#items = items;
  }

  f64(): Float64Array {
    return new Float64Array(this.#buffer, this.#take(8), this.#items);
  }

  f32(): Float32Array {
    return new Float32Array(this.#buffer, this.#take(4), this.#items);
  }

  u32(): Uint32Array {
    return new Uint32Array(this.#buffer, this.#take(4), this.#items);
  }

  u8(): Uint8Array {
    return new Uint8Array(this.#buffer, this.#take(1), this.#items);
  }

  #take(itemBytes: number): number {
    const at = this.#at;
    this.#at += itemBytes * this.#items;
    return at;
  }
}

const columnsOf = (tile: Tile): readonly ArrayBufferView[] =>
  tile.type === 'counter'
    ? [tile.time, tile.last, tile.low, tile.high, tile.count]
    : [tile.start, tile.length, tile.busy, tile.count, tile.name, tile.event, tile.depth, tile.kind];

const bad = (what: string): ProtocolError => new ProtocolError('bad_message', `Cannot decode tiles: ${what}`);
