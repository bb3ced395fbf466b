// Own work as a table, rank × phase × step, and each rank's excess over its peers.
//
// A rank's excess in a phase is the median over steps of its time beyond the median of its peers in the same step: one slow step,
// or one slow peer, moves neither. It counts when it is more than
//
//   2 % of the peers' work in a step, 1 % of the step,
//   6 times the deviation of the peers' own excesses from each other (ranks are never quite alike),
//   6 times its own error, 1.2533 · deviation over steps / √steps (a median's),
//   in so many steps that it is no chance that it is in half of them: n / 2 + 1.5 · √n of n (3 deviations), or all,
//   and the same for all peers together. With fewer steps and peers the factor is larger, because a deviation from few values is itself
//   uncertain: for d degrees of freedom it is 6 · (1 + 5 / d + 20 / d²), beyond Student's t at 10⁻⁵ (d = 2: 10⁻⁴).
//
// For peers together the deviation is told by differences in the same step, d = (steps − 1) · (peers − 1), or by each rank's own steps,
// d = (steps − 1) · peers; groups of peers that work as much add theirs, and then the largest deviation of all counts. The smallest limit holds: two
// ranks in three steps prove little by themselves.

import { deviation, deviationsOfOthers, mean, median, mediansOfOthers } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';

/** A rank's excess over its peers; ns per step. */
export interface Excess {
  /** Index in `BlameWindow.ranks`. */
  readonly rank: number;
  /** Over all phases together. */
  readonly total: number;
  /** By phase. */
  readonly phases: Float64Array;
  /** Phases with a significant excess; if only the total is significant, all phases in which it works longer. */
  readonly slow: readonly number[];
  /** Median own work of its peers, by phase. */
  readonly peers: Float64Array;
  /** By phase: from here on an excess would have counted despite the noise. */
  readonly sure: Float64Array;
}

const shareOfWorkMin = 0.02;
const shareOfStepMin = 0.01;
/** Ns by which own work must exceed its peers' `work` in steps of `step` ns; smaller excesses matter to nobody, however sure they are. */
export const leastExcess = (work: number, step: number): number => Math.max(shareOfWorkMin * work, shareOfStepMin * step);
/** Groups of peers with this share of a group's work are as noisy as it is. */
const alikeMin = 0.5;
/** A deviation from fewer degrees of freedom is too uncertain where other groups tell theirs; from more it needs none of theirs. */
const freedomMin = 4;
const freedomMax = 64;
const spreadsMin = 6;
const errorsMin = 6;
/** Deviations above half of the steps in which there must be an excess. */
const halvesMin = 3;
/** Margin in errors above the limit, so that chance does not push an excess below it. */
const errorsSure = 3;

export class OwnWork {
  readonly #window: BlameWindow;
  /** By rank, phase, step. */
  readonly #own: Float64Array;
  readonly steps: number;
  readonly phases: number;

  constructor(window: BlameWindow) {
    this.#window = window;
    this.steps = window.steps.length;
    this.phases = window.phases.length;
    this.#own = new Float64Array(window.ranks.length * this.phases * this.steps);
    for (let step = 0; step < this.steps; step++) {
      const { ranks } = window.steps[step] as BlameWindow['steps'][number];
      for (let rank = 0; rank < ranks.length; rank++) {
        for (const piece of (ranks[rank] as (typeof ranks)[number]).pieces)
          if (piece.kind === 'own') this.#own[this.#at(rank, piece.phase) + step] = this.of(rank, piece.phase, step) + piece.length;
      }
    }
  }

  /** Own work, ns. */
  of(rank: number, phase: number, step: number): number {
    return this.#own[this.#at(rank, phase) + step] as number;
  }

  /** Own work in one phase, by step. */
  inPhase(rank: number, phase: number): Float64Array {
    return this.#own.subarray(this.#at(rank, phase), this.#at(rank, phase) + this.steps);
  }

  /** Own work in all phases, by step. */
  total(rank: number): Float64Array {
    const total = new Float64Array(this.steps);
    for (let phase = 0; phase < this.phases; phase++) {
      for (let step = 0; step < this.steps; step++) total[step] = (total[step] as number) + this.of(rank, phase, step);
    }
    return total;
  }

