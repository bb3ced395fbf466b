// What the engine says: an alert before somebody adds its cause, link and trace.

import type { Alert } from '@ranktrace/protocol';

/** What a cause rests on where blame finds none: whose series changed together with the cluster's, or where ranks said that they are. */
export interface AlertHint {
  readonly ranks: readonly number[];
  readonly phase: string | undefined;
  /** Of what is not a change of lengths; its own words. */
  readonly stop?: { readonly kind: 'rank_stopped' | 'hang'; readonly text: string };
}

export type EngineAlert = Omit<Alert, 'cause' | 'link' | 'capture'> & { readonly hint: AlertHint | null };

/** `updated`: the same incident, told anew with other numbers or ranks. */
export interface AlertChange {
  readonly kind: 'fired' | 'updated' | 'resolved';
  readonly alert: EngineAlert;
}

/** A mutable incident while it is open. */
export type OpenAlert = { -readonly [Key in keyof EngineAlert]: EngineAlert[Key] };

/** Collects what changed. */
export type TellChange = (kind: AlertChange['kind'], alert: OpenAlert) => void;

/** Closes `alert` and tells it. */
export function resolveAlert(alert: OpenAlert, nowMs: number, resolution: string, tell: TellChange): void {
  alert.state = 'resolved';
  alert.resolvedAt = isoTime(nowMs);
  alert.resolution = resolution;
  tell('resolved', alert);
}

/** Unix ms as the text that alerts carry. */
export const isoTime = (unixMs: number): string => new Date(unixMs).toISOString();
