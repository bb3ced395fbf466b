// Which ops a rank's steps are made of: the time of each, without that of the ops inside of it, by the phase that the step was in.
//
//   phases (the step's own thread)   │ forward │        (other)         │ optimizer │
//   main                               addmm      …                       add_
//   autograd                                      ├ AddmmBackward0 ┤
//                                                   ├ mm ─┤                            mm: its length; AddmmBackward0: its length without mm
//
// Blame rests on phases. Where what is slow is in no phase, or in one that is long, the ops say where to look.
//
// Memory: of a step its `blameOpsPerStepMax` longest ops, with numbers instead of names; names up to `blameOpNamesMax`, further ones are left out.

import { blameLimits as limits } from './blame-limits.ts';
import { otherPhase } from './blame-window.ts';

/** Ops of one rank's step, the longest first. */
export interface OpTimes {
  /** `OpNames.at`. */
  readonly ops: Uint16Array;
  /** ns. */
  readonly lengths: Float32Array;
}

/** An op in a phase. */
export interface NamedOp {
  readonly phase: string;
  readonly name: string;
}

/** Numbers for ops in phases, the same for all ranks. */
export class OpNames {
  readonly #named: NamedOp[] = [];
  readonly #numbers = new Map<string, Map<string, number>>();

  at(op: number): NamedOp | undefined {
    return this.#named[op];
  }

  /** Undefined where there are too many. */
  numberOf(phase: string, name: string): number | undefined {
    const inPhase = this.#numbers.get(phase) ?? new Map<string, number>();
    const known = inPhase.get(name);
    if (known !== undefined || this.#named.length >= limits.blameOpNamesMax) return known;
    if (inPhase.size === 0) this.#numbers.set(phase, inPhase);
    inPhase.set(name, this.#named.length);
    this.#named.push({ phase, name });
    return this.#named.length - 1;
  }
}

interface OpenSpan {
  readonly name: string;
  readonly from: number;
  readonly until: number;
  /** Of it, ns that other spans took inside. */
  inside: number;
}

/** Collects the ops of one process, whose spans come in order of start. */
export class OpTimer {
  readonly #lanes = new Map<number, OpenSpan[]>();
  #ended: OpenSpan[] = [];

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

  /** Ops that ended by `until`, the end of a step, and are no phases of it; undefined where none was recorded. */
  take(
    until: number,
    phases: readonly { readonly name: string; readonly from: number; readonly until: number }[],
    names: OpNames,
  ): OpTimes | undefined {
    for (const open of this.#lanes.values()) this.#end(open, until);
    const ended = this.#ended;
    this.#ended = [];
    const isPhase = new Set(phases.map(({ name }) => name));
    const sums = new Map<number, number>();
    for (const { name, from, until: end, inside } of ended) {
      if (isPhase.has(name)) continue;
      const phase = phases.find((one) => one.from <= from && from < one.until)?.name ?? otherPhase;
      const op = names.numberOf(phase, name);
      if (op !== undefined) sums.set(op, (sums.get(op) ?? 0) + Math.max(0, end - from - inside));
    }
    if (sums.size === 0) return undefined;
    const longest = [...sums].sort(([, a], [, b]) => b - a).slice(0, limits.blameOpsPerStepMax);
    return { ops: Uint16Array.from(longest, ([op]) => op), lengths: Float32Array.from(longest, ([, length]) => length) };
  }

  #end(open: OpenSpan[], time: number): void {
    for (let last = open.at(-1); last !== undefined && last.until <= time; last = open.at(-1)) {
      open.pop();
      if (this.#ended.length < limits.blameOpsPendingMax) this.#ended.push(last);
    }
  }
}
