// The ops in a rank's steps: self time of each, by the phase that the step was in.
//
//   phases (the step's own thread)   │ forward │        (other)         │ optimizer │
//   main                               addmm      …                       add_
//   autograd                                      ├ AddmmBackward0 ┤
//                                                   ├ mm ─┤                            mm: its length; AddmmBackward0: its length without mm
//
// Blame rests on phases. If the slow part is in no phase, or in a long one, the ops show where to look.
//
// Memory: for each step its `blameOpsPerStepMax` longest ops, as numbers; up to `blameOpNamesMax` names, further ones are left out.

import { otherPhase } from '@ranktrace/protocol';
import { blameLimits as limits } from './blame-limits.ts';

/** Ops of one rank's step, longest first. */
export interface OpTimes {
  /** Numbers for `OpNames.at`. */
  readonly ops: Uint16Array;
  /** ns. */
  readonly lengths: Float32Array;
}

/** An op in a phase. */
export interface NamedOp {
  readonly phase: string;
  readonly name: string;
}

/** Entry of one name. */
interface OpName {
  readonly numbers: Map<string, number>;
  /** The phase of its last lookup, and its number there: mostly the next lookup's too. */
  phase: string | undefined;
  number: number | undefined;
}

/** Numbers for ops in phases, shared by all ranks, and sums by them. */
export class OpNames {
  readonly #named: NamedOp[] = [];
  readonly #names = new Map<string, OpName>();
  readonly #sums = new Float64Array(limits.blameOpNamesMax);
  #summed: number[] = [];

  at(op: number): NamedOp | undefined {
    return this.#named[op];
  }

  /** Undefined if there are too many. */
  numberOf(phase: string, name: string): number | undefined {
    let known = this.#names.get(name);
    if (known?.phase === phase) return known.number;
    if (known === undefined) {
      if (this.#named.length >= limits.blameOpNamesMax) return undefined;
      known = { numbers: new Map(), phase: undefined, number: undefined };
      this.#names.set(name, known);
    }
    known.phase = phase;
    known.number = known.numbers.get(phase);
    if (known.number === undefined && this.#named.length < limits.blameOpNamesMax) {
      known.number = this.#named.length;
      known.numbers.set(phase, known.number);
      this.#named.push({ phase, name });
    }
    return known.number;
  }

  add(op: number, length: number): void {
    if (length <= 0) return;
    if (this.#sums[op] === 0) this.#summed.push(op);
    this.#sums[op] = (this.#sums[op] as number) + length;
  }

  /** The longest sums since the last call; undefined if there are none. */
  takeSums(): OpTimes | undefined {
    const sums = this.#sums;
    const longest = this.#summed.sort((a, b) => (sums[b] as number) - (sums[a] as number)).slice(0, limits.blameOpsPerStepMax);
    const times = { ops: Uint16Array.from(longest), lengths: Float32Array.from(longest, (op) => sums[op] as number) };
    for (const op of this.#summed) sums[op] = 0;
    this.#summed = [];
    return longest.length === 0 ? undefined : times;
  }
}

interface OpenOp {
  readonly name: string;
  readonly from: number;
  readonly until: number;
  /** ns of it spent in nested spans. */
  inside: number;
}

/** Collects the ops of one process; its spans come in order of start. */
export class OpTimer {
  readonly #lanes = new Map<number, OpenOp[]>();
  #ended: OpenOp[] = [];

  span(lane: number, name: string, from: number, until: number): void {
    let open = this.#lanes.get(lane);
    if (open === undefined) {
      if (this.#lanes.size >= limits.blameThreadsMax) return;
      open = [];
      this.#lanes.set(lane, open);
    }
    this.#end(open, from);
    const around = open.at(-1);
    if (around !== undefined) around.inside += Math.min(until, around.until) - from;
    if (open.length < limits.blameOpDepthMax) open.push({ name, from, until, inside: 0 });
  }

  /** Ops that ended by `until`, the end of a step, and are not its phases; undefined if none were recorded. */
  take(
    until: number,
    phases: readonly { readonly name: string; readonly from: number; readonly until: number }[],
    names: OpNames,
  ): OpTimes | undefined {
    for (const open of this.#lanes.values()) this.#end(open, until);
    const ended = this.#ended;
    this.#ended = [];
    for (const { name, from, until: end, inside } of ended) {
      let phase = otherPhase;
      let isPhase = false;
      for (const one of phases) {
        if (one.from <= from && from < one.until) phase = one.name;
        isPhase ||= one.name === name;
      }
      const op = isPhase ? undefined : names.numberOf(phase, name);
      if (op !== undefined) names.add(op, end - from - inside);
    }
    return names.takeSums();
  }

  #end(open: OpenOp[], time: number): void {
    for (let last = open.at(-1); last !== undefined && last.until <= time; last = open.at(-1)) {
      open.pop();
      if (this.#ended.length < limits.blameOpsPendingMax) this.#ended.push(last);
    }
  }
}
