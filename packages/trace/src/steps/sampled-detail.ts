// Detail that a rank recorded in some steps only, as its metadata says (`sampledKey`).

import { heldDetail, sampledKey } from '@ranktrace/protocol';
import { readCounts } from '../model/counts-text.ts';

/** `what` was recorded in `recorded` of `steps` steps so far, and is now in one step of `every`. */
export interface SampledDetail {
  readonly what: string;
  readonly every: number;
  readonly steps: number;
  readonly recorded: number;
}

/** Reads untrusted texts: one that is malformed is skipped. */
export function readSampled(metadata: ReadonlyMap<string, unknown>): SampledDetail[] {
  const found: SampledDetail[] = [];
  for (const [key, text] of metadata) {
    if (!key.startsWith(sampledKey)) continue;
    const counts = readCounts(typeof text === 'string' ? text : JSON.stringify(text), ['every', 'steps', 'recorded']);
    if (counts !== undefined && counts.every > 0 && counts.recorded <= counts.steps)
      found.push({ what: key.slice(sampledKey.length), ...counts });
  }
  return found;
}

/** Text about detail recorded in some steps only on these ranks, a line for each kind of detail. Results are of active steps, which lack none of the held. */
export function sampledText(ranks: readonly ReadonlyMap<string, unknown>[]): readonly string[] {
  const sums = new Map<string, { steps: number; recorded: number }>();
  for (const { what, steps, recorded } of ranks.flatMap(readSampled)) {
    if (what.startsWith(heldDetail)) continue;
    const sum = sums.get(what);
    sums.set(what, { steps: (sum?.steps ?? 0) + steps, recorded: (sum?.recorded ?? 0) + recorded });
  }
  return [...sums].map(
    ([what, { steps, recorded }]) => `${what} of ${recorded} of ${steps} steps: recording all would pass overheadBudget`,
  );
}
