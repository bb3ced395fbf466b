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
  readonly #summed: number[] = [];

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
    if (this.#summed.length === 0) return undefined;
    const sums = this.#sums;
    const ops = new Uint16Array(Math.min(this.#summed.length, limits.blameOpsPerStepMax));
    let taken = 0;
    for (const op of this.#summed) {
      const sum = sums[op] as number;
      if (taken === ops.length && sum <= (sums[ops[taken - 1] as number] as number)) continue;
      let at = taken < ops.length ? taken++ : taken - 1;
      for (; at > 0 && (sums[ops[at - 1] as number] as number) < sum; at--) ops[at] = ops[at - 1] as number;
      ops[at] = op;
    }
    const lengths = new Float32Array(ops.length);
    for (let at = 0; at < ops.length; at++) lengths[at] = sums[ops[at] as number] as number;
    for (const op of this.#summed) sums[op] = 0;
    this.#summed.length = 0;
    return { ops, lengths };
  }
}

/** Ops as columns: an object for each would cost more than all else. They keep their room. */
class Ops {
  length = 0;
  readonly names: string[] = [];
  readonly from: number[] = [];
  readonly until: number[] = [];
  /** ns of each spent in nested spans. */
  readonly inside: number[] = [];

  push(name: string, from: number, until: number, inside: number): void {
    const at = this.length++;
    this.names[at] = name;
    this.from[at] = from;
    this.until[at] = until;
    this.inside[at] = inside;
  }
}

/** Collects the ops of one process; its spans come in order of start. */
export class OpTimer {
  readonly #lanes = new Map<number, Ops>();
  readonly #ended = new Ops();
  /** The lane of the last span, mostly the next one's too. */
  #lane = -1;
  #open: Ops | undefined;

  span(lane: number, name: string, from: number, until: number): void {
    const open = lane === this.#lane ? this.#open : this.#openOf(lane);
    if (open === undefined) return;
    this.#end(open, from);
    const around = open.length - 1;
    if (around >= 0) open.inside[around] = (open.inside[around] as number) + Math.min(until, open.until[around] as number) - from;
    if (open.length < limits.blameOpDepthMax) open.push(name, from, until, 0);
  }

  /** Ops that ended by `until`, the end of a step, and are not its phases; undefined if none were recorded. */
  take(
    until: number,
    phases: readonly { readonly name: string; readonly from: number; readonly until: number }[],
    names: OpNames,
  ): OpTimes | undefined {
    for (const open of this.#lanes.values()) this.#end(open, until);
    const ended = this.#ended;
    for (let at = 0; at < ended.length; at++) {
      const name = ended.names[at] as string;
      const from = ended.from[at] as number;
      let phase = otherPhase;
      let isPhase = false;
      for (const one of phases) {
        if (one.from <= from && from < one.until) phase = one.name;
        isPhase ||= one.name === name;
      }
      const op = isPhase ? undefined : names.numberOf(phase, name);
      if (op !== undefined) names.add(op, (ended.until[at] as number) - from - (ended.inside[at] as number));
    }
    ended.length = 0;
    return names.takeSums();
  }

  #openOf(lane: number): Ops | undefined {
    let open = this.#lanes.get(lane);
    if (open === undefined) {
      if (this.#lanes.size >= limits.blameThreadsMax) return undefined;
      open = new Ops();
      this.#lanes.set(lane, open);
    }
    this.#lane = lane;
    this.#open = open;
    return open;
  }

  #end(open: Ops, time: number): void {
    for (let last = open.length - 1; last >= 0 && (open.until[last] as number) <= time; last--) {
      if (this.#ended.length < limits.blameOpsPendingMax) {
        this.#ended.push(open.names[last] as string, open.from[last] as number, open.until[last] as number, open.inside[last] as number);
      }
      open.length--;
    }
  }
}
