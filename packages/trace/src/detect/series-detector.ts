// Finds lasting changes in one series of step times: the "dyadic block GLR" of step-time-regression, §4.
//
//   steps    ││││││││ ││││││││ ││││││││ …        ln of each; a block's level is their midmean: spikes drop out
//   blocks   ▁ ▁ ▂ ▁ ▁ ▁ ▂ ▁ ▁ ▁ ▁ ▁ ▅ ▅ ▆ ▅
//            |      reference       | recent  |  for recent = 2, 4, 8, … 64 blocks; T = difference of medians over its standard error
//
// A change counts when |T| and its size pass for `confirmBlocks` blocks in a row. The detector then forgets the blocks before it: the new level
// is the reference for the next change. An open incident, though, ends at the level before it, and slow rises are measured against the
// golden baseline: the level of the first stable blocks, which follows only downwards.
//
//   values  | blocks, oldest first … | first-step distances of the last 16 | steps of the open block | single levels | noise  | habits  |
//           0                        spansAt                               stepsAt                   levelsAt        noiseAt  habitsAt
//
// Before a change is reported, it is compared with the series itself: with the usual differences of such levels (series-noise.ts), and with
// earlier changes that came and went (series-habits.ts). Blocks are learnt only when old, so that a change is not its own noise.
//
// This is one file because all of it works on the numbers of one series, whose places nothing else knows.
//
// Invariant: a step makes no object (the engine boxes a few numbers at a block's end: 14 bytes a step); a series always needs less than 1 KB.
// Invariant: the output depends only on the steps since the last new baseline, so a detector restored from `state()` continues unchanged.
// Values are stored with 24 bits (a share of 10⁻⁶), also in the state.

import {
  deviationOfNeighbours,
  deviationOfSorted,
  fitRamp,
  fitStep,
  medianOfRange,
  midmean,
  nearerOf,
  steadyRise,
} from './block-statistics.ts';
import { isNews, steadyShare, wanderOver } from './change-doubts.ts';
import { detectLimits } from './detect-limits.ts';
import { DetectorPlan } from './detector-options.ts';
import { checkState, type DetectorState, type OpenIncident, restoreValues, valuesOf } from './detector-state.ts';
import { levelChange, medianError } from './level-change.ts';
import {
  dipOf,
  isHabit,
  isLeapHabit,
  noteBlock,
  noteChange,
  noteDip,
  noteImprovement,
  noteLeaps,
  noteReturn,
  noteStretch,
  wanderOf,
} from './series-habits.ts';
import { breakNoise, coarsenNoise, learnNoise } from './series-noise.ts';
import type { StepTag, StepTimeFinding, StepTimeIncident } from './step-time-finding.ts';

const onsetBlocks = detectLimits.detectOnsetBlocksMax;
/** Fewest blocks left for the level before a change. */
const leastBefore = 4;
/** Fewest blocks for the level after a change: one that is certain with three may be a block further in this series than in another. */
const leastAfter = 2;
/** A change before there is a baseline is this many times the smallest that a young series reports. */
const earlyFactor = 2;
/** Blocks that show the level of now. */
const latestBlocks = 4;
/** An excess over the golden baseline is a jump if the level before it had covered less than this share of it. */
const jumpBaseShare = 0.25;

/** A leap of a noisy series is this many times its smallest reported change: as many half blocks confirm it as whole ones do in a quiet series. */
const leapFactor = 2;

/** A block that falls by so many standard errors of its own steps is warm-up. */
const warmUpDeviations = 4;

/** The last blocks, not learnt from: they may be part of an unseen change. */
const freshBlocks = 6;
/** Places of single levels, as logarithms; NaN for none. */
const [goldenAt, goldenNoiseAt, beforeAt, slowestAt, changeMinAt] = [0, 1, 2, 3, 4] as const;

export class SeriesDetector {
  readonly #plan: DetectorPlan;
  readonly #values: Float32Array;
  #size = 0;
  /** Number of last blocks not learnt from yet. */
  #fresh = 0;
  #filled = 0;
  /** 2 once the series proved noisy. */
  #blockFactor: 1 | 2 = 1;
  /** In a noisy series: half blocks in a row that leap, and the first step of the open block's second half. */
  #leaps = 0;
  #halfStep = 0;
  #context: number | undefined = undefined;
  #blockStep = 0;
  #previousBlockStep = 0;
  #lastStep = 0;
  #warmedUp = 0;
  /** Blocks in a row in favour of slower (> 0) or of faster (< 0). */
  #pending = 0;
  /** Blocks in a row that were too far above the golden baseline. */
  #drifting = 0;
  #hasDrifted = false;
  #incident: OpenIncident | undefined = undefined;

