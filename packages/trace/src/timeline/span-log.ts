// Events of a span track as columns, one row each, and facts about each block, available without reading it.

import { itemKinds } from '@ranktrace/protocol';
import type { BlockCache } from './block-cache.ts';
import { BlockLog, type ColumnsOf } from './block-log.ts';

/** Own times, ns; a `length` of NaN: the event is open. `kind`: see below. */
export const spanColumns = {
  start: 'f64',
  length: 'f64',
  detail: 'f64',
  flowHigh: 'u32',
  flowLow: 'u32',
  /** Correlation of a call with the device work that it launches; 0 for none. */
  launch: 'u32',
  name: 'u32',
  category: 'u16',
  depth: 'u8',
  kind: 'u8',
} as const;

export type SpanColumns = ColumnsOf<typeof spanColumns>;

/** Index of `itemKinds`; a row's `kind` uses the other bits for more. */
export const kindMask = 0x07;
export const asyncBit = 0x08;
/** Rpc: the server's side. Send: the receiver's side. */
export const farSideBit = 0x10;
/** Collective: one of the two sides of a send. */
export const pairBit = 0x20;

export type ItemKind = (typeof itemKinds)[number];
export const kindIndex: Readonly<Record<ItemKind, number>> = Object.fromEntries(itemKinds.map((kind, index) => [kind, index])) as Record<
  ItemKind,
  number
>;
export const instantKind = kindIndex.instant;
export const kindOf = (bits: number): ItemKind => itemKinds[bits & kindMask] ?? 'span';

/** Columns that a late end of a span is written into. */
const patched = ['length', 'detail'] as const;

export class SpanLog extends BlockLog<typeof spanColumns> {
  /** Rows with a flow, by block. */
  readonly #flows: number[] = [];
  /** The level that each block's events entered first; no level below holds them. */
  readonly #entries: number[] = [];
  /** Rows with a flow in the unfinished block. */
  flowRows = 0;
  openRows = 0;
  #allFlows = 0;
  /** Least and greatest correlation in each finished block; those of the unfinished one. A driver counts them up, so few blocks hold one. */
  readonly #launchRanges: (readonly [number, number] | undefined)[] = [];
  #launches: [number, number] | undefined;

  constructor(cache: BlockCache) {
    super(cache, spanColumns);
  }

  /** Rows with a flow in all blocks. */
  get flowsInAll(): number {
    return this.#allFlows + this.flowRows;
  }

  /** Notes a correlation of the unfinished block. */
  sawLaunch(correlation: number): void {
    const range = this.#launches;
    if (range === undefined) this.#launches = [correlation, correlation];
    else if (correlation < range[0]) range[0] = correlation;
    else if (correlation > range[1]) range[1] = correlation;
  }

  /** The least and the greatest correlation in a block; undefined without any. */
  launchesOf(block: number): readonly [number, number] | undefined {
    return block === this.finished ? this.#launches : this.#launchRanges[block];
  }

  flowsOf(block: number): number {
    return block === this.finished ? this.flowRows : (this.#flows[block] as number);
  }

  /** The finest level with a block's events; the unfinished block is in none. */
  entryOf(block: number): number {
    return this.#entries[block] ?? Number.POSITIVE_INFINITY;
  }

  /** Writes the unfinished block; from now on its events are in `level` and those above it. */
  finishInto(level: number): void {
    this.#flows.push(this.flowRows);
    this.#entries.push(level);
    this.#launchRanges.push(this.#launches);
    this.#allFlows += this.flowRows;
    this.finish(this.openRows > 0 ? patched : []);
    this.flowRows = 0;
    this.openRows = 0;
    this.#launches = undefined;
  }
}
