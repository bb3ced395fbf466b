// What a detector of one series knows, as JSON can hold it: a service that restarts goes on with it.

import { TraceError } from '../errors.ts';
import { detectLimits } from './detect-limits.ts';
import { type DetectorPlan, levelsOfSeries } from './detector-options.ts';

/** What is open. Its levels (before it, slowest reported) and the least change it had to be are among the single levels. */
export interface OpenIncident {
  readonly kind: 'regression' | 'drift';
  readonly onsetStep: number;
  /** Blocks back at the level before, and the first of their steps. */
  returned: number;
  returnedStep: number;
}

/** Everything a detector knows, as JSON can hold it. */
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
  /** Blocks of warm-up so far, and how many in a row were calm; −1 when it is over. */
  readonly warmedUp: number;
  readonly calm: number;
  readonly pending: number;
  readonly drifting: number;
  /** Golden baseline and its noise; of what is open: before, slowest, least change. */
  readonly levels: readonly (number | undefined)[];
  readonly hasDrifted: boolean;
  readonly tagged: number;
  readonly skipped: number;
  readonly incident: OpenIncident | undefined;
}

/**
 * Whether a detector with these settings can go on from `state`.
 * @throws TraceError `bad_option`
 */
export function checkState(state: DetectorState, { blocksMax, options }: DetectorPlan): void {
  const refuse = (what: string): never => {
    throw new TraceError('bad_option', `Cannot restore a step-time detector: ${what}`);
  };
  const { version, blockFactor, blocks, spans, steps, levels } = state;
  const { detectOnsetBlocksMax } = detectLimits;
  if (version !== 1) refuse(`its state must have version 1, got ${String(version)}`);
  if (blockFactor !== 1 && blockFactor !== 2) refuse(`blockFactor must be 1 or 2, got ${String(blockFactor)}`);
  if (blocks.length > blocksMax) refuse(`it holds ${blocks.length} blocks, these settings keep ${blocksMax}`);
  if (spans.length !== detectOnsetBlocksMax) refuse(`it must hold ${detectOnsetBlocksMax} spans, got ${spans.length}`);
  if (levels.length !== levelsOfSeries) refuse(`it must hold ${levelsOfSeries} levels, got ${levels.length}`);
  const stepsMax = options.blockSteps * blockFactor;
  if (steps.length >= stepsMax) refuse(`it holds ${steps.length} steps of a block of ${stepsMax}`);
}
