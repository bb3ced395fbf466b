// State shared by all tracks of a timeline: block store, names, details, and the size of unfinished blocks.

import type { BlockStore } from '../model/block-store.ts';
import { StepBudget } from '../steps/step-history.ts';
import { BlockCache } from './block-cache.ts';
import { CategoryTable } from './category-table.ts';
import { DetailStore } from './detail-store.ts';
import { NameTable } from './name-table.ts';
import { RankGroups } from './rank-groups.ts';
import { TileItems } from './tile-items.ts';
import { timelineLimits } from './timeline-limits.ts';

/** Bytes of a row in unfinished blocks, of the events and the levels together. */
const unfinishedRowBytes = 96;

export class IndexParts {
  readonly cache: BlockCache;
  readonly names = new NameTable();
  readonly categories = new CategoryTable();
  readonly details: DetailStore;
  readonly groups = new RankGroups();
  readonly steps = new StepBudget();
  /** Scratch space for one tile. */
  readonly items = new TileItems();
  /** Rows at which a block is finished: fewer with more tracks. */
  blockRows: number;
  readonly #blockRowsMax: number;

  constructor(store: BlockStore, cacheBytesMax: number, blockRowsMax: number) {
    this.blockRows = blockRowsMax;
    this.#blockRowsMax = blockRowsMax;
    this.cache = new BlockCache(store, cacheBytesMax);
    this.details = new DetailStore(store);
  }

  /** Sets the number of tracks. */
  shareAmong(tracks: number): void {
    const { timelineBlockRowsMin, timelineUnfinishedBytesMax } = timelineLimits;
    const rows = 2 ** Math.floor(Math.log2(timelineUnfinishedBytesMax / (tracks * unfinishedRowBytes)));
    this.blockRows = Math.min(this.#blockRowsMax, Math.max(timelineBlockRowsMin, rows));
  }
}
