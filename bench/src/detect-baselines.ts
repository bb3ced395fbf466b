// Other methods on the same step times: the peers of `npm run bench -- detect`, written from their published rules.
//
// Each takes one step at a time and gives the change that it reports (after ÷ before − 1) at the step with which it is certain.

/** A detector of one series. */
export interface BaselineDetector {
  push(time: number): number | undefined;
}

/** Page's one-sided CUSUM for slower: mean and deviation of the first `first` values, slack k and threshold h in deviations; begins anew after each alarm. */
export class Cusum implements BaselineDetector {
  readonly #first: number;
  readonly #slack: number;
  readonly #threshold: number;
  #count = 0;
  #mean = 0;
  #squares = 0;
  #sum = 0;

  constructor(options: { readonly first?: number; readonly slack?: number; readonly threshold?: number } = {}) {
    this.#first = options.first ?? 100;
    this.#slack = options.slack ?? 0.5;
    this.#threshold = options.threshold ?? 5;
  }

  push(time: number): number | undefined {
    if (this.#count < this.#first) {
      this.#count++;
      const difference = time - this.#mean;
      this.#mean += difference / this.#count;
      this.#squares += difference * (time - this.#mean);
      return undefined;
    }
    const mean = this.#mean;
    const deviation = Math.max(Math.sqrt(this.#squares / this.#count), 1e-3 * mean);
    this.#sum = Math.max(0, this.#sum + (time - mean) / deviation - this.#slack);
    if (this.#sum <= this.#threshold) return undefined;
    this.#count = 0;
    this.#mean = 0;
    this.#squares = 0;
    this.#sum = 0;
    return time / mean - 1;
  }
}

/**
 * Bayesian online change-point detection (Adams and MacKay 2007): unknown mean and variance (normal-inverse-gamma), constant hazard, run lengths
 * up to `runLengthMax`. A change is suspected when the likeliest run length collapses, and reported with its size `verifySteps` later, as FALCON does
 * (Greyhound, ATC'25); which sizes count is the caller's choice.
 */
export class Bocpd implements BaselineDetector {
  readonly #lambda: number;
  readonly #runLengthMax: number;
  readonly #warmUp: number;
  readonly #verifySteps: number;
  readonly #history: number[] = [];
  #time = 0;
  /** Number of run lengths, and of each: probability, mean, weight of the mean, shape, scale. Newest first. */
  #count = 0;
  #p: Float64Array;
  #mean: Float64Array;
  #weight: Float64Array;
  #shape: Float64Array;
  #scale: Float64Array;
  #prior: readonly [mean: number, weight: number, shape: number, scale: number] = [0, 0, 0, 0];
  #likeliest = 0;
  #suspected: number | undefined;
  /** Γ((ν + 1) / 2) ÷ Γ(ν / 2), logarithm, for ν = 2, 3, 4, … */
  readonly #gammaRatios: Float64Array;

  constructor(
    options: { readonly lambda?: number; readonly runLengthMax?: number; readonly warmUp?: number; readonly verifySteps?: number } = {},
  ) {
    this.#lambda = options.lambda ?? 250;
    this.#runLengthMax = options.runLengthMax ?? 300;
    this.#warmUp = options.warmUp ?? 30;
    this.#verifySteps = options.verifySteps ?? 10;
    const length = this.#runLengthMax + 1;
    this.#p = new Float64Array(length);
    this.#mean = new Float64Array(length);
    this.#weight = new Float64Array(length);
    this.#shape = new Float64Array(length);
    this.#scale = new Float64Array(length);
    this.#gammaRatios = new Float64Array(length + 2);
    // ν = 2: Γ(3/2) ÷ Γ(1); then Γ((ν + 2) / 2) ÷ Γ((ν + 1) / 2) = ν / 2 ÷ the one before.
    this.#gammaRatios[0] = Math.log(Math.sqrt(Math.PI) / 2);
    for (let at = 1; at < this.#gammaRatios.length; at++) {
      this.#gammaRatios[at] = Math.log((at + 1) / 2) - (this.#gammaRatios[at - 1] as number);
    }
  }

  push(time: number): number | undefined {
    this.#time++;
    const history = this.#history;
    history.push(time);
    if (history.length > 2 * this.#runLengthMax) history.shift();
    if (this.#time <= this.#warmUp) {
      if (this.#time === this.#warmUp) this.#begin();
      return undefined;
    }
    this.#update(time);
    const likeliest = this.#longestLikely();
    if (likeliest < this.#likeliest - 5) this.#suspected ??= this.#time - likeliest;
    this.#likeliest = likeliest;
    if (this.#suspected === undefined || this.#time - this.#suspected < this.#verifySteps) return undefined;
    const held = Math.min(history.length - 1, this.#time - this.#suspected);
    this.#suspected = undefined;
    const at = history.length - held;
    return mean(history.slice(at)) / mean(history.slice(Math.max(0, at - 50), at)) - 1;
  }

  #begin(): void {
    const sorted = [...this.#history].sort((a, b) => a - b);
    const middle = ((sorted[(sorted.length - 1) >> 1] as number) + (sorted[sorted.length >> 1] as number)) / 2;
    const recent = this.#history.slice(-20);
    const average = mean(recent);
    const deviation = Math.max(Math.sqrt(mean(recent.map((value) => (value - average) ** 2))), 1e-3 * middle);
    this.#prior = [middle, 1e-2, 1, deviation ** 2];
    this.#count = 1;
    this.#p[0] = 1;
    this.#setPrior();
  }

  #setPrior(): void {
    [this.#mean[0], this.#weight[0], this.#shape[0], this.#scale[0]] = this.#prior;
  }

  #update(time: number): void {
    const hazard = 1 / this.#lambda;
    const count = Math.min(this.#count + 1, this.#runLengthMax);
    let changed = 0;
    let all = 0;
    // From the longest on, so that each moves one further in place.
    for (let at = this.#count - 1; at >= 0; at--) {
      const [average, weight, shape, scale] = [
        this.#mean[at] as number,
        this.#weight[at] as number,
        this.#shape[at] as number,
        this.#scale[at] as number,
      ];
      const width = Math.sqrt((scale * (weight + 1)) / (shape * weight));
      const degrees = 2 * shape;
      const z = (time - average) / width;
      const logDensity =
        (this.#gammaRatios[Math.round(degrees) - 2] as number) -
        0.5 * Math.log(degrees * Math.PI) -
        Math.log(width) -
        ((degrees + 1) / 2) * Math.log1p((z * z) / degrees);
      const joint = (this.#p[at] as number) * Math.exp(logDensity);
      changed += joint * hazard;
      const grown = joint * (1 - hazard);
      all += grown;
      // The longest stands for all that are longer: longer ones join it, and its statistics forget as fast as they learn.
      if (at === this.#runLengthMax - 1) {
        this.#p[at] = grown;
        this.#mean[at] = (weight * average + time) / (weight + 1);
        this.#scale[at] = (scale + (weight * (time - average) ** 2) / (2 * (weight + 1))) * (shape / (shape + 0.5));
      } else if (at + 1 < this.#count && at + 1 === this.#runLengthMax - 1) {
        this.#p[at + 1] = (this.#p[at + 1] as number) + grown;
      } else {
        this.#p[at + 1] = grown;
        this.#mean[at + 1] = (weight * average + time) / (weight + 1);
        this.#scale[at + 1] = scale + (weight * (time - average) ** 2) / (2 * (weight + 1));
        this.#weight[at + 1] = weight + 1;
        this.#shape[at + 1] = shape + 0.5;
      }
    }
    this.#p[0] = changed;
    this.#setPrior();
    this.#count = count;
    all += changed;
    // A value that no run length explains begins anew.
    if (all > 0) for (let at = 0; at < count; at++) this.#p[at] = (this.#p[at] as number) / all;
    else {
      this.#count = 1;
      this.#p[0] = 1;
    }
  }

  #longestLikely(): number {
    let best = 0;
    for (let at = 1; at < this.#count; at++) if ((this.#p[at] as number) > (this.#p[best] as number)) best = at;
    return best;
  }
}

/**
 * Perfherder's rule (treeherder, perfalert): t-test with linear weights between the 12 to 24 values before a place and the 12 from it on; t > 7, a
 * local maximum, and a change of 2 % at least. Online: a place is judged when its 12 are there, and its neighbour.
 */
export class Perfherder implements BaselineDetector {
  readonly #threshold: number;
  readonly #least: number;
  readonly #values: number[] = [];
  #quiet = 0;
  /** t and change of the last two places. */
  #last: readonly [t: number, change: number] | undefined;
  #beforeLast: readonly [t: number, change: number] | undefined;

  constructor(options: { readonly threshold?: number; readonly least?: number } = {}) {
    this.#threshold = options.threshold ?? 7;
    this.#least = options.least ?? 0.02;
  }

  push(time: number): number | undefined {
    const values = this.#values;
    values.push(time);
    if (values.length > 24 + forward) values.shift();
    const at = values.length - forward;
    if (at < 12) return undefined;
    const back = Math.min(Math.max(this.#quiet, 12), 24, at);
    const [before, varianceBefore] = weighted(values.slice(at - back, at).reverse());
    const [after, varianceAfter] = weighted(values.slice(at));
    const error = Math.sqrt(varianceBefore / back + varianceAfter / forward);
    const t = error > 0 ? Math.abs(after - before) / error : after === before ? 0 : Number.POSITIVE_INFINITY;
    this.#quiet = t > this.#threshold ? 0 : this.#quiet + 1;
    const [last, beforeLast] = [this.#last, this.#beforeLast];
    this.#beforeLast = last;
    this.#last = [t, after / before - 1];
    if (last === undefined || beforeLast === undefined) return undefined;
    const isPeak = last[0] > this.#threshold && beforeLast[0] <= last[0] && t <= last[0];
    return isPeak && Math.abs(last[1]) >= this.#least ? last[1] : undefined;
  }
}

const forward = 12;

/** Mean and variance with weights that fall with the distance from the place. */
function weighted(values: readonly number[]): [mean: number, variance: number] {
  const count = values.length;
  let [sum, weights] = [0, 0];
  for (const [at, value] of values.entries()) {
    const weight = (count - at) / count;
    sum += weight * value;
    weights += weight;
  }
  const average = sum / weights;
  let squares = 0;
  for (const value of values) squares += (value - average) ** 2;
  return [average, squares / (count - 1)];
}

function mean(values: readonly number[]): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
