// The phases of a step: the time per name of the spans directly below it, on the thread that counts the steps.
//
//   step        |--------- 7 ---------|--------- 8 ---------|
//   spans         |data| |--forward--|    |wait| |forward|-- …
//   prefetch                |==================|              counts in 7 once forward is over, in 8 until wait begins; its call in 7
//
// Asynchronous spans overlap. The loop is in the one that it began last: an earlier one then runs beside it, and costs the step nothing.
// So phases never add up to more than the step, and loading ahead counts only as far as the step waits for it.
//
// Invariant: at most `phasesPerStepMax` names per step; `(other phases)` sums the time of further ones.

import { recordingLimits } from '../model/recording-limits.ts';

export const otherPhases = '(other phases)';

/** A span directly below the step, while it is open. */
export interface OpenPhase {
  readonly name: string;
}

export interface Phase {
  readonly name: string;
  /** Time in which it was the last begun of the open ones, ns. */
  length: number;
  calls: number;
}

export class StepPhases {
  /** The phase of the running step that ended last. */
  ended: string | undefined;
  /** In order of their begins. */
  readonly #open: OpenPhase[] = [];
  /** Begin of the running step, and end of the time charged so far; RankTime, ns. */
  #began = 0;
  #chargedTo = 0;
  #phases = new Map<string, Phase>();

  begin(name: string, start: number): OpenPhase {
    this.#charge(start);
    const open = { name };
    this.#open.push(open);
    this.#phase(name).calls++;
    return open;
  }

  /** Begins a span that was taken for a part of the last begun phase until now. */
  beginLate(name: string, start: number): OpenPhase {
    this.#charge(start);
    this.#move(name, start, this.#chargedTo);
    const open = { name };
    this.#open.push(open);
    return open;
  }

  /** Adds such a span that has ended. */
  addLate(name: string, start: number, end: number): void {
    this.#charge(end);
    this.#move(name, start, end);
  }

  end(open: OpenPhase, time: number): void {
    this.#charge(time);
    const at = this.#open.lastIndexOf(open);
    if (at >= 0) this.#open.splice(at, 1);
    this.ended = open.name;
  }

  /** The phases of the step that ended at `time`; open phases continue in the next step. */
  endStep(time: number): Iterable<Phase> {
    this.#charge(time);
    const phases = this.#phases;
    this.#phases = new Map();
    this.#began = time;
    this.ended = undefined;
    return phases.values();
  }

  #charge(time: number): void {
    const front = this.#open.at(-1);
    if (front !== undefined && time > this.#chargedTo) this.#phase(front.name).length += time - this.#chargedTo;
    this.#chargedTo = Math.max(this.#chargedTo, time);
  }

  /** Takes this time from the last begun phase; what lies in earlier steps is reported. */
  #move(name: string, start: number, end: number): void {
    if (end < this.#began) return;
    const phase = this.#phase(name);
    if (start >= this.#began) phase.calls++;
    const front = this.#open.at(-1);
    if (front === undefined) return;
    const from = this.#phase(front.name);
    const length = Math.min(from.length, end - Math.max(start, this.#began));
    from.length -= length;
    phase.length += length;
  }

  #phase(wanted: string): Phase {
    const name = this.#phases.has(wanted) || this.#phases.size < recordingLimits.phasesPerStepMax ? wanted : otherPhases;
    let phase = this.#phases.get(name);
    if (phase === undefined) {
      phase = { name, length: 0, calls: 0 };
      this.#phases.set(name, phase);
    }
    return phase;
  }
}
