// What a table says of itself: what its times mean, and of how many steps it is.

import { sampledText } from '../steps/sampled-detail.ts';
import { opTimesText } from './op-times.ts';

/** Lines to stand above a table of ranks with these metadata, which come from outside; undefined where it shows all that it looks like. */
export function tableHeader(...ranks: readonly ReadonlyMap<string, unknown>[]): string | undefined {
  const times = new Set(ranks.map(opTimesText).filter((text) => text !== undefined));
  const lines = [...times, ...sampledText(ranks)];
  return lines.length === 0 ? undefined : lines.join('\n');
}
