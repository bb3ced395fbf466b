// The frontier of a step (StageFrontier, arXiv 2606.06751): the time at which the slowest rank has finished each phase.
//
//   F_s = max over ranks of the time up to the end of phase s        a_s = F_s − F_{s−1}        Σ a_s = the longest rank's step
//
// It needs no clocks at all, and shows in which phase the cluster as a whole spends time. Waiting is included.

import type { BlameWindow } from './blame-window.ts';
import { binomialTail } from './sometimes-slow.ts';

export interface FrontierPhase {
  readonly phase: string;
  /** Mean advance of the frontier, ns per step. */
  readonly advance: number;
  /** The rank that is alone at the frontier after this phase in more steps than any other; undefined if it may be so by chance. */
  readonly leader: number | undefined;
  /** Share of the steps in which the rank with most of them is. */
  readonly leaderShare: number;
}

/** A rank leads if equal ranks had one that leads so often only with this chance. */
const chanceMax = 0.02;

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
      let [leader, frontier, isAlone] = [0, Number.NEGATIVE_INFINITY, false];
      for (let rank = 0; rank < ranks.length; rank++) {
        const until = (reached[rank] as number) + (spent[rank * phases.length + phase] as number);
        reached[rank] = until;
        isAlone = until > frontier || (isAlone && until < frontier);
        if (until > frontier) [leader, frontier] = [rank, until];
      }
      advances[phase] = (advances[phase] as number) + frontier - before;
      before = frontier;
      const count = led[phase] as Uint32Array;
      if (isAlone) count[leader] = (count[leader] as number) + 1;
    }
  }
  return phases.map((phase, index) => {
    const counts = led[index] as Uint32Array;
    const leader = counts.indexOf(Math.max(...counts));
    const count = counts[leader] ?? 0;
    const isClear = ranks.length > 1 && ranks.length * binomialTail(steps.length, count, 1 / ranks.length) <= chanceMax;
    return {
      phase,
      advance: steps.length === 0 ? 0 : (advances[index] as number) / steps.length,
      leader: isClear ? ranks[leader]?.rank : undefined,
      leaderShare: steps.length === 0 ? 0 : count / steps.length,
    };
  });
}
