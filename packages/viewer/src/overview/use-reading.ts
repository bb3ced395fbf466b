// Whether what a view shows is of a run that was not read to its end yet.

import type { Overview, RunModel } from '@ranktrace/protocol';
import { useRef } from 'preact/hooks';
import { isReading } from './reading.ts';

/**
 * True until the run was read once to its end, and `overview` is of all of it. What a live run gains after that is read as it comes: each time it
 * is little, and a view that said so would flicker.
 */
export function useIsPartial(model: RunModel | undefined, overview: Overview | undefined): boolean {
  const wholeEpoch = useRef<string | undefined>(undefined);
  if (model === undefined || overview === undefined) return true;
  if (!isReading(model) && overview.allRead) wholeEpoch.current = model.epoch;
  return wholeEpoch.current !== model.epoch;
}
