// Tiles for tests, written by hand.

import { itemKinds, type SpanTile } from '@ranktrace/protocol';

export interface FixtureItem {
  readonly start: number;
  readonly length: number;
  readonly depth?: number;
  readonly name?: number;
  readonly event?: number;
  readonly count?: number;
  readonly busy?: number;
  readonly kind?: (typeof itemKinds)[number];
}

/** A tile of these items, put into the order of tiles. */
export function spanTile(items: readonly FixtureItem[], about: Partial<SpanTile> = {}): SpanTile {
  const sorted = [...items].sort((a, b) => (a.depth ?? 0) - (b.depth ?? 0) || a.start - b.start);
  return {
    type: 'spans',
    track: 0,
    level: 0,
    index: 0,
    version: 1,
    complete: true,
    start: Float64Array.from(sorted, ({ start }) => start),
    length: Float64Array.from(sorted, ({ length }) => length),
    busy: Float32Array.from(sorted, ({ busy, length }) => busy ?? length),
    count: Uint32Array.from(sorted, ({ count }) => count ?? 1),
    name: Uint32Array.from(sorted, ({ name }) => name ?? 0),
    event: Uint32Array.from(sorted, ({ event }, at) => event ?? at),
    depth: Uint8Array.from(sorted, ({ depth }) => depth ?? 0),
    kind: Uint8Array.from(sorted, ({ kind }) => itemKinds.indexOf(kind ?? 'span')),
    ...about,
  };
}
