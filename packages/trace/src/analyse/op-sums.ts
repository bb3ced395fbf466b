// Ops of the host by name, and the memory that spans allocated: sums over a whole run, while its events come.
//
//   thread   A ─────────────────     self(A) = A − B − C
//              B ───── [memory] C ──  the allocation is B's, the innermost span around it
//
// Lanes nest properly, so one stack a lane is enough; asynchronous spans that overlap others have lanes of their own. A span that is open over several
// batches counts when it ends. Where a run has ops, other spans are left out of its operators; else all spans count.
//
// Invariant: memory is bounded by the limits below, whatever the run holds; sums beyond them are counted in `rest`.

import { memoryDevice } from '../model/memory-device.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { analyseLimits as limits } from './analyse-limits.ts';
import { HeldMemory, memoryPlace } from './held-memory.ts';

export interface OpSum {
  readonly name: string;
  readonly isOp: boolean;
  readonly calls: number;
  readonly total: number;
  readonly self: number;
  readonly longest: number;
  readonly longestAt: number;
}

export interface AllocationSum {
  readonly name: string;
  readonly device: string;
  allocations: number;
  bytes: number;
  largest: number;
  largestAt: number;
}

/** Memory of one device. */
export interface MemorySum {
  readonly device: string;
  allocations: number;
  peak: number;
  peakAt: number;
  /** Bytes allocated less those freed since the recording began: what there is where the allocator's total is not recorded. */
  net: number;
  reserved: number;
  readonly curve: PeakCurve;
  readonly held: HeldMemory;
}

export interface RankOps {
  readonly process: TraceProcess;
  readonly ops: ReadonlyMap<string, OpSum>;
  /** Calls and time of their own of ops beyond the limit. */
  readonly rest: { readonly calls: number; readonly self: number };
  readonly memory: ReadonlyMap<string, MemorySum>;
  readonly allocators: ReadonlyMap<string, AllocationSum>;
}

/** The greatest value of each stretch of time, in at most so many stretches of equal length, which double where time goes on. */
export class PeakCurve {
  #from = Number.NaN;
  #width = 1;
  #peaks: number[] = [];

