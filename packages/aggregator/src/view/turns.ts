// Shares the thread among pages that ask for long work while ranks send: between two turns the event loop runs once, so ranks, answers and timers
// never wait for more than one turn.
//
//   page a   ▒▒▒
//   page b   ▒          one turn of a, one of b, one of a, …
//
// Invariant: one turn per round of the event loop. Pages take turns; a page with many requests delays only itself.

export class Turns {
  /** Pages that wait, next first, each with its waits in order. */
  readonly #waiting = new Map<object, (() => void)[]>();

  /** Resolves when it is `page`'s turn. The code up to the next `await` is the turn. */
  turn(page: object): Promise<void> {
    return new Promise((begin) => {
      if (this.#waiting.size === 0) setImmediate(() => this.#next());
      const waits = this.#waiting.get(page);
      if (waits === undefined) this.#waiting.set(page, [begin]);
      else waits.push(begin);
    });
  }

  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) return;
    const [page, waits] = first;
    const begin = waits.shift();
    this.#waiting.delete(page);
    if (waits.length > 0) this.#waiting.set(page, waits);
    if (this.#waiting.size > 0) setImmediate(() => this.#next());
    begin?.();
  }
}
