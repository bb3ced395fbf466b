// Rows of a ring as columns. Times are RankTimes: ns after the epoch that the reader was opened with.

/** Rows that one read takes at most. */
export const rowsMax = 8192;

export class GpuRows {
  length = 0;
  /** `rowKind`. */
  readonly kind = new Uint8Array(rowsMax);
  /** A copy's, sync's or call's kind, or a collective's `rt_collective_detail`: see native/ring.h. */
  readonly detail = new Uint8Array(rowsMax);
  /** 0xffff: not known. */
  readonly device = new Uint16Array(rowsMax);
  readonly start = new Float64Array(rowsMax);
  /** NaN: not known. */
  readonly end = new Float64Array(rowsMax);
  /** Number of a name, 0 for none. */
  readonly name = new Uint32Array(rowsMax);
  /** Number of the stream; of a call its thread. */
  readonly stream = new Uint32Array(rowsMax);
  readonly correlation = new Uint32Array(rowsMax);
  readonly context = new Uint32Array(rowsMax);
  /** Kernels: three numbers a row. */
  readonly grid = new Uint32Array(3 * rowsMax);
  readonly block = new Uint16Array(3 * rowsMax);
  readonly registers = new Uint16Array(rowsMax);
  readonly sharedBytes = new Uint32Array(rowsMax);
  /** Copies, sets and collectives. */
  readonly bytes = new Float64Array(rowsMax);
  /** Copies and sets: kinds of memory, as CUPTI numbers them. */
  readonly source = new Uint8Array(rowsMax);
  readonly destination = new Uint8Array(rowsMax);
  readonly isAsync = new Uint8Array(rowsMax);
  /** A copy's other device; a send's other rank, 0xffff for none. */
  readonly peer = new Uint32Array(rowsMax);
  /** Syncs: the event that is waited for. */
  readonly event = new Uint32Array(rowsMax);
  readonly sequence = new Float64Array(rowsMax);
  /** Number of a collective's group. */
  readonly group = new Uint32Array(rowsMax);
}
