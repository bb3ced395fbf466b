// The faults of a window and the cost of each, by replays with the faults mended.
//
//   straggler            one rank works longer than its peers in every step, or only in some steps (a host, if all its ranks do, in the same
//                        phase)
//   stage_imbalance      all ranks of a stage work longer than those of the other stages
//   rotating_imbalance   no rank stays slower than its peers, but in each step some rank is: data, lengths of sequences, jitter; or ranks take turns
//   cpu_contention       the same, but threads of the ranks wait for a CPU: no rank is at fault for a busy host
//
// Mending a rank lets it work as long as its peers in its slow phases, in the affected steps: at the median, and varying as much from step to
// step as theirs. Mending a stage scales it to the median of the other stages. Mending rotation gives each piece of work in a step and phase
// the median length of its peers.

import { lowerMedian } from '@ranktrace/protocol';
import { evidenceLength as ms } from '../model/quantity-text.ts';
import { deviation, median } from '../model/robust.ts';
import { blameLimits } from './blame-limits.ts';
import type { BlameWindow, StepRange } from './blame-window.ts';
import { type CpuWait, cpuWaitOf, waitsForCpu } from './cpu-wait.ts';
import type { Excess, OwnWork } from './own-work.ts';
import type { NewLength, Replay } from './replay.ts';
import { type SometimesSlow, sometimesSlow } from './sometimes-slow.ts';

export interface Fault {
  readonly kind: 'straggler' | 'stage_imbalance' | 'rotating_imbalance' | 'cpu_contention';
  /** Rank numbers. */
  readonly ranks: readonly number[];
  readonly phase: string | undefined;
  /** ns per step saved without it, all others mended. */
  readonly cost: number;
  /** ns per step saved without it alone. */
  readonly gain: number;
  /** Length of the step with it alone mended, ns. */
  readonly atMedian: number;
  /** First and last step that it lengthens, if not all steps. */
  readonly stretch?: StepRange | undefined;
  /** Number of steps that it lengthens; undefined: all. */
  readonly affected?: number | undefined;
  /** On a busy host: scheduling may explain it, if it does not last. */
  readonly mayBeScheduling: boolean;
  readonly evidence: readonly string[];
}

export interface Faults {
  readonly faults: readonly Fault[];
  /** Own work with all of them mended. */
  readonly mended: NewLength;
  readonly mendedStep: number;
}

/** A fault before its cost is known. */
interface Suspect {
  readonly kind: 'straggler' | 'stage_imbalance' | 'rotating_imbalance';
  readonly ranks: readonly number[];
  readonly phase: number;
  readonly excess: number;
  /** Factor on the own work of a rank (by index) in a phase of a step. */
  readonly factor: (rank: number, step: number, phase: number) => number;
  /** Indexes of the affected steps; absent: all. */
  readonly steps?: readonly number[];
  readonly stretch?: StepRange | undefined;
  readonly mayBeScheduling: boolean;
  readonly evidence: readonly string[];
}

const stageShareMin = 0.05;
/** Errors by which a stage's work must differ from the others', about Student's t at 0.005. */
const stageErrorsMin = 3;
/** Rotation is reported from this share of the step on: any cluster has a little of it. */
const rotationShareMin = 0.08;
/** A rank that is the slowest in this share of the steps is named. */
const leaderShareMin = 0.8;
/** With more stragglers than this in the same phase, they become one finding. */
const togetherMin = 5;

