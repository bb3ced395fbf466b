// Tier 2: collectives and messages between ranks correct their clocks. Fed in order of time, on the axis of tier 1, it gives each
// host a correction per knot of a common grid, linear in between.
//
//   exit equality   the ranks of an all-reduce leave it together: if a host leaves later than the others (median over a knot), its
//                   clock is off by that; pings cannot see it (a path that is longer there than back)
//   both ways       messages from one host to another and back are a ping between them: the middle of what they leave open is likeliest
//   pings           the host's own clock is likely right, as far as its pings go; the three are fitted together, each by its spread
//   causality       no rank leaves before the last has entered, no message arrives before it was sent: correction[to] − correction[from]
//                   ≥ the missing time, at both knots around it, so that it holds between them, too
//   proof           the limits by pings; the reference's own clock stays as it is
//
// Invariant: a knot is solved once, when the stream has passed the next one, and depends on nothing later.
// Invariant: memory holds the corrections and, for the two or three open knots, `devsMax` exits per host and group and one
// constraint per pair of hosts that came close to violating it.

import { nanosPerSecond } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';
import { deviation, median, mediansOfOthers } from '../model/robust.ts';
import { ApartEvidence } from './apart-proof.ts';
import { fitValues, type Tie } from './fit-values.ts';
import { isExact } from './host-pings.ts';
import type { OffsetLimits } from './offset-envelope.ts';
import { PairMaxima } from './pair-maxima.ts';
import { axis, type Solution, solveConstraints } from './solve-constraints.ts';

export interface CoupledHosts {
  readonly count: number;
  /** The host with the clock that is the axis; `axis` when it has no ranks. */
  readonly reference: number;
  /** The host that all others are compared with, to prove how far apart they are. */
  readonly hub: number;
  /** Corrections that the proof allows a host at a time of the axis, ns. */
  limits(host: number, time: number): OffsetLimits;
  /** How far the host's own evidence may be off at a time of the axis, ± ns. It must not change with what comes long after that time. */
  spread(host: number, time: number): number;
  /** Times of the axis at which the host's clock stepped, in order, and ns by which it was set ahead, or back. */
  readonly steps?: (host: number) => readonly { readonly time: number; readonly jump: number }[];
}

/** Clocks with contradictory messages. */
export interface ClockConflict {
  /** ns on the axis: the knot. */
  readonly time: number;
  /** Hosts of the cycle. */
  readonly hosts: readonly number[];
  /** The most by which messages stay reversed there, ns. */
  readonly slack: number;
  /** Whether the cause is a clock step at a time not known exactly. */
  readonly isAtStep: boolean;
}

/** Distance between knots, ns. */
const knotNs = 10 * nanosPerSecond;
/** A host's reach is read once per this stretch of the axis, ns. */
const reachNs = nanosPerSecond / 2;
/** Safety margin of every constraint, ns: more than rounding and the two ends of a message between knots can take. */
const marginNs = 200;
/**
 * The time of a clock step is known to within the windows that found it. Evidence this near to a step counts only if it moves no clock by
 * more than `atStepMax` ns: otherwise it was on the other side.
 */
const stepReachNs = 4 * nanosPerSecond;
const atStepMax = 15_000;
/** Exits of a host in a group near a knot: the fewest that give a median; above the most, every second, fourth … is kept. */
const devsMin = 5;
const devsMax = 256;
const groupsMax = 64;

/** Whether a clock that was set ahead by `jump` ns at about `step` may have stepped between two times of the axis. */
export const isNearStep = (from: number, until: number, step: number, jump: number): boolean => {
  // A clock that was set back showed some times twice: half of that stretch is shown on either side of the cut, off by as much again.
  const reach = stepReachNs + 1.5 * Math.abs(jump);
  return step >= from - reach && step <= until + reach;
};

export class ClockCoupling {
  #hosts: CoupledHosts;
  readonly #open = new Map<number, Knot>();
  /** Solved knots: their numbers, ascending, and per host one correction each; linear from one to the next. */
  readonly #indexes: number[] = [];
  readonly #solved: Float32Array[] = [];
  /** By host: the latest correction that fits all evidence best, before causality and proof. */
  readonly #fitted: Float64Array;
  /** By host: the stretch for which its reach was read, and the reach. */
  readonly #reachPlace: Float64Array;
  readonly #reachOf: Float64Array;
  /** Evidence of how far apart clocks are: all of it but what pings refute, and what is near a clock step. */
  readonly apart: ApartEvidence;
  /** Contradictions between clocks, in order of time. */
  readonly conflicts: ClockConflict[] = [];
  /** Messages, and pairs of a collective's hosts, that pings prove wrong: not used. */
  refuted = 0;
  /** Evidence that came after its knots had been solved: not used. */
  late = 0;

