// Checks collectives without torch's own number, which are counted from the end of their files: is each the same one on every rank? The
// count is right as long as every file holds all of them. Where kernels were sampled, or some are missing, the count pairs collectives that
// never met, and alignment would bend clocks to fit them.
//
//   rank 0   a ─── b ─── c ─── d │     all files whole: one offset between two clocks fits all pairs
//   rank 1   a ─── b ─── c ─── d │
//   rank 2   a ─────────────── d │     b and c are missing: the second from the end is a, its pair is c
//
// So a count is trusted if one offset fits all pairs of two files and either there are many pairs, or the offset is plausible for two hosts'
// wall clocks, or the files' other groups have the same offset. A group's files are compared with the one that agrees with most others. A send is in two
// files alone, so files without an event of that one are compared with those that agree with it, and so on along a pipeline. Where files end with different
// steps, their ends are different moments, and what fits is another step's collectives, unless steps of one number fit with them.
//
// Invariant: a distrusted collective stays a span of its rank and is reported; it moves no clock.

import { isBarrierLike, nanosPerMs, pairOf } from '@ranktrace/protocol';
import { isCounted } from '../match/collective-number.ts';
import { limits } from '../model/limits.ts';
import { median } from '../model/robust.ts';
import type { KinetoWindow } from './kineto-source-window.ts';

/** One process and its windows. */
export interface CountedProcess {
  readonly rank: number;
  readonly windows: readonly { readonly window: KinetoWindow /** ns from `epoch` to the table's. */; readonly shift: number }[];
  /** ns since 1970. */
  readonly epoch: bigint;
}

/** A process's group with a distrusted count. */
export interface MiscountedGroup {
  /** Place of the process. */
  readonly process: number;
  readonly group: string;
}

/** One offset does not fit this many pairs by chance. */
const pairsSure = 8;
/** Fewer pairs suffice if the offset is within what network-synchronised wall clocks show, ns. */
const wallClocksApartNs = 10 * nanosPerMs;
/** Error of kernel times, ns, and drift between clocks, ns per ns. */
const timesOffNs = 50_000;
const driftMax = 200e-6;
/** Times before this, ns since 1970 (1980), are on an axis of their own, not a wall clock's. */
const wallClockFrom = 315_532_800_000_000_000n;
/** Where files end with different steps: how far apart steps of one number may begin, as a share of a step. */
const stepsApartMax = 0.5;
/** How many files of a group are tried as the base to compare with; the best one is taken. */
const basesTried = 4;

interface Times {
  /** ns after the process's epoch. */
  readonly start: number;
  readonly end: number;
  /** Side of a send; `both` for a collective. */
  readonly side: 'both' | 'send' | 'receive';
}

/** One process's collectives of a group, by their pairing key. */
interface Member {
  readonly process: number;
  readonly rank: number;
  readonly times: Map<string | number, Times>;
  /** Ranks that it sends to or receives from. */
  readonly peers: Set<number>;
  /** Whether it has collectives beside its sends. */
  meetsAll: boolean;
}

/** Range of offsets that fit, ns to add to the other's clock. */
interface Fitting {
  readonly least: number;
  readonly most: number;
}

/** A group's members as seen from one of them. */
interface Compared {
  /** The base, then those that agree with it or with one before them. */
  readonly agreeing: readonly { readonly member: Member; readonly by?: Member; readonly fitting?: Fitting }[];
  /** Those that contradict one that agrees. */
  readonly strangers: readonly Member[];
  /** Those that have no event in common with any that agrees. */
  readonly unmet: readonly Member[];
}

/** Groups of processes with counts that contradict the others', in order of process. */
export function miscountedGroups(processes: readonly CountedProcess[]): readonly MiscountedGroup[] {
  if (processes.length < 2) return [];
  const groups = new Map<string, Member[]>();
  for (const [process, of] of processes.entries()) {
    for (const [group, member] of countedOf(of, process)) {
      const members = groups.get(group);
      if (members === undefined) groups.set(group, [member]);
      else members.push(member);
    }
  }
  const sizeOf = ([, members]: [string, Member[]]): number => members.reduce((most, { times }) => Math.max(most, times.size), 0);
  const judge = new Judge(processes);
  return [...groups]
    .sort((a, b) => sizeOf(b) - sizeOf(a))
    .flatMap(([group, members]) => judge.strangersAmong(members).map(({ process }) => ({ process, group })))
    .sort((a, b) => a.process - b.process);
}

