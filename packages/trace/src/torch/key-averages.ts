// Key averages: calls, total and self time per name, as in torch.profiler's table. A sink on the merged events.
//
// Self time is a span's length less that of the spans directly inside it on its lane. Lanes nest properly, so one stack a lane is enough:
//
//   lane   A ─────────────────     self(A) = A − B − C
//            B ─────   C ───
//
// Garbage collections have a lane beside their thread's own, yet count as nested in the span that they interrupted.

import { collectionsSuffix, type Nanos, nanos } from '@ranktrace/protocol';
import { isCollectionsOf, isOverflowOf } from '../model/lanes.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';

/** All spans of one name and kind; times in ns. */
export interface KeyAverage {
  readonly key: string;
  readonly kind: 'span' | 'step' | 'collective' | 'rpc';
  readonly count: number;
  readonly total: Nanos;
  readonly self: Nanos;
  /** Total divided by count. */
  readonly average: Nanos;
}

interface Totals {
  readonly key: string;
  readonly kind: KeyAverage['kind'];
  count: number;
  total: number;
  self: number;
}

interface Frame {
  readonly totals: Totals;
  readonly start: number;
  /** Infinity while unknown. */
  end: number;
  /** Time of direct children while the end is unknown: subtracted once it is known, and never if it stays unknown. */
  inside: number;
}

export class KeyAveragesSink implements TraceSink {
  readonly #totals = {
    span: new Map<string, Totals>(),
    step: new Map<string, Totals>(),
    collective: new Map<string, Totals>(),
    rpc: new Map<string, Totals>(),
  };
  readonly #stacks: Frame[][] = [];
  /** Lanes of threads, by process. */
  readonly #threads = new Map<TraceProcess, TraceLane[]>();

  /** Processes that the averages cover. */
  processes: readonly TraceProcess[] = [];

  begin({ processes }: TraceHeader): void {
    this.processes = processes;
  }

  lane(lane: TraceLane): void {
    this.#stacks[lane.index] = [];
    if (lane.kind !== 'thread') return;
    const threads = this.#threads.get(lane.process);
    if (threads === undefined) this.#threads.set(lane.process, [lane]);
    else threads.push(lane);
  }

  event(event: TraceEvent): void {
    if (event.kind === 'instant' || event.kind === 'counter') return;
    if (event.kind === 'step') {
      // All steps are one row; their lane holds nothing else.
      const totals = this.#totalsOf('ProfilerStep', 'step');
      totals.count++;
      totals.total += event.length;
      totals.self += event.length;
      return;
    }
    const stack = this.#stacks[event.lane.index] as Frame[];
    const totals = this.#totalsOf(event.name, event.kind);
    if (event.state === 'close') {
      close(stack, totals, event);
      return;
    }
    let top = stack.at(-1);
    while (top !== undefined && top.end <= event.start) {
      stack.pop();
      top = stack.at(-1);
    }
    totals.count++;
    const whole = event.state === 'whole';
    if (whole && event.lane.name.endsWith(collectionsSuffix)) {
      add(totals, this.#interrupted(event), event.length, 0);
      return;
    }
    if (whole) add(totals, top, event.length, 0);
    stack.push({ totals, start: event.start, end: whole ? event.start + event.length : Number.POSITIVE_INFINITY, inside: 0 });
  }

  end(): void {}

  /** The thread's innermost span around a collection. */
  #interrupted({ lane, start, length }: TraceEvent): Frame | undefined {
    const threads = this.#threads.get(lane.process) ?? [];
    const own = threads.find((thread) => isCollectionsOf(lane, thread));
    if (own === undefined) return undefined;
    let innermost: Frame | undefined;
    for (const thread of threads) {
      if (thread !== own && !isOverflowOf(thread, own)) continue;
      const frame = this.#stacks[thread.index]?.findLast((frame) => frame.start <= start && frame.end >= start + length);
      if (frame !== undefined && (innermost === undefined || frame.start > innermost.start)) innermost = frame;
    }
    return innermost;
  }

  /** Averages by self time, largest first. A span that never ended counts as a call of no length. */
  get averages(): readonly KeyAverage[] {
    const rows = Object.values(this.#totals)
      .flatMap((rows) => [...rows.values()])
      .sort((a, b) => b.self - a.self || (a.key < b.key ? -1 : 1));
    return rows.map(({ key, kind, count, total, self }) => {
      return { key, kind, count, total: nanos(total), self: nanos(self), average: nanos(total / count) };
    });
  }

  #totalsOf(key: string, kind: KeyAverage['kind']): Totals {
    const held = this.#totals[kind].get(key);
    if (held !== undefined) return held;
    const totals = { key, kind, count: 0, total: 0, self: 0 };
    this.#totals[kind].set(key, totals);
    return totals;
  }
}

/** Sets the end of an open span's frame. */
function close(stack: readonly Frame[], totals: Totals, event: TraceEvent): void {
  for (let at = stack.length - 1; at >= 0; at--) {
    const frame = stack[at] as Frame;
    if (frame.end !== Number.POSITIVE_INFINITY || frame.start !== event.start || frame.totals !== totals) continue;
    frame.end = event.start + event.length;
    add(totals, stack[at - 1], event.length, frame.inside);
    return;
  }
}

/** Counts a span of `length` ns, `inside` of them its children's. */
function add(totals: Totals, parent: Frame | undefined, length: number, inside: number): void {
  totals.total += length;
  totals.self += length - inside;
  if (parent?.end === Number.POSITIVE_INFINITY) parent.inside += length;
  else if (parent !== undefined) parent.totals.self -= length;
}
