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

/** Cell c is about the time (c + ½) · `cellNs` of the axis. Later evidence may tighten its limits. */
export interface HeldEvidence {
  readonly cellNs: number;
  /** Numbers of the cells, ascending. */
  readonly numbers: Float64Array;
  /** For each host the least that correction[host] − correction[hub] can be, ns, then the same of hub − host; −∞ where nothing tells. */
  readonly cells: ReadonlyMap<number, Float64Array>;
}

/** The tightest limits between each host and the hub, by cell. */
export class ApartEvidence {
  readonly hub: number;
  readonly #hosts: number;
  readonly #cellsMax: number;
  #cellNs = firstCellNs;
  #cells = new Map<number, Float64Array>();
  #numbers: Float64Array | undefined;

  constructor(hosts: number, hub: number) {
    this.hub = hub;
    this.#hosts = hosts;
    this.#cellsMax = Math.max(2, Math.floor(limits.apartLimitsMax / (2 * hosts)));
  }

  /** The evidence so far. */
  get held(): HeldEvidence {
    this.#numbers ??= Float64Array.from(this.#cells.keys()).sort();
    return { cellNs: this.#cellNs, numbers: this.#numbers, cells: this.#cells };
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

  #cellAt(number: number): Float64Array {
    let cell = this.#cells.get(number);
    if (cell === undefined) {
      cell = new Float64Array(2 * this.#hosts).fill(Number.NEGATIVE_INFINITY);
      this.#cells.set(number, cell);
      this.#numbers = undefined;
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
      // A copy: a proof may rest on the cells as they were.
      if (into === undefined) halved.set(Math.floor(number / 2), values.slice());
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

const widest = (a: OffsetLimits, b: OffsetLimits): OffsetLimits => ({
  lower: Math.min(a.lower, b.lower),
  upper: Math.max(a.upper, b.upper),
});
const unknown: OffsetLimits = { lower: Number.NEGATIVE_INFINITY, upper: Number.POSITIVE_INFINITY };
/** Cells with evidence over which limits are carried: 16 s, after which they are 1.6 ms weaker. */
const carriedMax = 32;

/** Limits of offset[host] − offset[hub] at any time: worked out where they are asked for, and kept. */
export class ApartProof {
  readonly #held: HeldEvidence;
  readonly #host: number;
  readonly #clock: AxisClock;
  readonly #hub: AxisClock;
  readonly #drift: number;
  readonly #cellNs: number;
  /** Numbers of the cells with evidence of the host. */
  readonly #numbers: Float64Array;
  /** By place in `#numbers`: its own limits, and the tightest by it and those before, or after. */
  readonly #own: OffsetLimits[] = [];
  readonly #before: OffsetLimits[] = [];
  readonly #after: OffsetLimits[] = [];

  constructor(evidence: ApartEvidence, host: number, clock: AxisClock, hub: AxisClock) {
    this.#held = evidence.held;
    this.#host = host;
    this.#clock = clock;
    this.#hub = hub;
    this.#drift = clock.drift + hub.drift;
    this.#cellNs = this.#held.cellNs;
    this.#numbers = this.#held.numbers.filter((number) => {
      const { lower, upper } = this.#seen(number);
      return lower > unknown.lower || upper < unknown.upper;
    });
  }

  /** At a time of the axis, ns. */
  at(time: number): OffsetLimits {
    const { length } = this.#numbers;
    const before = countBelow(length, (place) => this.#timeOf(place) < time - this.#cellNs / 2) - 1;
    const after = countBelow(length, (place) => this.#timeOf(place) <= time + this.#cellNs / 2);
    if (before < 0 && after === length) return unknown;
    if (before < 0) return this.#sideAt(this.#after, after, 1, time);
    if (after === length) return this.#sideAt(this.#before, before, -1, time);
    const [one, other] = [this.#sideAt(this.#before, before, -1, time), this.#sideAt(this.#after, after, 1, time)];
    return widest(one, other);
  }

  /** Limits that hold at every whole ns between two times of the axis. */
  within(from: number, until: number): OffsetLimits {
    let within = widest(this.at(from), this.at(until));
    for (let edge = Math.ceil(from / this.#cellNs) * this.#cellNs; edge <= until; edge += this.#cellNs) {
      // Between edges all limits are linear, and at an edge others begin to count.
      for (const time of [edge - 1, edge, edge + 1]) if (time >= from && time <= until) within = widest(within, this.at(time));
    }
    return within;
  }

  /** Limits of correction[host] − correction[hub] in a cell. */
  #seen(number: number): OffsetLimits {
    const values = this.#held.cells.get(number) as Float64Array;
    return { lower: values[2 * this.#host] as number, upper: -(values[2 * this.#host + 1] as number) };
  }

  /** The middle of a cell, ns on the axis. */
  #timeOf(place: number): number {
    return ((this.#numbers[place] as number) + 0.5) * this.#cellNs;
  }

  /** At `time`, by the cell in `place` and those beyond it, `way` in time. */
  #sideAt(side: OffsetLimits[], place: number, way: 1 | -1, time: number): OffsetLimits {
    side[place] ??= this.#carried(place, way);
    return this.#weakened(side[place], this.#timeOf(place), time);
  }

  /** Carries limits from cell to cell up to `place`. Where they contradict each other, or a clock may have stepped, they begin anew. */
  #carried(place: number, way: 1 | -1): OffsetLimits {
    const first = Math.max(0, Math.min(place + way * (carriedMax - 1), this.#numbers.length - 1));
    let known = unknown;
    for (let at = first; ; at -= way) {
      if (at !== first) known = this.#weakened(known, this.#timeOf(at + way), this.#timeOf(at));
      const own = this.#ownOf(at);
      known = { lower: Math.max(own.lower, known.lower), upper: Math.min(own.upper, known.upper) };
      if (known.lower > known.upper) known = unknown;
      if (at === place) return known;
    }
  }

  #ownOf(place: number): OffsetLimits {
    this.#own[place] ??= this.#workedOut(place);
    return this.#own[place];
  }

  #workedOut(place: number): OffsetLimits {
    const time = this.#timeOf(place);
    // A message counts to the cell that it was sent in; it was received half a cell later at most.
    const [from, until] = [time - this.#cellNs, time + this.#cellNs];
    if (this.#maySteps(from, until)) return unknown;
    const { lower, upper } = this.#seen(this.#numbers[place] as number);
    // On the axis the clocks' own offsets are taken off already.
    const offset = this.#hub.toHost(time) - this.#clock.toHost(time);
    // One time of the axis is that of both clocks to within their bounds; in these each drifts, and its model does.
    const early = 2 * this.#drift * (this.#clock.boundAt(time) + this.#hub.boundAt(time));
    const weaker = this.#clock.wiggle(from, until) + this.#hub.wiggle(from, until) + this.#drift * this.#cellNs + early;
    return { lower: lower + offset - weaker, upper: upper + offset + weaker };
  }

  /** Limits that hold at `from`, as they hold at `time`. */
  #weakened({ lower, upper }: OffsetLimits, from: number, time: number): OffsetLimits {
    if (this.#maySteps(Math.min(from, time), Math.max(from, time))) return unknown;
    const weaker = this.#drift * Math.abs(time - from);
    return { lower: lower - weaker, upper: upper + weaker };
  }

  #maySteps(from: number, until: number): boolean {
    return this.#clock.mayStep(from, until) || this.#hub.mayStep(from, until);
  }
}
