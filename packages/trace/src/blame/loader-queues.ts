// Loaders that work ahead of the loop, in processes or threads of their own: how long a rank waits for its next batch is no work of its own.
//
//   loader 0   ──batch──│──batch──│──batch──│         as slow as the other, and a little behind
//   rank 0     wait────│compute│wait──│compute│
//   loader 1   ─batch──│──batch──│──batch──│
//   rank 1     wait───│compute│wait─│…│compute│       waits less for its loader, and then for rank 0 (…)
//
// Rank 0 seems to be slow in `data`, but to mend that gains nothing: then the others wait for loader 1. While a rank waits for each batch, its loader's own
// time shows: from one batch that it waited for to the next. A rank's waiting for the others so counts as waiting for its own loader, up to what that takes.
//
// Workers of one loader make batches by turns, each its own one after the other. So a worker's time is from one of its batches to its next one, and where
// several are ready at once, a rank waits for the first of them for all. Each step then counts as waiting for its share.
//
//   worker a   ───batch 0───│───batch 2───│
//   worker b   ───batch 1────│───batch 3───│
//   rank       wait─────────│││ wait──────│││          it waits for 0 and 2, and 1 and 3 are there
//
// Clients state that loaders work ahead, or it shows in the waits: the longer a rank was busy since its last batch, the shorter it waits for the next one. Where
// the loop itself loads, the two have nothing to do with each other.

import { deviation, mean, median } from '../model/robust.ts';
import type { BlameRank, BlameStep, BlameWindow, Piece, RankStep } from './blame-window.ts';
import type { RawRanks, RawStep } from './raw-steps.ts';

/** ns that a rank's loader takes for the batches of one step, and its error (one deviation). */
export interface LoaderTime {
  readonly length: number;
  readonly error: number;
  /** Steps in which each of its workers makes a batch. */
  readonly turns: number;
}

/** By process index; of a rank that hardly waited for batches it is not known. */
export type LoaderTimes = ReadonlyMap<number, LoaderTime>;

/** A rank waited for a batch if it did so for this share of the time since the one before. */
const waitedShareMin = 0.1;
/** A rank whose batches are in time waits for them no longer than this share of its steps. */
const waitedOfAllMin = 0.01;
/** … and for this share of the mean wait of the rank that waits longest: on a busy host a rank waits now and then for a batch that is there. */
const waitedOfMostMin = 0.2;
/** To get a batch that is there takes at most this share of the mean wait of the rank that waits longest. */
const readyShareMax = 0.2;
/** ms less to wait for the next batch per ms that the rank was busy: 1 where loaders work ahead, 0 where the loop loads; and that less its errors. */
const aheadMin = 0.3;
const aheadSureMin = 0.1;
const errorsMin = 3;
/** A wait or busy time is of another kind from so many medians on. */
const longMin = 4;
/**
 * A loader became faster if at the end so many batches were there in time, and the last wait for one was no shorter than this share of the longest waits, and than
 * so many deviations of what the loader takes: by chance, waits become shorter little by little.
 */
const freeMin = 8;
const lastWaitMin = 0.5;
const fasterSpreadsMin = 4;
/** Steps after which it is forgotten what a loader took. */
const rememberedSteps = 1024;
/** Loaders take as long as before up to this share. */
const sameShareMax = 0.02;
/** Batches waited for one after the other, of all ranks, and of each worker of one rank. */
const fetchesMin = 16;
const fetchesOfRankMin = 5;

/** ns: the wait for a batch, the time busy after it, and the wait for the next one. */
type Fetch = readonly [wait: number, busy: number, next: number];

/** The times that loaders take, as far as steps show them; remembered while they hold. */
export class LoaderQueues {
  /** By process index, with what the slowest loader took then. */
  readonly #known = new Map<number, { readonly time: LoaderTime; readonly slowest: LoaderTime; readonly step: number }>();

  /** Seen once, it is so. */
  #workAhead = false;

