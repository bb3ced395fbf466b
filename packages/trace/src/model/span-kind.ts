// Kernels and copies among the spans: work on a device, as opposed to the host's spans, which may have the same names. A compiled kernel of Triton and
// the host's call of it have one name, and are two things.

import { isDeviceKind } from './lanes.ts';
import type { TraceEvent } from './trace-sink.ts';

/** Marks on a device that are no work of it: annotations of the program mirrored there, and waits. */
const noWork: ReadonlySet<string> = new Set(['gpu_user_annotation', 'cuda_sync', 'cuda_event']);
const copyName = /^mem(?:cpy|set)\b/i;

/** Whether an event on a device is a mark, and no work. */
export const isMark = (category: string): boolean => noWork.has(category);

/** Kind of a device's work by its name. */
export const workKind = (name: string): 'kernel' | 'copy' => (copyName.test(name) ? 'copy' : 'kernel');

/** Kind of a span by its lane, category and name. */
export function spanKind({
  lane,
  category,
  name,
}: Pick<TraceEvent, 'category' | 'name'> & { readonly lane: Pick<TraceEvent['lane'], 'kind'> }) {
  return isDeviceKind(lane.kind) && !isMark(category) ? workKind(name) : 'span';
}