/** The last collectives of each group, as all are counted from the end. Those that prove nothing about clocks are left out. */
function countedOf({ rank, windows }: CountedProcess, process: number): ReadonlyMap<string, Member> {
  const groups = new Map<string, Member>();
  let left = limits.countedCollectivesMax;
  for (const { window, shift } of windows.toReversed()) {
    const { collectives, table } = window;
    const { columns, length } = collectives;
    for (let row = length - 1; row >= 0 && left > 0; row--) {
      const sequence = columns.sequence[row] as number;
      if (!isCounted(sequence)) continue;
      const op = table.strings.get(columns.op[row] as number);
      const pair = pairOf(rank, (columns.peer[row] as number) - 1, op);
      if (pair === undefined ? !isBarrierLike(op) : pair[0] === pair[1]) continue;
      left--;
      const group = table.strings.get(columns.group[row] as number);
      const member = groups.get(group) ?? { process, rank, times: new Map(), peers: new Set(), meetsAll: false };
      groups.set(group, member);
      const event = columns.event[row] as number;
      const start = (table.events.columns.start[event] as number) + shift;
      const end = start + (table.events.columns.duration[event] as number);
      const side = pair === undefined ? 'both' : pair[0] === rank ? 'send' : 'receive';
      if (pair === undefined) member.meetsAll = true;
      else member.peers.add(pair[0] === rank ? pair[1] : pair[0]);
      member.times.set(pair === undefined ? sequence : `${sequence} ${pair.join(' ')}`, { start, end, side });
    }
  }
  return groups;
}

/** Steps of all files of a process, by number: ns after its epoch. */
interface StepsOfFile {
  readonly starts: ReadonlyMap<number, { readonly start: number; readonly length: number }>;
  readonly size: number;
  /** The number of the last one. */
  readonly last: number | undefined;
}

class Judge {
  readonly #processes: readonly CountedProcess[];
  /** By process: its offset to the process `root`, narrowed by the first group that trusted it. */
  readonly #known = new Map<number, Fitting & { readonly root: number }>();

  readonly #strangers = new Set<number>();
  readonly #steps = new Map<number, StepsOfFile>();
  #haveOtherEnds: boolean | undefined;

  constructor(processes: readonly CountedProcess[]) {
    this.#processes = processes;
  }

  /** Members of a group with counts that contradict the others'; all members if no two agree. Largest groups come first. */
  strangersAmong(members: readonly Member[]): readonly Member[] {
    // A file that lacks part of one group is not whole, so it is distrusted here too.
    const whole = members.filter(({ process }) => !this.#strangers.has(process));
    const found = whole.length < 2 ? [] : this.#strangersAmongWhole(whole);
    for (const { process } of found) this.#strangers.add(process);
    return members.filter(({ process }) => this.#strangers.has(process));
  }

  #strangersAmongWhole(members: readonly Member[]): readonly Member[] {
    const found: Member[] = [];
    for (let rest = members; rest.length > 1; ) {
      const { agreeing, strangers, unmet } = this.#bestOf(rest);
      found.push(...strangers);
      // Where nobody agrees, the base may be the one that is not whole.
      const [base] = agreeing;
      if (base !== undefined && agreeing.length === 1 && strangers.length > 0) found.push(base.member);
      for (const { member, by, fitting } of agreeing) if (by !== undefined && fitting !== undefined) this.#learn(by, member, fitting);
      rest = unmet;
    }
    return found;
  }

  /** The comparison in which most agree. */
  #bestOf(members: readonly Member[]): Compared {
    const bases = members.toSorted((a, b) => b.times.size - a.times.size || a.process - b.process).slice(0, basesTried);
    let best: Compared = { agreeing: [], strangers: [], unmet: [] };
    for (const base of bases) {
      const compared = this.#compare(base, members);
      if (compared.agreeing.length > best.agreeing.length) best = compared;
      if (2 * best.agreeing.length > members.length + 1) break;
    }
    return best;
  }

