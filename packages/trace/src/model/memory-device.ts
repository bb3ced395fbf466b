// The device whose memory a mark of the allocator is about, as torch states it: `Device Type` (c10::DeviceType) and `Device Id`, its number on the host.

import type { TraceEvent } from './trace-sink.ts';

/** c10::DeviceType of host memory (CPU, MKLDNN, IDEEP). */
const hostTypes: ReadonlySet<number> = new Set([0, 2, 5]);

/** `CPU`, or `GPU` with its number, which is 0 where the mark states none. */
export function memoryDevice({ arguments: given }: TraceEvent): string {
  const type = given?.get('Device Type');
  if (typeof type !== 'number' || hostTypes.has(type)) return 'CPU';
  const id = given?.get('Device Id');
  return `GPU ${typeof id === 'number' && Number.isSafeInteger(id) ? Math.max(0, id) : 0}`;
}
