// Where alerts began, on the ruler: at the first affected step, as exactly as the overview's bins know its time.
//
//   ▕▶               ▕▶ alert                    ▕▶
//    │ step 100 ──────│────────────── step 400 ───│
//    ▲ of an earlier step, which the run          ▲ of a later one, which not every rank
//      does not hold any more                       has sent yet
//
// Invariant: an alert with an onset always has a mark. One whose step is not there stands at the nearest step that is, and says so.

import type { Overview } from '@ranktrace/protocol';
import { type Onset, onsetsOf } from '../overview/onsets.ts';
import { binRange, timeOfStep } from '../overview/step-bins.ts';

export interface AlertMark {
  readonly time: number;
  readonly text: string;
  readonly isOpen: boolean;
}

type Places = Pick<Overview, 'findings' | 'bins' | 'times' | 'toStep' | 'slowest'>;

/** In order of time. `begin`: of the run, for an alert that came before any step. */
export function alertMarks(overview: Places | undefined, begin: number): readonly AlertMark[] {
  if (overview === undefined) return [];
  const marks = onsetsOf(overview).map((onset): AlertMark => {
    const { step, text, isOpen, from } = onset;
    const time = timeOfStep(overview, step) ?? from;
    if (time !== undefined) return { time, text, isOpen };
    return { time: nearest(overview, onset) ?? begin, text: `${text} (step ${step} is not on this page)`, isOpen };
  });
  return marks.sort((a, b) => a.time - b.time);
}

/** The marks within `reach` ns of a time. */
export const alertMarksAt = (marks: readonly AlertMark[], time: number, reach: number): readonly AlertMark[] =>
  marks.filter((mark) => Math.abs(mark.time - time) <= reach);

/** Begin of the first bin, or end of the last one; undefined without bins. */
function nearest(overview: Places, { step }: Onset): number | undefined {
  const isEarlier = step < (overview.bins[0] ?? 0);
  const range = binRange(overview, isEarlier ? 0 : overview.bins.length - 1);
  return isEarlier ? range?.from : range?.until;
}
