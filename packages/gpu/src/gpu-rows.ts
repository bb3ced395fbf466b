// Rows of a ring as columns. Times are RankTimes: ns after the epoch that the reader was opened with.

/** Rows that one read takes at most. */
export const rowsMax = 8192;

export class GpuRows {
  length = 0;
  readonly capacity: number;
  /** `rowKind`. */
  readonly kind: Uint8Array;
  /** A copy's, sync's or call's kind, or a collective's `rt_collective_detail`: see native/ring.h. */
  readonly detail: Uint8Array;
  /** 0xffff: not known. */
  readonly device: Uint16Array;
  readonly start: Float64Array;
  /** NaN: not known. */
  readonly end: Float64Array;
  /** Number of a name, 0 for none. */
  readonly name: Uint32Array;
  /** Number of the stream; of a call its thread. */
  readonly stream: Uint32Array;
  readonly correlation: Uint32Array;
  readonly context: Uint32Array;
  /** Kernels: three numbers a row. */
  readonly grid: Uint32Array;
  readonly block: Uint16Array;
  readonly registers: Uint16Array;
  readonly sharedBytes: Uint32Array;
  /** Copies, sets and collectives. */
  readonly bytes: Float64Array;
  /** Copies and sets: kinds of memory, as CUPTI numbers them. */
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly isAsync: Uint8Array;
  /** A copy's other device; a send's other rank, 0xffff for none. */
  readonly peer: Uint32Array;
  /** Syncs: the event that is waited for. */
  readonly event: Uint32Array;
  readonly sequence: Float64Array;
  /** Number of a collective's group. */
  readonly group: Uint32Array;

  constructor(capacity: number = rowsMax) {
    this.capacity = capacity;
    this.kind = new Uint8Array(capacity);
    this.detail = new Uint8Array(capacity);
    this.device = new Uint16Array(capacity);
    this.start = new Float64Array(capacity);
    this.end = new Float64Array(capacity);
    this.name = new Uint32Array(capacity);
    this.stream = new Uint32Array(capacity);
    this.correlation = new Uint32Array(capacity);
    this.context = new Uint32Array(capacity);
    this.grid = new Uint32Array(3 * capacity);
    this.block = new Uint16Array(3 * capacity);
    this.registers = new Uint16Array(capacity);
    this.sharedBytes = new Uint32Array(capacity);
    this.bytes = new Float64Array(capacity);
    this.source = new Uint8Array(capacity);
    this.destination = new Uint8Array(capacity);
    this.isAsync = new Uint8Array(capacity);
    this.peer = new Uint32Array(capacity);
    this.event = new Uint32Array(capacity);
    this.sequence = new Float64Array(capacity);
    this.group = new Uint32Array(capacity);
  }

  /** Puts row `row` of `from` at `to`. */
  copy(to: number, from: GpuRows, row: number): void {
    this.kind[to] = from.kind[row] as number;
    this.detail[to] = from.detail[row] as number;
    this.device[to] = from.device[row] as number;
    this.start[to] = from.start[row] as number;
    this.end[to] = from.end[row] as number;
    this.name[to] = from.name[row] as number;
    this.stream[to] = from.stream[row] as number;
    this.correlation[to] = from.correlation[row] as number;
    this.context[to] = from.context[row] as number;
    this.registers[to] = from.registers[row] as number;
    this.sharedBytes[to] = from.sharedBytes[row] as number;
    this.bytes[to] = from.bytes[row] as number;
    this.source[to] = from.source[row] as number;
    this.destination[to] = from.destination[row] as number;
    this.isAsync[to] = from.isAsync[row] as number;
    this.peer[to] = from.peer[row] as number;
    this.event[to] = from.event[row] as number;
    this.sequence[to] = from.sequence[row] as number;
    this.group[to] = from.group[row] as number;
    for (let axis = 0; axis < 3; axis++) {
      this.grid[3 * to + axis] = from.grid[3 * row + axis] as number;
      this.block[3 * to + axis] = from.block[3 * row + axis] as number;
    }
  }
}
