// Storage for blocks of a timeline outside memory: a file in the service, an array in tests and small traces.

export interface BlockStore {
  /** Appends `bytes`, which may be reused after the call; returns their place. */
  write(bytes: Uint8Array): number;
  /** Reads `length` bytes from `place` on, all from one write. They are a copy: the caller may keep and change them. */
  read(place: number, length: number): Uint8Array;
  /** Overwrites earlier bytes at `place`. */
  overwrite(place: number, bytes: Uint8Array): void;
}

/** Blocks in memory, each an array of its own. */
export class MemoryBlocks implements BlockStore {
  /** Places, ascending, and the bytes there. */
  readonly #places: number[] = [];
  readonly #blocks: Uint8Array[] = [];
  #size = 0;

  /** Bytes written so far. */
  get size(): number {
    return this.#size;
  }

  write(bytes: Uint8Array): number {
    const place = this.#size;
    this.#places.push(place);
    this.#blocks.push(bytes.slice());
    this.#size += bytes.length;
    return place;
  }

  read(place: number, length: number): Uint8Array {
    const [block, from] = this.#find(place, length);
    return block.slice(from, from + length);
  }

  overwrite(place: number, bytes: Uint8Array): void {
    const [block, from] = this.#find(place, bytes.length);
    block.set(bytes, from);
  }

  #find(place: number, length: number): readonly [block: Uint8Array, from: number] {
    let [low, high] = [0, this.#places.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#places[middle] as number) <= place) low = middle;
      else high = middle - 1;
    }
    const block = this.#blocks[low];
    const from = place - (this.#places[low] ?? 0);
    if (block === undefined || from < 0 || from + length > block.length) {
      throw new RangeError(`Cannot reach ${length} bytes at ${place}: no block of ${this.#size} bytes in all holds them`);
    }
    return [block, from];
  }
}
