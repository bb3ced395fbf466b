// Single-producer single-consumer ring in shared memory, between one recording thread and the shipper worker.
//
//   header, one 64-byte line per side so that they do not share cache lines, then cells of 32 bytes:
//
//   | write, dropped events, dropped arguments, dropped names, closed | read, claimed |   …   | cell 0 | cell 1 | … | cell n−1 |
//     only the recorder stores these                                    only the worker stores these
//
//   |  shipped  |   ready to ship   |   staged   |   free   | kept for ends |
//               ^ read              ^ write      ^ staged                    (counters of cells; position = counter mod n)
//
//   cell:  | kind | extra << 8 : i32 | name : i32 | time : f64 | a : f64 | b : f64 |
//
// Invariants: 0 ≤ write − read ≤ n, mod 2^32. Storing `write` publishes whole records only. When full, the event is dropped and counted:
// recording never waits. An accepted begin keeps one cell for its end, so an end always fits: async spans, whose ends may never come,
// get none once half of the ring is kept. Up to `stepSpareCellsMax` cells are for step marks alone.

import { recordingLimits } from '../model/recording-limits.ts';

export const cellBytes = 32;
const headerBytes = 256;

/** Words of the header (index into an Int32Array). */
const word = { write: 0, droppedEvents: 1, droppedArguments: 2, droppedNames: 3, closed: 4, read: 16, claimed: 17 } as const;

/**
 * Kinds of records. `a`, `b` and `extra` by kind; times are raw `performance.now()` values, names are ids of the thread's name table.
 *
 *   spanBegin         extra category; a id (0 on the stack, −1 on the stack but may become async, −1 − id the same for a scope, else async);
 *                     b parent id or 0
 *   collectiveBegin   the same with extra group, name op; then a cell: f64 sequence, f64 bytes, f64 1 + peer or 0
 *   rpcClientBegin    the same with extra peer, name method; then a cell: trace 16 bytes, span 8, parent span 8; rpcServerBegin alike
 *   end               ends the innermost span on the stack; extra status
 *   becameAsync       the innermost span on the stack returned a promise, or the scope with this id is still open where what lies around it
 *                     ends: it is async from here on; a its id
 *   asyncEnd          a id, also of a scope on the stack; extra status
 *   instant           extra category
 *   counter           extra unit, a value
 *   step              a number of the step that ended here, and the next begins; −1 − n: step n begins here and none ends;
 *                     b ms that recording took of this thread in the step
 *   numberArgument    belongs to the record before; name key, a value
 *   stringArgument    belongs to the record before; name key, a byte length; then cells of UTF-8
 *   nameArgument      belongs to the record before; name key, a id of the name that is its text
 *   defineName        name id, a byte length; then cells of UTF-8
 *   metadata          name key, a byte length; then cells of UTF-8
 *   endArgument       belongs to the innermost span on the stack; name key, a value
 *   opEnd             the end of an op, which is innermost on the stack; extra signature, name stack | module << 16, a sequence
 *                     (> 0 its own, < 0 that of the forward op whose backward op it is), b bytes allocated
 *   memory            a buffer was allocated or freed; extra `bufferPlace`, name low 32 bits of its address, a bytes (< 0 freed), b total bytes
 *   memoryCategory    role of a buffer; extra category, name low 32 bits of its address, a bytes, b `bufferPlace`
 *   engineMemory      totals of an engine; extra buffers, name tensors, a bytes
 *   pastSpan          a finished span; extra category, a length in ms, b which of the thread's lines (`threadLine`)
 *   action            from here on detail is sent (a 1) or held back (a 0); b 1 where results begin, 2 where they end
 *   closed            the program's part of the recording ended
 *   renamed           name; a id of the async span
 *   asyncOwner        the arguments that follow belong to the async span whose id is a
 */
