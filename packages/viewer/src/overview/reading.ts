// The read part of a run, in words: shown while anything of the run may still be missing. Until then nothing is called empty, and ranks are compared
// over the steps that all of them have reported (the service leaves the others out, Overview.allRead).

import type { Overview, RunModel } from '@ranktrace/protocol';
import { formatPercent } from '../controls/format.ts';
import { stepsText } from './step-bins.ts';
import type { StepRange } from './use-overview.ts';

type ReadPart = Pick<RunModel, 'read' | 'total'>;

/** Whether parts of the run are still unread. */
export const isReading = ({ read, total }: ReadPart): boolean => read < total;

/** `Reading 58 %`; never 100 %, as the run is not fully read then. */
export const readingText = ({ read, total }: ReadPart): string =>
  `Reading ${formatPercent(Math.min(99, Math.floor((100 * read) / Math.max(1, total))) / 100)}`;

/** The steps behind the figures of a run that is still being read. */
export function comparedText(model: ReadPart, { steps, fromStep, toStep }: Pick<Overview, 'steps' | 'fromStep' | 'toStep'>): string {
  const reading = readingText(model);
  return steps === 0 ? `${reading} …` : `${reading}: this is of ${stepsText(fromStep, toStep)}, which all ranks have reported so far.`;
}

/** Reason why there is no step to show. `isPartial`: the run is still being read. */
export function noStepsText(model: Pick<RunModel, 'live' | 'processes'>, { fromStep, toStep }: StepRange, isPartial: boolean): string {
  const { live, processes } = model;
  if (isPartial) return 'No step yet that all ranks have reported.';
  if (fromStep !== undefined) return `No rank has ${stepsText(fromStep, toStep ?? fromStep)}.`;
  if (processes.length === 0) return live ? 'No rank has said anything yet.' : 'There is nothing in this run.';
  const how = 'Steps are what the training script marks with step().';
  return live ? `No step has ended yet. ${how}` : `No steps were recorded: the timeline has what there is. ${how}`;
}
