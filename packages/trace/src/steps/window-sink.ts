// A part of a run: some ranks, and what overlaps a window of trace time.
//
//   window            [ from ────────────── until )
//   whole spans   ─A─ ──B────    ─C─            ──D──  ─E─       B, C and D
//   open spans        O ·················· close                  held until something of the window comes, then passed
//
// Invariant: an end is passed only for a begin that was; lanes without an event of the window are not announced.

import { KeyedStacks } from '../model/keyed-stacks.ts';
import { limits } from '../model/limits.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';

export interface TraceWindow {
  /** Trace time, ns; default: all. */
  readonly from?: number | undefined;
  readonly until?: number | undefined;
  /** Ranks; default: all. */
  readonly hasRank?: ((rank: number) => boolean) | undefined;
}

export class WindowSink implements TraceSink {
  readonly #from: number;
  readonly #until: number;
  readonly #hasRank: (rank: number) => boolean;
  readonly #sink: TraceSink;
  readonly #chosen = new Set<TraceProcess>();
  readonly #announced = new Set<TraceLane>();
  /** Spans that were open before anything of the window came, in order of their begins. */
  readonly #held = new KeyedStacks<TraceEvent>();
  /** Begins that were passed, and have not ended. */
  readonly #open = new KeyedStacks<true>();
  /** Events that were passed on. */
  events = 0;

  constructor(sink: TraceSink, { from, until, hasRank }: TraceWindow) {
    this.#sink = sink;
    this.#from = from ?? Number.NEGATIVE_INFINITY;
    this.#until = until ?? Number.POSITIVE_INFINITY;
    this.#hasRank = hasRank ?? (() => true);
  }

  begin(header: TraceHeader): void {
    const processes = header.processes.filter(({ rank }) => this.#hasRank(rank));
    for (const process of processes) this.#chosen.add(process);
    this.#sink.begin({ ...header, processes });
  }

  lane(): void {}

  event(event: TraceEvent): void {
    const { lane, start, length, state } = event;
    if (!this.#chosen.has(lane.process)) return;
    const hasEnd = event.kind !== 'instant' && event.kind !== 'counter';
    if (hasEnd && state === 'close') {
      const key = keyOf(event);
      if (this.#held.pop(key) === undefined && this.#open.pop(key) !== undefined) this.#sink.event(event);
      return;
    }
    if (start >= this.#until) return;
    if (hasEnd && state === 'open') {
      if (start < this.#from && this.#open.size === 0 && this.#held.size < limits.openSpansMax) this.#held.push(keyOf(event), { ...event });
      else {
        this.#open.push(keyOf(event), true);
        this.#pass(event);
      }
      return;
    }
    const isIn = start >= this.#from || (hasEnd && start + length > this.#from);
    if (isIn) this.#pass(event);
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#passHeld();
    this.#sink.end(totals.filter(({ process }) => this.#chosen.has(process)));
  }

  #pass(event: TraceEvent): void {
    this.#passHeld();
    this.#announce(event.lane);
    this.events++;
    this.#sink.event(event);
  }

  #passHeld(): void {
    if (this.#held.size === 0) return;
    const held = this.#held.values();
    this.#held.clear();
    for (const event of held) {
      this.#open.push(keyOf(event), true);
      this.#announce(event.lane);
      this.events++;
      this.#sink.event(event);
    }
  }

  #announce(lane: TraceLane): void {
    if (this.#announced.has(lane)) return;
    this.#announced.add(lane);
    this.#sink.lane(lane);
  }
}

const keyOf = ({ lane, start, kind, name }: TraceEvent): string => `${lane.index} ${start} ${kind} ${name}`;
