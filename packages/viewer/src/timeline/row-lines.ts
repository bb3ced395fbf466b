// The places of spans in a row. Painter, pointer, selection and arrows share them.
//
//   rank row, folded    │ steps ▏▏▏▏▏▏ │ 3 … 14      track row   │ line 0                │
//                       │ lanes ██ ▌█  │ 17 … 34                 │ line 1                │   18 px each
//
// The lanes of a folded rank are one line: its streams, or the outermost spans of its main thread.

import type { ViewTrack } from '@ranktrace/protocol';
import { lineHeight, type Row } from './rows.ts';

/** Part of a row: CSS pixels below its top. */
export interface LinePlace {
  readonly top: number;
  readonly tall: number;
}

const stepsTop = 3;
const laneTop = 17;

/** The steps of a rank's row. */
export const stepsPlace = ({ height, lanes }: Pick<Row, 'height' | 'lanes'>): LinePlace =>
  lanes.length > 0 ? { top: stepsTop, tall: laneTop - stepsTop - 3 } : { top: stepsTop + 1, tall: height - 9 };

/** The line below the steps of a folded rank. */
export const lanesPlace: LinePlace = { top: laneTop, tall: lineHeight - 1 };

/** The deepest line of a track that the lanes of a folded rank show. */
export const lanesDepthMax = ({ kind, depth }: Pick<ViewTrack, 'kind' | 'depth'>): number =>
  kind === 'thread' ? 0 : Math.max(0, depth - 1);

/** Place of a track's line `depth` in a row; undefined where the row does not show it. */
export function placeIn(row: Row, track: number, depth: number): LinePlace | undefined {
  if (row.kind === 'rank') {
    if (row.track?.track === track) return stepsPlace(row);
    const lane = row.lanes.find((each) => each.track === track);
    return lane !== undefined && depth <= lanesDepthMax(lane) ? lanesPlace : undefined;
  }
  if (row.kind !== 'track' || row.track?.track !== track) return undefined;
  const line = depth - row.firstLine;
  return line < 0 || line >= row.lines ? undefined : { top: 1 + line * lineHeight, tall: lineHeight - 1 };
}

/** The row that shows a line of a track; undefined where it is folded away. */
export const rowOf = (rows: readonly Row[], track: number, depth: number): Row | undefined =>
  rows.find((row) => placeIn(row, track, depth) !== undefined);
