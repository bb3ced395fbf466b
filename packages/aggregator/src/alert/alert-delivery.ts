// Carries alerts to every configured output. Each output has a queue of its own: a slow or unreachable one delays no other.

import type { Alert } from '@ranktrace/protocol';
import { AggregatorError } from '../model/errors.ts';
import type { AlertOutput } from './alert-output.ts';
import { alertmanager } from './alertmanager.ts';
import { deliveryLimits as limits } from './delivery-limits.ts';
import type { IsTaken } from './delivery-marks.ts';
import type { Fetch } from './http-post.ts';
import { logOutput } from './log-output.ts';
import { type NatsPublish, natsOutput } from './nats-output.ts';
import type { AlertOutputs, OutputConfig } from './output-config.ts';
import { OutputQueue, type OutputStatus } from './output-queue.ts';
import { webhook } from './webhook.ts';

export interface AlertDeliveryOptions {
  /** Receives one line for the operator; also the alerts of a `log` output, unless `log` is given. */
  readonly onNotice: (notice: string) => void;
  readonly log?: ((line: string) => void) | undefined;
  readonly fetch?: Fetch | undefined;
  /** An output took this alert. Never throws. */
  readonly onSent?: ((output: string, alert: Alert) => void) | undefined;
  /** Needed by outputs of type `nats`. */
  readonly publish?: NatsPublish | undefined;
  /** Unix time, ms; default the system's. */
  readonly wallMs?: (() => number) | undefined;
  /** Wait before the second try, ms; default `outputRetryMs`. */
  readonly retryMs?: number | undefined;
  /** Time at the close for alerts that still wait, ms; default `outputCloseMs`. */
  readonly closeMs?: number | undefined;
}

interface Route {
  readonly config: OutputConfig;
  /** Undefined where an alert is only counted. */
  readonly queue: OutputQueue | undefined;
}

/**
 * Delivers alerts to the outputs of a configuration: each once per state, in order, with bounded retries.
 *
 * @example
 * const delivery = new AlertDelivery(config.outputs, { onNotice: console.error });
 * const stop = aggregator.alerts.subscribe((alert) => delivery.deliver(alert));
 */
export class AlertDelivery {
  readonly #routes: readonly Route[];
  readonly #wallMs: () => number;
  #exitCode: 0 | 1 = 0;

  /** Throws AggregatorError `bad_option` where an output needs NATS and there is none. */
  constructor(outputs: AlertOutputs, options: AlertDeliveryOptions) {
    const { onNotice, onSent, wallMs = Date.now } = options;
    const ports = { nowMs: () => performance.now(), wallMs, onNotice };
    this.#wallMs = wallMs;
    const { retryMs = limits.outputRetryMs, closeMs = limits.outputCloseMs } = options;
    this.#routes = outputs.map((config) => {
      if (config.type === 'exit_code') return { config, queue: undefined };
      const { name, perMinute, retryForMs, holdMs } = config;
      return {
        config,
        queue: new OutputQueue({ name, perMinute, retryForMs, holdMs, retryMs, closeMs }, outputOf(config, options), {
          ...ports,
          onSent: (alert) => onSent?.(name, alert),
        }),
      };
    });
  }

  /** Offers `alert` to every output that it is for. Never throws, never waits. */
  deliver(alert: Alert): void {
    for (const { config, queue } of this.#routes) {
      if (!isFor(config, alert)) continue;
      if (queue !== undefined) queue.offer(alert);
      else if (alert.state === 'firing') this.#exitCode = 1;
    }
  }

  /** Takes an incident that an earlier life of the service reported: receivers that have taken it and remember do not get it again. */
  resume(alert: Alert, isTaken: IsTaken = () => true): void {
    for (const route of this.#routes) {
      if (!isFor(route.config, alert)) continue;
      if (this.#isOwed(route, alert, isTaken)) route.queue?.offer(alert);
      else route.queue?.resume(alert);
    }
  }

  /** Whether an output that remembers has not taken the alert, and may still want it: its end only until it is too old to be tried again. */
  owes(alert: Alert, isTaken: IsTaken): boolean {
    return this.#routes.some((route) => isFor(route.config, alert) && this.#isOwed(route, alert, isTaken));
  }

  #isOwed({ config }: Route, { resolvedAt }: Alert, isTaken: IsTaken): boolean {
    if (config.type === 'exit_code' || config.type === 'alertmanager' || isTaken(config.name)) return false;
    return resolvedAt === null || this.#wallMs() - Date.parse(resolvedAt) < config.retryForMs;
  }

  /** One line per output that sends, in the order of the configuration. */
  status(): OutputStatus[] {
    return this.#routes.flatMap(({ queue }) => (queue === undefined ? [] : [queue.status()]));
  }

  /** 1 when an alert fired for an `exit_code` output. */
  get exitCode(): 0 | 1 {
    return this.#exitCode;
  }

  /** Delivers the waiting alerts, all outputs at once, within `outputCloseMs`; then reports and gives up the rest. */
  async close(): Promise<void> {
    await Promise.all(this.#routes.map(({ queue }) => queue?.close()));
  }
}

/** Rules about the service itself go to its log, unless an output names them: a little more recording cost should page nobody. */
const logRules: ReadonlySet<Alert['rule']> = new Set(['overhead']);

function isFor(config: OutputConfig, { rule, severity, state }: Alert): boolean {
  const { rules, type } = config;
  if (rules === undefined ? logRules.has(rule) && type !== 'log' : !rules.includes(rule)) return false;
  if (config.severity === 'critical' && severity !== 'critical') return false;
  return state === 'firing' || config.type === 'exit_code' || config.resolved;
}

function outputOf(
  config: Exclude<OutputConfig, { type: 'exit_code' }>,
  { onNotice, log = onNotice, fetch = globalThis.fetch, publish, wallMs = Date.now }: AlertDeliveryOptions,
): AlertOutput {
  switch (config.type) {
    case 'log':
      return logOutput(log);
    case 'webhook':
      return webhook(config, fetch);
    case 'alertmanager':
      return alertmanager(config, fetch, wallMs);
    case 'nats':
      if (publish !== undefined) return natsOutput(config.subject, publish);
      throw new AggregatorError('bad_option', `Alert output "${config.name}" needs NATS: name its servers with --nats`);
  }
}