  /** Values come in order of time, nearly. */
  add(time: number, value: number): void {
    if (!Number.isFinite(time)) return;
    if (Number.isNaN(this.#from)) this.#from = time;
    let at = Math.max(0, Math.floor((time - this.#from) / this.#width));
    while (at >= limits.memoryCurvePointsMax) {
      this.#peaks = Array.from({ length: Math.ceil(this.#peaks.length / 2) }, (_, pair) =>
        Math.max(this.#peaks[2 * pair] ?? -1, this.#peaks[2 * pair + 1] ?? -1),
      );
      this.#width *= 2;
      at = Math.floor((time - this.#from) / this.#width);
    }
    while (this.#peaks.length <= at) this.#peaks.push(-1);
    this.#peaks[at] = Math.max(this.#peaks[at] as number, value);
  }

  /** (start of a stretch, greatest value); stretches without a value have none. */
  get points(): readonly (readonly [number, number])[] {
    return this.#peaks.flatMap((peak, at): (readonly [number, number])[] => (peak < 0 ? [] : [[this.#from + at * this.#width, peak]]));
  }
}

/** Categories that Kineto and our own hooks give to ops. */
const opCategories: ReadonlySet<string> = new Set(['cpu_op', 'op', 'Operator']);
/** Spans that surround ops without being any: Python's frames, and driver calls. */
const otherCategories: ReadonlySet<string> = new Set(['python_function', 'cuda_runtime', 'cuda_driver', 'Runtime', 'Python', 'gc']);

/** Columns of an op's sums; one op's lie together, since events of many ranks take turns. */
const field = { calls: 0, total: 1, self: 2, longest: 3, longestAt: 4 } as const;
const fields = 5;

class Rank implements RankOps {
  readonly process: TraceProcess;
  readonly memory = new Map<string, MemorySum>();
  readonly allocators = new Map<string, AllocationSum>();
  readonly rest = { calls: 0, self: 0 };
  /** By name: the op's number, in order of first appearance. */
  readonly #rows = new Map<string, number>();
  readonly #isOp: boolean[] = [];
  #sums = new Float64Array(64 * fields);

  constructor(process: TraceProcess) {
    this.process = process;
  }

  /** The op's number, -1 beyond the limit. */
  row(name: string, isOp: boolean): number {
    const row = this.#rows.get(name) ?? this.#addRow(name);
    if (row >= 0 && isOp) this.#isOp[row] = true;
    return row;
  }

  /** Adds a call. */
  add(row: number, start: number, length: number): void {
    if (row < 0) {
      this.rest.calls++;
      this.rest.self += length;
      return;
    }
    const sums = this.#sums;
    const at = row * fields;
    sums[at + field.calls] = (sums[at + field.calls] as number) + 1;
    sums[at + field.total] = (sums[at + field.total] as number) + length;
    sums[at + field.self] = (sums[at + field.self] as number) + length;
    if (length > (sums[at + field.longest] as number)) {
      sums[at + field.longest] = length;
      sums[at + field.longestAt] = start;
    }
  }

  /** Takes the time of a call inside of it from an op's own. */
  inside(row: number, length: number): void {
    if (row < 0) {
      this.rest.self -= length;
      return;
    }
    const at = row * fields + field.self;
    this.#sums[at] = (this.#sums[at] as number) - length;
  }

  get ops(): ReadonlyMap<string, OpSum> {
    const sums = [...this.#rows].map(([name, row]) => [name, this.#sumOf(name, row)] as const);
    return new Map(sums.filter(([, { calls }]) => calls > 0));
  }

  #sumOf(name: string, row: number): OpSum {
    const value = (of: keyof typeof field): number => this.#sums[row * fields + field[of]] as number;
    const [calls, total, self, longest, longestAt] = [value('calls'), value('total'), value('self'), value('longest'), value('longestAt')];
    return { name, isOp: this.#isOp[row] as boolean, calls, total, self, longest, longestAt };
  }

  #addRow(name: string): number {
    const row = this.#rows.size;
    if (row >= limits.opNamesPerRankMax) return -1;
    this.#rows.set(name, row);
    this.#isOp.push(false);
    if ((row + 1) * fields > this.#sums.length) {
      const wider = new Float64Array(2 * this.#sums.length);
      wider.set(this.#sums);
      this.#sums = wider;
    }
    this.#sums[row * fields + field.longest] = -1;
    return row;
  }
}

/** A lane's open spans, outermost first. The arrays keep their length: taking a value out would give memory back, to be asked for again. */
class Stack {
  readonly rank: Rank | undefined;
  depth = 0;
  /** By depth: the span's begin, its end (Infinity until it is known) and the time of spans inside of it so far, … */
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #insides: number[] = [];
  /** … the number of its op (-1 for one beyond the limit) and its name. */
  readonly #rows: number[] = [];
  readonly #names: string[] = [];

  constructor(rank: Rank | undefined) {
    this.rank = rank;
  }

  /** Names of the open spans; '' for one beyond the limit. */
  get names(): string[] {
    return this.#names.slice(0, this.depth).map((name, depth) => ((this.#rows[depth] as number) < 0 ? '' : name));
  }

  /** A span of the given length lies directly inside of the innermost open one. */
  inside(length: number): void {
    const at = this.depth - 1;
    if (at < 0) return;
    // A span that never ends has no time of its own, so nothing is taken from it yet.
    if (this.#ends[at] === Number.POSITIVE_INFINITY) this.#insides[at] = (this.#insides[at] as number) + length;
    else this.rank?.inside(this.#rows[at] as number, length);
  }

  /** Deeper spans than the limit are left out. */
  push(start: number, end: number, row: number, name: string): void {
    if (this.depth >= limits.opDepthMax) return;
    this.#starts[this.depth] = start;
    this.#ends[this.depth] = end;
    this.#insides[this.depth] = 0;
    this.#rows[this.depth] = row;
    this.#names[this.depth++] = name;
  }

  /** Ends the span that began at `start` without an end; one whose begin did not come counts nowhere. */
  close(start: number, length: number, name: string): void {
    for (let at = this.depth - 1; at >= 0; at--) {
      if (this.#ends[at] !== Number.POSITIVE_INFINITY || this.#starts[at] !== start || this.#names[at] !== name) continue;
      const row = this.#rows[at] as number;
      this.rank?.add(row, start, length);
      this.rank?.inside(row, this.#insides[at] as number);
      this.depth = at;
      this.inside(length);
      return;
    }
  }

  /** Takes out what has ended by `time`. */
  leave(time: number): void {
    while (this.depth > 0 && (this.#ends[this.depth - 1] as number) <= time) this.depth--;
  }
}

export class OpSumsSink implements TraceSink {
  readonly #ranks = new Map<number, Rank>();
  /** By lane index. */
  readonly #stacks: (Stack | undefined)[] = [];

  begin({ processes }: TraceHeader): void {
    for (const process of processes) this.#ranks.set(process.index, new Rank(process));
  }

  lane(lane: TraceLane): void {
    while (this.#stacks.length <= lane.index) this.#stacks.push(undefined);
    this.#stacks[lane.index] ??= new Stack(this.#ranks.get(lane.process.index));
  }

  event(event: TraceEvent): void {
    if (event.kind === 'instant') {
      if (event.name === '[memory]') this.#memory(event);
      else if (event.name === '[memory category]') this.#state(event);
      return;
    }
    const { lane, category, state, name, start, length } = event;
    if (event.kind !== 'span' || lane.kind !== 'thread' || otherCategories.has(category)) return;
    const stack = this.#stackAt(lane, state === 'close' ? start + length : start);
    const { rank } = stack;
    if (rank === undefined) return;
    if (state === 'close') {
      stack.close(start, length, name);
      return;
    }
    const row = rank.row(name, opCategories.has(category));
    if (state === 'whole') {
      rank.add(row, start, length);
      stack.inside(length);
    }
    stack.push(start, state === 'whole' ? start + length : Number.POSITIVE_INFINITY, row, name);
  }

  endStretch(): void {}

  end(): void {}

  /** Processes in order of rank. */
  get ranks(): readonly RankOps[] {
    return [...this.#ranks.values()].sort((a, b) => a.process.rank - b.process.rank);
  }

  /** Open spans of a lane at `time`. */
  #stackAt(lane: TraceLane, time: number): Stack {
    const stack = this.#stacks[lane.index] as Stack;
    stack.leave(time);
    return stack;
  }

  #state(event: TraceEvent): void {
    const category = event.arguments?.get('category');
    const held = this.#ranks.get(event.lane.process.index)?.memory.get(memoryDevice(event))?.held;
    if (typeof category === 'string') held?.state(numberOf(event, 'Addr'), category);
  }

  #memory(event: TraceEvent): void {
    const { lane, start } = event;
    const rank = this.#ranks.get(lane.process.index);
    const [bytes, allocated, reserved, address] = ['Bytes', 'Total Allocated', 'Total Reserved', 'Addr'].map((key) => numberOf(event, key));
    const device = memoryDevice(event);
    if (rank === undefined) return;
    let of = rank.memory.get(device);
    if (of === undefined) {
      if (rank.memory.size >= limits.memoryDevicesPerRankMax) return;
      of = { device, allocations: 0, peak: 0, peakAt: start, net: 0, reserved: 0, curve: new PeakCurve(), held: new HeldMemory() };
      rank.memory.set(device, of);
    }
    const known = this.#stackAt(lane, start).names;
    const place = memoryPlace(known);
    if ((bytes as number) > 0) {
      const name = known.at(-1) ?? '';
      addAllocation(rank, name, start, device, bytes as number);
      of.held.allocate(address as number, bytes as number, name, place);
      of.allocations++;
    } else of.held.free(address as number, place);
    of.reserved = Math.max(of.reserved, reserved as number);
    of.net += bytes as number;
    const held = (allocated as number) > 0 ? (allocated as number) : Math.max(0, of.net);
    of.curve.add(start, held);
    if (held <= of.peak) return;
    of.peak = held;
    of.peakAt = start;
    of.held.peak(held);
  }
}

function numberOf({ arguments: given }: TraceEvent, key: string): number {
  const value = given?.get(key);
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function addAllocation(rank: Rank, name: string, time: number, device: string, bytes: number): void {
  const key = `${device} ${name}`;
  let sum = rank.allocators.get(key);
  if (sum === undefined) {
    if (rank.allocators.size >= limits.opNamesPerRankMax) return;
    sum = { name, device, allocations: 0, bytes: 0, largest: 0, largestAt: time };
    rank.allocators.set(key, sum);
  }
  sum.allocations++;
  sum.bytes += bytes;
  if (bytes <= sum.largest) return;
  sum.largest = bytes;
  sum.largestAt = time;
}
