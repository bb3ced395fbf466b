// Throttles the service's notices. A full disk reports the same with each batch of each rank, and a process without file descriptors with each file:
// each kind is reported once, with the number of further ones.
//
// Notices are of one kind when they differ only in quoted names, run names, subjects and numbers.

import { aggregatorLimits as limits } from './limits.ts';

interface Kind {
  /** Time of the last report, ms. */
  reportedAt: number;
  /** Different texts since then, reported or not. */
  readonly texts: Set<string>;
  held: number;
}

/**
 * Returns a function that passes each notice to `report`, unless it did so in the last `noticeIntervalMs`, or passed `noticesOfKindMax` of its kind.
 */
export function withoutRepeats(report: (notice: string) => void): (notice: string) => void {
  const kinds = new Map<string, Kind>();
  return (notice) => {
    const now = performance.now();
    const name = notice.replace(/"[^"]*"|\S*\d\S*/g, '·');
    let kind = kinds.get(name);
    if (kind === undefined || now - kind.reportedAt >= limits.noticeIntervalMs) {
      if (kind !== undefined && kind.held > 0) report(`${kind.held} more notices like the next one were held back`);
      if (kinds.size >= limits.noticesMax) kinds.clear();
      kind = { reportedAt: now, texts: new Set(), held: 0 };
      kinds.set(name, kind);
    }
    if (kind.texts.has(notice)) return;
    if (kind.texts.size >= limits.noticesOfKindMax) {
      kind.held++;
      return;
    }
    kind.texts.add(notice);
    report(notice);
  };
}
