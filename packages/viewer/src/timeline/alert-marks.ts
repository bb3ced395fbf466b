// Where alerts began, on the ruler: at the first affected step, as exactly as the overview's bins know its time.

import type { Overview } from '@ranktrace/protocol';

export interface AlertMark {
  readonly time: number;
  readonly text: string;
  readonly isOpen: boolean;
}

/** In order of time. */
export function alertMarks(overview: Pick<Overview, 'findings' | 'bins' | 'times'> | undefined): readonly AlertMark[] {
  if (overview === undefined) return [];
  const marks = overview.findings.flatMap(({ onsetStep, from, text, severity }): AlertMark[] => {
    if (onsetStep === undefined) return [];
    const time = timeOfStep(overview, onsetStep) ?? from;
    return time === undefined ? [] : [{ time, text: `Since step ${onsetStep}: ${text}`, isOpen: severity === 'alert' }];
  });
  return marks.sort((a, b) => a.time - b.time);
}

/** The marks within `reach` ns of a time. */
export const alertMarksAt = (marks: readonly AlertMark[], time: number, reach: number): readonly AlertMark[] =>
  marks.filter((mark) => Math.abs(mark.time - time) <= reach);

/** Begin of the bin that holds a step; undefined outside of all bins. */
function timeOfStep({ bins, times }: Pick<Overview, 'bins' | 'times'>, step: number): number | undefined {
  const at = bins.findLastIndex((first) => first <= step);
  const [first, next, time, after] = [bins[at], bins[at + 1], times[at], times[at + 1]];
  if (first === undefined || time === undefined) return undefined;
  // Steps of a bin are about equally long.
  return next === undefined || after === undefined ? time : time + ((step - first) / (next - first)) * (after - time);
}
