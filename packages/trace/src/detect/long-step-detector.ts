// Long steps that begin to take more of a run's time: checkpoints on a disk that became slow, a loader that runs dry now and then. Blocks leave them out.
//
//   steps    ▁▁▁▁█▁▁▁▁█▁▁▁▁█▁▁▁▁█▁▁▁▁█     each in usual steps: the median of the last ones, or the shorter half's
//   tallies  |       |       |    |  |  |  now      of the delays so far: few of the beginning, more of late
//            └────── before ──────┘└ after ┘        for each tally: do delays add more since?
//
// Many tallies are looked at again and again, so a difference must be as improbable as `alarm`. Which tally tells most is the onset. The steps that first
// show a rise are those in which delays happen to add most: it is told again when twice as many delays say otherwise.
//
// Invariant: memory is bounded by `detectLimits`. A detector restored from `state()` continues unchanged.

import { medianOfSorted } from '../model/robust.ts';
import { interval95 } from './compare-series.ts';
import { detectLimits as limits } from './detect-limits.ts';
import { addedBy, DelayCounter, type DelayTally, delaysBetween, type LongSteps, varianceOfAdded } from './long-steps.ts';
import type { ChangeConfidence } from './step-time-finding.ts';
import { errorOf, studentQuantile } from './student.ts';

/** The least rise of the mean of all steps that is reported, unless a higher one is asked for. */
export const longStepsChangeMin = 0.05;
/** Significance of a change: as improbable as 5.2 deviations of normal noise. */
const alarm = { share: 2e-7, normal: 5.2 };
/** Steps whose median is the usual step, and steps until it is taken again. */
const [usualSteps, usualEvery] = [64, 16] as const;
/** Where steps around the median are so many times as long as those below it, it lies between two lengths. */
const apartMin = 1.25;
/** Steps between two tallies, and two judgements. */
const judgeEvery = 32;
/** Fewest steps on either side of an onset, and fewest delays after it. */
const [sideStepsMin, delaysMin] = [96, 4] as const;
/** A tally goes when those beside it are closer together than this share of their age. */
const closeShare = 0.2;
/** A rise is told again, after twice as many delays, when what they add differs by this share from what was told. */
const refinedShare = 0.2;
/** It is over when delays add at most this share of what they added more, over so many of their gaps, and that is so many deviations less. */
const [leftShare, leftGaps, leftDeviations] = [0.25, 6, 4] as const;

/** Long steps add more to the time than before; `long_steps_refined`: the same rise again, from all delays since its onset. */
export interface LongStepsRise {
  readonly kind: 'long_steps' | 'long_steps_refined';
  readonly step: number;
  readonly onsetStep: number;
  /** Mean of all steps, in the unit of the series. */
  readonly before: number;
  readonly after: number;
  /** after ÷ before − 1. */
  readonly change: number;
  readonly confidence: ChangeConfidence;
  /** Shares of the time of usual steps that they added before and add after; one step in so many is one. */
  readonly addedBefore: number;
  readonly addedAfter: number;
  readonly every: number;
}

export interface LongStepsOver {
  readonly kind: 'long_steps_over';
  readonly step: number;
  /** The share that they add now, and the first step of the rise. */
  readonly added: number;
  readonly onsetStep: number;
}

interface Tally extends DelayTally {
  /** Number of the step after it. */
  readonly step: number;
  /** Where the first delay after it began; -1: there is none yet. */
  next: number;
}

/** A rise that is not over: what delays added before, those after it, and steps when it was found. */
interface Risen {
  readonly before: number;
  readonly after: LongSteps;
  readonly found: number;
  readonly onsetStep: number;
  /** To tell it again: delays before its onset, the tally at it, and what was told that delays add. Absent in states of older services. */
  readonly refines?: { readonly before: LongSteps; readonly from: Tally; readonly told: number };
}

/** In JSON's types. */
export interface LongStepState {
  readonly recent: readonly number[];
  readonly usual: number;
  readonly tallies: readonly Tally[];
  readonly now: DelayTally;
  readonly open: number;
  readonly untilUsual: number;
  readonly untilJudged: number;
  readonly risen: Risen | null;
  readonly lastStep: number;
}

