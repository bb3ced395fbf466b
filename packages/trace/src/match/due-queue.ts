// A queue by due time, earliest first. Equal times keep their order of arrival, so the order never depends on the heap's layout.

interface Entry<T> {
  readonly due: number;
  readonly serial: number;
  readonly item: T;
}

/** A binary heap. `due` is in any unit, but never NaN. */
export class DueQueue<T> {
  readonly #heap: Entry<T>[] = [];
  #serial = 0;

  get size(): number {
    return this.#heap.length;
  }

  push(due: number, item: T): void {
    const heap = this.#heap;
    const entry = { due, serial: this.#serial++, item };
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as Entry<T>;
      if (!isAhead(entry, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = entry;
  }

  /** Removes the first item that is due at `time` or earlier; undefined when there is none. */
  pop(time: number): T | undefined {
    const heap = this.#heap;
    const [first] = heap;
    if (first === undefined || !(first.due <= time)) return undefined;
    const last = heap.pop() as Entry<T>;
    if (heap.length > 0) this.#settle(last);
    return first.item;
  }

  /** Replaces the first entry by `entry`. */
  #settle(entry: Entry<T>): void {
    const heap = this.#heap;
    let at = 0;
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && isAhead(heap[child + 1] as Entry<T>, heap[child] as Entry<T>)) child++;
      if (!isAhead(heap[child] as Entry<T>, entry)) break;
      heap[at] = heap[child] as Entry<T>;
      at = child;
    }
    heap[at] = entry;
  }
}

const isAhead = <T>(a: Entry<T>, b: Entry<T>): boolean => a.due < b.due || (a.due === b.due && a.serial < b.serial);