  constructor(hosts: CoupledHosts) {
    this.#hosts = hosts;
    this.apart = new ApartEvidence(hosts.count, hosts.hub);
    this.#fitted = new Float64Array(hosts.count);
    this.#reachPlace = new Float64Array(hosts.count).fill(Number.NaN);
    this.#reachOf = new Float64Array(hosts.count);
  }

  /** Replaces the hosts by the same ones with newer knowledge. */
  replaceHosts(hosts: CoupledHosts): void {
    this.#hosts = hosts;
    this.#reachPlace.fill(Number.NaN);
  }

  /** Host `from` did something at `sent` before host `to` did something at `received`; ns on the axis. */
  message(from: number, sent: number, to: number, received: number): void {
    if (from === to || !isExact(sent) || !isExact(received)) return;
    this.#advance(Math.min(sent, received));
    const missing = sent - received;
    const reach = this.#reach(from, sent) + this.#reach(to, received);
    const [begin, end] = [Math.min(sent, received), Math.max(sent, received)];
    const isAtStep = this.#isAtStep(from, begin) || this.#isAtStep(to, begin);
    if (missing <= reach && !isAtStep) this.apart.add(from, sent, to, received);
    if (missing + reach < 0) return;
    // Near a clock step, events may be shown on the wrong side: the conflict is recorded, however far they are off.
    if (missing > reach && !isAtStep) this.refuted++;
    else for (const needed of this.#neededAt(begin, end, isAtStep)) needed.raise(from, to, missing);
  }

  /**
   * One collective that no rank leaves before all have entered, so that its ranks leave it together (`isBarrierLike`): per host the latest
   * entry and the earliest exit of its ranks, ns on the axis.
   */
  collective(group: string, hosts: readonly number[], entries: readonly number[], exits: readonly number[]): void {
    if (hosts.length < 2) return;
    const lastEntry = Math.max(...entries);
    const firstExit = Math.min(...exits);
    if (![...entries, ...exits].every(isExact)) return;
    this.#advance(Math.min(lastEntry, firstExit));
    const isAtStep = hosts.some((host) => this.#isAtStep(host, lastEntry));
    if (!isAtStep) this.#noteExits(group, hosts, exits, firstExit);
    let reach = 0;
    for (const host of hosts) reach = Math.max(reach, 2 * this.#reach(host, lastEntry));
    if (!isAtStep) this.#noteApart(hosts, entries, exits, reach);
    if (lastEntry - firstExit + reach < 0) return;
    const needed = this.#neededAt(lastEntry, lastEntry, isAtStep);
    for (let a = 0; a < hosts.length; a++) {
      const entry = entries[a] as number;
      if (entry - firstExit + reach < 0) continue;
      for (let b = 0; b < hosts.length; b++) {
        const missing = entry - (exits[b] as number);
        if (a === b || missing + reach < 0) continue;
        if (missing > reach && !isAtStep) this.refuted++;
        else for (const least of needed) least.raise(hosts[a] as number, hosts[b] as number, missing);
      }
    }
  }

  /** A collective is a message from the hub to each other host, and one back. */
  #noteApart(hosts: readonly number[], entries: readonly number[], exits: readonly number[], reach: number): void {
    const { hub } = this.apart;
    const at = hosts.indexOf(hub);
    if (at < 0) return;
    const [hubEntry, hubExit] = [entries[at] as number, exits[at] as number];
    for (const [place, host] of hosts.entries()) {
      const [entry, exit] = [entries[place] as number, exits[place] as number];
      if (host === hub || Math.max(hubEntry - exit, entry - hubExit) > reach) continue;
      this.apart.add(hub, hubEntry, host, exit);
      this.apart.add(host, entry, hub, hubExit);
    }
  }

  /** Solves the open knots. No evidence may follow. */
  end(): void {
    for (const knot of [...this.#open.keys()].sort((a, b) => a - b)) this.#solve(knot);
  }

  /** Axis times of the solved knots. */
  get knots(): Float64Array {
    return Float64Array.from(this.#indexes, (index) => index * knotNs);
  }

  /** The correction of `host` at `time` on the axis, ns: linear between knots, constant beyond. */
  correction(host: number, time: number): number {
    const indexes = this.#indexes;
    const last = indexes.length - 1;
    if (last < 0) return 0;
    const place = time / knotNs;
    let [low, high] = [0, last];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((indexes[middle] as number) <= place) low = middle;
      else high = middle - 1;
    }
    const before = (this.#solved[low] as Float32Array)[host] as number;
    const left = indexes[low] as number;
    if (low === last || place <= left) return before;
    const share = (place - left) / ((indexes[low + 1] as number) - left);
    return before + share * (((this.#solved[low + 1] as Float32Array)[host] as number) - before);
  }

  #isAtStep(host: number, time: number): boolean {
    return this.#hosts.steps?.(host).some((step) => isNearStep(time, time, step.time, step.jump)) ?? false;
  }

  /** How far a correction may go, ns: the limits change slowly, so they are read once per `reachNs`. */
  #reach(host: number, time: number): number {
    if (host === this.#hosts.reference) return 0;
    const place = Math.floor(time / reachNs);
    if (this.#reachPlace[host] !== place) {
      this.#reachPlace[host] = place;
      this.#reachOf[host] = Math.max(...[place, place + 1].map((at) => this.#reachAt(host, at * reachNs)));
    }
    return this.#reachOf[host] as number;
  }

  #reachAt(host: number, time: number): number {
    const { lower, upper } = this.#hosts.limits(host, time);
    return Math.max(-lower, upper, 0);
  }

  /** Whether there is no room for more knots: then the last one holds for the rest. */
  get #isFull(): boolean {
    return this.#indexes.length * this.#hosts.count >= limits.clockCorrectionsMax;
  }

  #isSolved(index: number): boolean {
    const last = this.#indexes.at(-1);
    return last !== undefined && (index <= last || this.#isFull);
  }

  #knotAt(index: number): Knot {
    let knot = this.#open.get(index);
    if (knot === undefined) {
      const { count } = this.#hosts;
      knot = { least: new PairMaxima(count), leastAtSteps: new PairMaxima(count), exits: new Map() };
      this.#open.set(index, knot);
    }
    return knot;
  }

  /** The maxima of the knots around [begin, end], mostly two, to which an event in it counts. */
  #neededAt(begin: number, end: number, isAtStep: boolean): PairMaxima[] {
    const found: PairMaxima[] = [];
    const last = Math.floor(end / knotNs) + 1;
    // A call that takes minutes gives no tight constraint.
    for (let index = Math.max(Math.floor(begin / knotNs), last - 3); index <= last; index++) {
      if (this.#isSolved(index)) {
        this.late++;
        continue;
      }
      const knot = this.#knotAt(index);
      found.push(isAtStep ? knot.leastAtSteps : knot.least);
    }
    return found;
  }

  #noteExits(group: string, hosts: readonly number[], exits: readonly number[], firstExit: number): void {
    const index = Math.round(firstExit / knotNs);
    if (this.#isSolved(index)) {
      this.late++;
      return;
    }
    const { exits: groups } = this.#knotAt(index);
    let noted = groups.get(group);
    if (noted === undefined) {
      if (groups.size >= groupsMax) return;
      noted = new Map();
      groups.set(group, noted);
    }
    const others = mediansOfOthers(Float64Array.from(exits));
    const share = (hosts.length - 1) / hosts.length;
    for (const [place, host] of hosts.entries()) {
      let deviations = noted.get(host);
      if (deviations === undefined) {
        deviations = new Deviations();
        noted.set(host, deviations);
      }
      deviations.add(share * ((exits[place] as number) - (others[place] as number)));
    }
  }

  /** Solves the knots that nothing at or after `time` can affect: collectives and messages come in order of time, to within half a knot. */
  #advance(time: number): void {
    const until = Math.floor(time / knotNs) - 2;
    for (const knot of this.#open.keys()) if (knot < until) this.#solveUpTo(until);
  }

  #solveUpTo(until: number): void {
    for (const knot of [...this.#open.keys()].sort((a, b) => a - b)) if (knot < until) this.#solve(knot);
  }

  #solve(index: number): void {
    const { least, leastAtSteps, exits } = this.#knotAt(index);
    this.#open.delete(index);
    const time = index * knotNs;
    const ties = [...this.#tiesOfMessages(least), ...this.#tiesOfExits(exits)];
    const fitted = fitValues(this.#spreads(ties, time), ties);
    for (const { from, to } of ties) {
      this.#fitted[from] = fitted[from] as number;
      if (to < this.#hosts.count) this.#fitted[to] = fitted[to] as number;
    }
    const start = this.#fitted.map((value, host) => this.#allowed(host, time, value));
    const sure = this.#solution(time, start, [least]);
    const all = leastAtSteps.isEmpty ? sure : this.#solution(time, start, [least, leastAtSteps]);
    const isLikely =
      all.slack <= sure.slack && all.corrections.every((value, host) => Math.abs(value - (sure.corrections[host] as number)) <= atStepMax);
    const { corrections, slack, cycle } = isLikely ? all : sure;
    if (slack > 0) this.conflicts.push({ time, hosts: cycle, slack, isAtStep: false });
    if (!isLikely) this.#reportStep(time, leastAtSteps, corrections);
    this.#keep(index, corrections);
  }

  /** Records the conflict at a step: messages that stay reversed because the step's exact time is unknown. */
  #reportStep(time: number, leastAtSteps: PairMaxima, corrections: Float64Array): void {
    let [slack, hosts] = [0, [] as number[]];
    leastAtSteps.each((from, to, missing) => {
      const reversedBy = missing + marginNs - (corrections[to] as number) + (corrections[from] as number);
      if (reversedBy > slack) [slack, hosts] = [reversedBy, [from, to]];
    });
    if (slack > 0) this.conflicts.push({ time, hosts, slack, isAtStep: true });
  }

  /** The nearest correction that the proof allows. */
  #allowed(host: number, time: number, value: number): number {
    if (host === this.#hosts.reference) return 0;
    const { lower, upper } = this.#hosts.limits(host, time);
    return Math.max(Math.min(lower, 0), Math.min(value, Math.max(upper, 0)));
  }

  #solution(time: number, start: Float64Array, needs: readonly PairMaxima[]): Solution {
    const { reference } = this.#hosts;
    const constraints = { from: [] as number[], to: [] as number[], least: [] as number[], isProof: [] as boolean[] };
    const add = (from: number, to: number, value: number, isProof: boolean): void => {
      constraints.from.push(from === reference ? axis : from);
      constraints.to.push(to === reference ? axis : to);
      constraints.least.push(value);
      constraints.isProof.push(isProof);
    };
    const touched = new Set<number>();
    for (const least of needs) {
      least.each((from, to, missing) => {
        add(from, to, missing + marginNs, false);
        touched.add(from).add(to);
      });
    }
    if (touched.size === 0) return { corrections: start, slack: 0, cycle: [] };
    for (const host of touched) {
      if (host === reference) continue;
      const { lower, upper } = this.#hosts.limits(host, time);
      if (lower > upper) continue;
      if (Number.isFinite(lower)) add(axis, host, Math.min(lower, 0), true);
      if (Number.isFinite(upper)) add(host, axis, -Math.max(upper, 0), true);
    }
    return solveConstraints(start, constraints);
  }

  #keep(index: number, corrections: Float64Array): void {
    const last = this.#indexes.at(-1);
    // Knots without evidence repeat the one before.
    if (last !== undefined && index > last + 1) {
      this.#indexes.push(index - 1);
      this.#solved.push((this.#solved.at(-1) as Float32Array).slice());
    }
    this.#indexes.push(index);
    this.#solved.push(Float32Array.from(corrections));
  }

  /** The tightest messages between two hosts, one each way. */
  #tiesOfMessages(least: PairMaxima): Tie[] {
    const ties: Tie[] = [];
    least.each((from, to, missing) => {
      const back = least.of(to, from);
      if (from > to || back === Number.NEGATIVE_INFINITY) return;
      ties.push({ from, to, difference: (missing - back) / 2, spread: Math.max(Math.abs(missing + back) / 2, marginNs) });
    });
    return ties;
  }

  /** Between a group's hosts and the group itself, a node after those of the hosts: all of them left at one time. */
  #tiesOfExits(groups: ReadonlyMap<string, ReadonlyMap<number, Deviations>>): Tie[] {
    const ties: Tie[] = [];
    let group = this.#hosts.count;
    for (const noted of groups.values()) {
      const before = ties.length;
      for (const [host, deviations] of noted) {
        const found = deviations.middle();
        if (found !== undefined) ties.push({ from: host, to: group, difference: found.median, spread: Math.max(found.spread, marginNs) });
      }
      if (ties.length - before < 2) ties.length = before;
      else group++;
    }
    return ties;
  }