export class LongStepDetector {
  /** The least rise of the mean of all steps, as a share. */
  readonly #changeMin: number;
  #counter = new DelayCounter();
  #recent: number[] = [];
  #usual = 0;
  #untilUsual = 0;
  #untilJudged = judgeEvery;
  #tallies: Tally[] = [];
  #risen: Risen | undefined = undefined;
  #lastStep = -1;

  constructor(changeMin: number) {
    this.#changeMin = changeMin;
  }

  /** The first step of a rise that is not over. */
  get openSince(): number | undefined {
    return this.#risen?.onsetStep;
  }

  /** Takes the time that passed in a step. */
  add(step: number, time: number): LongStepsRise | LongStepsOver | undefined {
    if (!(time > 0) || time === Number.POSITIVE_INFINITY) return undefined;
    if (step <= this.#lastStep) this.#begin();
    this.#lastStep = step;
    if (this.#recent.push(time) > usualSteps) this.#recent.shift();
    if (this.#recent.length < usualSteps) return undefined;
    if (--this.#untilUsual <= 0) {
      this.#usual = usualOf(this.#recent);
      this.#untilUsual = usualEvery;
    }
    if (this.#tallies.length === 0) this.#tallies.push({ ...this.#counter.tally, step, next: -1 });
    if (this.#counter.add(time / this.#usual)) this.#delayBegins();
    if (--this.#untilJudged > 0 || this.#counter.open > 0) return undefined;
    this.#untilJudged = judgeEvery;
    const now = this.#counter.tally;
    const risen = this.#risen;
    const found = risen === undefined ? this.#rise(step, now) : (this.#over(step, now, risen) ?? this.#refined(step, now, risen));
    if (found?.kind === 'long_steps_over') this.#begin();
    else this.#remember({ ...now, step: step + 1, next: -1 });
    return found;
  }

  state(): LongStepState {
    return {
      recent: [...this.#recent],
      usual: this.#usual,
      tallies: this.#tallies.map((tally) => ({ ...tally })),
      now: this.#counter.tally,
      open: this.#counter.open,
      untilUsual: this.#untilUsual,
      untilJudged: this.#untilJudged,
      risen: this.#risen ?? null,
      lastStep: this.#lastStep,
    };
  }

  restore({ recent, usual, tallies, now, open, untilUsual, untilJudged, risen, lastStep }: LongStepState): void {
    this.#recent = recent.slice(-usualSteps);
    this.#usual = usual;
    this.#tallies = tallies.slice(-limits.detectTalliesMax).map((tally) => ({ ...tally }));
    this.#counter = new DelayCounter(now, open);
    this.#untilUsual = untilUsual;
    this.#untilJudged = untilJudged;
    this.#risen = risen ?? undefined;
    this.#lastStep = lastStep;
  }

  /** Begins anew: with a run that was restarted, and after a rise. */
  #begin(): void {
    this.#counter = new DelayCounter();
    this.#tallies = [];
    this.#untilJudged = judgeEvery;
  }

  #delayBegins(): void {
    for (let at = this.#tallies.length - 1; at >= 0; at--) {
      const tally = this.#tallies[at] as Tally;
      if (tally.next >= 0) return;
      tally.next = this.#counter.last;
    }
  }

  #rise(step: number, now: DelayTally): LongStepsRise | undefined {
    const [begin] = this.#tallies;
    if (begin === undefined || now.count - begin.count < delaysMin) return undefined;
    let isClear = false;
    let most: { readonly t: number; readonly from: Tally; readonly before: LongSteps; readonly after: LongSteps } | undefined;
    for (const from of this.#tallies) {
      if (now.count - from.count < delaysMin) break;
      if (from.steps - begin.steps < sideStepsMin || now.steps - from.steps < sideStepsMin) continue;
      const [before, after] = [delaysBetween(begin, begin.next, from), delaysBetween(from, from.next, now)];
      const { change, error, degrees } = differenceOf(before, after);
      if (change < Math.log1p(this.#changeMin)) continue;
      const t = change / error;
      isClear ||= t >= studentQuantile(alarm, degrees);
      if (t > (most?.t ?? 0)) most = { t, from, before, after };
    }
    if (most === undefined || !isClear) return undefined;
    const { from, before, after } = most;
    // The tally counts steps since the detector began; numbers of steps may have holes.
    const onsetStep = from.step + Math.max(0, from.next - from.steps - 1);
    const refines = { before, from: { ...from }, told: addedBy(after) };
    this.#risen = { before: addedBy(before), after, found: now.steps, onsetStep, refines };
    return { kind: 'long_steps', step, onsetStep, ...this.#numbers(before, after, from, now) };
  }

  #refined(step: number, now: DelayTally, risen: Risen): LongStepsRise | undefined {
    const { refines, onsetStep } = risen;
    if (refines === undefined || now.count - refines.from.count < 2 * risen.after.count) return undefined;
    const { before, from } = refines;
    const after = delaysBetween(from, from.next, now);
    const isTold = Math.abs(addedBy(after) - refines.told) <= refinedShare * refines.told;
    this.#risen = { ...risen, after, refines: { ...refines, told: isTold ? refines.told : addedBy(after) } };
    return isTold ? undefined : { kind: 'long_steps_refined', step, onsetStep, ...this.#numbers(before, after, from, now) };
  }

  #numbers(before: LongSteps, after: LongSteps, from: Tally, now: DelayTally): Omit<LongStepsRise, 'kind' | 'step' | 'onsetStep'> {
    const { change, error, degrees } = differenceOf(before, after);
    const within = studentQuantile(interval95, degrees) * error;
    const [addedBefore, addedAfter] = [addedBy(before), addedBy(after)];
    const every = Math.max(1, Math.round((now.last - from.next) / (after.count - 1)));
    return {
      before: this.#usual * (1 + addedBefore),
      after: this.#usual * (1 + addedAfter),
      change: Math.expm1(change),
      confidence: { t: change / error, low: Math.expm1(change - within), high: Math.expm1(change + within) },
      ...{ addedBefore, addedAfter, every },
    };
  }

  #over(step: number, now: DelayTally, { before, after, found, onsetStep }: Risen): LongStepsOver | undefined {
    const untilOver = Math.max(sideStepsMin, (leftGaps * after.steps) / after.count);
    const allowed = before + leftShare * (addedBy(after) - before);
    for (let at = this.#tallies.length - 1; at >= 0; at--) {
      const from = this.#tallies[at] as Tally;
      if (from.steps < found) return undefined;
      if (now.steps - from.steps < untilOver) continue;
      const latest = delaysBetween(from, from.next, now);
      const { change, error } = differenceOf(latest, after);
      if (addedBy(latest) > allowed || change < leftDeviations * error) continue;
      this.#risen = undefined;
      return { kind: 'long_steps_over', step, added: addedBy(latest), onsetStep };
    }
    return undefined;
  }

  /** Keeps a tally, and fewer of the older ones. */
  #remember(tally: Tally): void {
    this.#tallies.push(tally);
    const apart = (at: number): number => (this.#tallies[at + 1] as Tally).steps - (this.#tallies[at - 1] as Tally).steps;
    for (let at = this.#tallies.length - 2; at >= 1; at--) {
      if (apart(at) < closeShare * (tally.steps - (this.#tallies[at + 1] as Tally).steps)) this.#tallies.splice(at, 1);
    }
    if (this.#tallies.length > limits.detectTalliesMax) this.#tallies.splice(1, 1);
  }
}

/**
 * The usual one of these steps. Where about half of them take longer, as where gradients are accumulated over two, one more of either would make the longer ones
 * usual, or long: there it is one of the shorter.
 */
function usualOf(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  const [shorter, longer] = [3, 5].map((eighths) => sorted[Math.floor((eighths / 8) * (sorted.length - 1))]) as [number, number];
  return longer > apartMin * shorter ? shorter : medianOfSorted(sorted);
}

/** Difference of the logarithms of the means of all steps, its error, and the degrees of freedom of that. */
function differenceOf(before: LongSteps, after: LongSteps): { readonly change: number; readonly error: number; readonly degrees: number } {
  const change = Math.log1p(addedBy(after)) - Math.log1p(addedBy(before));
  return { change, ...errorOf([varianceOfAdded(before, after), varianceOfAdded(after, before)]) };
}
