// The trace of an alert's steps, as the alert tells of it.

import { isAbsolute, relative } from 'node:path';
import type { Alert, CaptureResult } from '@ranktrace/protocol';

type Capture = NonNullable<Alert['capture']>;

export const pendingCapture: Capture = {
  state: 'pending',
  path: null,
  fromStep: null,
  toStep: null,
  ranks: [],
  ranksMissing: [],
  text: 'the steps are being recorded',
};

export const failedCapture = (capture: Capture, text: string): Capture => ({ ...capture, state: 'failed', text: text.slice(0, 1024) });

/** The trace of steps from `first` on, at the latest, of a run in `directory`. */
export function writtenCapture(
  { path, fromStep, toStep, ranks, late, dead, notes }: CaptureResult,
  first: number,
  directory: string,
): Capture {
  return {
    state: 'written',
    path: isAbsolute(path) ? relative(directory, path) : path,
    fromStep: fromStep === undefined ? null : Math.min(first, fromStep),
    toStep: toStep ?? null,
    ranks: [...ranks],
    ranksMissing: [...late, ...dead].sort((a, b) => a - b),
    text: notes.join('; ').slice(0, 1024),
  };
}
