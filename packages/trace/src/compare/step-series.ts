// One quantity over the steps of a run, robustly: its middle, and how far that is known. Steps without it count as 0, without being kept.
//
// The middle of what is in more than half of the steps is the median: a checkpoint or a slow first step does not move it. The median of anything
// rarer is 0, so that is compared by means. So is what about half of the steps have, or have longer, as where gradients are accumulated over two: one
// step more or less decides on which side the median lies.
//
// Steps that are alike, or wander, say less than independent ones do: the error of a middle is at least that of the means of up to 64 stretches, which
// are kept in their order.

import { trimmedMean } from '../detect/compare-series.ts';
import { QuantileSketch } from '../model/quantile-sketch.ts';

/** Standard error of a median over that of a mean, for normal noise: √(π/2). */
const medianError = 1.2533;
/** Width of the middle half of a normal distribution, in deviations. */
const middleHalf = 1.349;
/** Below this many steps quartiles say little, and the deviation of single steps is used. */
const quartileStepsMin = 12;
/** From this many steps on, the longest one may be an outlier. */
const trimStepsMin = 4;
/** Largest relative error of a quantile of many steps: small beside the differences that are reported. */
const accuracy = 0.002;
/** Stretches whose means are kept, and the fewest of which one outlier falls out. */
const [stretchesMax, stretchesMin] = [64, 10] as const;
/** Standard errors to each side of a median within which one of the same steps, drawn again, lies; of few steps, more would reach the longest one. */
const medianErrors = { few: 2, many: 3 } as const;
/** The mean is the middle where the median is known so many times less well than noise makes it. */
const unsureMin = 1.5;
/** Deviations below this share of the level count as this: clocks and schedulers are not better. */
const scatterMin = 0.002;

/** A middle, its standard error (undefined where scatter is not known), and the degrees of freedom of that. */
export interface SeriesMiddle {
  readonly level: number;
  readonly error: number | undefined;
  readonly degrees: number;
}

export class StepSeries {
  readonly #values = new QuantileSketch(accuracy);
  #sum = 0;
  #squares = 0;
  #second = 0;
  readonly #stretches: number[] = [];
  /** Steps of a stretch, and the open one. */
  #stretchSteps = 1;
  #openSteps = 0;
  #openSum = 0;

  /** Steps that have it. */
  get steps(): number {
    return this.#values.count;
  }

  /** The value of one step, at least 0. */
  add(value: number): void {
    const most = this.#values.most ?? 0;
    this.#second = Math.max(this.#second, Math.min(most, value));
    this.#values.add(value);
    this.#sum += value;
    this.#squares += value * value;
    this.#openSum += value;
    if (++this.#openSteps === this.#stretchSteps) this.#endStretch();
  }

  #endStretch(): void {
    const means = this.#stretches;
    means.push(this.#openSum / this.#openSteps);
    this.#openSteps = 0;
    this.#openSum = 0;
    if (means.length < stretchesMax) return;
    this.#stretchSteps *= 2;
    for (let at = 0; at < stretchesMax / 2; at++) means[at] = ((means[2 * at] as number) + (means[2 * at + 1] as number)) / 2;
    means.length = stretchesMax / 2;
  }

  /** Its value at a share of `all` steps in order of size. */
  quantile(share: number, all: number): number {
    const zeros = Math.max(0, all - this.steps);
    const place = (Math.max(all, this.steps) - 1) * share - zeros;
    if (this.steps === 0 || place <= -1) return 0;
    if (place < 0) return (1 + place) * (this.#values.least ?? 0);
    const [value = 0] = this.#values.quantiles([this.steps === 1 ? 0 : place / (this.steps - 1)]) ?? [];
    return value;
  }

  mean(all: number): number {
    return all === 0 ? 0 : this.#sum / all;
  }

  /** Its median over `all` steps. */
  median(all: number): SeriesMiddle {
    const { level, error, degrees } = this.#knownFrom(this.#medianOfIndependent(all), 1, 'middle steps');
    // A quantile may lie anywhere within its accuracy.
    const rounding = this.#values.isExact ? 0 : accuracy * level;
    return { level, error: error === undefined ? undefined : Math.hypot(error, rounding), degrees };
  }

  /** The middle, known no better than the stretches allow, which are a share of the steps. `single`: how they count where each is one step. */
  #knownFrom(alone: SeriesMiddle, share: number, single: 'steps' | 'middle steps'): SeriesMiddle {
    if (alone.error === undefined || this.#stretches.length < stretchesMin) return alone;
    const are = this.#stretchSteps === 1 ? single : 'blocks';
    const { error, degrees } = trimmedMean(this.#stretches, are, (scatterMin * alone.level) / Math.sqrt(this.#stretchSteps));
    return share * error > alone.error ? { level: alone.level, error: share * error, degrees } : alone;
  }

  #medianOfIndependent(all: number): SeriesMiddle {
    const level = this.quantile(0.5, all);
    if (all < 3) return { level, error: undefined, degrees: 0 };
    const floor = scatterMin * level;
    if (all >= quartileStepsMin) {
      const scatter = (this.quantile(0.75, all) - this.quantile(0.25, all)) / middleHalf;
      // A deviation from quartiles is known as well as one from 0.4 times as many values.
      return { level, error: (medianError * Math.max(scatter, floor)) / Math.sqrt(all), degrees: 0.4 * all };
    }
    // The longest step counts as long as the second longest one (K. K. Yuen, Biometrika 61, 1974, on one side).
    const cut = all >= trimStepsMin && this.steps > 1 ? 1 : 0;
    const most = this.#values.most ?? 0;
    const [sum, squares] =
      cut === 0 ? [this.#sum, this.#squares] : [this.#sum - most + this.#second, this.#squares - most ** 2 + this.#second ** 2];
    const kept = all - cut;
    const rest = Math.max(0, squares - sum ** 2 / all);
    const error = Math.sqrt(Math.max(rest, (all - 1) * floor ** 2) / (kept * (kept - 1)));
    return { level, error: medianError * error, degrees: kept - 1 };
  }

  /** Whether the median over `all` steps may lie far off by chance, where the mean does not. */
  isMedianUnsure(all: number): boolean {
    if (all < 3) return false;
    const isFew = all < quartileStepsMin;
    const errors = isFew ? medianErrors.few : medianErrors.many;
    const reach = errors / 2 / Math.sqrt(all);
    // In few steps the longest one counts as in the median's own error.
    const most = isFew && all >= trimStepsMin && this.steps > 1 ? this.#second : Number.POSITIVE_INFINITY;
    const at = (share: number): number => Math.min(most, this.quantile(Math.min(1, Math.max(0, share)), all));
    const level = at(0.5);
    const error = Math.max(at(0.5 + reach) - level, level - at(0.5 - reach)) / errors;
    return error > unsureMin * medianError * (this.#meanOfIndependent(all).error ?? Number.POSITIVE_INFINITY);
  }

  /** Its mean over `all` steps. */
  middleMean(all: number): SeriesMiddle {
    return this.#knownFrom(this.#meanOfIndependent(all), this.steps / all, 'steps');
  }

  #meanOfIndependent(all: number): SeriesMiddle {
    const level = this.mean(all);
    if (all < 3) return { level, error: undefined, degrees: 0 };
    const variance = Math.max((this.#squares - all * level ** 2) / (all - 1), (scatterMin * level) ** 2);
    return { level, error: Math.sqrt(variance / all), degrees: all - 1 };
  }
}
