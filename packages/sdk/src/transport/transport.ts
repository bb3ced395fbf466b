// The port between the shipper and a transport of batches. The shipper knows order, windows and the spool; a transport knows one wire.
//
//   open ──► up ──► down ──► up ──► …      the transport connects, waits and connects again by itself, until `close`
//
// Invariants: `send` and `ping` are called only between `up` and `down`. After `down`, all unacknowledged batches may be lost: the shipper sends
// them again after the next `up`, in order. Nothing here throws; an absent aggregator must not affect the training.

import type { ControlMessage } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';

export interface TransportHandlers {
  /** Ready to take batches. */
  up(): void;
  /** Not ready, with the reason; may come again while down, when a new attempt fails for another reason. */
  down(reason: string): void;
  /** From the aggregator, or from the broker on its behalf (`ack`, `refused`). */
  message(message: ControlMessage): void;
  /** A remark for a person that changes neither up nor down. */
  notice(line: string): void;
}

export interface Transport {
  /** Starts to connect. Returns at once. */
  open(handlers: TransportHandlers): void;
  /** Sends one batch; the answer is the message `ack` or `refused` with this `id`, or `down`. */
  send(bytes: Uint8Array, id: string): void;
  /** Asks for the aggregator's clock; the answer is `clock_pong` with this `id`. Absent without an aggregator. */
  ping?(id: number): void;
  /** How long after its acknowledgement a batch may still be lost with the receiver, ms; absent if the receiver stores it first. */
  readonly flushMs?: number;
  close(): Promise<void>;
}

/**
 * Back-off before attempt `attempt` (0, 1, …) to reconnect, ms: 100 ms doubling up to 2 s, less up to half of it by `random()` (0 … 1), so
 * that a thousand ranks do not return in the same millisecond.
 */
export function reconnectDelayMs(attempt: number, random: () => number): number {
  const whole = Math.min(limits.reconnectDelayMsMax, limits.reconnectDelayMsMin * 2 ** Math.min(attempt, 16));
  return whole * (1 - random() / 2);
}