/** Yields after each replay. */
export function* findFaults(
  window: BlameWindow,
  own: OwnWork,
  replay: Replay,
  excesses: readonly Excess[],
  step: number,
): Generator<void, Faults> {
  const cpuWait = cpuWaitOf(window.ranks);
  const { isBusy } = cpuWait;
  const slow = stragglers(window, own, excesses, { step, cpuWait });
  const found = window.areWaitsGuessed === true ? [] : yield* sometimesSlow(window, own, { excesses, step, isBusy });
  const turns = turnsOf(own, found);
  const sometimes = [
    ...found.filter((one) => !turns.some((of) => of.includes(one))).map((one) => sometimesSuspect(window, own, one, isBusy)),
    ...turns.map((of) => turnsSuspect(window, own, of, isBusy)),
  ];
  const suspects = [...slow, ...sometimes, ...slowStages(own, slow)]
    .sort((a, b) => b.excess - a.excess)
    .slice(0, blameLimits.blameFindingsMax);
  const mended = mend(suspects);
  const mendedStep = replay.meanStep(mended);
  const faults: Fault[] = [];
  for (const suspect of suspects) {
    yield;
    const { kind, ranks, phase, steps, stretch, mayBeScheduling } = suspect;
    const cost = replay.meanStep(mend(suspects.filter((other) => other !== suspect))) - mendedStep;
    yield;
    const atMedian = replay.meanStep(mend([suspect]));
    const gain = step - atMedian;
    const isHidden = gain < cost / 2;
    const hidden = isHidden ? [`hidden behind another fault: mending it alone gives ${ms(Math.max(0, gain))} per step now`] : [];
    const inEach = steps === undefined ? [] : [`a step so affected is ${ms((cost * own.steps) / steps.length)} longer for all`];
    const evidence = [...suspect.evidence, ...inEach, ...waitsForCpu(window.ranks, ranks), ...hidden];
    // Ranks that take turns are not to blame.
    const numbers = (kind === 'rotating_imbalance' ? [] : ranks).map((rank) => (window.ranks[rank] as BlameWindow['ranks'][number]).rank);
    const about = { kind, ranks: numbers, phase: window.phases[phase], mayBeScheduling };
    faults.push({ ...about, cost, gain, atMedian, stretch, affected: steps?.length, evidence });
  }
  yield;
  const even = evenWork(window, own, mended);
  yield;
  const rotation = rotationOf(window, even, mendedStep - replay.meanStep(even.newLength), mendedStep, step);
  if (rotation === undefined) return { faults, mended, mendedStep };
  const known = faults.findIndex(({ kind }) => kind === rotation.kind);
  const both = known < 0 ? [...faults, rotation] : faults.with(known, withMore(faults[known] as Fault, rotation));
  return { faults: both, mended: even.newLength, mendedStep: mendedStep - rotation.cost };
}

/** Adds the rotation without a pattern to ranks that take turns: both are one fault. */
function withMore(turns: Fault, { cost, evidence }: Fault): Fault {
  const about = { cost: turns.cost + cost, gain: turns.gain + cost, atMedian: turns.atMedian - cost };
  return { ...turns, ...about, stretch: undefined, affected: undefined, evidence: [...turns.evidence, ...evidence] };
}

function mend(suspects: readonly Suspect[]): NewLength {
  if (suspects.length === 0) return (_rank, _step, _phase, length) => length;
  return (rank, step, phase, length) => suspects.reduce((mended, { factor }) => mended * factor(rank, step, phase), length);
}

function sometimesSuspect(window: BlameWindow, own: OwnWork, slow: SometimesSlow, isBusy: boolean): Suspect {
  const { ranks, phases, steps } = window;
  const { rank, phase, affected, more, when } = slow;
  const factors = new Map(
    affected.map((step) => {
      const length = own.of(rank, phase, step);
      return [step, length > 0 ? Math.max(0, 1 - (more[step] as number) / length) : 1] as const;
    }),
  );
  const longer = longerOf(slow);
  const rule = when === '' ? '' : `, ${when}`;
  const evidence = [
    `rank ${ranks[rank]?.rank} works ${ms(longer)} longer in ${phases[phase]} than the median of its peers in ${affected.length} of ${steps.length} steps${rule}`,
  ];
  return {
    kind: 'straggler',
    ranks: [rank],
    phase,
    excess: (longer * affected.length) / steps.length,
    factor: (of, step, at) => (of === rank && at === phase ? (factors.get(step) ?? 1) : 1),
    steps: affected,
    stretch: stretchOf(window, affected),
    mayBeScheduling: isBusy,
    evidence,
  };
}

/** Ranks take turns in a phase if they are at least this share of their peers … */
const turnsShareMin = 0.75;
/** … and the longest excess of one is at most so many times the shortest. */
const turnsApartMax = 2;

/** Ranks that are slow in some steps each, by turns: not these ranks are to blame, but work that goes round. */
function turnsOf(own: OwnWork, found: readonly SometimesSlow[]): SometimesSlow[][] {
  const turns: SometimesSlow[][] = [];
  for (const ranks of own.groups.values()) {
    for (let phase = 0; phase < own.phases; phase++) {
      const of = found.filter((one) => one.phase === phase && !one.isStretch && ranks.includes(one.rank));
      const lengths = of.map(longerOf);
      const areAlike = Math.max(...lengths) <= turnsApartMax * Math.min(...lengths);
      if (of.length >= Math.max(2, turnsShareMin * ranks.length) && areAlike) turns.push(of);
    }
  }
  return turns;
}

