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
// Clients state that loaders work ahead, or it shows in the waits: the longer a rank was busy since its last batch, the shorter it waits for the next one. Where
// the loop itself loads, the two have nothing to do with each other.

import { deviation, median } from '../model/robust.ts';
import type { BlameRank, BlameStep, BlameWindow, Piece, RankStep } from './blame-window.ts';
import type { RawRanks, RawStep } from './raw-steps.ts';

/** ns that a rank's loader takes for the batches of one step, and its error (one deviation). */
export interface LoaderTime {
  readonly length: number;
  readonly error: number;
}

/** By process index; of a rank that hardly waited for batches it is not known. */
export type LoaderTimes = ReadonlyMap<number, LoaderTime>;

/** A rank waited for a batch if it did so for this share of the time since the one before. */
const waitedShareMin = 0.1;
/** A rank whose batches are in time waits for them no longer than this share of its steps. */
const waitedOfAllMin = 0.01;
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
/** Batches waited for one after the other, of all ranks, and of one. */
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
   * loaders work ahead, if that was recorded.
   */
  times(raw: readonly RawRanks[], phases: readonly string[], isAhead: boolean | undefined): LoaderTimes | undefined {
    const ranks = isAhead === false || phases.length === 0 ? [] : waitingRanks(raw, phases);
    const all = new Map(ranks.map((index) => [index, waitsOf(raw, index, phases)] as const));
    const longest = Math.max(0, ...[...all.values()].map(({ fetches }) => median(fetches.map(([, , next]) => next))));
    const byRank = new Map<number, Waits>();
    for (const [index, waits] of all) {
      if (isFaster(waits, longest)) this.#known.delete(index);
      else if (waits.fetches.length >= fetchesOfRankMin) byRank.set(index, waits);
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
  /** Batches that a rank waited for, each with the next one, if it waited for that, too. */
  readonly fetches: readonly Fetch[];
  /** Batches of one step. */
  readonly perStep: number;
  /** Batches at the end that were there in time, and the last wait before them, ns. */
  readonly free: number;
  readonly lastWait: number;
}

/** Whether a rank waits no longer, from one batch to the next: what its loader took before says nothing. `longest`: what the rank waits that waits longest. */
function isFaster({ fetches, free, lastWait }: Waits, longest: number): boolean {
  if (free < freeMin || fetches.length === 0) return false;
  return lastWait >= Math.max(lastWaitMin * longest, fasterSpreadsMin * deviation(fetches.map(([, busy, next]) => busy + next)));
}

/** Ranks that wait for batches at all: of a thousand ranks, nearly all may have theirs in time. */
function waitingRanks(raw: readonly RawRanks[], phases: readonly string[]): number[] {
  const sums = new Map<number, { waited: number; length: number }>();
  for (const { ranks } of raw) {
    for (const [index, step] of ranks) {
      const sum = sums.get(index) ?? { waited: 0, length: 0 };
      sums.set(index, sum);
      sum.length += step.length;
      for (const phase of phases) sum.waited += step.phases?.get(phase) ?? 0;
    }
  }
  return [...sums].flatMap(([index, { waited, length }]) => (waited > waitedOfAllMin * length ? [index] : []));
}

function waitsOf(raw: readonly RawRanks[], index: number, phases: readonly string[]): Waits {
  const fetches: Fetch[] = [];
  let [steps, batches, free, lastWait] = [0, 0, 0, 0];
  let before: { readonly step: number; readonly wait: number; busy: number } | undefined;
  for (const { step, ranks } of raw) {
    const of = ranks.get(index);
    const waits = of === undefined ? [] : placesOf(of, phases);
    if (of === undefined || waits.length === 0 || (before !== undefined && step > before.step + 1)) before = undefined;
    if (of === undefined || waits.length === 0) continue;
    steps++;
    batches += waits.length;
    let at = of.start - of.gap;
    for (const { from, until } of waits) {
      if (before !== undefined) {
        const [busy, next] = [before.busy + from - at, until - from];
        const least = waitedShareMin * (busy + next);
        if (before.wait >= least && next >= least) fetches.push([before.wait, busy, next]);
        [free, lastWait] = next < least ? [free + 1, lastWait] : [0, next];
      }
      before = { step, wait: until - from, busy: 0 };
      at = until;
    }
    if (before !== undefined) before.busy = of.start + of.length - at;
  }
  return { fetches: withoutLong(fetches), perStep: batches / Math.max(1, steps), free, lastWait };
}

function timeOf({ fetches, perStep }: Waits): LoaderTime {
  const lengths = fetches.map(([, busy, next]) => busy + next);
  const error = (1.2533 * deviation(lengths)) / Math.sqrt(lengths.length);
  return { length: perStep * median(lengths), error: perStep * error };
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

/** The window with waiting for late ranks as waiting for the own loader, as far as that is as slow; the same window where loaders do not work ahead. */
export function withLoaderQueues(window: BlameWindow): BlameWindow {
  const { loaders = [] } = window;
  const known = loaders.filter((time) => time !== undefined);
  if (known.length < 2) return window;
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
