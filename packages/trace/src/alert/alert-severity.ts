// Severity of each rule's incidents: docs/alerting.md has the same table, with the reasons.
//
// Invariant: the severity of an incident may rise while it is open, and never falls.

import type { Alert, AlertRule } from '@ranktrace/protocol';

/** The first severity of an incident, and whether more evidence can make a `warning` critical. */
export interface AlertSeverity {
  readonly first: Alert['severity'];
  readonly escalates: boolean;
}

/** `critical`: the job makes no progress, or much less. `warning`: it needs attention in working hours. */
export const alertSeverities: Readonly<Record<AlertRule, AlertSeverity>> = {
  /** Critical once the cluster's steps have certainly jumped by `criticalShare`. */
  step_time: { first: 'warning', escalates: true },
  step_time_drift: { first: 'warning', escalates: false },
  step_time_limit: { first: 'critical', escalates: false },
  rank_stopped: { first: 'critical', escalates: false },
  /** Critical once the collective in which ranks wait is known. */
  hang: { first: 'warning', escalates: true },
  memory_growth: { first: 'warning', escalates: false },
  data_loss: { first: 'warning', escalates: false },
  clock_unaligned: { first: 'warning', escalates: false },
  overhead: { first: 'warning', escalates: false },
};

/** A jump of the cluster's steps by this share is critical. */
export const criticalShare = 0.1;