/** How much longer the rank works in the affected steps, ns. */
const longerOf = ({ affected, more }: SometimesSlow): number => median(affected.map((step) => more[step] as number));

function turnsSuspect(window: BlameWindow, own: OwnWork, turns: readonly SometimesSlow[], isBusy: boolean): Suspect {
  const suspects = turns.map((one) => sometimesSuspect(window, own, one, isBusy));
  const [{ phase }] = suspects as [Suspect];
  const steps = [...new Set(turns.flatMap(({ affected }) => affected))].sort((a, b) => a - b);
  const ranks = turns.map(({ rank }) => rank);
  const who = turns.slice(0, togetherMin).map(({ rank, when }) => `rank ${window.ranks[rank]?.rank}${when === '' ? '' : ` ${when}`}`);
  const rest = turns.length > who.length ? [`${turns.length - who.length} more`] : [];
  const longer = ms(median(turns.map(longerOf)));
  const evidence = [
    `ranks take turns in working ${longer} longer in ${window.phases[phase]} than their peers: ${[...who, ...rest].join(', ')}`,
  ];
  const excess = suspects.reduce((sum, suspect) => sum + suspect.excess, 0);
  const byRank = new Map(suspects.map((suspect, at) => [ranks[at], suspect]));
  const factor: Suspect['factor'] = (rank, step, at) => byRank.get(rank)?.factor(rank, step, at) ?? 1;
  return {
    ...{ kind: 'rotating_imbalance', ranks, phase, excess, factor, steps, stretch: stretchOf(window, steps) },
    mayBeScheduling: isBusy,
    evidence,
  };
}

const stretchOf = ({ steps }: BlameWindow, affected: readonly number[]): StepRange => {
  const [first, last] = [affected[0], affected.at(-1)].map((index = 0) => (steps[index] as BlameWindow['steps'][number]).step);
  return { first: first as number, last: last as number };
};

/** Fewer steps than this on a busy host are over in a few of its time slices. */
const busyStepsMin = 16;

/** `step`: the cluster's, ns. */
function stragglers(
  window: BlameWindow,
  own: OwnWork,
  excesses: readonly Excess[],
  { step, cpuWait: { share, explains } }: { readonly step: number; readonly cpuWait: CpuWait },
): Suspect[] {
  // A rank that gets a CPU less often than its peers: by up to twice what waiting for one adds to their work.
  const isExplained = ({ slow, phases, peers }: Excess): boolean => {
    const sumOver = (of: Float64Array): number => slow.reduce((sum, phase) => sum + (of[phase] as number), 0);
    return own.steps < busyStepsMin || sumOver(phases) <= 2 * (share / (1 - share)) * sumOver(peers);
  };

  const slow = excesses.filter((excess) => excess.slow.length > 0);
  const suspects: Suspect[] = [];
  for (const together of grouped(window, slow)) {
    const [first] = together as [Excess, ...Excess[]];
    const phase = first.slow[0] as number;
    const factors = new Map(together.map((excess) => [excess.rank, factorsOf(window, own, excess)]));
    const factor: Suspect['factor'] = (rank, step, at) => factors.get(rank)?.[at]?.[step] ?? 1;
    const evidence = together.slice(0, togetherMin).map((excess) => excessText(window, excess));
    const hosts = new Set(together.map(({ rank }) => window.ranks[rank]?.hostName));
    if (together.length > 1 && hosts.size === 1) evidence.unshift(`all ranks of host ${[...hosts][0]} are slow`);
    const excess = Math.max(...together.map(({ slow: phases, phases: by }) => phases.reduce((sum, at) => sum + (by[at] as number), 0)));
    const mayBeScheduling = explains(excess, step) && together.every(isExplained);
    suspects.push({ kind: 'straggler', ranks: together.map(({ rank }) => rank), phase, excess, factor, mayBeScheduling, evidence });
  }
  return suspects;
}

