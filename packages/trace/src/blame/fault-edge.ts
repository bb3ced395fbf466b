// The step of a window at which a fault begins or ends: a rank's excess over its peers in a phase changes from one level to another.
//
//   excess over its peers   ▁▁▁▁▁▁▁▁▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅
//                                      ^ edge
//
// A median over the window's steps blames all of them if the fault is in most, and none if it is in few. Splitting at the edge lets each side
// be judged by itself.

import { fitStep, type ShapeFit } from '../detect/block-statistics.ts';
import { deviation, mean, median } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';
import { OwnWork } from './own-work.ts';

/** Steps required on either side of an edge. */
const sideStepsMin = 6;
/** Least difference between the sides: as a share of the step (less is no verdict), … */
const shareOfStepMin = 0.02;
/** … and in errors of that difference: high, because the edge is the most striking place of many ranks, phases and steps. */
const errorsMin = 8;
/** This share of the longest and of the shortest values is clipped: a few steps of another kind make no edge. */
const clippedShare = 0.08;

/** Number of the first step after the clearest edge of any rank in any phase; undefined if there is none. `step`: ns, the cluster's mean. */
export function faultEdge(window: BlameWindow, step: number): number | undefined {
  const { phases, steps } = window;
  if (steps.length < 2 * sideStepsMin) return undefined;
  const own = new OwnWork(window);
  let [clearest, edge] = [errorsMin, -1];
  for (const ranks of own.groups.values()) {
    if (ranks.length < 2) continue;
    for (const phase of phases.keys()) {
      for (const more of own.moreThanPeers(ranks, phase)) {
        const { at, difference, error } = sidesOf(more);
        if (difference < shareOfStepMin * step || difference <= clearest * error) continue;
        clearest = error > 0 ? difference / error : Number.MAX_VALUE;
        edge = at;
      }
    }
  }
  return steps[edge]?.step;
}

/** The place that best divides the values into two levels, their difference, and its error. */
function sidesOf(values: Float64Array): { readonly at: number; readonly difference: number; readonly error: number } {
  const sorted = values.slice().sort();
  const beyond = Math.floor(clippedShare * sorted.length);
  const [low, high] = [sorted[beyond] as number, sorted[sorted.length - 1 - beyond] as number];
  const fit: ShapeFit = { squares: 0, at: 0 };
  const clipped = values.map((value) => Math.min(high, Math.max(low, value)));
  fitStep(clipped, 0, clipped.length, sideStepsMin, clipped.length - sideStepsMin, fit);
  const [before, after] = [values.subarray(0, fit.at), values.subarray(fit.at)];
  const [levelBefore, levelAfter] = [median(before), median(after)];
  const off = values.map((value, at) => value - (at < fit.at ? levelBefore : levelAfter));
  const apart = Math.sqrt(1 / before.length + 1 / after.length);
  const difference = Math.abs(levelAfter - levelBefore);
  // Where a rank is slow now and then, medians jump by chance from one level to the other, and deviations from them do not show it. Means do.
  const [meanBefore, meanAfter] = [mean(clipped.subarray(0, fit.at)), mean(clipped.subarray(fit.at))];
  const squares = clipped.reduce((sum, value, at) => sum + (value - (at < fit.at ? meanBefore : meanAfter)) ** 2, 0);
  const ofMeans = (Math.sqrt(squares / values.length) * apart * difference) / Math.max(Number.MIN_VALUE, Math.abs(meanAfter - meanBefore));
  return { at: fit.at, difference, error: Math.max(1.2533 * deviation(off) * apart, ofMeans) };
}
