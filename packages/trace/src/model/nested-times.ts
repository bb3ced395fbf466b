// Total and self times of spans. Self time is a span's length less that of the spans directly inside it on its lane. Lanes nest properly, so one
// stack a lane is enough:
//
//   lane   A ─────────────────     self(A) = A − B − C
//            B ─────   C ───
//
// Garbage collections have a lane beside their thread's own, yet count as nested in the span that they interrupted.
//
// Invariant: each span is finished once, after everything inside it, so its self time is final.

import { collectionsSuffix } from '@ranktrace/protocol';
import { isCollectionsOf, isOverflowOf } from './lanes.ts';
import type { TraceEvent, TraceLane, TraceProcess } from './trace-sink.ts';

interface Frame<Row> {
  readonly row: Row;
  readonly start: number;
  /** Infinity while unknown. */
  end: number;
  /** Time of direct children. */
  inside: number;
}

/** Takes one span, once all inside it has been seen; times in ns. A span that never ended has no length. */
export type FinishSpan<Row> = (row: Row, lane: TraceLane, length: number, self: number, start: number) => void;

/** `Row`: what a caller counts a span under; the spans around an event are known by their rows. */
export class NestedTimes<Row> {
  readonly #finish: FinishSpan<Row>;
  /** By lane index. */
  readonly #stacks: (Frame<Row>[] | undefined)[] = [];
  /** By process. */
  readonly #lanes = new Map<TraceProcess, TraceLane[]>();

  constructor(finish: FinishSpan<Row>) {
    this.#finish = finish;
  }

  lane(lane: TraceLane): void {
    while (this.#stacks.length <= lane.index) this.#stacks.push(undefined);
    this.#stacks[lane.index] = [];
    const lanes = this.#lanes.get(lane.process);
    if (lanes === undefined) this.#lanes.set(lane.process, [lane]);
    else lanes.push(lane);
  }

  /** Takes a span, a collective or a remote call, in order of time. */
  event(event: TraceEvent, row: Row): void {
    const { lane, start, length, state } = event;
    const stack = this.#stacks[lane.index] as Frame<Row>[];
    if (state === 'close') {
      close(stack, row, start, length);
      return;
    }
    this.#leave(stack, lane, start);
    const isWhole = state === 'whole';
    if (isWhole && lane.name.endsWith(collectionsSuffix)) {
      const around = this.#interrupted(event);
      if (around !== undefined) around.inside += length;
      this.#finish(row, lane, length, length, start);
      return;
    }
    const parent = stack.at(-1);
    if (isWhole && parent !== undefined) parent.inside += length;
    stack.push({ row, start, end: isWhole ? start + length : Number.POSITIVE_INFINITY, inside: 0 });
  }

  /** The row of the innermost span that runs on a lane at a time, not before its last event. */
  enclosing(lane: TraceLane, time: number): Row | undefined {
    const stack = this.#stacks[lane.index] as Frame<Row>[];
    this.#leave(stack, lane, time);
    return stack.at(-1)?.row;
  }

  /** Finishes the spans of a process that ended by `until`, although no later event of their lane has come. */
  settle(process: TraceProcess, until: number): void {
    for (const lane of this.#lanes.get(process) ?? []) this.#leave(this.#stacks[lane.index] as Frame<Row>[], lane, until);
  }

  /** Finishes all spans: nothing follows. `untilOf`: the time until which open spans of a process lasted; without one they have no length. */
  end(untilOf: (process: TraceProcess) => number | undefined = () => undefined): void {
    for (const [process, lanes] of this.#lanes) {
      const until = untilOf(process);
      for (const lane of lanes) {
        const stack = this.#stacks[lane.index] as Frame<Row>[];
        for (let frame = stack.pop(); frame !== undefined; frame = stack.pop()) {
          // Only open spans are around an open one: its lane is its own until it ends.
          if (until !== undefined && frame.end === Number.POSITIVE_INFINITY) endFrame(frame, Math.max(frame.start, until), stack.at(-1));
          this.#finishFrame(frame, lane);
        }
      }
    }
  }

  #leave(stack: Frame<Row>[], lane: TraceLane, time: number): void {
    let top = stack.at(-1);
    while (top !== undefined && top.end <= time) {
      stack.pop();
      this.#finishFrame(top, lane);
      top = stack.at(-1);
    }
  }

  #finishFrame({ row, start, end, inside }: Frame<Row>, lane: TraceLane): void {
    if (end === Number.POSITIVE_INFINITY) this.#finish(row, lane, 0, 0, start);
    else this.#finish(row, lane, end - start, end - start - inside, start);
  }

  /** The thread's innermost span around a collection. */
  #interrupted({ lane, start, length }: TraceEvent): Frame<Row> | undefined {
    const threads = (this.#lanes.get(lane.process) ?? []).filter(({ kind }) => kind === 'thread');
    const own = threads.find((thread) => isCollectionsOf(lane, thread));
    if (own === undefined) return undefined;
    let innermost: Frame<Row> | undefined;
    for (const thread of threads) {
      if (thread !== own && !isOverflowOf(thread, own)) continue;
      const frame = this.#stacks[thread.index]?.findLast((frame) => frame.start <= start && frame.end >= start + length);
      if (frame !== undefined && (innermost === undefined || frame.start > innermost.start)) innermost = frame;
    }
    return innermost;
  }
}

/** Sets the end of an open span's frame. */
function close<Row>(stack: readonly Frame<Row>[], row: Row, start: number, length: number): void {
  for (let at = stack.length - 1; at >= 0; at--) {
    const frame = stack[at] as Frame<Row>;
    if (frame.end !== Number.POSITIVE_INFINITY || frame.start !== start || frame.row !== row) continue;
    endFrame(frame, start + length, stack[at - 1]);
    return;
  }
}

function endFrame<Row>(frame: Frame<Row>, end: number, parent: Frame<Row> | undefined): void {
  frame.end = end;
  if (parent !== undefined) parent.inside += end - frame.start;
}
