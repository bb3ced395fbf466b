// The frontier of a step (StageFrontier, arXiv 2606.06751): the time at which the slowest rank has finished each phase.
//
//   F_s = max over ranks of the time up to the end of phase s        a_s = F_s − F_{s−1}        Σ a_s = the longest rank's step
//
// It needs no clocks at all, and shows in which phase the cluster as a whole spends time. Waiting is included.

import type { BlameWindow } from './blame-window.ts';

export interface FrontierPhase {
  readonly phase: string;
  /** Mean advance of the frontier, ns per step. */
  readonly advance: number;
  /** The rank at the frontier after this phase in most steps, and its share of the steps. */
  readonly leader: number;
  readonly leaderShare: number;
}

/** In order of phases; the sum of the advances is the mean of the steps' longest ranks. */
export function frontierOf(window: BlameWindow): FrontierPhase[] {
  const { ranks, phases, steps } = window;
  const advances = new Float64Array(phases.length);
  const led = phases.map(() => new Uint32Array(ranks.length));
  /** By rank and phase, in one step. */
  const spent = new Float64Array(ranks.length * phases.length);
  const reached = new Float64Array(ranks.length);
  for (const step of steps) {
    spent.fill(0);
    reached.fill(0);
    for (let rank = 0; rank < ranks.length; rank++) {
      const first = rank * phases.length;
      for (const piece of step.ranks[rank]?.pieces ?? [])
        if ('phase' in piece) spent[first + piece.phase] = (spent[first + piece.phase] as number) + piece.length;
    }
    let before = 0;
    for (let phase = 0; phase < phases.length; phase++) {
      let leader = 0;
      for (let rank = 0; rank < ranks.length; rank++) {
        reached[rank] = (reached[rank] as number) + (spent[rank * phases.length + phase] as number);
        if ((reached[rank] as number) > (reached[leader] as number)) leader = rank;
      }
      const frontier = reached[leader] as number;
      advances[phase] = (advances[phase] as number) + frontier - before;
      before = frontier;
      const count = led[phase] as Uint32Array;
      count[leader] = (count[leader] as number) + 1;
    }
  }
  return phases.map((phase, index) => {
    const counts = led[index] as Uint32Array;
    const leader = counts.indexOf(Math.max(...counts));
    const share = steps.length === 0 ? 0 : (counts[leader] as number) / steps.length;
    const rank = ranks[leader]?.rank ?? -1;
    return { phase, advance: steps.length === 0 ? 0 : (advances[index] as number) / steps.length, leader: rank, leaderShare: share };
  });
}
