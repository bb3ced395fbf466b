// Threads that have announced themselves and were not heard yet: a channel and a port keep no order between them, so a `stop` that was sent later may
// come first.

import { type BroadcastChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { AttachedThread, ChannelMessage } from '../record/session.ts';

/** Takes what is on its way in `channel`. */
export function* unheardThreads(channel: BroadcastChannel): Generator<AttachedThread> {
  for (;;) {
    // Node takes channels here, too; its types do not say so.
    const received = receiveMessageOnPort(channel as unknown as MessagePort) as { message: ChannelMessage } | undefined;
    if (received === undefined) return;
    if (received.message.type === 'attach') yield received.message;
  }
}
