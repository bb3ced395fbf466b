// A webhook: the alert itself as JSON (`alertSchema` of the protocol), or a message in Slack's format, which others accept too.

import type { Alert } from '@ranktrace/protocol';
import type { AlertOutput } from './alert-output.ts';
import { alertFacts } from './alert-text.ts';
import { type Fetch, type HttpReceiver, postJson } from './http-post.ts';

export interface WebhookReceiver extends HttpReceiver {
  readonly format: 'json' | 'slack';
}

/** An output to a webhook: one POST per alert and state. */
export function webhook(receiver: WebhookReceiver, fetch: Fetch): AlertOutput {
  const bodyOf = receiver.format === 'slack' ? slackMessage : (alert: Alert) => alert;
  return { send: (alert, signal) => postJson(receiver, '', bodyOf(alert), fetch, signal) };
}

interface SlackMessage {
  readonly text: string;
  readonly attachments: readonly {
    readonly color: string;
    readonly title: string;
    readonly title_link?: string;
    readonly text: string;
    readonly fallback: string;
    readonly fields: readonly { readonly title: string; readonly value: string; readonly short: boolean }[];
    readonly footer: string;
    readonly ts: number;
  }[];
}

const colours = { critical: '#d0021b', warning: '#f5a623', resolved: '#2eb886' } as const;

/** An incoming-webhook message of Slack, with the older `attachments`: Mattermost, Rocket.Chat and others take these too. */
export function slackMessage(alert: Alert): SlackMessage {
  const { run, rule, state, severity, summary, link, firedAt, resolvedAt } = alert;
  const title = `${state === 'resolved' ? 'Resolved' : severity === 'critical' ? 'Critical' : 'Warning'}: ${rule} in ${run}`;
  return {
    text: escaped(`${title}: ${summary}`),
    attachments: [
      {
        color: colours[state === 'resolved' ? state : severity],
        title: escaped(title),
        ...(link === null ? {} : { title_link: link }),
        text: escaped(summary),
        fallback: escaped(summary),
        fields: alertFacts(alert).map(([name, text]) => ({ title: name, value: escaped(text), short: text.length <= 40 })),
        footer: 'ranktrace',
        ts: Math.floor(Date.parse(resolvedAt ?? firedAt) / 1000),
      },
    ],
  };
}

/** Slack's three characters with a meaning; without this a phase named `<!channel>` would call everybody. */
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
