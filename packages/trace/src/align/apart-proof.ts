// Proof of how far apart two hosts' clocks are, by what their ranks did together: collectives and calls between a host and one other, the hub.
//
//   pings       how far each clock is from the reference: nothing is known where the aggregator was away
//   the hub     no message arrives before it was sent, no rank leaves a collective before all are in: limits of offset[host] − offset[hub]
//
//   cell        ── 0.5 s ──│── 0.5 s ──│── 0.5 s ──       the tightest limit of each direction
//   at time t       before ──► weakens by ρ ──► t ◄── by ρ ◄── after       the wider of the two: an unnoticed step is on one side of t
//
// Both of two hosts' distances to the hub are proven, so their sum is proven for the two.
//
// Invariant: memory is bounded: when `apartLimitsMax` limits are held, cells become twice as long, and limits weaken by as much more.

import { countBelow } from '../model/count-below.ts';
import { limits } from '../model/limits.ts';
import type { OffsetLimits } from './offset-envelope.ts';

const firstCellNs = 0.5e9;

/** The tightest limits between each host and the hub, by cell. */
export class ApartEvidence {
  readonly hub: number;
  readonly #hosts: number;
  readonly #cellsMax: number;
  #cellNs = firstCellNs;
  /** By cell number: for each host the most by which correction[host] − correction[hub] must be, and the same of hub − host. */
  #cells = new Map<number, Float64Array>();

  constructor(hosts: number, hub: number) {
    this.hub = hub;
    this.#hosts = hosts;
    this.#cellsMax = Math.max(2, Math.floor(limits.apartLimitsMax / (2 * hosts)));
  }

  get cellNs(): number {
    return this.#cellNs;
  }

  /** Numbers of the cells with evidence, ascending; cell c is about the time (c + ½) · `cellNs` of the axis. */
  get cells(): Float64Array {
    return Float64Array.from(this.#cells.keys()).sort();
  }

  /** Something at `sent` on host `from` came before something at `received` on host `to`, ns on the axis. Counts if one of them is the hub. */
  add(from: number, sent: number, to: number, received: number): void {
    const isToHub = to === this.hub;
    // One that was on its way for longer belongs to no single cell, and leaves too much open to be missed.
    if (isToHub === (from === this.hub) || Math.abs(sent - received) > firstCellNs / 2) return;
    const cell = this.#cellAt(Math.floor(sent / this.#cellNs));
    const place = isToHub ? 2 * from + 1 : 2 * to;
    cell[place] = Math.max(cell[place] as number, sent - received);
  }

  /** By cell: the least that correction[host] − correction[hub] is, and the most; infinite where unknown. */
  of(host: number, cell: number): OffsetLimits {
    const values = this.#cells.get(cell);
    return values === undefined
      ? { lower: Number.NEGATIVE_INFINITY, upper: Number.POSITIVE_INFINITY }
      : { lower: values[2 * host] as number, upper: -(values[2 * host + 1] as number) };
  }

  #cellAt(number: number): Float64Array {
    let cell = this.#cells.get(number);
    if (cell === undefined) {
      cell = new Float64Array(2 * this.#hosts).fill(Number.NEGATIVE_INFINITY);
      this.#cells.set(number, cell);
      if (this.#cells.size > this.#cellsMax) {
        this.#halve();
        return this.#cellAt(Math.floor(number / 2));
      }
    }
    return cell;
  }

  #halve(): void {
    const halved = new Map<number, Float64Array>();
    for (const [number, values] of this.#cells) {
      const into = halved.get(Math.floor(number / 2));
      if (into === undefined) halved.set(Math.floor(number / 2), values);
      else for (const [place, value] of values.entries()) into[place] = Math.max(into[place] as number, value);
    }
    this.#cells = halved;
    this.#cellNs *= 2;
  }
}

/** A clock by its own evidence, which the axis of the evidence was made with. */
export interface AxisClock {
  /** Its time at a time of the axis, ns. */
  toHost(time: number): number;
  /** The largest change of its offset between two times of the axis, ns. */
  wiggle(from: number, until: number): number;
  /** How far it may be off at a time of the axis, ± ns. */
  boundAt(time: number): number;
  /** ρ, ns per ns. */
  readonly drift: number;
  /** Whether it may have stepped between two times of the axis. */
  mayStep(from: number, until: number): boolean;
}

