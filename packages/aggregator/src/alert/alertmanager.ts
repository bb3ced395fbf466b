// Alertmanager, API v2: `POST /api/v2/alerts`.
//
// Alertmanager knows an alert by its labels, forgets it without a resend, and keeps nothing of it over its own restart. So the output resends open
// incidents every `resend`, with an end a few resends ahead: when this service dies, incidents end by themselves, as they do with Prometheus. A
// resolved incident carries its own time as `endsAt`.
//
// Invariant: the labels of an incident stay those of its first report, or Alertmanager would have two. Everything that changes (numbers, cause,
// trace) is an annotation.

import type { Alert } from '@ranktrace/protocol';
import type { AlertOutput } from './alert-output.ts';
import { alertFacts } from './alert-text.ts';
import { deliveryLimits as limits } from './delivery-limits.ts';
import { type Fetch, type HttpReceiver, postJson } from './http-post.ts';

export interface AlertmanagerReceiver extends HttpReceiver {
  /** Added to the labels of every alert. */
  readonly labels: Readonly<Record<string, string>>;
  readonly resendMs: number;
}

type Labels = Readonly<Record<string, string>>;

/** `postableAlert` of Alertmanager's OpenAPI description. */
interface PostableAlert {
  readonly labels: Labels;
  readonly annotations: Record<string, string>;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL?: string;
}

/** An output to one Alertmanager; each member of a cluster is an output of its own, as Alertmanager's manual asks for. */
export function alertmanager(receiver: AlertmanagerReceiver, fetch: Fetch, nowMs: () => number): AlertOutput {
  const labelsById = new Map<string, Labels>();
  const labelsOf = (alert: Alert): Labels => {
    const labels = labelsById.get(alert.id) ?? { ...receiver.labels, ...labelsFor(alert) };
    labelsById.delete(alert.id);
    labelsById.set(alert.id, labels);
    const [oldest] = labelsById.keys();
    if (labelsById.size > limits.outputIncidentsMax && oldest !== undefined) labelsById.delete(oldest);
    return labels;
  };
  const post: NonNullable<AlertOutput['again']>['send'] = (alerts, signal) => {
    const expiresMs = nowMs() + limits.alertmanagerMissedMax * receiver.resendMs;
    const body = alerts.map((alert) => postableAlert(alert, labelsOf(alert), new Date(expiresMs)));
    return postJson(receiver, '/api/v2/alerts', body, fetch, signal);
  };
  return { send: (alert, signal) => post([alert], signal), again: { everyMs: receiver.resendMs, send: post } };
}

/** Labels that distinguish an incident from all others, and that people route by. */
function labelsFor({ id, run, rule, severity, series }: Alert): Labels {
  const { kind, rank, phase } = series;
  return {
    ...{ alertname: alertName(rule), run, rule, severity, incident: id, series: kind },
    ...(rank === undefined ? {} : { rank: String(rank) }),
    ...(phase === undefined ? {} : { phase }),
  };
}

/** An alert in Alertmanager's format; an open one ends at `expires`. */
export function postableAlert(alert: Alert, labels: Labels, expires: Date): PostableAlert {
  const { state, summary, firedAt, resolvedAt, link } = alert;
  // Alertmanager rejects an end before the beginning, which a clock that was set back produces.
  const end = state === 'resolved' ? (resolvedAt ?? firedAt) : expires.toISOString();
  return {
    labels,
    annotations: { summary, ...Object.fromEntries(alertFacts(alert)), ...(link === null ? {} : { link }) },
    startsAt: firedAt,
    endsAt: Date.parse(end) < Date.parse(firedAt) ? firedAt : end,
    ...(link === null ? {} : { generatorURL: link }),
  };
}

/** `step_time` → `RanktraceStepTime`: Prometheus' own style, distinct from other people's alerts. */
export function alertName(rule: Alert['rule']): string {
  return `Ranktrace${rule
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')}`;
}
