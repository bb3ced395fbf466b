// The checked configuration of outputs: alert-config.ts makes it, AlertDelivery takes it.

import type { AlertRule } from '@ranktrace/protocol';
import type { AlertmanagerReceiver } from './alertmanager.ts';
import type { WebhookReceiver } from './webhook.ts';

/** Settings that all sending outputs share. */
export interface OutputSettings {
  /** Name in notices and in the status; unique among the outputs. */
  readonly name: string;
  /** Only these rules; undefined: all, except that `overhead` goes to logs alone. */
  readonly rules?: readonly AlertRule[] | undefined;
  /** `critical` excludes warnings. */
  readonly severity: 'warning' | 'critical';
  readonly perMinute: number;
  readonly retryForMs: number;
  readonly holdMs: number;
  /** Whether the output reports the end of an incident. */
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
