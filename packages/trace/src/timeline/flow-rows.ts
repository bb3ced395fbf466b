// Rows of a track with another side: the ranks of a collective, the two ends of a send or a remote call.

import { farSideBit, kindIndex, kindMask, pairBit } from './span-log.ts';
import type { SpanTrack } from './span-track.ts';

/** The kind of event that an arrow links. */
export type LinkKind = 'collective' | 'rpc' | 'send';

export interface FlowRow {
  readonly track: SpanTrack;
  readonly block: number;
  readonly row: number;
}

/** Collects the rows of `block` with this flow. */
export function rowsWithFlow(track: SpanTrack, block: number, high: number, low: number, found: FlowRow[]): void {
  const { flowHigh, flowLow } = track.log.read(block);
  const rows = track.log.rowsOf(block);
  for (let row = 0; row < rows; row++) {
    if (flowLow[row] === low && flowHigh[row] === high) found.push({ track, block, row });
  }
}

/** The kind of a row's arrows; `kind`: as in the column. */
export const linkKindOf = (kind: number): LinkKind =>
  (kind & kindMask) === kindIndex.rpc ? 'rpc' : (kind & pairBit) !== 0 ? 'send' : 'collective';

/** Whether the row is on the server's, or the receiver's, side. */
export const isFarSide = (kind: number): boolean => (kind & farSideBit) !== 0;
