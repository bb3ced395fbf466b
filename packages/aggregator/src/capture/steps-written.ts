// The steps that are in a capture's trace, by rank: ranks say what they recorded, and this is what became of it.

import type { TraceEvent, TraceSink } from '@ranktrace/trace';

export class StepsWritten implements TraceSink {
  /** Numbers of steps, by rank. */
  readonly steps = new Map<number, Set<number>>();

  begin(): void {}

  lane(): void {}

  event({ kind, step, lane }: TraceEvent): void {
    if (kind !== 'step') return;
    const { rank } = lane.process;
    const known = this.steps.get(rank);
    if (known === undefined) this.steps.set(rank, new Set([step]));
    else known.add(step);
  }

  end(): void {}
}
