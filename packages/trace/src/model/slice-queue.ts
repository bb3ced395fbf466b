// Items of several processes, given on in order of time also where events come in slices (`TraceSink.endSlice`).

import type { TraceHeader } from './trace-sink.ts';

export class SliceQueue<Item> {
  readonly #take: (item: Item, time: number) => void;
  readonly #waiting: { readonly time: number; readonly item: Item }[] = [];
  #inSlices = false;

  constructor(take: (item: Item, time: number) => void) {
    this.#take = take;
  }

  begin({ inSlices }: TraceHeader): void {
    this.#inSlices = inSlices === true;
  }

  add(time: number, item: Item): void {
    if (this.#inSlices) this.#waiting.push({ time, item });
    else this.#take(item, time);
  }

  /** Gives on the slice's items. */
  endSlice(): void {
    this.#waiting.sort((a, b) => a.time - b.time);
    for (const { time, item } of this.#waiting) this.#take(item, time);
    this.#waiting.length = 0;
  }
}
