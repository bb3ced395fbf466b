// Key averages: calls, total and self time per name, as in torch.profiler's table. A sink on the merged events; model/nested-times.ts knows what lies
// inside of what.

import { type Nanos, nanos } from '@ranktrace/protocol';
import { NestedTimes } from '../model/nested-times.ts';
import { spanKind } from '../model/span-kind.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';

/** All spans of one name and kind; times in ns. */
export interface KeyAverage {
  readonly key: string;
  readonly kind: 'span' | 'kernel' | 'copy' | 'step' | 'collective' | 'rpc';
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

export class KeyAveragesSink implements TraceSink {
  readonly #totals = {
    span: new Map<string, Totals>(),
    kernel: new Map<string, Totals>(),
    copy: new Map<string, Totals>(),
    step: new Map<string, Totals>(),
    collective: new Map<string, Totals>(),
    rpc: new Map<string, Totals>(),
  };
  readonly #nested = new NestedTimes<Totals>((totals, _lane, length, self) => {
    totals.total += length;
    totals.self += self;
  });

  /** Processes that the averages cover. */
  processes: readonly TraceProcess[] = [];

  begin({ processes }: TraceHeader): void {
    this.processes = processes;
  }

  lane(lane: TraceLane): void {
    this.#nested.lane(lane);
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
    const totals = this.#totalsOf(event.name, event.kind === 'span' ? spanKind(event) : event.kind);
    if (event.state !== 'close') totals.count++;
    this.#nested.event(event, totals);
  }

  end(totals: readonly ProcessTotals[]): void {
    const lastKnown = new Map(totals.map(({ process, until }) => [process.index, until]));
    this.#nested.end(({ index }) => lastKnown.get(index));
  }

  /**
   * Averages by self time, largest first; whole after `end`. A span that never ended lasts until its process was last heard of, as in the process
   * itself; of a process without such a time it counts as a call of no length.
   */
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