/** Groups excesses: all ranks of a host if there are several hosts, and long lists with the same phase. */
function grouped({ ranks }: BlameWindow, slow: readonly Excess[]): Excess[][] {
  const keyed = new Map<string, Excess[]>();
  const hosts = new Map<string, number>();
  for (const { host } of ranks) hosts.set(host, (hosts.get(host) ?? 0) + 1);
  const hostOf = ({ rank }: Excess): string => ranks[rank]?.host ?? '';
  const onHost = (excess: Excess): Excess[] => slow.filter((other) => hostOf(other) === hostOf(excess) && other.slow[0] === excess.slow[0]);
  for (const excess of slow) {
    const [phase] = excess.slow;
    const isHost = hosts.size > 1 && (hosts.get(hostOf(excess)) ?? 0) > 1 && onHost(excess).length === hosts.get(hostOf(excess));
    const isMany = slow.filter(({ slow: [other] }) => other === phase).length > togetherMin;
    const key = isHost ? `host ${hostOf(excess)} ${phase}` : isMany ? `phase ${phase}` : `rank ${excess.rank}`;
    const held = keyed.get(key);
    if (held === undefined) keyed.set(key, [excess]);
    else held.push(excess);
  }
  return [...keyed.values()];
}

/**
 * Factors by slow phase and step. A rank slow by a constant varies from step to step as much as its peers; one slow by a factor varies that
 * many times as much. Mended, both vary as the peers do.
 */
function factorsOf({ ranks }: BlameWindow, own: OwnWork, { rank, slow, phases }: Excess): Record<number, Float64Array> {
  const peers = (own.groups.get(ranks[rank]?.peers ?? '') ?? []).filter((peer) => peer !== rank);
  const factors: Record<number, Float64Array> = {};
  for (const phase of slow) {
    const lengths = own.inPhase(rank, phase);
    const usual = median(lengths);
    if (usual <= 0) continue;
    const mended = Math.max(0, usual - (phases[phase] as number));
    const spread = deviation(lengths);
    const theirs = median(peers.map((peer) => deviation(own.inPhase(peer, phase))));
    const left = spread > 0 ? Math.min(1, Math.max(mended / usual, theirs / spread)) : 1;
    const isWithout = isWithoutFault(lengths, mended);
    factors[phase] = lengths.map((length) => {
      return length > 0 && !isWithout(length) ? Math.max(0, mended + left * (length - usual)) / length : 1;
    });
  }
  return factors;
}

/** Deviations by which a step without the fault lies below the others. */
const withoutFaultMin = 3;

/** Tells the steps without a fault that most of `lengths` have, by their length; `mended`: the median without it. */
function isWithoutFault(lengths: Float64Array, mended: number): (length: number) => boolean {
  const usual = median(lengths);
  const apart = Math.max((usual - mended) / 2, withoutFaultMin * deviation(lengths));
  return (length) => mended < usual && length < usual - apart;
}

function excessText({ ranks, phases }: BlameWindow, { rank, slow, phases: by, peers }: Excess): string {
  const parts = slow.slice(0, 3).map((phase) => {
    const more = by[phase] as number;
    return `${ms(more)} longer in ${phases[phase]} than the median of its peers (${ms((peers[phase] as number) + more)} against ${ms(peers[phase] as number)})`;
  });
  return `rank ${ranks[rank]?.rank} works ${parts.join(', ')}`;
}

