// What all tracks of a timeline share: where blocks go, names, details, and how long unfinished blocks may be.

import { BlockCache } from './block-cache.ts';
import type { BlockStore } from './block-store.ts';
import { CategoryTable } from './category-table.ts';
import { DetailStore } from './detail-store.ts';
import { NameTable } from './name-table.ts';
import { RankGroups } from './rank-groups.ts';
import { StepBudget } from './step-history.ts';
import { TileItems } from './tile-items.ts';
import { timelineLimits } from './timeline-limits.ts';

/** Bytes of a row in unfinished blocks: of the events, and of the levels together. */
const unfinishedRowBytes = 96;

export class IndexParts {
  readonly cache: BlockCache;
  readonly names = new NameTable();
  readonly categories = new CategoryTable();
  readonly details: DetailStore;
  readonly groups = new RankGroups();
  readonly steps = new StepBudget();
  /** Scratch of one tile. */
  readonly items = new TileItems();
  /** Rows at which a block is finished: fewer the more tracks there are. */
  blockRows: number;
  readonly #blockRowsMax: number;

  constructor(store: BlockStore, cacheBytesMax: number, blockRowsMax: number) {
    this.blockRows = blockRowsMax;
    this.#blockRowsMax = blockRowsMax;
    this.cache = new BlockCache(store, cacheBytesMax);
    this.details = new DetailStore(store);
  }

  /** Tells how many tracks there are. */
  shareAmong(tracks: number): void {
    const { timelineBlockRowsMin, timelineUnfinishedBytesMax } = timelineLimits;
    const rows = 2 ** Math.floor(Math.log2(timelineUnfinishedBytesMax / (tracks * unfinishedRowBytes)));
    this.blockRows = Math.min(this.#blockRowsMax, Math.max(timelineBlockRowsMin, rows));
  }
}
