// Targets of jumps from the overview to a rank's row in the timeline: of a rank that was started again, to the life that was meant.

import type { Overview, OverviewGpu, OverviewRank } from '@ranktrace/protocol';
import type { JumpTarget } from '../client/view-state.ts';
import { binRange, cellRange } from './step-bins.ts';

/**
 * A rank, in the time of the overview's steps where they are not all steps of the run.
 *
 * @param process the life that is meant, where it is known (`OverviewRank.process`)
 */
export function rankTarget(overview: Overview, isZoomed: boolean, rank: number, process?: number): JumpTarget {
  const target = { ranks: [rank], ...(process === undefined ? {} : { process }) };
  if (!isZoomed) return target;
  const life = overview.ranks.find((row) => row.process === process && row.starts !== undefined);
  const bins = overview.bins.flatMap((_, bin) => (life === undefined || typeof life.starts?.[bin] === 'number' ? [bin] : []));
  const rangeOf = (bin: number | undefined) =>
    bin === undefined ? undefined : life === undefined ? binRange(overview, bin) : cellRange(overview, life, bin);
  const [first, last] = [rangeOf(bins[0]), rangeOf(bins.at(-1))];
  return first === undefined || last === undefined ? target : { ...target, from: first.from, until: last.until };
}

/** The life that a row is of, wherever it is in time. */
export const lifeTarget = ({ rank, process }: Pick<OverviewRank, 'rank' | 'process'>): JumpTarget => ({ ranks: [rank], process });

/** The process of a line about GPUs: lives of a rank are in order in both. Undefined where some life has no such line, or no steps. */
export function processOfGpu({ gpus = [], ranks }: Pick<Overview, 'gpus' | 'ranks'>, gpu: OverviewGpu): number | undefined {
  const lines = gpus.filter(({ rank }) => rank === gpu.rank);
  const lives = ranks.filter(({ rank }) => rank === gpu.rank).sort((a, b) => a.process - b.process);
  return lines.length === lives.length ? lives[lines.indexOf(gpu)]?.process : undefined;
}
