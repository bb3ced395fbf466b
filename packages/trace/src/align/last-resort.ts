// The last resort where clocks contradict each other: shift events forward until none comes before its cause, as a controlled logical
// clock does (Rabenseifner 1997): an effect jumps to just after its cause, and later times of its clock catch up slowly.
//
//   shift      ╭╮
//            ╭─╯ ╲___            at an effect: up to its cause; from there down again by 1 % of the time that passes
//   ─────────╯       ╲_____
//
// It moves events, not the knowledge of clocks, so shifted stretches are marked (`Alignment.shifted`), and raw times stay in the run store.
//
// Where the cause is a step of a clock that was not found, each shift asks for another: what would be shifted further than all conflicts together explain
// stays reversed, and the conflict tells of it.
//
// Invariant: shifts are never below 0, and nothing outside conflicts and their reach is shifted.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { ClockConflict } from './clock-coupling.ts';

/** Part of the passing time by which a shift shrinks. */
const catchUp = 0.01;
/** Distance between a cause and its effect, ns. */
const marginNs = 200;
/** A jump comes this many ns before its effect: host times are mapped to the axis and back in whole ns. */
const earlyNs = 5;
/** Messages kept near conflicts; later ones beyond this stay reversed. */
const messagesMax = 262_144;
const roundsMax = 64;
/** A conflict reaches this far, ns: the knots on either side of it. */
const reachNs = 20 * nanosPerSecond;

interface Message {
  readonly from: number;
  readonly sent: number;
  readonly to: number;
  readonly received: number;
}

export class LastResort {
  readonly #conflicts: readonly ClockConflict[];
  readonly #slack: number;
  readonly #messages: Message[] = [];
  readonly #shifts: Shift[];
  /** Messages dropped beyond `messagesMax`: they may stay reversed. */
  leftOut = 0;

  /** `count`: number of clocks. */
  constructor(count: number, conflicts: readonly ClockConflict[]) {
    this.#conflicts = conflicts;
    this.#slack = conflicts.reduce((most, { slack }) => Math.max(most, slack), 0);
    this.#shifts = Array.from({ length: count }, () => new Shift());
  }

  /** As `ClockCoupling.message`, on the axis of the corrected clocks. */
  message(from: number, sent: number, to: number, received: number): void {
    const reversedBy = sent - received;
    if (!Number.isFinite(reversedBy)) return;
    // A message in order by more than all shifts together stays in order; pings already refuted one reversed by more than the slack allows.
    if (from === to || -reversedBy > this.#mostExplained || reversedBy > 2 * this.#slack + marginNs) return;
    if (!this.reaches(received, received)) return;
    if (this.#messages.length < messagesMax) this.#messages.push({ from, sent, to, received });
    else this.leftOut++;
  }

  /** As `ClockCoupling.collective`. */
  collective(_group: string, clocks: readonly number[], entries: readonly number[], exits: readonly number[]): void {
    for (const [a, from] of clocks.entries()) {
      for (const [b, to] of clocks.entries()) this.message(from, entries[a] as number, to, exits[b] as number);
    }
  }

  /** The largest shift: each clock hands the whole contradiction on to the next, ns. */
  get #mostExplained(): number {
    return (2 * this.#slack + marginNs) * this.#shifts.length;
  }

  end(): void {
    this.#messages.sort((a, b) => a.received - b.received || a.sent - b.sent || a.from - b.from || a.to - b.to);
    const most = this.#mostExplained;
    for (let round = 0; round < roundsMax; round++) {
      let isDone = true;
      for (const { from, sent, to, received } of this.#messages) {
        const least = sent + this.shift(from, sent) + marginNs - received;
        if (least > most || least <= this.shift(to, received)) continue;
        (this.#shifts[to] as Shift).raise(received - earlyNs, least + catchUp * earlyNs);
        isDone = false;
      }
      if (isDone) return;
    }
  }

  /** Whether a conflict reaches into [from, until], ns. */
  reaches(from: number, until: number): boolean {
    return this.#conflicts.some(({ time }) => time + reachNs >= from && time - reachNs <= until);
  }

  /** Shift of a time of `clock`, ns. */
  shift(clock: number, time: number): number {
    return (this.#shifts[clock] as Shift).at(time);
  }

  /** Times near which the shift of `clock` bends, ns. */
  bends(clock: number): number[] {
    return (this.#shifts[clock] as Shift).bends();
  }

  /** Shifted stretches of `clock`. */
  shifted(clock: number): { from: number; until: number; most: number }[] {
    return (this.#shifts[clock] as Shift).stretches();
  }
}

/** The shift of one clock: jumps, each of which shrinks again. */
class Shift {
  /** In order of time; each higher than the rest of those before. */
  readonly #jumps: { readonly time: number; readonly height: number }[] = [];

  at(time: number): number {
    let most = 0;
    for (const jump of this.#jumps) {
      if (jump.time > time) break;
      most = Math.max(most, jump.height - catchUp * (time - jump.time));
    }
    return most;
  }

  raise(time: number, height: number): void {
    const at = this.#jumps.findIndex((jump) => jump.time >= time);
    const place = at < 0 ? this.#jumps.length : at;
    this.#jumps.splice(place, this.#jumps[place]?.time === time ? 1 : 0, { time, height });
  }

  bends(): number[] {
    return this.#jumps.flatMap(({ time, height }) => [time - 1, time, time + height / catchUp]);
  }

  stretches(): { from: number; until: number; most: number }[] {
    const found: { from: number; until: number; most: number }[] = [];
    for (const { time, height } of this.#jumps) {
      const until = time + height / catchUp;
      const last = found.at(-1);
      if (last === undefined || time > last.until) {
        found.push({ from: time, until, most: height });
        continue;
      }
      last.until = Math.max(last.until, until);
      last.most = Math.max(last.most, height);
    }
    return found;
  }
}
