// Events of a track in a window of the trace, one after another: the input of area tables and flame graphs.

import type { SpanColumns } from './span-log.ts';
import type { SpanTrack } from './span-track.ts';

/** Takes one event: `from` and `until` are its own times cut to the window. */
export type TakeRow = (columns: SpanColumns, row: number, event: number, from: number, until: number) => void;

/** A track's part in a window. */
export class TrackWindow {
  readonly track: SpanTrack;
  readonly #from: number;
  readonly #until: number;
  /** Blocks with open spans, which reach beyond their blocks' known range. */
  readonly #openBlocks: ReadonlySet<number>;

  /** `from`, `until`: trace time, ns. */
  constructor(track: SpanTrack, from: number, until: number) {
    this.track = track;
    this.#from = track.process.clock.toOwn(from);
    this.#until = track.process.clock.toOwn(until);
    this.#openBlocks = new Set(track.open.map(({ event }) => track.log.blockOf(event)));
  }

  /** Whether a block may hold an event of the window. */
  holds(block: number): boolean {
    const { log } = this.track;
    return log.from(block) < this.#until && (log.until(block) >= this.#from || this.#openBlocks.has(block));
  }

  /** Number of events in blocks that must be read. */
  get rows(): number {
    const { log } = this.track;
    let rows = 0;
    for (let block = 0; block < log.blocks; block++) if (this.holds(block)) rows += log.rowsOf(block);
    return rows;
  }

  /** Visits the events of one block that are in the window, in order of arrival. Open events last until now. */
  visit(block: number, take: TakeRow): void {
    const { log, process } = this.track;
    const columns = log.read(block);
    const { start, length } = columns;
    const rows = log.rowsOf(block);
    const first = log.first(block);
    for (let row = 0; row < rows; row++) {
      const from = start[row] as number;
      if (from >= this.#until) continue;
      const size = length[row] as number;
      const until = Number.isNaN(size) ? Math.max(from, process.now) : from + size;
      if (until <= this.#from && from < this.#from) continue;
      take(columns, row, first + row, Math.max(from, this.#from), Math.min(until, this.#until));
    }
  }
}
