// Time of a packet of a Perfetto trace, on the trace's one axis. Our own traces have one clock, BOOTTIME. Others have more:
//
//   MONOTONIC, REALTIME, …   were read together with BOOTTIME in a clock snapshot: they differ by a constant
//   64 … 127                 clocks of one sequence: a constant too, or the difference to the packet before (`incremental`)
//   128 …                    custom clocks of the whole trace: like those of the first line
//
// A clock of the whole trace that no snapshot pairs with BOOTTIME is taken to equal it; before its first snapshot, what that says counts. The time of a
// sequence's clock is not known before a snapshot of that sequence. REALTIME is right to 256 ns: it does not fit a double.

import { clock as clockField, clockId, clockSnapshot } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import type { PacketPart } from './perfetto-packets.ts';
import { lengthTag, varintTag, type Wire } from './perfetto-wire.ts';

/** Fields that our writer does not use. */
const incremental = 3;
const multiplier = 4;

const two32 = 2 ** 32;
/** Whether a clock belongs to one sequence. */
export const isOfSequence = (id: number): boolean => id >= 64 && id < 128;
/** Most clocks of the whole trace that are kept. */
const offsetsMax = 256;

export interface SequenceClock {
  readonly isIncremental: boolean;
  /** ns per unit. */
  readonly unit: number;
  /** ns of the axis at 0; for an incremental clock, the current time. */
  at: number;
}

/** One clock reading of a snapshot. */
interface Reading {
  readonly id: number;
  readonly low: number;
  readonly high: number;
  readonly isIncremental: boolean;
  readonly unit: number;
}

export class PerfettoClocks {
  #originLow = 0;
  #originHigh = 0;
  /** ns from a clock's time to BOOTTIME's, by id. */
  readonly #offsets: Map<number, number>;
  /** The first of these of each clock. */
  readonly firstOffsets = new Map<number, number>();

  /** `offsets`: those before the first snapshots. */
  constructor(offsets: ReadonlyMap<number, number> = new Map()) {
    this.#offsets = new Map(offsets);
  }

  /** Sets 0 of the axis, as a time of BOOTTIME. */
  setOrigin(origin: bigint): void {
    this.#originLow = Number(origin & 0xffff_ffffn);
    this.#originHigh = Number(origin >> 32n);
  }

  /** Takes a snapshot. `clocks`: those of its sequence. */
  snapshot(wire: Wire, part: PacketPart, clocks: Map<number, SequenceClock>): void {
    const readings = readSnapshot(wire, part);
    const reference = referenceOf(readings);
    if (reference === undefined) return;
    const now = this.#relative(reference.low, reference.high) + (this.#offsets.get(reference.id) ?? 0);
    for (const { id, low, high, isIncremental, unit } of readings) {
      if (isOfSequence(id)) clocks.set(id, { isIncremental, unit, at: isIncremental ? now : now - (high * two32 + low) * unit });
      else if (id !== clockId.boottime && (this.#offsets.size < offsetsMax || this.#offsets.has(id))) {
        const offset = now - this.#relative(low, high);
        this.#offsets.set(id, offset);
        if (!this.firstOffsets.has(id)) this.firstOffsets.set(id, offset);
      }
    }
  }

  /** ns of the axis at a time of clock `id` (0: BOOTTIME); NaN where it is not known. */
  time(low: number, high: number, id: number, clocks: Map<number, SequenceClock>): number {
    if (!isOfSequence(id)) {
      const time = this.#relative(low, high);
      return id === 0 || id === clockId.boottime ? time : time + (this.#offsets.get(id) ?? 0);
    }
    const clock = clocks.get(id);
    if (clock === undefined) return Number.NaN;
    const length = (high * two32 + low) * clock.unit;
    if (!clock.isIncremental) return clock.at + length;
    clock.at += length;
    return clock.at;
  }

  #relative(low: number, high: number): number {
    return (high - this.#originHigh) * two32 + (low - this.#originLow);
  }
}

/** BOOTTIME where the snapshot has it, else any other clock that does not belong to one sequence. */
function referenceOf(readings: readonly Reading[]): Reading | undefined {
  return readings.find(({ id }) => id === clockId.boottime) ?? readings.find(({ id }) => id > 0 && id < 64);
}

/** BOOTTIME of a snapshot, and the Unix time read with it, ns. */
export function snapshotTimes(wire: Wire, part: PacketPart): { readonly boottime?: bigint; readonly unix?: bigint } {
  const readings = readSnapshot(wire, part);
  const [boot, unix] = [referenceOf(readings), readings.find(({ id }) => id === clockId.realtime)];
  return { ...(boot === undefined ? {} : { boottime: wholeOf(boot) }), ...(unix === undefined ? {} : { unix: wholeOf(unix) }) };
}

const wholeOf = ({ low, high }: Reading): bigint => (BigInt(high) << 32n) | BigInt(low);

function readSnapshot(wire: Wire, { at, end }: PacketPart): Reading[] {
  const readings: Reading[] = [];
  wire.at = at;
  for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
    if (tag !== lengthTag(clockSnapshot.clocks)) {
      wire.skip(tag, end);
      continue;
    }
    if (readings.length >= limits.perfettoSnapshotClocksMax) {
      throw wire.broken(`a clock snapshot has more than ${limits.perfettoSnapshotClocksMax} clocks`, 'too_large');
    }
    const until = wire.nested(end);
    const reading = { id: 0, low: 0, high: 0, isIncremental: false, unit: 1 };
    for (let inner = wire.next(until); inner !== 0; inner = wire.next(until)) {
      if (inner === varintTag(clockField.id)) reading.id = wire.varint();
      else if (inner === varintTag(clockField.timestamp)) {
        wire.varint();
        reading.low = wire.low;
        reading.high = wire.high;
      } else if (inner === varintTag(incremental)) reading.isIncremental = wire.bool();
      else if (inner === varintTag(multiplier)) reading.unit = Math.max(1, wire.varint());
      else wire.skip(inner, until);
    }
    readings.push(reading);
  }
  return readings;
}
