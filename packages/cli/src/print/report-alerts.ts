// The alerts of a stored run among the findings of its report: an alert and a finding about the same fault are one finding, with the words of both;
// any other alert is a finding of its own.

import { readAlertLog } from '@ranktrace/aggregator';
import { type Alert, printable } from '@ranktrace/protocol';
import type { Finding } from '@ranktrace/trace';
import { isSameFault, type ReportedFault } from '@ranktrace/trace/alert';
import type { RunFinding, StepRange } from '@ranktrace/trace/blame';
import { say } from '../terminal/output.ts';

/** Alerts of one report, oldest first. */
export interface ReportAlerts {
  /** By the finding about the same fault. */
  readonly of: ReadonlyMap<RunFinding | Finding, readonly Alert[]>;
  /** Alerts without a finding. */
  readonly alone: readonly Alert[];
}

export const noAlerts: ReportAlerts = { of: new Map(), alone: [] };

/** Largest number of alerts without a finding in a report for a person; `--json` has all of them. */
const aloneShown = 16;

/** The stored alerts of the runs in `directories`; with `steps`, those whose onset is one of these. */
export function storedAlerts(directories: readonly string[], steps?: StepRange): Alert[] {
  const all = directories.flatMap((directory) => {
    const { alerts, unreadable } = readAlertLog(directory);
    if (unreadable > 0) say(`${directory}: ${unreadable} lines of its alerts cannot be read and are left out`);
    return alerts;
  });
  const isIn = ({ onsetStep }: Alert): boolean =>
    steps === undefined || (onsetStep !== null && onsetStep >= steps.first && onsetStep <= steps.last);
  return all.filter(isIn).sort((a, b) => (a.firedAt < b.firedAt ? -1 : 1));
}

/** Matches alerts with findings about the same fault. */
export function matchAlerts(alerts: readonly Alert[], blamed: readonly RunFinding[], missing: readonly Finding[]): ReportAlerts {
  const reported: readonly (readonly [finding: RunFinding | Finding, fault: ReportedFault])[] = [
    ...blamed.map((finding) => [finding, finding] as const),
    ...missing.map((finding) => [finding, { kind: finding.kind, ranks: finding.ranks, steps: undefined }] as const),
  ];
  const of = new Map<RunFinding | Finding, Alert[]>();
  const alone: Alert[] = [];
  for (const alert of alerts) {
    const { rule, cause, ranks, onsetStep } = alert;
    const fault = { rule, cause: cause?.kind, ranks, onsetStep: onsetStep ?? undefined };
    const same = reported.find(([, other]) => isSameFault(fault, other))?.[0];
    if (same === undefined) alone.push(alert);
    else of.set(same, [...(of.get(same) ?? []), alert]);
  }
  return { of, alone };
}

/** The alerts beside the finding, a line each. */
export function alertLines(finding: RunFinding | Finding, { of }: ReportAlerts): string[] {
  return (of.get(finding) ?? []).map((alert) => `alerted${whenText(alert)}: ${printable(alert.summary)}${stateText(alert)}`);
}

/** Each alert without a finding, with its cause. */
export function aloneLines({ alone }: ReportAlerts): string[] {
  const lines = alone.slice(-aloneShown).map((alert) => {
    const cause = alert.cause === null || alert.summary.includes(alert.cause.text) ? '' : ` (${printable(alert.cause.text)})`;
    return `alert ${alert.rule}${whenText(alert)}: ${printable(alert.summary)}${stateText(alert)}${cause}`;
  });
  const more = alone.length - lines.length;
  return more > 0 ? [...lines, `and ${more} older alerts: ranktrace alerts`] : lines;
}

/** An alert as a finding of the data: like the others it has `kind` and `ranks`. */
export function alertFinding(alert: Alert): unknown {
  const { rule, ranks, summary, onsetStep, cause } = alert;
  const from = onsetStep === null ? {} : { onsetStep };
  return { kind: rule, ranks, text: summary, ...from, ...(cause === null ? {} : { cause }), alerts: [alert.id] };
}

const whenText = ({ step }: Alert): string => (step === null ? '' : ` at step ${step}`);

const stateText = ({ state, resolution }: Alert): string =>
  state === 'firing' ? ' (open when the run was stored)' : ` (over: ${printable(resolution ?? '')})`;
