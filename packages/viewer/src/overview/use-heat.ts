// Cells of the heat map by a measure, asked for again whenever the overview beside them changes.

import type { Overview } from '@ranktrace/protocol';
import { useEffect, useState } from 'preact/hooks';
import type { HeatChoice, RunClient } from '../client/run-client.ts';
import type { HeatMeasure } from './heat-cells.ts';
import type { StepRange } from './use-overview.ts';

type Cells = ReadonlyMap<number, readonly (number | null)[]>;

const phasePrefix = 'phase ';

/** The question behind a measure; undefined for lengths of steps, which the overview has. */
export function heatChoice(measure: HeatMeasure): HeatChoice | undefined {
  if (measure === 'mean' || measure === 'longest') return undefined;
  return measure.startsWith(phasePrefix)
    ? { measure: 'phase', phase: measure.slice(phasePrefix.length) }
    : { measure: measure as 'own' | 'waiting' | 'busy' };
}

/** By process: the cells of `overview`'s bins. Undefined until they are there; cells of other bins are never shown. */
export function useHeat(
  client: RunClient,
  overview: Overview,
  measure: HeatMeasure,
  bins: number,
  { fromStep, toStep }: StepRange,
): Cells | undefined {
  const [answer, setAnswer] = useState<{ readonly measure: HeatMeasure; readonly bins: readonly number[]; readonly cells: Cells }>();
  useEffect(() => {
    const choice = heatChoice(measure);
    if (choice === undefined || overview.bins.length === 0) return;
    let isClosed = false;
    client
      .heat(choice, bins, { ...(fromStep === undefined ? {} : { fromStep }), ...(toStep === undefined ? {} : { toStep }) })
      .then((heat) => {
        if (!isClosed) setAnswer({ measure, bins: heat.bins, cells: new Map(heat.rows.map((row) => [row.process, row.cells])) });
      })
      .catch(() => undefined);
    return () => {
      isClosed = true;
    };
  }, [client, overview, measure, bins, fromStep, toStep]);
  // While the run grows, the cells of a moment ago stay, if their bins are the same.
  return answer?.measure === measure && isSameBins(answer.bins, overview.bins) ? answer.cells : undefined;
}

const isSameBins = (a: readonly number[], b: readonly number[]): boolean => a.length === b.length && a[0] === b[0] && a[1] === b[1];