  /** Indexes of ranks by their `peers`. */
  get groups(): ReadonlyMap<string, readonly number[]> {
    const groups = new Map<string, number[]>();
    for (const [rank, { peers }] of this.#window.ranks.entries()) {
      const group = groups.get(peers);
      if (group === undefined) groups.set(peers, [rank]);
      else group.push(rank);
    }
    return groups;
  }

  /** Excesses of ranks with peers; `step`: the cluster's, ns. Yields after each phase of each group. */
  *excesses(step: number): Generator<void, Excess[]> {
    const groups = [...this.groups.values()].filter(({ length }) => length > 1);
    const inPhases: (readonly Comparison[])[] = [];
    for (let phase = 0; phase < this.phases; phase++) {
      const compared: Differences[] = [];
      for (const ranks of groups) {
        compared.push(this.#against(ranks.map((rank) => this.inPhase(rank, phase))));
        yield;
      }
      inPhases.push(withNoise(compared, this.steps));
    }
    const inAll = withNoise(
      groups.map((ranks) => this.#against(ranks.map((rank) => this.total(rank)))),
      this.steps,
    );
    return groups.flatMap((ranks, group) =>
      this.#excessesAmong(
        ranks,
        inPhases.map((of) => of[group] as Comparison),
        inAll[group] as Comparison,
        step,
      ),
    );
  }

  #excessesAmong(ranks: readonly number[], inPhases: readonly Comparison[], inAll: Comparison, step: number): Excess[] {
    return ranks.map((rank, index) => {
      const of = ({ more }: Comparison): number => more[index] as number;
      const work = inAll.others[index] as number;
      const least = leastExcess(work, step);
      const limit = ({ noise }: Comparison): number => Math.max(least, noise[index] as number);
      const counts = (comparison: Comparison): boolean =>
        of(comparison) > limit(comparison) && isUsual(comparison.inSteps[index] as Float64Array, Math.min(least, of(comparison) / 2));
      const phases = Float64Array.from(inPhases, of);
      let slow = [...phases.keys()].filter((phase) => counts(inPhases[phase] as Comparison));
      if (slow.length === 0 && counts(inAll)) slow = [...phases.keys()].filter((phase) => (phases[phase] as number) > 0);
      slow.sort((a, b) => (phases[b] as number) - (phases[a] as number));
      const peers = Float64Array.from(inPhases, ({ others }) => others[index] as number);
      const sure = Float64Array.from(inPhases, (inPhase) => limit(inPhase) + errorsSure * (inPhase.error[index] as number));
      return { rank, total: of(inAll), phases, slow, peers, sure };
    });
  }

  /** For each of `ranks` (at least two), by step: how much longer it works in `phase` than the median of the others; ns. */
  moreThanPeers(ranks: readonly number[], phase: number): readonly Float64Array[] {
    return this.#compare(ranks.map((rank) => this.inPhase(rank, phase))).more;
  }

  /** `series`: by rank, then step. `others`: the median of all others in that step. */
  #compare(series: readonly Float64Array[]) {
    const { steps } = this;
    const more = series.map(() => new Float64Array(steps));
    const others = series.map(() => new Float64Array(steps));
    const values = new Float64Array(series.length);
    for (let step = 0; step < steps; step++) {
      for (let rank = 0; rank < values.length; rank++) values[rank] = (series[rank] as Float64Array)[step] as number;
      const middles = mediansOfOthers(values);
      for (let rank = 0; rank < values.length; rank++) {
        const other = middles[rank] as number;
        (others[rank] as Float64Array)[step] = other;
        (more[rank] as Float64Array)[step] = (values[rank] as number) - other;
      }
    }
    return { more, others };
  }

  #against(series: readonly Float64Array[]): Differences {
    const { steps } = this;
    const { more, others } = this.#compare(series);
    const excess = Float64Array.from(more, median);
    const off = mean(more.map((values, rank) => meanDistance(values, excess[rank] as number)));
    const alone = mean(series.map((values) => meanDistance(values, median(values))));
    const peers = series.length - 1;
    return {
      more: excess,
      inSteps: more,
      others: Float64Array.from(others, median),
      error: Float64Array.from(more, (values) => (1.2533 * deviation(values)) / Math.sqrt(steps)),
      spread: {
        paired: { off, freedom: Math.max(1, (steps - 1) * peers) },
        alone: { off: alone * Math.sqrt(1 + 1 / peers), freedom: Math.max(1, (steps - 1) * series.length) },
      },
    };
  }

  #at(rank: number, phase: number): number {
    return (rank * this.phases + phase) * this.steps;
  }
}