export const recordKind = {
  spanBegin: 1,
  collectiveBegin: 2,
  rpcClientBegin: 3,
  rpcServerBegin: 4,
  end: 5,
  becameAsync: 6,
  asyncEnd: 7,
  instant: 8,
  counter: 9,
  step: 10,
  numberArgument: 11,
  stringArgument: 12,
  defineName: 13,
  metadata: 14,
  endArgument: 15,
  opEnd: 16,
  memory: 17,
  pastSpan: 18,
  action: 19,
  asyncOwner: 20,
  memoryCategory: 21,
  engineMemory: 22,
  nameArgument: 23,
  closed: 24,
  renamed: 25,
} as const;

/** `a` of a begin record that may become async. */
export const undecided = -1;

/** Names that every thread has from the start; defined ones follow. */
export const fixedNames = ['', '(too many names)', 'cpu_op', 'data_copy', 'gc', 'Bytes', 'Bytes freed', 'Call stack'] as const;
/** Their ids. */
export const fixedName = { none: 0, tooMany: 1, op: 2, dataCopy: 3, gc: 4, bytes: 5, bytesFreed: 6, callStack: 7 } as const;

/** The lines of one recording thread: its own spans, and its interruptions. */
export const threadLine = { own: 0, gc: 1 } as const;

/** 2^-32: the part of a number above its low 32 bits, exactly. */
const high = 1 / 2 ** 32;
/** A buffer's device type, and the bits of its address above the low 32, at most 21. */
export const bufferPlace = (address: number, deviceType: 0 | 1): number => deviceType | ((address * high) << 1);
/** The address, from its low 32 bits, which the ring has as an int32. */
export const bufferAddress = (place: number, low: number): number => (place >>> 1) / high + (low >>> 0);
export const bufferDevice = (place: number): number => place & 1;

/** Shared memory for a ring of at most `bytes` bytes of cells (rounded down to a power of two, at least 64 cells). */
export function createRing(bytes: number): SharedArrayBuffer {
  const cells = 2 ** Math.max(6, Math.floor(Math.log2(bytes / cellBytes)));
  return new SharedArrayBuffer(headerBytes + cells * cellBytes);
}

/** Losses of a recording thread. */
export interface RingDrops {
  readonly events: number;
  readonly arguments: number;
  readonly names: number;
}

export function sumDrops(left: RingDrops, right: RingDrops): RingDrops {
  return { events: left.events + right.events, arguments: left.arguments + right.arguments, names: left.names + right.names };
}

/** Cells for `bytes` bytes of text. */
const textCells = (bytes: number) => Math.ceil(bytes / cellBytes);

/** The recording side. Owned by one thread. */
export class RingWriter {
  readonly #header: Int32Array;
  readonly #ints: Int32Array;
  readonly #floats: Float64Array;
  readonly #bytes: Uint8Array;
  readonly #mask: number;
  readonly #capacity: number;
  /** Cells that are not reserved for steps. */
  readonly #forEvents: number;
  #staged = 0;
  #readSeen = 0;
  #kept = 0;

  constructor(memory: SharedArrayBuffer) {
    this.#header = new Int32Array(memory, 0, headerBytes / 4);
    this.#ints = new Int32Array(memory, headerBytes);
    this.#floats = new Float64Array(memory, headerBytes);
    this.#bytes = new Uint8Array(memory, headerBytes);
    this.#capacity = this.#bytes.length / cellBytes;
    this.#mask = this.#capacity - 1;
    this.#forEvents = this.#capacity - Math.min(recordingLimits.stepSpareCellsMax, this.#capacity / 4);
  }