const unknown: OffsetLimits = { lower: Number.NEGATIVE_INFINITY, upper: Number.POSITIVE_INFINITY };

/** Limits of offset[host] − offset[hub] at any time. */
export class ApartProof {
  readonly #clocks: readonly AxisClock[];
  readonly #drift: number;
  readonly #halfCell: number;
  /** Middles of the cells with evidence, ns on the axis, and the tightest limits there: by these cells and those before, and by these and those after. */
  readonly #times: Float64Array;
  readonly #before: readonly OffsetLimits[];
  readonly #after: readonly OffsetLimits[];

  constructor(evidence: ApartEvidence, host: number, clock: AxisClock, hub: AxisClock) {
    const { cellNs } = evidence;
    this.#clocks = [clock, hub];
    this.#drift = clock.drift + hub.drift;
    this.#halfCell = cellNs / 2;
    const cells = evidence.cells.filter((cell) => {
      const { lower, upper } = evidence.of(host, cell);
      return lower > unknown.lower || upper < unknown.upper;
    });
    this.#times = cells.map((cell) => (cell + 0.5) * cellNs);
    const own = Array.from(cells, (cell, place) => {
      const time = this.#times[place] as number;
      // A message counts to the cell that it was sent in; it was received half a cell later at most.
      const [from, until] = [time - cellNs, time + cellNs];
      const { lower, upper } = evidence.of(host, cell);
      // On the axis the clocks' own offsets are taken off already.
      const offset = hub.toHost(time) - clock.toHost(time);
      // One time of the axis is that of both clocks to within their bounds; in these each drifts, and its model does.
      const early = 2 * this.#drift * (clock.boundAt(time) + hub.boundAt(time));
      const weaker = clock.wiggle(from, until) + hub.wiggle(from, until) + this.#drift * cellNs + early;
      return this.#maySteps(from, until) ? unknown : { lower: lower + offset - weaker, upper: upper + offset + weaker };
    });
    this.#before = this.#carried(own, 1);
    this.#after = this.#carried(own, -1);
  }

  /** At a time of the axis, ns. */
  at(time: number): OffsetLimits {
    const isBefore = (place: number): boolean => (this.#times[place] as number) < time - this.#halfCell;
    const isNotAfter = (place: number): boolean => (this.#times[place] as number) <= time + this.#halfCell;
    const before = countBelow(this.#times.length, isBefore) - 1;
    const after = countBelow(this.#times.length, isNotAfter);
    const [one, other] = [this.#weakened(this.#before, before, time), this.#weakened(this.#after, after, time)];
    if (before < 0) return other;
    if (after === this.#times.length) return one;
    return { lower: Math.min(one.lower, other.lower), upper: Math.max(one.upper, other.upper) };
  }

  /** Limits of the cell in `place`, as they hold at `time`. */
  #weakened(limits: readonly OffsetLimits[], place: number, time: number): OffsetLimits {
    const known = limits[place];
    const at = this.#times[place];
    if (known === undefined || at === undefined || this.#maySteps(Math.min(at, time), Math.max(at, time))) return unknown;
    const weaker = this.#drift * Math.abs(time - at);
    return { lower: known.lower - weaker, upper: known.upper + weaker };
  }

  /** Carries limits from cell to cell, `way` in time. Where they contradict each other, or a clock may have stepped, they begin anew. */
  #carried(limits: readonly OffsetLimits[], way: 1 | -1): readonly OffsetLimits[] {
    const carried: OffsetLimits[] = limits.map(() => unknown);
    for (let place = way === 1 ? 0 : limits.length - 1; place >= 0 && place < limits.length; place += way) {
      const own = limits[place] as OffsetLimits;
      const known = this.#weakened(carried, place - way, this.#times[place] as number);
      const both = { lower: Math.max(own.lower, known.lower), upper: Math.min(own.upper, known.upper) };
      if (both.lower <= both.upper) carried[place] = both;
    }
    return carried;
  }

  #maySteps(from: number, until: number): boolean {
    return this.#clocks.some((clock) => clock.mayStep(from, until));
  }
}
