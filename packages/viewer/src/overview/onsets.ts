// First affected steps of alerts and of findings that were alerted about: flags on the step chart and on the timeline's ruler.

import type { Overview } from '@ranktrace/protocol';

export interface Onset {
  readonly step: number;
  /** `Since step 400: …` */
  readonly text: string;
  /** The alert is firing. */
  readonly isOpen: boolean;
  /** Trace time of the onset as the alert states it, ns; undefined where it states none. */
  readonly from: number | undefined;
}

/** In order of step. */
export function onsetsOf({ findings }: Pick<Overview, 'findings'>): readonly Onset[] {
  const onsets = findings.flatMap(({ onsetStep, text, severity, from }): Onset[] =>
    onsetStep === undefined ? [] : [{ step: onsetStep, text: `Since step ${onsetStep}: ${text}`, isOpen: severity === 'alert', from }],
  );
  return onsets.sort((a, b) => a.step - b.step);
}