  /** How far from 0 each node is: by pings; a group's own value may be any. */
  #spreads(ties: readonly Tie[], time: number): Float64Array {
    const { count, reference } = this.#hosts;
    const nodes = ties.reduce((most, { to }) => Math.max(most, to + 1), count);
    const spreads = new Float64Array(nodes).fill(Number.POSITIVE_INFINITY);
    for (let host = 0; host < count; host++) spreads[host] = host === reference ? 0 : Math.max(this.#hosts.spread(host, time), marginNs);
    return spreads;
  }
}

interface Knot {
  /** From one host to another: the largest needed correction[to] − correction[from]. */
  readonly least: PairMaxima;
  /** The same, by evidence near a step of a clock. */
  readonly leastAtSteps: PairMaxima;
  /** By group and host. */
  readonly exits: Map<string, Map<number, Deviations>>;
}

/** How much later than the middle a host left its collectives, ns. */
class Deviations {
  count = 0;
  #values: number[] = [];
  #stride = 1;

  add(value: number): void {
    if (this.count++ % this.#stride !== 0) return;
    this.#values.push(value);
    if (this.#values.length < devsMax) return;
    this.#values = this.#values.filter((_, index) => index % 2 === 0);
    this.#stride *= 2;
  }

  /** Their median and deviation; undefined where they are too few. */
  middle(): { median: number; spread: number } | undefined {
    return this.#values.length < devsMin ? undefined : { median: median(this.#values), spread: deviation(this.#values) };
  }
}
