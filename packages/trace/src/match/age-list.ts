// Items in order of when they were last added. Not a Map's own order: finding a Map's first entry means stepping over every one deleted
// before it, which makes a queue of a Map quadratic.
//
//   oldest ⇄ … ⇄ newest

export interface Aged<T> {
  older: T | undefined;
  newer: T | undefined;
}

export class AgeList<T extends Aged<T>> {
  #oldest: T | undefined;
  #newest: T | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get oldest(): T | undefined {
    return this.#oldest;
  }

  /** Adds an item that is in no list. */
  add(item: T): void {
    item.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = item;
    else this.#newest.newer = item;
    this.#newest = item;
    this.#size++;
  }

  /** Removes an item of this list. */
  remove(item: T): void {
    if (item.older === undefined) this.#oldest = item.newer;
    else item.older.newer = item.newer;
    if (item.newer === undefined) this.#newest = item.older;
    else item.newer.older = item.older;
    item.older = item.newer = undefined;
    this.#size--;
  }
}
