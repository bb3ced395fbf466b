// The steps that are in a capture's trace, by rank, and what was lost in their time: ranks say what they recorded, and this is what became of it.

import { type Dropped, noneDropped, sumDropped } from '@ranktrace/protocol';
import type { ProcessTotals, TraceEvent, TraceSink } from '@ranktrace/trace';

export class StepsWritten implements TraceSink {
  /** Numbers of steps, by rank. */
  readonly steps = new Map<number, Set<number>>();
  /** By rank; all that were recorded. */
  readonly dropped = new Map<number, Dropped>();

  begin(): void {}

  lane(): void {}

  event({ kind, step, lane }: TraceEvent): void {
    if (kind !== 'step') return;
    const { rank } = lane.process;
    const known = this.steps.get(rank);
    if (known === undefined) this.steps.set(rank, new Set([step]));
    else known.add(step);
  }

  end(totals: readonly ProcessTotals[]): void {
    for (const { process, dropped } of totals)
      this.dropped.set(process.rank, sumDropped(this.dropped.get(process.rank) ?? noneDropped, dropped));
  }
}
