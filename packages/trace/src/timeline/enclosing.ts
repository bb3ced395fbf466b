// The spans around the latest one of a track, by line, while its events come in order.
//
//   frameLine …   frames of Python      train() ─────────────────────
//   0             ops                     aten::mm ────  aten::add ──     around them: the innermost frame that has not ended
//   1                                       launch ─
//
// Invariant: a span of line d > 0 lies in the last one of line d − 1; one of line 0 lies in the innermost frame, a frame of the first line in nothing.

import { frameLine } from '@ranktrace/protocol';

export class Enclosing<Entry extends { readonly until: number }> {
  readonly #around: (Entry | undefined)[] = [];
  #innermostFrame = frameLine - 1;

  /** The span around one that begins at `start` on line `depth`. It may have ended before. */
  around(depth: number, start: number): Entry | undefined {
    if (depth === frameLine) return undefined;
    if (depth !== 0) return this.#around[depth - 1];
    while (this.#innermostFrame >= frameLine && !((this.#around[this.#innermostFrame]?.until ?? 0) > start)) this.#innermostFrame--;
    return this.#innermostFrame < frameLine ? undefined : this.#around[this.#innermostFrame];
  }

  put(depth: number, entry: Entry): void {
    this.#around[depth] = entry;
    if (depth >= frameLine) this.#innermostFrame = depth;
  }
}
