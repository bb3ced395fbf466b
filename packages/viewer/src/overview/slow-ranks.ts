// Which rank is slow, and in which phase: what every rank takes more than the median rank, phase by phase.
//
//   phase       rank 0   rank 1   rank 2   rank 3   median   rank 3's excess
//   backward       200      202      199      280      202   +78   ◄ stands out
//   all_reduce      90       88       91       11       90   none: it is the one that nobody has to wait for
//
// Steps of ranks that wait for each other are all equally long, so the length of a step blames nobody; phases do. Phases that are themselves
// waiting (collectives, barriers) are shown but never blamed: the rank that is long in them waits for another.
//
// Invariant: the median of an even number is the lower one. Of two ranks, the slower one then has an excess, and the faster one has none.

import type { Overview, OverviewRank } from '@ranktrace/protocol';

/** One rank against the median rank. */
export interface RankPhases {
  readonly rank: OverviewRank;
  /** ns per step that it takes more (or less) than the median rank, by `Overview.phases`. */
  readonly excess: readonly number[];
  /** The phase to blame: greatest excess of those that are not waiting; undefined where no phase is known. */
  readonly worst: number | undefined;
  /** ns per step: excess in `worst`, or of the whole step where no phase is known. */
  readonly score: number;
  /** Whether that is more than ranks differ by anyway. */
  readonly standsOut: boolean;
}

/** Least excess that is worth a person's time, as a part of the median step. */
const noticeablePart = 0.03;
/** A rank stands out beyond this many times the median distance of ranks from the median (three standard deviations of a normal one). */
const deviations = 3 * 1.4826;

const waitingPhase = /wait|idle|barrier|sync|comm|nccl|gloo|all_?(reduce|gather|to_?all)|reduce_?scatter|broadcast|recv|send|bubble/i;

/** Whether a phase is, by its name, spent waiting for other ranks. */
export const isWaitingPhase = (name: string): boolean => waitingPhase.test(name);

/** The lower median; undefined of none. */
export function medianOf(values: readonly number[]): number | undefined {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1];
}

/** What the median rank takes per step in each phase, ns. */
export const phaseMedians = ({ phases, ranks }: Pick<Overview, 'phases' | 'ranks'>): readonly number[] =>
  phases.map((_, at) => medianOf(ranks.filter(hasSteps).map((rank) => rank.phases[at] ?? 0)) ?? 0);

/** All ranks that have steps, those to look at first on top: by score, then by rank. */
export function rankPhases(overview: Pick<Overview, 'phases' | 'ranks'>): readonly RankPhases[] {
  const ranks = overview.ranks.filter(hasSteps);
  const medians = phaseMedians(overview);
  const meanMedian = medianOf(ranks.map(({ mean }) => mean)) ?? 0;
  const blamed = overview.phases.flatMap((name, at) => (isWaitingPhase(name) ? [] : [at]));
  const spread = medians.map((median, at) => medianOf(ranks.map(({ phases }) => Math.abs((phases[at] ?? 0) - median))) ?? 0);
  const meanSpread = medianOf(ranks.map(({ mean }) => Math.abs(mean - meanMedian))) ?? 0;
  const noticeable = noticeablePart * meanMedian;
  const rows = ranks.map((rank): RankPhases => {
    const excess = medians.map((median, at) => (rank.phases[at] ?? 0) - median);
    let worst: number | undefined;
    for (const at of blamed) if (worst === undefined || (excess[at] as number) > (excess[worst] as number)) worst = at;
    const score = worst === undefined ? rank.mean - meanMedian : (excess[worst] as number);
    const usual = worst === undefined ? meanSpread : (spread[worst] as number);
    return { rank, excess, worst, score, standsOut: ranks.length > 1 && score > noticeable && score > deviations * usual };
  });
  // Those that stand out come first whatever the size of what is usual in other phases.
  return rows.sort((a, b) => Number(b.standsOut) - Number(a.standsOut) || b.score - a.score || a.rank.rank - b.rank.rank);
}

/** What a person should know in one sentence. It is an alert without ranks when only the findings say so. */
export interface Headline {
  readonly tone: 'alert' | 'good' | 'note';
  readonly ranks: readonly RankPhases[];
  /** Phase in which those ranks are slow; undefined where none is known, or they differ in it. */
  readonly phase: string | undefined;
  /** Part of the median step that the slowest of them takes more. */
  readonly part: number;
}

/** Which ranks stand out, and where. */
export function headlineOf(overview: Pick<Overview, 'phases' | 'ranks' | 'findings'>): Headline {
  const all = rankPhases(overview);
  const ranks = all.filter(({ standsOut }) => standsOut);
  const first = ranks[0];
  const median = medianOf(all.map(({ rank }) => rank.mean)) ?? 0;
  if (first === undefined) {
    const hasAlert = overview.findings.some(({ severity }) => severity === 'alert');
    return { tone: hasAlert ? 'alert' : all.length > 1 ? 'good' : 'note', ranks, phase: undefined, part: 0 };
  }
  const isOne = ranks.every(({ worst }) => worst === first.worst);
  return {
    tone: 'alert',
    ranks,
    phase: isOne && first.worst !== undefined ? overview.phases[first.worst] : undefined,
    part: median > 0 ? first.score / median : 0,
  };
}

const hasSteps = ({ steps }: OverviewRank): boolean => steps > 0;
