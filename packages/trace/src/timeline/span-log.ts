// Events of a span track as columns, one row each, and what is known of each block of them without reading it.

import { itemKinds } from '@ranktrace/protocol';
import type { BlockCache } from './block-cache.ts';
import { BlockLog, type ColumnsOf } from './block-log.ts';

/** Own times, ns; a `length` that is not a number: it has not ended. `kind`: see below. */
export const spanColumns = {
  start: 'f64',
  length: 'f64',
  detail: 'f64',
  flowHigh: 'u32',
  flowLow: 'u32',
  name: 'u32',
  category: 'u16',
  depth: 'u8',
  kind: 'u8',
} as const;

export type SpanColumns = ColumnsOf<typeof spanColumns>;

/** Index of `itemKinds`; the other bits of a row's `kind` say more. */
export const kindMask = 0x07;
export const asyncBit = 0x08;
/** Rpc: of the server's side. Send: of the receiving side. */
export const farSideBit = 0x10;
/** Collective: one of two that a send goes between. */
export const pairBit = 0x20;

export type ItemKind = (typeof itemKinds)[number];
export const kindIndex: Readonly<Record<ItemKind, number>> = Object.fromEntries(itemKinds.map((kind, index) => [kind, index])) as Record<
  ItemKind,
  number
>;
export const instantKind = kindIndex.instant;
export const kindOf = (bits: number): ItemKind => itemKinds[bits & kindMask] ?? 'span';

/** Columns that a span's end, told late, is written into. */
const patched = ['length', 'detail'] as const;

export class SpanLog extends BlockLog<typeof spanColumns> {
  /** Rows with a flow, of each block. */
  readonly #flows: number[] = [];
  /** The level that each block's events went to first; no level below holds them. */
  readonly #entries: number[] = [];
  /** Of the unfinished block. */
  flowRows = 0;
  openRows = 0;
  #allFlows = 0;

  constructor(cache: BlockCache) {
    super(cache, spanColumns);
  }

  /** Rows with a flow in all blocks. */
  get flowsInAll(): number {
    return this.#allFlows + this.flowRows;
  }

  flowsOf(block: number): number {
    return block === this.finished ? this.flowRows : (this.#flows[block] as number);
  }

  /** The finest level that knows a block's events; none knows those of the unfinished block. */
  entryOf(block: number): number {
    return this.#entries[block] ?? Number.POSITIVE_INFINITY;
  }

  /** Writes the unfinished block, whose events `level` and those above it know from now on. */
  finishInto(level: number): void {
    this.#flows.push(this.flowRows);
    this.#entries.push(level);
    this.#allFlows += this.flowRows;
    this.finish(this.openRows > 0 ? patched : []);
    this.flowRows = 0;
    this.openRows = 0;
  }
}
