// Whose turn it is on the thread. Pages ask for work that takes long while ranks are being listened to: between two turns the event loop goes
// round once, so ranks, answers and timers never wait for more than one turn.
//
//   page a   ▒▒▒
//   page b   ▒          one turn of a, one of b, one of a, …
//
// Invariant: one turn per round of the event loop. Pages take turns; a page that asks for much delays nobody but itself.

export class Turns {
  /** Pages that wait, next first, each with its waits in order. */
  readonly #waiting = new Map<object, (() => void)[]>();

  /** Resolves when it is `page`'s turn. What follows without another `await` is the turn. */
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
