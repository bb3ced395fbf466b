// Values of open spans by a key that several may share: spans of one lane, start and name lie inside each other, so the last one begun ends first.

interface Entry<Value> {
  readonly value: Value;
  readonly below: Entry<Value> | undefined;
}

export class KeyedStacks<Value> {
  readonly #tops = new Map<string, Entry<Value>>();
  /** Values of all keys. */
  size = 0;

  push(key: string, value: Value): void {
    this.#tops.set(key, { value, below: this.#tops.get(key) });
    this.size++;
  }

  /** Takes out the last value of this key; undefined if there is none. */
  pop(key: string): Value | undefined {
    const top = this.#tops.get(key);
    if (top === undefined) return undefined;
    if (top.below === undefined) this.#tops.delete(key);
    else this.#tops.set(key, top.below);
    this.size--;
    return top.value;
  }

  /** All values, by key in order of the first push; of one key, the last one last. */
  values(): Value[] {
    return [...this.#tops.values()].flatMap((top) => {
      const values: Value[] = [];
      for (let entry: Entry<Value> | undefined = top; entry !== undefined; entry = entry.below) values.push(entry.value);
      return values.reverse();
    });
  }

  clear(): void {
    this.#tops.clear();
    this.size = 0;
  }
}
