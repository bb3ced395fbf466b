// The tracks of a marked area, as many as a request may name.

import { limits, type RunModel, type ViewProcess, type ViewTrack } from '@ranktrace/protocol';
import type { Area } from '../client/run-client.ts';
import { isReading } from '../overview/reading.ts';
import type { Row } from './rows.ts';

/** `all`: number of tracks of the run. If all are marked, and there are too many to name, an empty list stands for them. */
export function markedTracks(marked: ReadonlySet<number>, all: number): { readonly tracks: readonly number[]; readonly leftOut: number } {
  const { viewTracksMax: most } = limits;
  if (marked.size > most && marked.size === all) return { tracks: [], leftOut: 0 };
  return { tracks: [...marked].slice(0, most), leftOut: Math.max(0, marked.size - most) };
}

/** The tracks that a folded row stands for: of a rank's life, those of that life alone. */
export function foldedTracks(
  { kind, isFolded, ranks, process }: Row,
  tracks: ReadonlyMap<number, ViewTrack>,
  processes: ReadonlyMap<number, ViewProcess>,
): readonly number[] {
  if (!isFolded) return [];
  const among = new Set(ranks);
  const isOfRow = ({ process: of }: ViewTrack): boolean =>
    process === undefined ? among.has(processes.get(of)?.rank ?? -1) : of === process.index;
  return [...tracks.values()]
    .filter((track) => isOfRow(track) && (kind !== 'counters' || track.kind === 'counter'))
    .map(({ track }) => track);
}

/** Whether some of an area may be missing: the run is being read, or goes on and a rank of these tracks has not come to the area's end. */
export function isAreaPartial(
  { until, tracks }: Pick<Area, 'until' | 'tracks'>,
  model: Pick<RunModel, 'live' | 'read' | 'total' | 'processes' | 'tracks'>,
): boolean {
  if (!model.live) return isReading(model);
  const late = new Set(model.processes.filter((process) => !process.ended && process.until < until).map(({ index }) => index));
  if (late.size === 0 || tracks.length === 0) return late.size > 0;
  const marked = new Set(tracks);
  return model.tracks.some(({ track, process }) => late.has(process) && marked.has(track));
}
