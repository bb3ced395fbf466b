// The host's threads by their outermost ops and calls: which wait for others, and the order of begins and ends on each.
//
//   thread 1    │ forward ──│            waits            │ optimizer ──│
//   thread 2                │ backward of autograd ──│
//                           └► first: after the one before the pause  └► the one behind it: after the last

import type { ColumnTable } from '../model/column-table.ts';
import { type hostColumns, hostKind, type RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';

type Host = ColumnTable<typeof hostColumns>;

/**
 * By row of an outermost op or call: the one of another thread that it waited for. A thread waits in `backward()` for autograd's, if that thread's work
 * takes most of the pause: its first op there comes after the one before the pause, and the one behind the pause after its last. `threads`: rows of each, in
 * order; `begin`: of the stretch.
 */
export function threadTurns(
  { columns: { start, end, kind } }: Host,
  threads: readonly (readonly number[])[],
  begin: number,
): ReadonlyMap<number, number> {
  const turns = new Map<number, number>();
  const outermost = threads.map((rows) => {
    let until = Number.NEGATIVE_INFINITY;
    return rows.filter((row) => {
      if ((kind[row] !== hostKind.op && kind[row] !== hostKind.call) || (start[row] as number) < until) return false;
      until = end[row] as number;
      return true;
    });
  });
  for (const tops of outermost) {
    const others = outermost.filter((other) => other !== tops).map((other) => ({ other, next: 0 }));
    let paused = begin;
    for (const [at, row] of tops.entries()) {
      const resumed = start[row] as number;
      let most = (resumed - paused) / 2;
      for (const of of resumed - paused >= limits.gpuKernelGapNsMax ? others : []) {
        let [covered, first, last] = [0, -1, -1];
        while (of.next < of.other.length && (start[of.other[of.next] as number] as number) < paused) of.next++;
        for (; of.next < of.other.length && (end[of.other[of.next] as number] as number) <= resumed; of.next++) {
          last = of.other[of.next] as number;
          if (first < 0) first = last;
          covered += (end[last] as number) - (start[last] as number);
        }
        if (last < 0 || covered < most) continue;
        most = covered;
        turns.set(row, last);
        if (at > 0) turns.set(first, tops[at - 1] as number);
      }
      paused = end[row] as number;
    }
  }
  return turns;
}

/**
 * Calls back for the begin and the end of each row, in order of time. An end closes what began last: spans that overlap by an error of rounding change
 * places. Rows have a length.
 */
export function walkNested(
  rows: readonly number[],
  { start, end }: { readonly start: Float64Array; readonly end: Float64Array },
  enter: (row: number) => void,
  leave: (row: number) => void,
): void {
  // Rows are in order of start, longest first: begins are sorted.
  const ends = endsNested(rows, start, end) ?? rows.toSorted((a, b) => compareEnds(a, b, start, end));
  const stack: number[] = [];
  let ended = 0;
  for (const row of rows) {
    for (; ended < ends.length && (end[ends[ended] as number] as number) <= (start[row] as number); ended++) leave(stack.pop() as number);
    stack.push(row);
    enter(row);
  }
  while (stack.length > 0) leave(stack.pop() as number);
}

/** Order of ends: of those at one time, the shorter one's, which is the inner one's. */
function compareEnds(a: number, b: number, start: Float64Array, end: Float64Array): number {
  const [endA, endB] = [end[a] as number, end[b] as number];
  return endA - endB || endA - (start[a] as number) - (endB - (start[b] as number)) || b - a;
}

/** Rows in order of their ends, as a stack of nested spans gives them; undefined where spans overlap in part. */
function endsNested(rows: readonly number[], start: Float64Array, end: Float64Array): readonly number[] | undefined {
  const ends: number[] = [];
  const stack: number[] = [];
  let last = -1;
  const leave = (): boolean => {
    const row = stack.pop() as number;
    if (last >= 0 && !(compareEnds(last, row, start, end) < 0)) return false;
    ends.push(row);
    last = row;
    return true;
  };
  for (const row of rows) {
    const time = start[row] as number;
    while (stack.length > 0 && (end[stack[stack.length - 1] as number] as number) <= time) if (!leave()) return undefined;
    stack.push(row);
  }
  while (stack.length > 0) if (!leave()) return undefined;
  return ends;
}

/** The only thread with ops or annotations of such a name, of the rows with 1 in `inside`: forward and backward take turns, so they count as one. -1 for none. */
function onlyThread({ host, names }: RankWork, inside: Uint8Array, pattern: RegExp): number {
  const isNamed = names.matching(pattern);
  const { name, kind, thread } = host.columns;
  let only = -1;
  for (let row = 0; row < host.length; row++) {
    if (inside[row] !== 1 || kind[row] === hostKind.call || kind[row] === hostKind.module) continue;
    if (isNamed[name[row] as number] !== 1 || thread[row] === only) continue;
    if (only >= 0) return -1;
    only = thread[row] as number;
  }
  return only;
}

/** Names of which HTA takes the only thread that has one for the forward's and the backward's. */
const forwardName = /forward/;
const backwardName = /autograd/;

/** HTA's way: rows of the forward's and the backward's threads, where each is one, are of one thread. */
export function joinForwardAndBackward(threads: Map<number, number[]>, work: RankWork, inside: Uint8Array): void {
  const [forward, backward] = [onlyThread(work, inside, forwardName), onlyThread(work, inside, backwardName)];
  if (forward < 0 || backward < 0 || forward === backward) return;
  const both = [...(threads.get(forward) ?? []), ...(threads.get(backward) ?? [])];
  threads.delete(backward);
  both.sort((a, b) => a - b);
  threads.set(forward, both);
}