  /**
   * Undefined where loaders do not work ahead, or no rank waits for them. `raw`: steps in order. `phases`: those that get batches. `isAhead`: whether
   * loaders work ahead, if that was recorded. `workersOf`: a rank's workers, that make batches by turns, by process index.
   */
  times(
    raw: readonly RawRanks[],
    phases: readonly string[],
    isAhead: boolean | undefined,
    workersOf: (index: number) => number = () => 1,
  ): LoaderTimes | undefined {
    const ranks = isAhead === false || phases.length === 0 ? [] : waitingRanks(raw, phases);
    const all = new Map(ranks.map((rank) => [rank.index, waitsOf(raw, rank, phases, Math.max(1, workersOf(rank.index)))] as const));
    const longest = Math.max(0, ...[...all.values()].map(({ fetches }) => median(fetches.map(([, , next]) => next))));
    const byRank = new Map<number, Waits>();
    for (const [index, waits] of all) {
      if (isFaster(waits, longest)) this.#known.delete(index);
      else if (waits.fetches.length >= fetchesOfRankMin * waits.workers) byRank.set(index, waits);
    }
    if (byRank.size === 0) return undefined;
    this.#workAhead ||= isAhead ?? workAhead([...byRank.values()].map(({ fetches }) => fetches));
    if (!this.#workAhead) return undefined;
    const times = new Map([...byRank].map(([index, waits]) => [index, timeOf(waits)] as const));
    const slowest = slowestOf([...times.values()]);
    const step = raw.at(-1)?.step ?? 0;
    for (const [index, time] of times) this.#known.set(index, { time, slowest, step });
    for (const [index, before] of this.#known) {
      const holds = step - before.step <= rememberedSteps && isSame(before.slowest, slowest);
      if (holds && !times.has(index)) times.set(index, before.time);
    }
    return times;
  }
}

interface Waits {
  /** Batches that a rank waited for, each with the next one of the same worker, if it waited for that, too. */
  readonly fetches: readonly Fetch[];
  readonly workers: number;
  /** Batches of one step. */
  readonly perStep: number;
  /** Batches at the end that were there in time, and the last wait before them, ns. */
  readonly free: number;
  readonly lastWait: number;
}

/** Whether a rank waits no longer, from one batch to the next: what its loader took before says nothing. `longest`: what the rank waits that waits longest. */
function isFaster({ fetches, workers, free, lastWait }: Waits, longest: number): boolean {
  if (free < freeMin * workers || fetches.length === 0) return false;
  return lastWait >= Math.max(lastWaitMin * longest, fasterSpreadsMin * deviation(fetches.map(([, busy, next]) => busy + next)));
}

/** A rank that waits, and how long it takes to get a batch that is there, ns. */
interface WaitingRank {
  readonly index: number;
  readonly ready: number;
  /** A shorter wait beyond that tells nothing of its loader, ns. */
  readonly least: number;
}

/**
 * Ranks that wait for batches at all: of a thousand ranks, nearly all may have theirs in time. To get a batch that is there takes its time, too: that of the
 * shorter waits of the rank that waits least.
 */
function waitingRanks(raw: readonly RawRanks[], phases: readonly string[]): WaitingRank[] {
  const sums = new Map<number, { readonly waits: number[]; length: number }>();
  for (const { ranks } of raw) {
    for (const [index, step] of ranks) {
      const sum = sums.get(index) ?? { waits: [], length: 0 };
      sums.set(index, sum);
      sum.length += step.length;
      for (const { from, until } of placesOf(step, phases)) sum.waits.push(until - from);
    }
  }
  const all = [...sums].filter(([, { waits }]) => waits.length > 0);
  const quick = Math.min(...all.map(([, { waits }]) => quarterOf(waits)));
  // Where all wait for about as long each time, none has its batches in time.
  const ready = quick <= readyShareMax * Math.max(...all.map(([, { waits }]) => mean(waits))) ? quick : 0;
  const beyond = (waits: readonly number[]): number => waits.reduce((sum, wait) => sum + Math.max(0, wait - ready), 0);
  const least = waitedOfMostMin * Math.max(0, ...all.map(([, { waits }]) => beyond(waits) / waits.length));
  return all.flatMap(([index, { waits, length }]) => (beyond(waits) > waitedOfAllMin * length ? [{ index, ready, least }] : []));
}

const quarterOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 2] ?? 0;

/** `workers`: batches come from as many by turns, and each makes its own one after the other. */
function waitsOf(
  raw: readonly RawRanks[],
  { index, ready, least: shortest }: WaitingRank,
  phases: readonly string[],
  workers: number,
): Waits {
  const fetches: Fetch[] = [];
  let [steps, batches, free, lastWait, lastStep] = [0, 0, 0, 0, 0];
  /** The last batches, in consecutive steps: waits, and when they had come, ns since some time. */
  let last: { readonly wait: number; readonly at: number }[] = [];
  let [clock, at] = [0, 0];
  for (const { step, ranks } of raw) {
    const of = ranks.get(index);
    const waits = of === undefined ? [] : placesOf(of, phases);
    if (of === undefined || waits.length === 0 || step > lastStep + 1) last = [];
    if (of === undefined || waits.length === 0) continue;
    steps++;
    batches += waits.length;
    lastStep = step;
    at = of.start - of.gap;
    for (const { from, until } of waits) {
      clock += until - at;
      const wait = until - from;
      const before = last.at(-workers);
      if (before !== undefined) {
        const busy = clock - before.at - wait;
        const least = Math.max(shortest, (waitedShareMin * (busy + wait)) / workers);
        if (before.wait - ready >= least && wait - ready >= least) fetches.push([before.wait, busy, wait]);
        [free, lastWait] = wait - ready < least ? [free + 1, lastWait] : [0, wait];
      }
      last.push({ wait, at: clock });
      if (last.length > workers) last.shift();
      at = until;
    }
    clock += of.start + of.length - at;
  }
  return { fetches: withoutLong(fetches), workers, perStep: batches / Math.max(1, steps), free, lastWait };
}

