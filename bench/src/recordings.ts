// Recordings of others, where this machine has them: the figures of a benchmark measured on them as well, never instead of its own input.

import { recordedData } from '../../test/recorded/recorded-data.mjs';
import type { Figure, NotMeasured } from './figure.ts';

/** Figures over the recordings named (folders of `data`), or the line that says that they were not measured. */
export async function overRecordings(
  names: string,
  measure: (data: string) => Figure[] | Promise<Figure[]>,
): Promise<(Figure | NotMeasured)[]> {
  const data = recordedData();
  if (data !== undefined) return await measure(data);
  const why = 'recordings of others are neither in shared/data beside the project nor in RANKTRACE_RECORDED_DATA';
  return [{ notMeasured: `the figures over ${names}`, why }];
}
