// Answers clock pings. Both times are read here, as late as possible before and after the little work there is.

import { type ControlMessage, encodeMessage } from '@ranktrace/protocol';
import { hostId } from '../model/host-id.ts';

const host = hostId();

/** The answer to ping `id` that arrived at `received` (this host's monotonic clock, ns), as text. */
export function clockPong(id: number, received: bigint): string {
  const pong: ControlMessage = { type: 'clock_pong', id, host, received: String(received), sent: String(process.hrtime.bigint()) };
  return encodeMessage(pong);
}