/** By rank of a group, ns per step. */
interface Differences {
  readonly more: Float64Array;
  /** By rank, then step. */
  readonly inSteps: readonly Float64Array[];
  readonly others: Float64Array;
  /** Deviation of `more`. */
  readonly error: Float64Array;
  readonly spread: Readonly<Record<(typeof spreads)[number], Spread>>;
}

/** How a group's deviation is told: by differences in the same step, or by each rank's own steps. */
const spreads = ['paired', 'alone'] as const;

interface Spread {
  /** Mean distance of differences from their rank's. */
  readonly off: number;
  /** Degrees of freedom. */
  readonly freedom: number;
}

interface Comparison extends Differences {
  readonly noise: Float64Array;
}

/** The same with their noise. `compared`: by group of peers. */
function withNoise(compared: readonly Differences[], steps: number): readonly Comparison[] {
  const works = Float64Array.from(compared, ({ others }) => median(others));
  const pools = spreads.map((which) => new Pool(compared, works, which));
  return compared.map((of, group) => {
    const work = works[group] as number;
    const common = spreads.map((which, at) => {
      const own = of.spread[which];
      if (own.freedom > freedomMax) return errorOf(own, steps);
      const together = errorOf((pools[at] as Pool).alike(work, own), steps);
      return own.freedom < freedomMin ? together : Math.min(errorOf(own, steps), together);
    });
    const apart = deviationsOfOthers(of.more);
    const noise = of.error.map((own, rank) => Math.max(spreadsMin * (apart[rank] as number), errorsMin * own, Math.min(...common)));
    return { ...of, noise };
  });
}

/** The spreads of groups of peers, those with most work first. */
class Pool {
  readonly #works: Float64Array;
  /** Of each group and those before it: the largest distance as a share of the work, and the degrees of freedom. */
  readonly #shares: Float64Array;
  readonly #freedoms: Float64Array;

  constructor(compared: readonly Differences[], works: Float64Array, which: (typeof spreads)[number]) {
    const order = [...compared.keys()].sort((a, b) => (works[b] as number) - (works[a] as number));
    this.#works = Float64Array.from(order, (group) => works[group] as number);
    let [share, freedom] = [0, 0];
    this.#shares = Float64Array.from(order, (group) => {
      const work = works[group] as number;
      if (work > 0) share = Math.max(share, (compared[group] as Differences).spread[which].off / work);
      return share;
    });
    this.#freedoms = Float64Array.from(order, (group) => {
      freedom += (compared[group] as Differences).spread[which].freedom;
      return freedom;
    });
  }

  /** The spread of all groups that work as much as one with this `work` and spread, itself among them. */
  alike(work: number, { off }: Spread): Spread {
    let [low, high] = [0, this.#works.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#works[middle] as number) >= alikeMin * work) low = middle + 1;
      else high = middle;
    }
    return { off: Math.max(off, (this.#shares[low - 1] as number) * work), freedom: this.#freedoms[low - 1] as number };
  }
}

const errorOf = ({ off, freedom }: Spread, steps: number): number =>
  (errorsMin * (1 + 5 / freedom + 20 / freedom ** 2) * 1.2533 ** 2 * off) / Math.sqrt(steps);

const meanDistance = (values: Float64Array, from: number): number => mean(values.map((value) => Math.abs(value - from)));

/** Whether so many of `values` exceed `least` that their median does not by chance: of a rank that is slow now and then, it is half of them at times. */
function isUsual(values: Float64Array, least: number): boolean {
  let often = 0;
  for (const value of values) if (value > least) often++;
  return often >= Math.min(values.length, values.length / 2 + (halvesMin / 2) * Math.sqrt(values.length));
}
