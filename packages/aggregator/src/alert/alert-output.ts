// The port that OutputQueue feeds: one receiver of alerts.

import type { Alert } from '@ranktrace/protocol';

/** Result of one try. A failure is a value: nothing here is a reason to stop. */
export type SendResult =
  | { readonly ok: true }
  | {
      readonly ok: false;
      /** One line for an operator, without secrets. */
      readonly reason: string;
      /** Whether another try may do better. */
      readonly retry: boolean;
      /** The receiver asks for a wait this long, ms. */
      readonly afterMs?: number | undefined;
    };

/** One receiver of alerts. */
export interface AlertOutput {
  /** Sends one alert. Never throws; gives up when `signal` is aborted. */
  send(alert: Alert, signal: AbortSignal): Promise<SendResult>;
  /** For receivers that forget: they get the open incidents again at this interval, and an update of one at once. */
  readonly again?: { readonly everyMs: number; send(alerts: readonly Alert[], signal: AbortSignal): Promise<SendResult> } | undefined;
}

export const sent: SendResult = { ok: true };
