// Whether a view shows a run that was not read to its end yet.

import type { Overview, RunModel } from '@ranktrace/protocol';
import { useRef } from 'preact/hooks';
import { isReading } from './reading.ts';

/**
 * True until the run was read once to its end, and `overview` covers all of it. Later growth of a live run is read as it comes: each part is small,
 * and a view that announced it would flicker.
 */
export function useIsPartial(model: RunModel | undefined, overview: Overview | undefined): boolean {
  const wholeEpoch = useRef<string | undefined>(undefined);
  if (model === undefined || overview === undefined) return true;
  if (!isReading(model) && overview.allRead) wholeEpoch.current = model.epoch;
  return wholeEpoch.current !== model.epoch;
}
