// Items of several processes, given on in order of time also where events come in stretches, rank by rank (`TraceSink.endStretch`).

import type { TraceHeader } from './trace-sink.ts';

export class StretchQueue<Item> {
  readonly #take: (item: Item, time: number) => void;
  readonly #waiting: { readonly time: number; readonly item: Item }[] = [];
  #inStretches = false;

  constructor(take: (item: Item, time: number) => void) {
    this.#take = take;
  }

  begin({ inStretches }: TraceHeader): void {
    this.#inStretches = inStretches === true;
  }

  add(time: number, item: Item): void {
    if (this.#inStretches) this.#waiting.push({ time, item });
    else this.#take(item, time);
  }

  /** Gives on the stretch's items. */
  endStretch(): void {
    this.#waiting.sort((a, b) => a.time - b.time);
    for (const { time, item } of this.#waiting) this.#take(item, time);
    this.#waiting.length = 0;
  }
}