function timeOf({ fetches, workers, perStep: ofStep }: Waits): LoaderTime {
  const lengths = fetches.map(([, busy, next]) => busy + next);
  const error = (1.2533 * deviation(lengths)) / Math.sqrt(lengths.length);
  const perStep = ofStep / workers;
  return { length: perStep * median(lengths), error: perStep * error, turns: Math.ceil(workers / ofStep) };
}

const slowestOf = (times: readonly LoaderTime[]): LoaderTime => times.reduce((most, time) => (time.length > most.length ? time : most));

const isSame = (a: LoaderTime, b: LoaderTime): boolean =>
  Math.abs(a.length - b.length) <= sameShareMax * a.length + errorsMin * Math.hypot(a.error, b.error);

/** Without those of another kind: the first batch of an epoch, or what follows an evaluation. */
function withoutLong(fetches: readonly Fetch[]): Fetch[] {
  const most = ([0, 1, 2] as const).map((at) => longMin * median(fetches.map((of) => of[at])));
  return fetches.filter((of) => of.every((length, at) => length <= (most[at] as number)));
}

/** Where a rank waited for batches; of phases without a place it is the beginning of the step. */
function placesOf(
  { start, phases: lengths, placed }: RawStep,
  phases: readonly string[],
): { readonly from: number; readonly until: number }[] {
  const waits = placed.filter(({ name }) => phases.includes(name)).sort((a, b) => a.from - b.from);
  if (waits.length > 0) return waits;
  const known = phases.flatMap((name) => lengths?.get(name) ?? []);
  return known.length === 0 ? [] : [{ from: start, until: start + known.reduce((sum, length) => sum + length, 0) }];
}

/** Whether waits are shorter by about as much as ranks were busy for longer before. */
function workAhead(ranks: readonly (readonly Fetch[])[]): boolean {
  // Least squares of the next wait by the time busy before it and by the wait before that (slow stretches), each rank around its own means.
  let [count, bb, bw, ww, bn, wn, nn] = [0, 0, 0, 0, 0, 0, 0];
  for (const fetches of ranks) {
    const means = ([0, 1, 2] as const).map((at) => fetches.reduce((sum, of) => sum + of[at], 0) / fetches.length);
    for (const fetch of fetches) {
      const [wait, busy, next] = fetch.map((value, at) => value - (means[at] as number)) as [number, number, number];
      count++;
      bb += busy * busy;
      bw += busy * wait;
      ww += wait * wait;
      bn += busy * next;
      wn += wait * next;
      nn += next * next;
    }
  }
  const determinant = bb * ww - bw * bw;
  const freedom = count - ranks.length - 2;
  if (count < fetchesMin || freedom <= 0 || !(determinant > 1e-9 * bb * ww)) return false;
  const byBusy = (bn * ww - wn * bw) / determinant;
  const byWait = (wn * bb - bn * bw) / determinant;
  const rest = Math.max(0, nn - byBusy * bn - byWait * wn) / freedom;
  const error = Math.sqrt((rest * ww) / determinant);
  return -byBusy >= aheadMin && -byBusy - errorsMin * error >= aheadSureMin;
}

/** Whether loaders of several ranks are slower than the loop. */
export const areLoadersSlow = ({ loaders = [] }: BlameWindow): boolean => loaders.filter((time) => time !== undefined).length > 1;

/**
 * The window with waiting for late ranks as waiting for the own loader, as far as that is as slow, and with waits for batches of workers that take turns evenly
 * in their steps; the same window where loaders do not work ahead.
 */
export const withLoaderQueues = (window: BlameWindow): BlameWindow => withTurns(withOwnWaits(window));