  /** `plan` may be shared by any number of detectors. */
  constructor(plan: DetectorPlan = new DetectorPlan()) {
    this.#plan = plan;
    this.#values = new Float32Array(plan.valuesLength).fill(Number.NaN, plan.levelsAt);
  }

  /**
   * A detector that continues from `state`. The plan must have the same settings.
   * @throws TraceError `bad_option` if it cannot be a state of such a detector
   */
  static restore(state: DetectorState, plan: DetectorPlan = new DetectorPlan()): SeriesDetector {
    const detector = new SeriesDetector(plan);
    detector.#restore(state);
    return detector;
  }

  /** Whether there is a reference to compare with. */
  get isReady(): boolean {
    return this.#warmedUp < 0 && this.#size >= this.#plan.referenceBlocksMin + 2;
  }

  /** The open incident. */
  get incident(): StepTimeIncident | undefined {
    const incident = this.#incident;
    if (incident === undefined) return undefined;
    const { kind, onsetStep } = incident;
    return { kind, onsetStep, before: Math.exp(this.#level(beforeAt)), slowest: Math.exp(this.#level(slowestAt)) };
  }

  /**
   * Rise of step times since `onsetStep`, in the unit of the series, certain or not; undefined if there are fewer than four blocks before it or
   * fewer than two since.
   */
  riseSince(onsetStep: number): number | undefined {
    const { scratch, options } = this.#plan;
    let at = this.#size;
    const earlier = this.#size - this.#blocksInOrder();
    while (at > earlier && this.#firstStepOf(this.#size - at + 1) >= onsetStep) at--;
    if (at < leastBefore || this.#size - at < leastAfter) return undefined;
    const before = medianOfRange(this.#values, Math.max(0, at - options.referenceBlocks), at, scratch);
    return Math.exp(medianOfRange(this.#values, at, this.#size, scratch)) - Math.exp(before);
  }

  /** The level of the last blocks, in the unit of the series; undefined before the first. */
  get latest(): number | undefined {
    const from = Math.max(0, this.#size - latestBlocks);
    return this.#size === 0 ? undefined : Math.exp(medianOfRange(this.#values, from, this.#size, this.#plan.scratch));
  }

  /**
   * Takes one step: its number, its time (any unit, > 0), the key of the conditions that determine its length (`contextKeyOf`), and its tag if
   * it is extraordinary. Steps with a tag or an invalid time are left out. Returns the finding that this step made certain.
   * @example detector.add(412, 228.1e6, contextKeyOf('batch=512 world=64'))
   */
  add(step: number, time: number, context = 0, tag?: StepTag): StepTimeFinding | undefined {
    let finding: StepTimeFinding | undefined;
    if (context !== this.#context) {
      if (this.#context !== undefined) finding = this.#forget(step, 'context');
      this.#context = context;
    }
    if (tag !== undefined || !(time > 0 && time < Number.POSITIVE_INFINITY && Number.isSafeInteger(step))) return finding;
    const { stepsAt, options } = this.#plan;
    const { blockSteps } = options;
    if (this.#filled === 0) this.#blockStep = step;
    else if (this.#filled === blockSteps) this.#halfStep = step;
    this.#lastStep = step;
    this.#values[stepsAt + this.#filled++] = Math.log(time);
    if (this.#blockFactor === 2 && this.#filled % blockSteps === 0) finding = this.#endHalf() ?? finding;
    // A context changes only with the first step of a block, so there is at most one finding.
    return this.#filled < blockSteps * this.#blockFactor ? finding : (this.#endBlock() ?? finding);
  }

  /** Starts a new baseline here: the change was intended. */
  rebaseline(): StepTimeFinding | undefined {
    return this.#forget(this.#lastStep, 'asked');
  }

  /** State for `restore`. */
  state(): DetectorState {
    return {
      version: 1,
      context: this.#context,
      blockFactor: this.#blockFactor,
      ...valuesOf(this.#values, this.#plan, this.#size, this.#filled),
      blockStep: this.#blockStep,
      previousBlockStep: this.#previousBlockStep,
      lastStep: this.#lastStep,
      warmedUp: this.#warmedUp,
      pending: this.#pending,
      leaps: this.#leaps,
      halfStep: this.#halfStep,
      drifting: this.#drifting,
      freshBlocks: this.#fresh,
      hasDrifted: this.#hasDrifted,
      incident: this.#incident === undefined ? undefined : { ...this.#incident },
    };
  }

  #restore(state: DetectorState): void {
    checkState(state, this.#plan);
    restoreValues(this.#values, this.#plan, state);
    this.#fresh = state.freshBlocks ?? state.blocks.length;
    this.#size = state.blocks.length;
    this.#filled = state.steps.length;
    this.#blockFactor = state.blockFactor;
    this.#context = state.context;
    this.#blockStep = state.blockStep;
    this.#previousBlockStep = state.previousBlockStep;
    this.#lastStep = state.lastStep;
    this.#warmedUp = state.warmedUp;
    this.#pending = state.pending;
    this.#leaps = state.leaps ?? 0;
    this.#halfStep = state.halfStep ?? state.lastStep;
    this.#drifting = state.drifting;
    this.#hasDrifted = state.hasDrifted;
    this.#incident = state.incident === undefined ? undefined : { ...state.incident };
  }

  #forget(step: number, reason: 'context' | 'asked'): StepTimeFinding | undefined {
    const incident = this.#incident;
    this.#size = 0;
    this.#fresh = 0;
    this.#filled = 0;
    this.#blockFactor = 1;
    this.#leaps = 0;
    this.#warmedUp = 0;
    this.#pending = 0;
    this.#drifting = 0;
    this.#values.fill(Number.NaN, this.#plan.levelsAt);
    this.#hasDrifted = false;
    this.#incident = undefined;
    return incident === undefined ? undefined : { kind: 'rebaselined', step, openedStep: incident.onsetStep, reason };
  }

  /** Counts the half blocks of a noisy series that leap. One that begins a leap begins a block. */
  #endHalf(): StepTimeFinding | undefined {
    const { stepsAt, habitsAt, options } = this.#plan;
    const { blockSteps } = options;
    const isSecond = this.#filled > blockSteps;
    if (!this.#isLeap(this.#levelOfSteps(isSecond ? blockSteps : 0, blockSteps))) {
      noteLeaps(this.#values, habitsAt, this.#leaps);
      this.#leaps = 0;
      return undefined;
    }
    if (++this.#leaps > 1 || !isSecond) return undefined;
    const finding = this.#endBlock(blockSteps);
    this.#values.copyWithin(stepsAt, stepsAt + blockSteps, stepsAt + 2 * blockSteps);
    this.#filled = blockSteps;
    this.#blockStep = this.#halfStep;
    return finding;
  }

  /**
   * Whether a half block of a noisy series lies so far above the blocks before that noise is no explanation. A reported change leaves no blocks before
   * it, so its row ends there, and counts like one that came and went: the next one must last longer.
   */
  #isLeap(level: number): boolean {
    const { options, scratch, referenceBlocksMin } = this.#plan;
    const until = this.#size - (this.#leaps >> 1);
    const from = Math.max(0, until - options.referenceBlocks);
    if (until - from < referenceBlocksMin) return false;
    const reference = medianOfRange(this.#values, from, until, scratch);
    const noise = deviationOfSorted(scratch, until - from, reference);
    return level - reference >= leapFactor * this.#changeMin(noise);
  }

  get #isLeapConfirmed(): boolean {
    const { options, habitsAt } = this.#plan;
    return this.#leaps > options.confirmBlocks && !isLeapHabit(this.#values, habitsAt, this.#leaps);
  }

  /** The level of `count` steps of the open block. */
  #levelOfSteps(from: number, count: number): number {
    const { stepsAt, scratch } = this.#plan;
    for (let at = 0; at < count; at++) scratch[at] = this.#values[stepsAt + from + at] as number;
    return Math.fround(midmean(scratch, count));
  }

  /** Ends the open block with its first `count` steps. */
  #endBlock(count: number = this.#filled): StepTimeFinding | undefined {
    const { options } = this.#plan;
    const level = this.#levelOfSteps(0, count);
    this.#filled = 0;
    if (this.#warmedUp >= 0 && !this.#warmUp(level, count)) return undefined;
    this.#append(level);
    this.#fresh++;
    if (this.#pending === 0) this.#learn(freshBlocks);
    if (Number.isNaN(this.#level(goldenAt)) && this.#size === options.referenceBlocks) this.#setGolden();
    return this.#returnOf(level) ?? this.#changeOf() ?? this.#driftOf();
  }

  /**
   * Whether warm-up ended before this block. During warm-up only the last blocks are kept of which none falls by more than the noise of its
   * `count` steps explains. Steps that become slower are no warm-up.
   */
  #warmUp(level: number, count: number): boolean {
    const { options, scratch } = this.#plan;
    const { warmUpBlocks, warmUpBlocksMax, warmUpShare } = options;
    const last = this.#values[this.#size - 1] as number;
    // The block's steps are still sorted.
    const fallMin = Math.max(warmUpShare, (warmUpDeviations * deviationOfSorted(scratch, count, level)) / Math.sqrt(count));
    if (this.#size > 0 && last - level >= fallMin) this.#size = 0;
    this.#warmedUp++;
    if (this.#size >= warmUpBlocks || this.#warmedUp > warmUpBlocksMax) {
      this.#warmedUp = -1;
      this.#size = 0;
      return true;
    }
    this.#append(level);
    return false;
  }

  /** Learns from all but the last `kept` blocks. */
  #learn(kept: number): void {
    for (; this.#fresh > kept; this.#fresh--) {
      learnNoise(this.#values, this.#plan.noiseAt, this.#values[this.#size - this.#fresh] as number);
    }
  }

  #append(level: number): void {
    const { blocksMax, spansAt, stepsAt } = this.#plan;
    const values = this.#values;
    if (this.#size === blocksMax) {
      this.#learn(blocksMax - 1);
      values.copyWithin(0, 1, blocksMax);
      this.#size--;
    }
    values[this.#size++] = level;
    values.copyWithin(spansAt, spansAt + 1, stepsAt);
    values[stepsAt - 1] = this.#blockStep - this.#previousBlockStep;
    this.#previousBlockStep = this.#blockStep;
  }

  /** Sets the baseline from the first stable blocks. If they are noisy, blocks are twice as long from here on, and existing ones become pairs. */
  #setGolden(): void {
    const { scratch, options } = this.#plan;
    // Blocks that rise steadily are as fast as the first of them.
    const rise = steadyRise(this.#values, this.#size, steadyShare);
    const golden = medianOfRange(this.#values, 0, this.#size, scratch) - (rise * (this.#size - 1)) / 2;
    const noise = deviationOfNeighbours(this.#values, this.#size, scratch);
    this.#setLevel(goldenAt, golden);
    this.#setLevel(goldenNoiseAt, Math.max(noise, options.noiseFloor));
    if (noise > options.noisyShare && this.#blockFactor === 1) this.#doubleBlocks();
  }

  #doubleBlocks(): void {
    const { spansAt, stepsAt } = this.#plan;
    const values = this.#values;
    this.#blockFactor = 2;
    this.#pending = 0;
    this.#learn(0);
    coarsenNoise(values, this.#plan.noiseAt);
    if (this.#size % 2 === 1) values.copyWithin(0, 1, this.#size--);
    this.#size /= 2;
    for (let at = 0; at < this.#size; at++) {
      values[at] = ((values[2 * at] as number) + (values[2 * at + 1] as number)) / 2;
    }
    // The last pair begins one block earlier than the last block.
    this.#previousBlockStep -= values[stepsAt - 1] as number;
    for (let to = stepsAt - 1, from = stepsAt - 2; to >= spansAt; to--, from -= 2) {
      values[to] = from > spansAt ? (values[from] as number) + (values[from - 1] as number) : (values[to + 1] as number);
    }
  }

  /** Ends the open incident if steps are back. */
  #returnOf(level: number): StepTimeFinding | undefined {
    const incident = this.#incident;
    if (incident === undefined) return undefined;
    const { options, scratch } = this.#plan;
    const changeMin = this.#level(changeMinAt);
    const target = this.#returnLevel;
    if (level > target + changeMin) incident.returned = 0;
    else if (level <= target + changeMin / 2) {
      if (incident.returned === 0) incident.returnedStep = this.#blockStep;
      incident.returned++;
    }
    if (incident.returned < options.returnBlocks) return undefined;
    const held = Math.min(this.#size, options.returnBlocks);
    const after = medianOfRange(this.#values, this.#size - held, this.#size, scratch);
    const noise = Math.max(deviationOfSorted(scratch, held, after), options.noiseFloor);
    this.#incident = undefined;
    this.#hasDrifted = false;
    noteReturn(this.#values, this.#plan.habitsAt, this.#level(slowestAt) - after);
    const stepsOfBlock = options.blockSteps * this.#blockFactor;
    noteStretch(this.#values, this.#plan.habitsAt, (incident.returnedStep - incident.onsetStep) / stepsOfBlock);
    this.#keepLast(held);
    const change = levelChange(this.#lastStep, incident.returnedStep, this.#level(slowestAt), after, noise, held, options.referenceBlocks);
    return { kind: 'went_away', ...change, openedStep: incident.onsetStep };
  }

  /** Reports a change of level once it is confirmed. */
  #changeOf(): StepTimeFinding | undefined {
    const { windows, referenceBlocksMin, options, scratch, habitsAt } = this.#plan;
    const { referenceBlocks, noiseFloor, thresholdT, holdT, changeMin: changeLeast, confirmBlocks } = options;
    const values = this.#values;
    const size = this.#size;
    let bestT = 0;
    let bestWindow = 0;
    let bestNoise = 0;
    let bestMin = 0;
    let held = Number.NaN;
    for (const window of windows) {
      const count = Math.min(referenceBlocks, size - window);
      if (count < referenceBlocksMin) break;
      const recent = window === 2 ? undefined : medianOfRange(values, size - window, size, scratch);
      const reference = medianOfRange(values, size - window - count, size - window, scratch);
      if (count === referenceBlocks) held = reference;
      if (window === 2) noteBlock(values, habitsAt, (values[size - 1] as number) - reference, this.#changeMin(this.#usualNoise));
      const change = (recent ?? nearerOf(values[size - 2] as number, values[size - 1] as number, reference)) - reference;
      if (Math.abs(change) < changeLeast) continue;
      const noise = Math.max(deviationOfSorted(scratch, count, reference), noiseFloor);
      const changeMin = this.#changeMin(noise);
      if (Math.abs(change) < changeMin) continue;
      const t = change / (medianError * noise * Math.sqrt(1 / window + 1 / count));
      if (Math.abs(t) < holdT || Math.abs(t) <= Math.abs(bestT)) continue;
      bestT = t;
      bestWindow = window;
      bestNoise = noise;
      bestMin = changeMin;
    }
    // The golden baseline follows a lasting speed-up.
    if (held < this.#level(goldenAt)) {
      noteDip(values, habitsAt, this.#level(goldenAt), held);
      this.#setLevel(goldenAt, held);
    }
    if (bestWindow === 0) this.#pending = 0;
    else this.#pending = bestT > 0 ? Math.max(0, this.#pending) + 1 : Math.min(0, this.#pending) - 1;
    const isConfirmed = Math.abs(this.#pending) >= confirmBlocks || (bestWindow !== 0 && this.#isLeapConfirmed);
    if (!isConfirmed || Math.abs(bestT) < thresholdT) return this.#earlyChangeOf();
    return this.#judge(bestWindow, bestT > 0, bestNoise, bestMin);
  }

  /**
   * Reports a slow-down before there is a baseline, with too few blocks before it for any window. So little is known of the series then that it
   * must be `earlyFactor` times as large as later.
   */
  #earlyChangeOf(): StepTimeFinding | undefined {
    const { options, referenceBlocksMin, scratch, step, ramp } = this.#plan;
    const { confirmBlocks, changeMinYoung, noiseFloor, thresholdT } = options;
    const values = this.#values;
    const size = this.#size;
    if (!Number.isNaN(this.#level(goldenAt)) || size < leastBefore + confirmBlocks + 1) return undefined;
    fitStep(values, 0, size, 1, size - confirmBlocks - 1, step);
    if (step.at < leastBefore || step.at >= referenceBlocksMin) return undefined;
    fitRamp(values, 0, size, ramp);
    if (ramp.squares < step.squares) return undefined;
    const held = size - step.at;
    const noise = Math.max(deviationOfNeighbours(values, size, scratch), noiseFloor);
    const changeMin = Math.max(earlyFactor * changeMinYoung, this.#changeMin(noise));
    const change = medianOfRange(values, step.at, size, scratch) - medianOfRange(values, 0, step.at, scratch);
    const t = change / (medianError * noise * Math.sqrt(1 / held + 1 / step.at));
    return change < changeMin || t < thresholdT ? undefined : this.#judge(held, true, noise, changeMin);
  }

  /** The smallest reported change at this noise. */
  #changeMin(noise: number): number {
    const { changeMin, noiseFactor } = this.#plan.options;
    return Math.max(changeMin, noiseFactor * noise, wanderOf(this.#values, this.#plan.habitsAt));
  }

  /** Deviation of the first blocks; until that is known, that of a noisy series. */
  get #usualNoise(): number {
    const noise = this.#level(goldenNoiseAt);
    return Number.isNaN(noise) ? this.#plan.options.noisyShare : noise;
  }

  /** Classifies a confirmed change of the last `window` blocks. */
  #judge(window: number, isSlower: boolean, noise: number, changeMin: number): StepTimeFinding | undefined {
    const { options, scratch, step, ramp } = this.#plan;
    const values = this.#values;
    const size = this.#size;
    const from = Math.max(0, size - window - options.referenceBlocks);
    const earliest = Math.max(from + leastBefore, size - 2 * (window + options.confirmBlocks));
    fitStep(values, from, size, earliest, size - 2, step);
    if (isSlower && window >= options.driftBlocks) {
      fitRamp(values, from, size, ramp);
      // A ramp: nothing is forgotten, and the golden baseline decides.
      if (ramp.squares < step.squares) return undefined;
    }
    const held = size - step.at;
    const after = medianOfRange(values, step.at, size, scratch);
    const count = Math.min(options.referenceBlocks, step.at);
    const before = medianOfRange(values, step.at - count, step.at, scratch);
    // Measured from its break, the change may be too small after all: later blocks decide.
    if (
      Math.abs(after - before) < changeMin ||
      !isNews(this.#plan, values, size, { at: step.at, count, before, after, isLeap: this.#isLeapConfirmed })
    )
      return undefined;
    const onsetStep = this.#firstStepOf(held);
    this.#pending = 0;
    this.#drifting = 0;
    noteChange(values, this.#plan.habitsAt);
    this.#learn(held);
    breakNoise(values, this.#plan.noiseAt);
    this.#keepLast(held);
    const incident = this.#incident;
    const change = levelChange(this.#lastStep, onsetStep, before, after, noise, held, count);
    if (!isSlower) {
      noteImprovement(values, this.#plan.habitsAt, after);
      if (incident === undefined) return { kind: 'improvement', ...change };
      return after <= this.#returnLevel + this.#level(changeMinAt) / 2 ? undefined : { kind: 'improvement', ...change };
    }
    if (incident === undefined) {
      // Return from a stretch too short for a baseline of its own.
      const golden = this.#level(goldenAt);
      if (after < golden + changeMin / 2) return undefined;
      if (Number.isNaN(golden)) {
        this.#setLevel(goldenAt, before);
        this.#setLevel(goldenNoiseAt, noise);
      }
      this.#open('regression', onsetStep, before, after, changeMin);
      return { kind: 'regression', ...change, isFurther: false };
    }
    // An incident is already open: small further steps belong to it, as in planned growth by steps.
    const furtherMin = Math.max(options.changePlain, changeMin);
    if (after - before < furtherMin || after < this.#level(slowestAt) + furtherMin) return undefined;
    this.#setLevel(slowestAt, after);
    return { kind: 'regression', ...change, isFurther: true };
  }

  /** Reports a slow rise, or a jump long hidden by noise, once per baseline. */
  #driftOf(): StepTimeFinding | undefined {
    const { options, scratch, step, ramp, habitsAt } = this.#plan;
    const { driftBlocks, driftMin, driftFurtherMin, noiseFactor, confirmBlocks, referenceBlocks } = options;
    const golden = this.#level(goldenAt);
    const noise = this.#level(goldenNoiseAt);
    const size = this.#size;
    if (Number.isNaN(golden) || this.#hasDrifted || size < driftBlocks) return undefined;
    const incident = this.#incident;
    const base = incident === undefined ? golden : Math.max(golden, this.#level(slowestAt));
    const after = medianOfRange(this.#values, size - driftBlocks, size, scratch);
    const least = Math.log1p(incident === undefined ? driftMin : driftFurtherMin);
    // A series that wanders below its baseline also wanders above it.
    const dip = Math.min(least, dipOf(this.#values, this.#plan.habitsAt));
    const rise = after - base;
    if (rise < Math.max(least + dip, noiseFactor * noise) || rise < wanderOver(this.#plan, this.#values, size, driftBlocks)) {
      this.#drifting = 0;
      return undefined;
    }
    // The last block is nearer to the baseline: the rise may be over.
    if (++this.#drifting < confirmBlocks || (this.#values[size - 1] as number) - base < rise / 2) return undefined;
    this.#drifting = 0;
    fitRamp(this.#values, 0, size, ramp);
    fitStep(this.#values, 0, size, leastBefore, size - leastBefore, step);
    // A jump too noisy to confirm passes the golden baseline as well: before its break it was at the baseline.
    const isJump = step.squares < ramp.squares && medianOfRange(this.#values, 0, step.at, scratch) - base < jumpBaseShare * (after - base);
    if (isJump && isHabit(this.#values, habitsAt, size - step.at)) return undefined;
    this.#hasDrifted = true;
    const kind = isJump ? 'regression' : 'drift';
    const onsetStep = this.#firstStepOf(size - (isJump ? step.at : ramp.at));
    if (incident === undefined) this.#open(kind, onsetStep, golden, after, this.#changeMin(noise));
    else this.#setLevel(slowestAt, after);
    const change = levelChange(this.#lastStep, onsetStep, base, after, noise, driftBlocks, referenceBlocks);
    return { kind, ...change, isFurther: incident !== undefined };
  }

  #open(kind: 'regression' | 'drift', onsetStep: number, before: number, level: number, changeMin: number): void {
    this.#incident = { kind, onsetStep, returned: 0, returnedStep: 0 };
    this.#setLevel(beforeAt, before);
    this.#setLevel(slowestAt, level);
    this.#setLevel(changeMinAt, changeMin);
  }

  /** Level that ends an incident: the golden baseline, or the level before if that had risen unnoticed. */
  get #returnLevel(): number {
    return Math.max(this.#level(beforeAt), this.#level(goldenAt));
  }

  #level(which: number): number {
    return this.#values[this.#plan.levelsAt + which] as number;
  }

  #setLevel(which: number, level: number): void {
    this.#values[this.#plan.levelsAt + which] = level;
  }

  /** Keeps only the last `count` blocks. */
  #keepLast(count: number): void {
    this.#values.copyWithin(0, this.#size - count, this.#size);
    this.#size = count;
    this.#fresh = Math.min(this.#fresh, count);
  }

  /**
   * The first step of the block `back` blocks from the end: 1 is the last one. Numbers may go back, as in a job that was started again: an earlier block
   * has that of the first one since, for its own would lie in the future.
   */
  #firstStepOf(back: number): number {
    const { stepsAt } = this.#plan;
    const before = Math.min(back, this.#blocksInOrder()) - 1;
    let step = this.#previousBlockStep;
    const known = Math.min(before, onsetBlocks);
    for (let at = 0; at < known; at++) step -= this.#values[stepsAt - 1 - at] as number;
    const mean = (this.#previousBlockStep - step) / Math.max(1, known);
    return Math.max(0, Math.round(step - mean * (before - known)));
  }

  /** Number of the newest blocks since the numbers of steps went back, as far as that is known. */
  #blocksInOrder(): number {
    const { stepsAt } = this.#plan;
    const known = Math.min(this.#size - 1, onsetBlocks);
    for (let at = 0; at < known; at++) if ((this.#values[stepsAt - 1 - at] as number) < 0) return at + 1;
    return this.#size;
  }
}
