// What carries alerts out: the port that OutputQueue feeds.

import type { Alert } from '@ranktrace/protocol';

/** What came of one try. A failure is a value: nothing here is a reason to stop. */
export type SendResult =
  | { readonly ok: true }
  | {
      readonly ok: false;
      /** One line for an operator, without secrets. */
      readonly reason: string;
      /** Whether another try may do better. */
      readonly retry: boolean;
      /** The receiver asks for so much time, ms. */
      readonly afterMs?: number | undefined;
    };

/** One receiver of alerts. */
export interface AlertOutput {
  /** Tells one alert. Never throws; gives up when `signal` says so. */
  send(alert: Alert, signal: AbortSignal): Promise<SendResult>;
  /** For receivers that forget: what is open is told again every so often, and an update of what was told at once. */
  readonly again?: { readonly everyMs: number; send(alerts: readonly Alert[], signal: AbortSignal): Promise<SendResult> } | undefined;
}

export const sent: SendResult = { ok: true };