function slowStages(own: OwnWork, slow: readonly Suspect[]): Suspect[] {
  const { groups } = own;
  if (groups.size < 2) return [];
  const mended = mend(slow);
  const byPhase = (of: (phase: number) => number): Float64Array => Float64Array.from({ length: own.phases }, (_, phase) => of(phase));
  const works = new Map(
    [...groups].map(([name, ranks]) => [
      name,
      ranks.map((rank) => byPhase((phase) => median(own.inPhase(rank, phase).map((length, step) => mended(rank, step, phase, length))))),
    ]),
  );
  const levels = new Map([...works].map(([name, of]) => [name, byPhase((phase) => median(of.map((work) => work[phase] as number)))]));
  const suspects: Suspect[] = [];
  for (const [name, level] of levels) {
    const others = [...levels].filter(([other]) => other !== name).map(([, other]) => other);
    const usual = level.map((_, phase) => median(others.map((other) => other[phase] as number)));
    const [work, usualWork] = [sumOf(level), sumOf(usual)];
    // Where one of two ranks is longer, it is the rank that may be slow, and not the stage.
    const ofMost = Math.min(work, lowerMedian((works.get(name) ?? []).map(sumOf)) ?? 0);
    if (ofMost - usualWork <= Math.max(stageShareMin * usualWork, stageNoise(own, name))) continue;
    const more = level.map((length, phase) => length - (usual[phase] as number));
    const phase = more.indexOf(Math.max(...more));
    const ranks = groups.get(name) ?? [];
    const factors = new Map(ranks.map((rank) => [rank, stageFactors(own, rank, level, usual)]));
    const lone = ranks.length === 1 ? ['it has one rank: whether stage or rank is slow is unknown'] : [];
    const evidence = [`${name || 'the stage'} works ${ms(work)} per step, the other stages ${ms(usualWork)} at the median`, ...lone];
    suspects.push({
      kind: 'stage_imbalance',
      ranks,
      phase,
      excess: work - usualWork,
      factor: (rank, step, at) => factors.get(rank)?.[at]?.[step] ?? 1,
      mayBeScheduling: false,
      evidence,
    });
  }
  return suspects;
}

/** Factors of one of its ranks by phase and step. `level`, `usual`: the work of the stage and of the others, by phase. */
const stageFactors = (own: OwnWork, rank: number, level: Float64Array, usual: Float64Array): Float64Array[] =>
  Array.from(level, (length, phase) => {
    const factor = length > 0 ? (usual[phase] as number) / length : 1;
    const lengths = own.inPhase(rank, phase);
    const isWithout = isWithoutFault(lengths, factor * median(lengths));
    return lengths.map((one) => (isWithout(one) ? 1 : factor));
  });

/** What the difference of a stage's work to that of the others may be by chance, ns per step: the fewer the steps, the more. */
function stageNoise(own: OwnWork, name: string): number {
  const works = [...own.groups].map(([stage, ranks]) => {
    const totals = ranks.map((rank) => own.total(rank));
    return { stage, work: Float64Array.from({ length: own.steps }, (_, step) => median(totals.map((total) => total[step] as number))) };
  });
  const mine = works.find(({ stage }) => stage === name)?.work ?? new Float64Array(own.steps);
  const others = works.filter(({ stage }) => stage !== name);
  const more = mine.map((work, step) => work - median(others.map((other) => other.work[step] as number)));
  const freedom = Math.max(1, own.steps - 1);
  return stageErrorsMin * (1 + 2 / freedom + 4 / freedom ** 2) * ((1.2533 * deviation(more)) / Math.sqrt(own.steps));
}

function rotationOf(window: BlameWindow, even: EvenWork, cost: number, mendedStep: number, step: number): Fault | undefined {
  if (cost < rotationShareMin * mendedStep) return undefined;
  const leader = even.led.indexOf(Math.max(...even.led));
  const share = (even.led[leader] as number) / Math.max(1, window.steps.length);
  const slowest = even.more.indexOf(Math.max(...even.more));
  const ofSlowest = (even.more[slowest] as number) / Math.max(1, sumOf(even.more));
  const who =
    share >= leaderShareMin
      ? `mostly rank ${window.ranks[leader]?.rank}, but by too uneven an amount to blame it alone`
      : ofSlowest >= leaderShareMin
        ? `${(100 * ofSlowest).toFixed(0)} % of that is rank ${window.ranks[slowest]?.rank}'s, in too few of ${window.steps.length} steps to exclude chance`
        : 'not always the same';
  const evidence = [
    `in each step some rank works ${(100 * even.spread).toFixed(1)} % longer than the median of its peers (median over steps), ${who}`,
    `rank ${window.ranks[leader]?.rank} is the one most often: in ${Math.round(100 * share)} % of the steps`,
  ];
  const phase = window.phases[even.phase];
  const { explains, text } = cpuWaitOf(window.ranks);
  const about = { cost, gain: cost, atMedian: step - cost, evidence: [...text, ...evidence] };
  const isScheduling = explains(cost, step);
  const kind = isScheduling ? 'cpu_contention' : 'rotating_imbalance';
  return { kind, ranks: [], phase: isScheduling ? undefined : phase, mayBeScheduling: false, ...about };
}

type EvenWork = ReturnType<typeof evenWork>;