function withOwnWaits(window: BlameWindow): BlameWindow {
  const { loaders = [] } = window;
  if (!areLoadersSlow(window)) return window;
  const known = loaders.filter((time) => time !== undefined);
  const slowest = slowestOf(known);
  // As slow as the slowest, if noise may be all that sets them apart.
  const faster = loaders.map((time) => {
    return time && Math.max(0, slowest.length - time.length - errorsMin * Math.hypot(slowest.error, time.error));
  });
  const isData = window.roles.map((role) => role === 'data');
  const steps = window.steps.map((step): BlameStep => {
    const waits = step.ranks.map((of) => dataOf(of, isData));
    const longest = Math.max(...waits.filter((_, rank) => faster[rank] !== undefined));
    const ranks = step.ranks.map((of, rank) => {
      const less = Math.round(longest - (faster[rank] ?? longest) - (waits[rank] as number));
      return less > 0 ? waitingForLoader(of, less, isData) : of;
    });
    return { ...step, ranks };
  });
  return { ...window, steps };
}

/** Waits for batches of workers that take turns, evenly in the steps of each turn. */
function withTurns(window: BlameWindow): BlameWindow {
  const { loaders = [] } = window;
  if (!loaders.some((time) => time !== undefined && time.turns > 1)) return window;
  const isData = window.roles.map((role) => role === 'data');
  const steps = window.steps.map((step) => ({ ...step, ranks: [...step.ranks] }));
  for (const [rank, { turns } = { turns: 1 }] of loaders.entries()) {
    for (let from = 0; turns > 1 && from < steps.length; ) {
      let until = from + 1;
      const end = (steps[from] as BlameStep).step + turns;
      while (until < steps.length && (steps[until] as BlameStep).step < end) until++;
      const turn = steps.slice(from, until);
      const waited = turn.map(({ ranks }) => dataOf(ranks[rank] as RankStep, isData));
      for (const [at, { ranks }] of turn.entries()) {
        ranks[rank] = withData(ranks[rank] as RankStep, waited[at] as number, Math.round(mean(waited)), isData);
      }
      from = until;
    }
  }
  return { ...window, steps };
}

/** The step with `length` ns in data instead of `before`. */
function withData(step: RankStep, before: number, length: number, isData: readonly boolean[]): RankStep {
  if (before === length) return step;
  if (before === 0) return { ...step, pieces: [{ kind: 'own', phase: isData.indexOf(true), length }, ...step.pieces] };
  const pieces = step.pieces.map((piece): Piece => {
    return piece.kind === 'own' && isData[piece.phase] === true ? { ...piece, length: piece.length * (length / before) } : piece;
  });
  return { ...step, pieces };
}

function dataOf({ pieces }: RankStep, isData: readonly boolean[]): number {
  let sum = 0;
  for (const piece of pieces) if (piece.kind === 'own' && isData[piece.phase] === true) sum += piece.length;
  return sum;
}

/** `less` ns of waiting for other ranks counts as waiting for the next batch. */
function waitingForLoader(step: RankStep, less: number, isData: readonly boolean[]): RankStep {
  const at = step.pieces.findIndex((piece) => piece.kind === 'own' && isData[piece.phase] === true);
  let left = less;
  const pieces = step.pieces.map((piece, place): Piece => {
    if (place < at || left <= 0 || (piece.kind !== 'wait' && piece.kind !== 'unmatched')) return piece;
    const taken = Math.min(left, piece.length);
    left -= taken;
    return { ...piece, length: piece.length - taken };
  });
  const own = at < 0 ? 0 : (pieces[at] as Extract<Piece, { kind: 'own' }>).length;
  const phase = at < 0 ? isData.indexOf(true) : (pieces[at] as Extract<Piece, { kind: 'own' }>).phase;
  pieces.splice(Math.max(0, at), at < 0 ? 0 : 1, { kind: 'own', phase, length: own + less - left });
  return { ...step, pieces };
}

/** The cost of a slow loader is a bound where the others' times are not known: says so; nothing in other phases. */
export function loaderDoubt({ loaders, ranks, phases, roles }: BlameWindow, of: readonly number[], phase: string | undefined): string[] {
  if (loaders === undefined || phase === undefined || roles[phases.indexOf(phase)] !== 'data') return [];
  const isKnown = ({ rank }: BlameRank, place: number): boolean => loaders[place] !== undefined || !of.includes(rank);
  const others = ranks.flatMap(({ rank }, place) => (of.includes(rank) ? [] : [loaders[place]]));
  if (!ranks.every(isKnown) || others.some((time) => time !== undefined)) return [];
  return [
    'loaders work ahead, and those of the others have batches in stock: how much faster they are is unknown, and the cost is at most this',
  ];
}
