// An alert in words, as people read it in a log, in a chat and in Alertmanager.

import type { Alert } from '@ranktrace/protocol';
import { displayName, rankNumbersText } from '@ranktrace/trace';
import type { EngineAlert } from '@ranktrace/trace/alert';

/** `firing: SUMMARY` or `resolved: SUMMARY (WHY)`, with the run in front. */
export function alertLine(alert: Alert): string {
  const why = alert.state === 'resolved' && alert.resolution !== null ? ` (${alert.resolution})` : '';
  return `run ${alert.run}: ${alert.severity} ${alert.rule} ${alert.state}: ${alert.summary}${why}`;
}

/** Further known facts, as name and text; only those present. */
export function alertFacts(alert: Alert): readonly (readonly [name: string, text: string])[] {
  const { before, after, change, unit, onsetStep, onsetAt, confidence, cause, ranks, capture, resolution } = alert;
  const facts: [string, string][] = [];
  if (before !== null && after !== null) {
    const by = change === null ? '' : ` (${signed(change)})`;
    facts.push(['change', `${quantity(before, unit)} → ${quantity(after, unit)}${by}`]);
  }
  if (onsetStep !== null) facts.push(['since', `step ${onsetStep}${onsetAt === null ? '' : `, ${onsetAt}`}`]);
  else if (onsetAt !== null) facts.push(['since', onsetAt]);
  if (confidence !== null) {
    facts.push(['confidence', `${signed(confidence.low)} to ${signed(confidence.high)}, T ${confidence.t.toFixed(1)}`]);
  }
  if (cause !== null && !alert.summary.includes(cause.text)) facts.push(['cause', cause.text]);
  if (ranks.length > 0) facts.push(['ranks', rankNumbersText(ranks, ranksShown)]);
  if (capture !== null) {
    const missing = capture.ranksMissing.length === 0 ? '' : `; missing: rank ${rankNumbersText(capture.ranksMissing, ranksShown)}`;
    facts.push(['capture', `${capture.path ?? capture.state}${missing}`]);
  }
  if (resolution !== null) facts.push(['resolution', resolution]);
  return facts;
}

/** `before` or `after` of an alert as people write it: ns become ms, bytes MiB. */
export function quantity(value: number, unit: Alert['unit']): string {
  switch (unit) {
    case 'ns':
      return `${short(value / 1e6)} ms`;
    case 'bytes':
      return `${short(value / 1024 ** 2)} MiB`;
    case 'share':
      return `${short(value * 100)} %`;
    case 'count':
      return short(value);
  }
}

const ranksShown = 16;

/** Three significant digits, never an exponent. */
function short(value: number): string {
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

const signed = (share: number): string => `${share < 0 ? '−' : '+'}${(Math.abs(share) * 100).toFixed(1)} %`;

/** Limit of `alertSchema`. */
const summaryCharsMax = 1024;

/** The one-line summary, with its cause. */
export function withCause({ summary, unit }: EngineAlert, cause: Alert['cause']): string {
  if (cause === null || unit !== 'ns' || cause.kind === 'inconclusive') return summary.slice(0, summaryCharsMax);
  const { ranks, hosts, phase, kind } = cause;
  const few = ranks.slice(0, 8).join(', ');
  const who =
    ranks.length === 0 ? kind.replaceAll('_', ' ') : `rank${ranks.length === 1 ? '' : 's'} ${few}${ranks.length > 8 ? ', …' : ''}`;
  const where = hosts.length === 1 ? ` (${hosts[0]})` : '';
  return `${summary}; ${who}${where}${phase === null ? '' : `, in ${displayName(phase)}`}`.slice(0, summaryCharsMax);
}
