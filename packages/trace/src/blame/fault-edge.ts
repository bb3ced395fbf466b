// The step of a window at which a fault begins or ends: where what a rank works longer than its peers in a phase goes from one level to another.
//
//   more than its peers   ▁▁▁▁▁▁▁▁▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅
//                                    ^ edge
//
// A median over the window's steps blames all of them, whether the fault is in all of them or in most, and none where it is in few. Each side is
// judged by itself instead.

import { fitStep, type ShapeFit } from '../detect/block-statistics.ts';
import { deviation, median } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';
import { OwnWork } from './own-work.ts';

/** Steps on either side that make an edge. */
const sideStepsMin = 6;
/** Least difference of the sides: as a share of the step (less is no verdict), … */
const shareOfStepMin = 0.02;
/** … and in errors of that difference: it is the most striking place of many ranks, phases and steps. */
const errorsMin = 8;
/** Longer or shorter values than this share of all count as those there: a few steps of another kind make no edge. */
const clippedShare = 0.08;

/** Number of the first step behind the clearest edge of any rank in any phase; undefined without one. `step`: ns, the cluster's mean. */
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

/** The place that divides the values best into two levels, how far these are apart, and how well that is known. */
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
  const error = 1.2533 * deviation(off) * Math.sqrt(1 / before.length + 1 / after.length);
  return { at: fit.at, difference: Math.abs(levelAfter - levelBefore), error };
}