  #compare(base: Member, members: readonly Member[]): Compared {
    const agreeing: { member: Member; by?: Member; fitting?: Fitting }[] = [{ member: base }];
    const strangers: Member[] = [];
    const open = new Map(members.map((member) => [member.rank, member]));
    open.delete(base.rank);
    /** Those with too few events in common: another one may have more. */
    const unproven = new Set<Member>();
    for (const { member: by } of agreeing) {
      for (const member of by.meetsAll ? [...open.values()] : [...by.peers].flatMap((rank) => open.get(rank) ?? [])) {
        const areMeeting = by.meetsAll && member.meetsAll && !unproven.has(member);
        if (!areMeeting && !by.peers.has(member.rank)) continue;
        const fitting = this.#fitting(by, member);
        if (fitting === 'unproven') {
          unproven.add(member);
          continue;
        }
        open.delete(member.rank);
        if (fitting === undefined) strangers.push(member);
        else agreeing.push({ member, by, fitting });
      }
    }
    const left = [...open.values()];
    const unmet = left.filter((member) => !unproven.has(member));
    return { agreeing, strangers: [...strangers, ...left.filter((member) => unproven.has(member))], unmet };
  }

  /** Notes the offset between two processes, and so that between all whose offsets to one of them are known. */
  #learn({ process: one }: Member, { process: other }: Member, { least, most }: Fitting): void {
    // A range open on one side proves too little.
    if (!Number.isFinite(most - least)) return;
    const from = this.#known.get(one) ?? { least: 0, most: 0, root: one };
    this.#known.set(one, from);
    const known = this.#known.get(other) ?? { least: 0, most: 0, root: other };
    this.#known.set(other, known);
    const { root } = from;
    if (known.root === root) return;
    for (const [process, of] of this.#known) {
      if (of.root !== known.root) continue;
      // Through `other`, whose own range then counts twice, except for itself.
      const [before, after] = process === other ? [0, 0] : [of.least - known.most, of.most - known.least];
      this.#known.set(process, { least: from.least + least + before, most: from.most + most + after, root });
    }
  }

  /** The offsets of `other` that fit all it shares with `base`; undefined if none does, `unproven` if any would fit so little. */
  #fitting(base: Member, other: Member): Fitting | 'unproven' | undefined {
    const [one, two] = [base.process, other.process].map((place) => this.#processes[place]) as [CountedProcess, CountedProcess];
    const apart = Number(two.epoch - one.epoch);
    let { least, most, pairs, from, until } = { least: -Infinity, most: Infinity, pairs: 0, from: Infinity, until: -Infinity };
    for (const [key, { start, end, side }] of base.times) {
      const theirs = other.times.get(key);
      if (theirs === undefined) continue;
      pairs++;
      [from, until] = [Math.min(from, start), Math.max(until, end)];
      // No rank leaves before the other has entered; for a send this binds only the receiver.
      if (side !== 'send') most = Math.min(most, end - (theirs.start + apart));
      if (side !== 'receive') least = Math.max(least, start - (theirs.end + apart));
    }
    if (pairs === 0) return { least, most };
    const slack = timesOffNs + driftMax * (until - from);
    if (least - slack > most || this.#areStepsApart(base.process, other.process, least - slack, most + slack)) return undefined;
    const [known, theirs] = [this.#known.get(base.process), this.#known.get(other.process)];
    if (known !== undefined && theirs !== undefined && known.root === theirs.root)
      return Math.max(least, theirs.least - known.most) - slack <= Math.min(most, theirs.most - known.least) ? { least, most } : undefined;
    const haveWallClocks = one.epoch >= wallClockFrom && two.epoch >= wallClockFrom;
    const isNear = !haveWallClocks || (least <= wallClocksApartNs && most >= -wallClocksApartNs);
    return isNear || pairs >= pairsSure ? { least, most } : 'unproven';
  }

  /** Whether two files end with different steps, as far as is known, and no offset from `least` to `most` lays steps of one number upon each other. */
  #areStepsApart(one: number, two: number, least: number, most: number): boolean {
    const [mine, theirs] = [this.#stepsOf(one), this.#stepsOf(two)];
    if (mine.size === 0 || theirs.size === 0) return this.#endsDiffer;
    if (mine.last === theirs.last) return false;
    const apart = Number((this.#processes[two] as CountedProcess).epoch - (this.#processes[one] as CountedProcess).epoch);
    const offsets: number[] = [];
    const lengths: number[] = [];
    for (const [step, { start, length }] of mine.starts) {
      const same = theirs.starts.get(step);
      if (same === undefined) continue;
      offsets.push(start - (same.start + apart));
      lengths.push(length);
    }
    if (offsets.length === 0) return true;
    const [offset, far] = [median(offsets), stepsApartMax * median(lengths)];
    return least > offset + far || most < offset - far;
  }

  /** Whether files are known to end with different steps. */
  get #endsDiffer(): boolean {
    this.#haveOtherEnds ??= new Set(this.#processes.flatMap((_, process) => this.#stepsOf(process).last ?? [])).size > 1;
    return this.#haveOtherEnds;
  }

  #stepsOf(process: number): StepsOfFile {
    const known = this.#steps.get(process);
    if (known !== undefined) return known;
    const starts = new Map<number, { readonly start: number; readonly length: number }>();
    for (const { window, shift } of (this.#processes[process] as CountedProcess).windows) {
      const { steps, table } = window;
      for (let row = 0; row < steps.steps.length; row++) {
        const event = steps.steps.columns.event[row] as number;
        const { start, duration } = table.events.columns;
        starts.set(steps.steps.columns.number[row] as number, {
          start: (start[event] as number) + shift,
          length: duration[event] as number,
        });
      }
    }
    const of = { starts, size: starts.size, last: [...starts.keys()].at(-1) };
    this.#steps.set(process, of);
    return of;
  }
}