/** Own work if all ranks of a group were alike in each step and phase; its distance from the real work, and where. */
function evenWork(window: BlameWindow, own: OwnWork, mended: NewLength) {
  const { steps, phases } = own;
  const at = (rank: number, phase: number, step: number): number => (rank * phases + phase) * steps + step;
  /** By rank, phase, step: number of pieces of own work; new length of them all together, and as a share of the measured one. */
  const count = new Float64Array(window.ranks.length * phases * steps);
  const length = new Float64Array(count.length);
  const share = new Float64Array(count.length).fill(1);
  /** By phase: it has several pieces in some rank's step. */
  const areMany = new Uint8Array(phases);
  for (const [step, { ranks }] of window.steps.entries()) {
    for (const [rank, { pieces }] of ranks.entries()) {
      for (const piece of pieces)
        if (piece.kind === 'own') {
          const place = at(rank, piece.phase, step);
          count[place] = (count[place] as number) + 1;
          if ((count[place] as number) > 1) areMany[piece.phase] = 1;
        }
    }
  }
  const spreads: number[] = [];
  const led = new Uint32Array(window.ranks.length);
  /** By rank, work beyond the median of its peers, ns. */
  const more = new Float64Array(window.ranks.length);
  const byPhase = new Float64Array(phases);
  const groups = [...own.groups.values()];
  for (let step = 0; step < steps; step++) {
    let [most, leader] = [0, 0];
    for (const ranks of groups) {
      const [totals, works] = [new Float64Array(ranks.length), new Float64Array(ranks.length)];
      for (let phase = 0; phase < phases; phase++) {
        let longest = 0;
        for (let index = 0; index < ranks.length; index++) {
          const rank = ranks[index] as number;
          works[index] = mended(rank, step, phase, own.of(rank, phase, step));
          longest = Math.max(longest, works[index] as number);
        }
        const middle = median(works);
        byPhase[phase] = (byPhase[phase] as number) + longest - middle;
        for (let index = 0; index < ranks.length; index++) {
          const rank = ranks[index] as number;
          totals[index] = (totals[index] as number) + (works[index] as number);
          const measured = own.of(rank, phase, step);
          length[at(rank, phase, step)] = middle;
          if (measured > 0) share[at(rank, phase, step)] = middle / measured;
        }
      }
      const middle = median(totals);
      for (let index = 0; index < ranks.length; index++) {
        const [rank, total] = [ranks[index] as number, totals[index] as number];
        more[rank] = (more[rank] as number) + Math.max(0, total - middle);
        if (middle > 0 && total / middle - 1 > most) [most, leader] = [total / middle - 1, rank];
      }
    }
    spreads.push(most);
    if (most > 0) led[leader] = (led[leader] as number) + 1;
  }
  // Pieces of a phase that are units of the same work (micro-batches) all become alike; those between other meetings stay what they are in each step.
  const areUnits = Array.from(areMany, (many, phase) => window.isCutByMeetings !== true && (many === 0 || hasUnits(window, phase)));
  const newLength: NewLength = (rank, step, phase, measured) => {
    const place = at(rank, phase, step);
    return areUnits[phase] === true ? (length[place] as number) / Math.max(1, count[place] as number) : measured * (share[place] as number);
  };
  return { newLength, spread: median(spreads), led, more, phase: byPhase.indexOf(Math.max(...byPhase)) };
}

/** Units of the same work take about as long at each place among a step's pieces, over all steps: at most so many times as long. */
const unitsApartMax = 3;

/** Whether a rank's pieces of the phase are units of the same work, for half of the ranks or more. */
function hasUnits({ steps, ranks }: BlameWindow, phase: number): boolean {
  let [units, others] = [0, 0];
  for (const rank of ranks.keys()) {
    const byPlace: number[][] = [];
    for (const { ranks: parts } of steps) {
      let place = 0;
      for (const piece of parts[rank]?.pieces ?? []) {
        if (piece.kind !== 'own' || piece.phase !== phase) continue;
        byPlace[place] ??= [];
        byPlace[place++]?.push(piece.length);
      }
    }
    const usual = byPlace.map((lengths) => median(lengths));
    if (usual.length === 0) continue;
    if (Math.max(...usual) <= unitsApartMax * Math.min(...usual)) units++;
    else others++;
  }
  return units >= others;
}

const sumOf = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0);