  /** Whether `cells` more cells fit beside those kept for ends and steps. */
  hasRoom(cells: number): boolean {
    if (((this.#staged - this.#readSeen) | 0) + this.#kept + cells <= this.#forEvents) return true;
    return this.#hasRoomNow(cells + this.#capacity - this.#forEvents);
  }

  /** The same for a step mark, which may use the spare cells. */
  hasRoomForStep(): boolean {
    return this.#hasRoomNow(1);
  }

  hasRoomForText(bytes: number): boolean {
    return this.hasRoom(1 + textCells(bytes));
  }

  /** Whether ends to come have half of the ring: promises that never settle would in the end have all of it. */
  get isHalfKept(): boolean {
    return 2 * this.#kept >= this.#capacity;
  }

  /** Reserves one cell for a later end. */
  keep(): void {
    this.#kept++;
  }

  /** Releases the reserved cell, right before the end is written into it. */
  useKept(): void {
    this.#kept--;
  }

  /** Writes one cell, visible after `publish`. The caller has checked for room. */
  put(kindAndExtra: number, name: number, time: number, a: number, b: number): void {
    const cell = this.#staged & this.#mask;
    this.#ints[cell << 3] = kindAndExtra;
    this.#ints[(cell << 3) + 1] = name;
    this.#floats[(cell << 2) + 1] = time;
    this.#floats[(cell << 2) + 2] = a;
    this.#floats[(cell << 2) + 3] = b;
    this.#staged = (this.#staged + 1) | 0;
  }

  /** Writes raw bytes into as many cells as needed. */
  putBytes(bytes: Uint8Array, length: number): void {
    for (let from = 0; from < length; from += cellBytes) {
      const cell = this.#staged & this.#mask;
      this.#bytes.set(bytes.subarray(from, Math.min(from + cellBytes, length)), cell * cellBytes);
      this.#staged = (this.#staged + 1) | 0;
    }
  }

  /**
   * Begins a span on the stack: checks for room, keeps a cell for its end and writes it, in one piece. The same as hasRoom, keep and put, which
   * cost the hot path a call each. False when dropped. Published at once, or with the next published record.
   */
  beginSpan(kindAndExtra: number, name: number, time: number, parent: number, publishes: boolean): boolean {
    const staged = this.#staged;
    if (!this.hasRoom(2)) {
      this.dropEvent();
      return false;
    }
    this.#kept++;
    const cell = staged & this.#mask;
    const ints = this.#ints;
    const floats = this.#floats;
    ints[cell << 3] = kindAndExtra;
    ints[(cell << 3) + 1] = name;
    floats[(cell << 2) + 1] = time;
    floats[(cell << 2) + 2] = 0;
    floats[(cell << 2) + 3] = parent;
    this.#staged = (staged + 1) | 0;
    if (publishes) Atomics.store(this.#header, word.write, this.#staged);
    return true;
  }

  /** Ends the innermost span on the stack, in the cell kept by its begin. */
  endSpan(time: number): void {
    this.#kept--;
    const staged = this.#staged;
    const cell = staged & this.#mask;
    this.#ints[cell << 3] = recordKind.end;
    this.#floats[(cell << 2) + 1] = time;
    this.#staged = (staged + 1) | 0;
    Atomics.store(this.#header, word.write, this.#staged);
  }

  /** The same for a span that an error ended. Calls nothing of ours: where the stack overflows, it does all or nothing. */
  endFailed(time: number): void {
    const cell = this.#staged & this.#mask;
    this.#ints[cell << 3] = recordKind.end | (1 << 8);
    this.#floats[(cell << 2) + 1] = time;
    this.#kept--;
    this.#staged = (this.#staged + 1) | 0;
    Atomics.store(this.#header, word.write, this.#staged);
  }

  /** The same for an op (`recordKind.opEnd`). */
  endOp(time: number, signature: number, stackAndModule: number, sequence: number, allocated: number): void {
    this.#kept--;
    this.put(recordKind.opEnd | (signature << 8), stackAndModule, time, sequence, allocated);
    Atomics.store(this.#header, word.write, this.#staged);
  }

  /** Cells written so far, mod 2^32. */
  get staged(): number {
    return this.#staged;
  }

  /** Makes everything written so far visible to the worker. */
  publish(): void {
    Atomics.store(this.#header, word.write, this.#staged);
  }

  dropEvent(): void {
    Atomics.add(this.#header, word.droppedEvents, 1);
  }

  dropArgument(): void {
    Atomics.add(this.#header, word.droppedArguments, 1);
  }

  dropName(): void {
    Atomics.add(this.#header, word.droppedNames, 1);
  }

  /** Marks the end of the thread's records: once drained, the ring can go. */
  close(): void {
    this.publish();
    Atomics.store(this.#header, word.closed, 1);
  }

  #hasRoomNow(cells: number): boolean {
    this.#readSeen = Atomics.load(this.#header, word.read);
    return ((this.#staged - this.#readSeen) | 0) + this.#kept + cells <= this.#capacity;
  }
}

/** The worker's side: the accessors read the cell at the cursor, `next` moves it, `release` gives the cells back. */
export class RingReader {
  readonly #header: Int32Array;
  readonly #ints: Int32Array;
  readonly #floats: Float64Array;
  readonly #bytes: Uint8Array;
  readonly #mask: number;
  #read: number;
  #write = 0;
  #cell = 0;

  constructor(memory: SharedArrayBuffer) {
    this.#header = new Int32Array(memory, 0, headerBytes / 4);
    this.#ints = new Int32Array(memory, headerBytes);
    this.#floats = new Float64Array(memory, headerBytes);
    this.#bytes = new Uint8Array(memory, headerBytes);
    this.#mask = this.#bytes.length / cellBytes - 1;
    this.#read = Atomics.load(this.#header, word.read);
  }

  /** True only on the first call for a ring: a thread may announce itself again after its ring was read to the end and dropped. */
  claim(): boolean {
    return Atomics.exchange(this.#header, word.claimed, 1) === 0;
  }

  /** Reads the write position; true when there is something to read. */
  refresh(): boolean {
    this.#write = Atomics.load(this.#header, word.write);
    this.#cell = this.#read & this.#mask;
    return this.#read !== this.#write;
  }

  /** Share of the ring that is published and not read, at the last `refresh`: 0 … 1. */
  get fill(): number {
    return ((this.#write - this.#read) | 0) / (this.#mask + 1);
  }

  /** Whether everything seen by `refresh` has been read. */
  get done(): boolean {
    return this.#read === this.#write;
  }

  get kind(): number {
    return (this.#ints[this.#cell << 3] as number) & 0xff;
  }
  get extra(): number {
    return (this.#ints[this.#cell << 3] as number) >>> 8;
  }
  get name(): number {
    return this.#ints[(this.#cell << 3) + 1] as number;
  }
  get time(): number {
    return this.#floats[(this.#cell << 2) + 1] as number;
  }
  get a(): number {
    return this.#floats[(this.#cell << 2) + 2] as number;
  }
  get b(): number {
    return this.#floats[(this.#cell << 2) + 3] as number;
  }
  /** First two f64 of a cell without a header (the second cell of a collective). */
  get first(): number {
    return this.#floats[this.#cell << 2] as number;
  }
  get second(): number {
    return this.#floats[(this.#cell << 2) + 1] as number;
  }

  next(): void {
    this.#read = (this.#read + 1) | 0;
    this.#cell = this.#read & this.#mask;
  }

  /** Copies the `length` bytes that lie in the cells from the cursor on, and moves past them. */
  takeBytes(length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let to = 0; to < length; to += cellBytes) {
      const from = this.#cell * cellBytes;
      bytes.set(this.#bytes.subarray(from, from + Math.min(cellBytes, length - to)), to);
      this.next();
    }
    return bytes;
  }

  /** Gives the cells before the cursor back to the recorder. */
  release(): void {
    Atomics.store(this.#header, word.read, this.#read);
  }

  /** Cumulative, mod 2^32. */
  get dropped(): RingDrops {
    return {
      events: Atomics.load(this.#header, word.droppedEvents) >>> 0,
      arguments: Atomics.load(this.#header, word.droppedArguments) >>> 0,
      names: Atomics.load(this.#header, word.droppedNames) >>> 0,
    };
  }

  get closed(): boolean {
    return Atomics.load(this.#header, word.closed) === 1;
  }
}
