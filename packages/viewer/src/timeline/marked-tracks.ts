// The tracks of a marked area, as many as a request may name.

import { limits } from '@ranktrace/protocol';

/** `all`: number of tracks of the run. If all are marked, and there are too many to name, an empty list stands for them. */
export function markedTracks(marked: ReadonlySet<number>, all: number): { readonly tracks: readonly number[]; readonly leftOut: number } {
  const { viewTracksMax: most } = limits;
  if (marked.size > most && marked.size === all) return { tracks: [], leftOut: 0 };
  return { tracks: [...marked].slice(0, most), leftOut: Math.max(0, marked.size - most) };
}
