// Recordings of others, if this machine has them: a benchmark measures its figures on them as well, never instead of its own input.

import { recordedData } from '../../test/recorded/recorded-data.mjs';
import type { Figure, NotMeasured } from './figure.ts';

/** Figures over the recordings named (folders of `data`), or the line that reports them as not measured. */
export async function overRecordings(
  names: string,
  measure: (data: string) => Figure[] | Promise<Figure[]>,
): Promise<(Figure | NotMeasured)[]> {
  const data = recordedData();
  if (data !== undefined) return await measure(data);
  const why = 'recordings of others are neither in shared/data beside the project nor in RANKTRACE_RECORDED_DATA';
  return [{ notMeasured: `the figures over ${names}`, why }];
}
