// The phases of a step: the sum per name of the spans directly below it, on the thread that counts the steps.
//
//   step        |--------- 7 ---------|--------- 8 ---------|
//   spans         |data| |--forward--|    |data| |-- …
//   prefetch                    |=======|=====|               charged to each step it ran in; its call to the one it began in
//
// Invariant: at most `phasesPerStepMax` names per step; `(other phases)` sums the time of further ones.

import { recordingLimits } from '../model/recording-limits.ts';

export const otherPhases = '(other phases)';

/** A span directly below the step, while it is open. */
export interface OpenPhase {
  readonly name: string;
  /** End of the time charged so far; RankTime, ns. */
  chargedTo: number;
}

export interface Phase {
  readonly name: string;
  /** Length, ns. */
  length: number;
  calls: number;
}

export class StepPhases {
  /** The phase of the running step that ended last. */
  ended: string | undefined;
  readonly #open = new Set<OpenPhase>();
  #phases = new Map<string, Phase>();

  begin(name: string, start: number): OpenPhase {
    const open = { name, chargedTo: start };
    this.#open.add(open);
    this.#phase(name).calls++;
    return open;
  }

  end(open: OpenPhase, time: number): void {
    this.#open.delete(open);
    this.#charge(open, time);
    this.ended = open.name;
  }

  /** The phases of the step that ended at `time`; open phases continue in the next step. */
  endStep(time: number): Iterable<Phase> {
    for (const open of this.#open) this.#charge(open, time);
    const phases = this.#phases;
    this.#phases = new Map();
    this.ended = undefined;
    return phases.values();
  }

  #charge(open: OpenPhase, time: number): void {
    this.#phase(open.name).length += time - open.chargedTo;
    open.chargedTo = time;
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
