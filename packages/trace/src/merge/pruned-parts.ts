// Pruned parts of one life of a rank, gathered from the headers of its batches.

import type { Pruned } from '@ranktrace/protocol';
import type { EventCounts, PrunedPart } from '../model/trace-sink.ts';

/** `one` and `other` as one part: the steps of both, the later day. */
export function joinParts(one: PrunedPart, other: PrunedPart): PrunedPart {
  const [a, b] = [one.steps, other.steps];
  const steps = a === undefined || b === undefined ? (a ?? b) : ([Math.min(a[0], b[0]), Math.max(a[1], b[1])] as const);
  const { on } = one.on > other.on ? one : other;
  return { what: one.what, steps, on };
}

export class PrunedParts {
  readonly #parts = new Map<PrunedPart['what'], PrunedPart>();
  readonly #events = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };

  /** Ignores a batch that was only joined with others and lost nothing. */
  add({ what, steps, on, events }: Pruned): void {
    if (Object.values(events).every((count) => count === 0)) return;
    const part: PrunedPart = { what, steps, on };
    const known = this.#parts.get(what);
    this.#parts.set(what, known === undefined ? part : joinParts(known, part));
    for (const kind of Object.keys(this.#events) as (keyof EventCounts)[]) this.#events[kind] += events[kind];
  }

  /** Undefined where nothing was pruned. */
  get parts(): { readonly parts: readonly PrunedPart[]; readonly events: EventCounts } | undefined {
    return this.#parts.size === 0 ? undefined : { parts: [...this.#parts.values()], events: { ...this.#events } };
  }
}
