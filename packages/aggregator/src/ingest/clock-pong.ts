// Answers clock pings. It reads both times here, as late as possible around the little work in between.

import { type ControlMessage, encodeMessage } from '@ranktrace/protocol';
import { hostId } from '../model/host-id.ts';

const host = hostId();

/** The answer to ping `id` that arrived at `received` (this host's monotonic clock, ns), as text. */
export function clockPong(id: number, received: bigint): string {
  const pong: ControlMessage = { type: 'clock_pong', id, host, received: String(received), sent: String(process.hrtime.bigint()) };
  return encodeMessage(pong);
}
