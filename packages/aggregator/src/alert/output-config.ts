// What is configured of outputs, checked: made by alert-config.ts, taken by AlertDelivery.

import type { AlertRule } from '@ranktrace/protocol';
import type { AlertmanagerReceiver } from './alertmanager.ts';
import type { WebhookReceiver } from './webhook.ts';

/** What all outputs that send have in common. */
export interface OutputSettings {
  /** Names it in notices and in its status; each output has another one. */
  readonly name: string;
  /** These rules alone; undefined: all, but for `overhead` where it is no log. */
  readonly rules?: readonly AlertRule[] | undefined;
  /** `critical`: nothing less. */
  readonly severity: 'warning' | 'critical';
  readonly perMinute: number;
  readonly retryForMs: number;
  readonly holdMs: number;
  /** Whether the end of an incident is told. */
  readonly resolved: boolean;
}

export type OutputConfig =
  | (OutputSettings & { readonly type: 'log' })
  | (OutputSettings & WebhookReceiver & { readonly type: 'webhook' })
  | (OutputSettings & AlertmanagerReceiver & { readonly type: 'alertmanager' })
  /** `subject` may hold `{run}`. */
  | (OutputSettings & { readonly type: 'nats'; readonly subject: string })
  /** The service ends with 1 when such an alert fired. */
  | (Pick<OutputSettings, 'name' | 'rules' | 'severity'> & { readonly type: 'exit_code' });

/** Where alerts go; at most `outputsMax`. */
export type AlertOutputs = readonly OutputConfig[];
