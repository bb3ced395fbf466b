// How well each device was used, by the TensorBoard plugin's definitions.
//
//   utilisation      time in which any kernel ran ÷ all time
//   SM efficiency    min(blocks per SM of all running kernels, 1), weighted by time ÷ all time
//   occupancy        est. achieved occupancy of kernels, weighted by their time
//
// All time is that of the steps' windows, and without steps that from the first work to the end of the last.

import type { RankWork } from './device-work.ts';
import { Intervals } from './intervals.ts';
import { classOf, kindOf } from './kernel-class.ts';

export interface DeviceUsage {
  readonly device: number;
  /** 0 … 1; undefined where kernels carry no such figure. */
  readonly utilisation: number;
  readonly smEfficiency: number | undefined;
  readonly occupancy: number | undefined;
}

/** Usage of each device in these stretches, which are in order: between two cycles of a profiler nothing was recorded. */
export function deviceUsage(
  work: RankWork,
  stretches: readonly { readonly start: number; readonly end: number }[],
): readonly DeviceUsage[] {
  const all = new Intervals();
  for (const { start, end } of stretches) all.add(start, end);
  return all.length === 0 ? [] : work.devices.map((device) => usageOf(work, device, all));
}

function usageOf(work: RankWork, device: number, stretches: Intervals): DeviceUsage {
  const { columns, length } = work.work;
  const busy = new Intervals();
  /** Begins and ends of kernels with a known number of blocks. */
  const changes: { time: number; blocks: number }[] = [];
  let [occupied, occupiedTime] = [0, 0];
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] !== kindOf.kernel || columns.class[row] === classOf.other) continue;
    if (work.streams[columns.stream[row] as number]?.device !== device) continue;
    const [from, until] = [columns.start[row] as number, columns.end[row] as number];
    busy.add(from, until);
    const shape = (columns.shape[row] as number) - 1;
    const blocks = shape < 0 ? 0 : (work.shapes.columns.blocksPerSm[shape] as number);
    const occupancy = shape < 0 ? Number.NaN : (work.shapes.columns.occupancy[shape] as number);
    stretches.within(from, until, (start, end) => {
      if (end <= start) return;
      if (blocks > 0) changes.push({ time: start, blocks }, { time: end, blocks: -blocks });
      if (!(occupancy >= 0)) return;
      occupied += (end - start) * occupancy;
      occupiedTime += end - start;
    });
  }
  const span = stretches.total;
  const used = stretches.from.reduce((sum, from, at) => sum + busy.covered(from, stretches.until[at] as number), 0);
  return {
    device,
    utilisation: used / span,
    smEfficiency: changes.length === 0 ? undefined : smTime(changes) / span,
    occupancy: occupiedTime === 0 ? undefined : occupied / occupiedTime / 100,
  };
}

/** Time weighted by the share of SMs with a block. */
function smTime(changes: { time: number; blocks: number }[]): number {
  changes.sort((a, b) => a.time - b.time);
  let [sum, running, before] = [0, 0, changes[0]?.time ?? 0];
  for (const { time, blocks } of changes) {
    sum += (time - before) * Math.min(1, Math.max(0, running));
    running += blocks;
    before = time;
  }
  return sum;
}
