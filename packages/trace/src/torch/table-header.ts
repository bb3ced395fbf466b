// A table's notes about itself: the meaning of its times, and the number of its steps.

import { sampledText } from '../steps/sampled-detail.ts';
import { opTimesText } from './op-times.ts';

/** Lines above a table of ranks with this (outside) metadata; undefined if the table needs no note. */
export function tableHeader(...ranks: readonly ReadonlyMap<string, unknown>[]): string | undefined {
  const times = new Set(ranks.map(opTimesText).filter((text) => text !== undefined));
  const lines = [...times, ...sampledText(ranks)];
  return lines.length === 0 ? undefined : lines.join('\n');
}
