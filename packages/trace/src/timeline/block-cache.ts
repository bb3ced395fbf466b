// Recently read blocks, decoded, for all tracks together, up to a number of bytes; eviction is least recently used first.

import type { BlockStore } from '../model/block-store.ts';

interface Held {
  readonly columns: unknown;
  readonly bytes: number;
}

export class BlockCache {
  readonly store: BlockStore;
  readonly #bytesMax: number;
  /** By place, in order of use. */
  readonly #held = new Map<number, Held>();
  #bytes = 0;

  constructor(store: BlockStore, bytesMax: number) {
    this.store = store;
    this.#bytesMax = bytesMax;
  }

  get(place: number): unknown {
    const held = this.#held.get(place);
    if (held === undefined) return undefined;
    this.#held.delete(place);
    this.#held.set(place, held);
    return held.columns;
  }

  put(place: number, columns: unknown, bytes: number): void {
    this.#held.set(place, { columns, bytes });
    this.#bytes += bytes;
    for (const [oldest, { bytes: size }] of this.#held) {
      if (this.#bytes <= this.#bytesMax || oldest === place) break;
      this.#held.delete(oldest);
      this.#bytes -= size;
    }
  }
}
