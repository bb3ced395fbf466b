// The service's notices without repeats. A full disk says the same with each batch of each rank, and a process without file descriptors says it with
// each file: told once for each kind, and how many more there were.
//
// Notices are of a kind when they differ in quoted names, run names, subjects and numbers alone.

import { aggregatorLimits as limits } from './limits.ts';

interface Kind {
  /** When it was told last, ms. */
  toldAt: number;
  /** Different texts that were told since, and those that were not. */
  readonly texts: Set<string>;
  held: number;
}

/** Gives a function that hands each notice to `tell`, unless it was told in the last `noticeIntervalMs`, or `noticesOfKindMax` of its kind were. */
export function withoutRepeats(tell: (notice: string) => void): (notice: string) => void {
  const kinds = new Map<string, Kind>();
  return (notice) => {
    const now = performance.now();
    const name = notice.replace(/"[^"]*"|\S*\d\S*/g, '·');
    let kind = kinds.get(name);
    if (kind === undefined || now - kind.toldAt >= limits.noticeIntervalMs) {
      if (kind !== undefined && kind.held > 0) tell(`${kind.held} more notices like the next one were held back`);
      if (kinds.size >= limits.noticesMax) kinds.clear();
      kind = { toldAt: now, texts: new Set(), held: 0 };
      kinds.set(name, kind);
    }
    if (kind.texts.has(notice)) return;
    if (kind.texts.size >= limits.noticesOfKindMax) {
      kind.held++;
      return;
    }
    kind.texts.add(notice);
    tell(notice);
  };
}
