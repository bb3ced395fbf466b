// The state of one series' detector in JSON's types, so that a restarted service continues from it.

import { TraceError } from '../model/errors.ts';
import { detectLimits } from './detect-limits.ts';
import { type DetectorPlan, levelsOfSeries } from './detector-options.ts';
import { habitsLength } from './series-habits.ts';
import { noiseLength } from './series-noise.ts';

/** The open incident. Its levels (before it, slowest reported) and its least change are among the single levels. */
export interface OpenIncident {
  readonly kind: 'regression' | 'drift';
  readonly onsetStep: number;
  /** Blocks back at the level before it, and the first of their steps. */
  returned: number;
  returnedStep: number;
}

/** A detector's whole state, in JSON's types. */
export interface DetectorState {
  readonly version: 1;
  readonly context: number | undefined;
  readonly blockFactor: 1 | 2;
  readonly blocks: readonly number[];
  readonly spans: readonly number[];
  readonly steps: readonly number[];
  readonly blockStep: number;
  readonly previousBlockStep: number;
  readonly lastStep: number;
  /** Blocks of warm-up so far; −1 once it is over. */
  readonly warmedUp: number;
  readonly pending: number;
  /** Half blocks in a row that leap, and the first step of the open block's second half. Absent in states of older services. */
  readonly leaps?: number;
  readonly halfStep?: number;
  readonly drifting: number;
  /** Golden baseline and its noise; for an open incident: before, slowest, least change. */
  readonly levels: readonly (number | undefined)[];
  /** Noise and habits, and the last blocks, not yet learnt from. Absent in states of older services: those detectors learn again. */
  readonly learnt?: readonly (number | undefined)[];
  readonly freshBlocks?: number;
  readonly hasDrifted: boolean;
  readonly incident: OpenIncident | undefined;
}

/** A row of half blocks that leap ends by itself long before: there are no blocks left to compare with. */
const leapsMax = 65_536;

/**
 * Checks that a detector with these settings can continue from `state`.
 * @throws TraceError `bad_option`
 */
export function checkState(state: DetectorState, { blocksMax, options }: DetectorPlan): void {
  const refuse = (what: string): never => {
    throw new TraceError('bad_option', `Cannot restore a step-time detector: ${what}`);
  };
  const { version, blockFactor, blocks, spans, steps, levels, learnt } = state;
  const { detectOnsetBlocksMax } = detectLimits;
  if (version !== 1) refuse(`its state must have version 1, got ${String(version)}`);
  if (blockFactor !== 1 && blockFactor !== 2) refuse(`blockFactor must be 1 or 2, got ${String(blockFactor)}`);
  if (blocks.length > blocksMax) refuse(`it holds ${blocks.length} blocks, these settings keep ${blocksMax}`);
  if (spans.length !== detectOnsetBlocksMax) refuse(`it must hold ${detectOnsetBlocksMax} spans, got ${spans.length}`);
  if (levels.length !== levelsOfSeries) refuse(`it must hold ${levelsOfSeries} levels, got ${levels.length}`);
  // Older services learnt one habit less, the last one.
  const learntMax = noiseLength + habitsLength;
  if (learnt !== undefined && (learnt.length < learntMax - 1 || learnt.length > learntMax)) {
    refuse(`it must hold ${learntMax} learnt values, got ${learnt.length}`);
  }
  const { freshBlocks = 0, leaps = 0, halfStep = 0 } = state;
  if (!(Number.isInteger(freshBlocks) && freshBlocks >= 0 && freshBlocks <= blocks.length)) {
    refuse(`freshBlocks must be 0 to ${blocks.length}, got ${String(freshBlocks)}`);
  }
  if (!(Number.isInteger(leaps) && leaps >= 0 && leaps <= leapsMax && Number.isSafeInteger(halfStep))) {
    refuse(`leaps must be 0 to ${leapsMax} and halfStep a whole number, got ${String(leaps)} and ${String(halfStep)}`);
  }
  const stepsMax = options.blockSteps * blockFactor;
  if (steps.length >= stepsMax) refuse(`it holds ${steps.length} steps of a block of ${stepsMax}`);
}

type StateValues = Required<Pick<DetectorState, 'blocks' | 'spans' | 'steps' | 'levels' | 'learnt'>>;

/** The numbers of a series in a state's layout: `size` blocks, `filled` steps of the open one, … */
export function valuesOf(values: Float32Array, plan: DetectorPlan, size: number, filled: number): StateValues {
  const { spansAt, stepsAt, levelsAt, noiseAt } = plan;
  const orNone = (level: number): number | undefined => (Number.isNaN(level) ? undefined : level);
  return {
    blocks: Array.from(values.subarray(0, size)),
    spans: Array.from(values.subarray(spansAt, stepsAt)),
    steps: Array.from(values.subarray(stepsAt, stepsAt + filled)),
    levels: Array.from(values.subarray(levelsAt, noiseAt), orNone),
    learnt: Array.from(values.subarray(noiseAt), orNone),
  };
}

/** Restores the numbers. JSON has no undefined in lists: null counts as undefined, too. */
export function restoreValues(
  values: Float32Array,
  plan: DetectorPlan,
  { blocks, spans, steps, levels, learnt = [] }: DetectorState,
): void {
  const { spansAt, stepsAt, levelsAt, noiseAt } = plan;
  values.set(blocks);
  values.set(spans, spansAt);
  values.set(steps, stepsAt);
  for (const [at, level] of levels.entries()) values[levelsAt + at] = level ?? Number.NaN;
  for (const [at, value] of learnt.entries()) values[noiseAt + at] = value ?? Number.NaN;
}
