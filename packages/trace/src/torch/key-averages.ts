// Key averages: calls, total and self time per name, as in torch.profiler's table. A sink on the merged events; model/nested-times.ts knows what lies
// inside of what.
//
// A rank's own span may come a second time in a window of PyTorch's profiler beside it, as an annotation of the same name: it counts once.

import { type Nanos, nanos } from '@ranktrace/protocol';
import { besideOwners } from '../model/beside-owners.ts';
import { annotationCategories } from '../model/kineto-categories.ts';
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

  /** The rank's own process, by the index of one recorded beside it; names of spans by the index of such an owner; and annotations beside it. */
  #owners: ReadonlyMap<number, TraceProcess> = new Map();
  readonly #ownNames = new Map<number, Set<string>>();
  readonly #annotations = new Map<number, Map<string, Totals>>();

  /** Processes that the averages cover. */
  processes: readonly TraceProcess[] = [];

  begin({ processes }: TraceHeader): void {
    this.processes = processes;
    this.#owners = besideOwners(processes);
    for (const { index } of this.#owners.values()) this.#ownNames.set(index, new Set());
  }

  lane(lane: TraceLane): void {
    this.#nested.lane(lane);
  }

  event(event: TraceEvent): void {
    if (event.kind === 'instant' || event.kind === 'counter') return;
    if (event.kind === 'step') {
      // All steps are one row; their lane holds nothing else.
      const totals = totalsOf(this.#totals.step, 'ProfilerStep', 'step');
      totals.count++;
      totals.total += event.length;
      totals.self += event.length;
      return;
    }
    const kind = event.kind === 'span' ? spanKind(event) : event.kind;
    const totals = this.#annotationOf(event, kind) ?? totalsOf(this.#totals[kind], event.name, kind);
    if (kind === 'span') this.#ownNames.get(event.lane.process.index)?.add(event.name);
    if (event.state !== 'close') totals.count++;
    this.#nested.event(event, totals);
  }

  end(totals: readonly ProcessTotals[]): void {
    const lastKnown = new Map(totals.map(({ process, until }) => [process.index, until]));
    this.#nested.end(({ index }) => lastKnown.get(index));
    for (const [owner, annotations] of this.#annotations) {
      for (const [key, { count, total, self }] of annotations) {
        if (this.#ownNames.get(owner)?.has(key)) continue;
        const totals = totalsOf(this.#totals.span, key, 'span');
        totals.count += count;
        totals.total += total;
        totals.self += self;
      }
    }
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

  /** The sums of an annotation in a window beside a rank's own recording; undefined for any other event. */
  #annotationOf({ lane, category, name }: TraceEvent, kind: KeyAverage['kind']): Totals | undefined {
    const owner = kind === 'span' && annotationCategories.includes(category) ? this.#owners.get(lane.process.index) : undefined;
    if (owner === undefined) return undefined;
    let annotations = this.#annotations.get(owner.index);
    if (annotations === undefined) {
      annotations = new Map();
      this.#annotations.set(owner.index, annotations);
    }
    return totalsOf(annotations, name, 'span');
  }
}

function totalsOf(of: Map<string, Totals>, key: string, kind: KeyAverage['kind']): Totals {
  const held = of.get(key);
  if (held !== undefined) return held;
  const totals = { key, kind, count: 0, total: 0, self: 0 };
  of.set(key, totals);
  return totals;
}
