// The engine's output: an alert before its cause, link and trace are added.

import type { Alert } from '@ranktrace/protocol';

/** Fallback for a cause if blame finds none: series that changed with the cluster's, or ranks' reported places. */
export interface AlertHint {
  /** Empty: of all, or of nobody in particular. */
  readonly ranks: readonly number[];
  /** Whether at least half of the ranks became slower, each by its own series. */
  readonly isOfAll?: boolean;
  readonly phase: string | undefined;
  /** A cause that blame of usual steps does not show, with its own text. */
  readonly stated?: { readonly kind: 'rank_stopped' | 'hang' | 'long_steps'; readonly text: string };
}

export type EngineAlert = Omit<Alert, 'cause' | 'link' | 'capture'> & {
  readonly hint: AlertHint | null;
  /** The first step of the latest rise, where steps that were slow became slower still. */
  readonly latestOnsetStep?: number;
};

/** `updated`: the same incident, reported again with new numbers or ranks. */
export interface AlertChange {
  readonly kind: 'fired' | 'updated' | 'resolved';
  readonly alert: EngineAlert;
}

/** A mutable incident while it is open. */
export type OpenAlert = { -readonly [Key in keyof EngineAlert]: EngineAlert[Key] };

/** Receives each change. */
export type ReportChange = (kind: AlertChange['kind'], alert: OpenAlert) => void;

/** The resolution of an alert that is over because its run is. */
export const runEnded = 'the run ended';

/** Whether the run, whose last step this is, ended in a hang. One that names nobody may be what a program does after its last step. */
export const endedHanging = ({ rule, state, resolution, ranks, step }: Alert, lastStep: number): boolean =>
  rule === 'hang' && ranks.length > 0 && (state === 'firing' || resolution === runEnded) && lastStep <= (step ?? -1);

/** Closes `alert` and reports it. */
export function resolveAlert(alert: OpenAlert, nowMs: number, resolution: string, report: ReportChange): void {
  alert.state = 'resolved';
  alert.resolvedAt = isoTime(nowMs);
  alert.resolution = resolution;
  report('resolved', alert);
}

/** Unix ms as the text in alerts. */
export const isoTime = (unixMs: number): string => new Date(unixMs).toISOString();
