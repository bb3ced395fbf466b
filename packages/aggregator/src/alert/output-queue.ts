// Alerts that wait for one output, in order of occurrence, and the time of its next turn.
//
//   offer ──► sent before? ──► |  held  |  due  |  being sent  | ──► sent
//                               ^ for its trace                  └─► failed: back to its place, next try after 1, 2, 4 … 60 s
//
// The output sends an alert once per state. Newer news of the same incident and state replaces an alert that still waits, so a slow receiver gets one
// alert with its cause, not two. A receiver that is down costs memory for `outputQueueMax` alerts and one request a minute.
//
// Invariant: one request at a time, so a resolution never overtakes the alert it belongs to.

import { setTimeout as wait } from 'node:timers/promises';
import type { Alert } from '@ranktrace/protocol';
import { guardedBy } from '../model/guarded.ts';
import type { AlertOutput, SendResult } from './alert-output.ts';
import { deliveryLimits as limits } from './delivery-limits.ts';

export interface QueueSettings {
  readonly name: string;
  /** Alerts to send per minute; `outputBurst` of them at once. */
  readonly perMinute: number;
  /** Age after which a failed alert is no longer retried, ms. */
  readonly retryForMs: number;
  /** A firing alert waits at most this long for its capture, ms. */
  readonly holdMs: number;
  /** Wait before the second try, ms; doubled each time. */
  readonly retryMs: number;
  /** Time at the close for alerts that still wait, ms. */
  readonly closeMs: number;
}

export interface QueuePorts {
  /** A clock that is never set back, ms. */
  readonly nowMs: () => number;
  /** Unix time, ms. */
  readonly wallMs: () => number;
  /** Receives one line for the operator. */
  readonly onNotice: (notice: string) => void;
  /** The receiver took this alert. Never throws. */
  readonly onSent?: ((alert: Alert) => void) | undefined;
}

/** Statistics of an output. Times are ISO 8601; null where there was none. */
export interface OutputStatus {
  readonly name: string;
  readonly state: 'ok' | 'failing';
  /** Alerts that wait for their turn. */
  readonly waiting: number;
  /** Alerts that the receiver took. */
  readonly sent: number;
  /** Tries that failed. */
  readonly failures: number;
  /** Alerts given up: rejected, too old, or too many. */
  readonly lost: number;
  /** Duplicates: alerts that were sent before and are not sent again. */
  readonly repeated: number;
  readonly lastSentAt: string | null;
  readonly lastFailure: string | null;
  readonly lastFailureAt: string | null;
}

interface Waiting {
  alert: Alert;
  readonly sinceMs: number;
  notBeforeMs: number;
}

export class OutputQueue {
  readonly #settings: QueueSettings;
  readonly #output: AlertOutput;
  readonly #ports: QueuePorts;
  readonly #stop = new AbortController();
  #waiting: Waiting[] = [];
  #inHand: Waiting | undefined;
  /** The last report of each incident, oldest first. */
  readonly #reported = new Map<string, Pick<Alert, 'state' | 'firedAt'>>();
  /** Incidents to resend, for outputs that resend. */
  readonly #open = new Map<string, Alert>();
  #againAtMs = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #allowed: number = limits.outputBurst;
  #allowedAtMs: number;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  #retryMs: number;
  #isClosing = false;
  #isFailing = false;
  #lostWhileFailing = 0;
  readonly #saidAtMs = new Map<string, number>();
  #sent = 0;
  #failures = 0;
  #lost = 0;
  #repeated = 0;
  #lastSentMs: number | undefined;
  #lastFailure: { readonly reason: string; readonly atMs: number } | undefined;

  constructor(settings: QueueSettings, output: AlertOutput, ports: QueuePorts) {
    this.#settings = settings;
    this.#output = output;
    this.#ports = ports;
    this.#allowedAtMs = ports.nowMs();
    this.#retryMs = settings.retryMs;
  }

  /** Queues an alert, unless it was sent before. Never throws, never waits. */
  offer(alert: Alert): void {
    if (this.#isClosing) return;
    const reported = this.#reported.get(alert.id);
    // The same fault at the same place may recur: it fires at another time.
    const known = reported?.firedAt === alert.firedAt ? reported.state : undefined;
    const isUpdate = known === alert.state;
    // A resolved incident does not begin again.
    if (known === 'resolved') {
      this.#repeated++;
      return;
    }
    if (!isUpdate || this.#replace(alert)) this.#add(alert, isUpdate);
    else this.#repeated++;
    this.#note(alert);
    this.#advance();
  }

  /** Takes an incident that an earlier life of the service reported: it is resent only to outputs that need that. */
  resume(alert: Alert): void {
    if (this.#isClosing || this.#reported.has(alert.id)) return;
    this.#note(alert);
    if (this.#output.again !== undefined && alert.state === 'firing') this.#againAtMs = this.#ports.nowMs();
    this.#advance();
  }

  status(): OutputStatus {
    const iso = (ms: number | undefined): string | null => (ms === undefined ? null : new Date(ms).toISOString());
    return {
      name: this.#settings.name,
      state: this.#isFailing ? 'failing' : 'ok',
      waiting: this.#waiting.length,
      sent: this.#sent,
      failures: this.#failures,
      lost: this.#lost,
      repeated: this.#repeated,
      lastSentAt: iso(this.#lastSentMs),
      lastFailure: this.#lastFailure?.reason ?? null,
      lastFailureAt: iso(this.#lastFailure?.atMs),
    };
  }

  /** Rejects new alerts, sends the waiting ones within `closeMs`, and gives up the rest. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#againAtMs = Number.POSITIVE_INFINITY;
    const end = setTimeout(() => this.#stop.abort(), this.#settings.closeMs);
    this.#advance();
    while (!this.#stop.signal.aborted && this.#waiting.length > 0) await this.#turn();
    await this.#sending;
    clearTimeout(end);
    clearTimeout(this.#timer);
    this.#stop.abort();
    if (this.#waiting.length === 0) return;
    this.#lost += this.#waiting.length;
    this.#say('end', `${this.#waiting.length} alerts were not delivered when the service ended`);
    this.#waiting = [];
  }

  /** Resolves at the end of the current request, or of the wait before the next one. */
  async #turn(): Promise<void> {
    if (this.#sending !== undefined) return this.#sending;
    const now = this.#ports.nowMs();
    const { signal } = this.#stop;
    await wait(Math.max(1, this.#nextAtMs(now) - now), undefined, { signal }).catch(() => undefined);
    this.#advance();
  }

  /** Replaces a waiting alert with newer news of it; returns whether it still needs sending. */
  #replace(alert: Alert): boolean {
    const waiting = this.#waiting.find((one) => one.alert.id === alert.id && one.alert.state === alert.state && one !== this.#inHand);
    if (waiting !== undefined) {
      waiting.alert = alert;
      waiting.notBeforeMs = Math.min(waiting.notBeforeMs, this.#notBefore(alert, waiting.sinceMs));
      return false;
    }
    const before = this.#open.get(alert.id);
    return before !== undefined && JSON.stringify(before) !== JSON.stringify(alert);
  }

  #add(alert: Alert, isUpdate: boolean): void {
    const now = this.#ports.nowMs();
    if (this.#waiting.length >= limits.outputQueueMax) {
      const oldest = this.#waiting.findIndex((one) => one !== this.#inHand);
      this.#waiting.splice(oldest, 1);
      this.#lose();
      this.#say('full', `more than ${limits.outputQueueMax} alerts wait: the oldest are dropped`);
    }
    this.#waiting.push({ alert, sinceMs: now, notBeforeMs: isUpdate ? now : this.#notBefore(alert, now) });
    if (alert.state === 'resolved') {
      for (const one of this.#waiting) if (one.alert.id === alert.id) one.notBeforeMs = now;
    }
  }

  #notBefore(alert: Alert, sinceMs: number): number {
    return alert.state === 'firing' && alert.capture?.state === 'pending' ? sinceMs + this.#settings.holdMs : sinceMs;
  }

  #note(alert: Alert): void {
    const { again } = this.#output;
    this.#reported.delete(alert.id);
    this.#reported.set(alert.id, { state: alert.state, firedAt: alert.firedAt });
    if (this.#reported.size > limits.outputIncidentsMax) {
      const [oldest] = this.#reported.keys();
      if (oldest !== undefined) this.#reported.delete(oldest);
    }
    if (again === undefined) return;
    if (alert.state === 'resolved') this.#open.delete(alert.id);
    else if (this.#open.has(alert.id) || this.#open.size < limits.outputOpenMax) this.#open.set(alert.id, alert);
    if (this.#open.size === 0) this.#againAtMs = Number.POSITIVE_INFINITY;
    else if (this.#againAtMs === Number.POSITIVE_INFINITY) this.#againAtMs = this.#ports.nowMs() + again.everyMs;
  }

  /** Sends a due alert, or sets the timer for the next one. */
  #advance(): void {
    clearTimeout(this.#timer);
    if (this.#sending !== undefined || this.#stop.signal.aborted) return;
    const now = this.#ports.nowMs();
    const at = this.#nextAtMs(now);
    if (at === Number.POSITIVE_INFINITY) return;
    if (at > now) {
      const advance = guardedBy((text) => this.#say('timer', text))('the alarm of an output', () => this.#advance());
      this.#timer = setTimeout(advance, Math.min(Math.ceil(at - now), 2 ** 30)).unref();
      return;
    }
    this.#sending = this.#sendNext(now).finally(() => {
      this.#sending = undefined;
      this.#advance();
    });
  }

  /** Time of the next possible send, ms. */
  #nextAtMs(now: number): number {
    let at = Number.POSITIVE_INFINITY;
    for (const one of this.#waiting) at = Math.min(at, this.#isClosing ? one.sinceMs : one.notBeforeMs);
    if (this.#waiting.length > 0) at = Math.max(at, this.#allowedFromMs(now));
    return Math.max(Math.min(at, this.#againAtMs), this.#retryAtMs);
  }

  async #sendNext(now: number): Promise<void> {
    const { signal } = this.#stop;
    const next = this.#allowedFromMs(now) > now ? undefined : this.#waiting.find((one) => this.#isClosing || one.notBeforeMs <= now);
    if (next === undefined) {
      const { again } = this.#output;
      if (again === undefined) return;
      this.#againAtMs = now + again.everyMs;
      const result = await again.send([...this.#open.values()], signal);
      if (result.ok) return this.#works();
      this.#fail(result);
      if (!result.retry) this.#say('again', `open alerts cannot be sent again: ${result.reason}`);
      return;
    }
    this.#allowed--;
    this.#inHand = next;
    const result = await this.#output.send(next.alert, signal);
    this.#inHand = undefined;
    if (result.ok) {
      this.#sent++;
      this.#lastSentMs = this.#ports.wallMs();
      this.#remove(next);
      this.#ports.onSent?.(next.alert);
      this.#works();
      return;
    }
    this.#fail(result);
    const isOld = this.#ports.nowMs() - next.sinceMs >= this.#settings.retryForMs;
    if (result.retry && !isOld) return;
    this.#remove(next);
    this.#lose();
    this.#say('lost', `alert "${next.alert.id}" (${next.alert.state}) is given up: ${result.reason}`);
  }

  /** Time from which the rate allows one more, ms. */
  #allowedFromMs(now: number): number {
    const perMs = this.#settings.perMinute / 60_000;
    this.#allowed = Math.min(limits.outputBurst, this.#allowed + Math.max(0, now - this.#allowedAtMs) * perMs);
    this.#allowedAtMs = now;
    return this.#allowed >= 1 ? now : now + (1 - this.#allowed) / perMs;
  }

  #remove(sent: Waiting): void {
    const at = this.#waiting.indexOf(sent);
    if (at !== -1) this.#waiting.splice(at, 1);
  }

  #lose(): void {
    this.#lost++;
    if (this.#isFailing) this.#lostWhileFailing++;
  }

  #works(): void {
    this.#retryAtMs = Number.NEGATIVE_INFINITY;
    this.#retryMs = this.#settings.retryMs;
    if (!this.#isFailing) return;
    this.#isFailing = false;
    const lost = this.#lostWhileFailing;
    this.#lostWhileFailing = 0;
    this.#say('works', `it works again${lost === 0 ? '' : `; ${lost} alerts were lost meanwhile`}`);
  }

  #fail({ reason, retry, afterMs = 0 }: Extract<SendResult, { ok: false }>): void {
    const now = this.#ports.nowMs();
    this.#failures++;
    this.#lastFailure = { reason, atMs: this.#ports.wallMs() };
    this.#isFailing = true;
    // A rejected alert is no evidence about the next one, which has its turn at the usual rate.
    if (!retry) return;
    this.#retryAtMs = now + Math.max(this.#retryMs, afterMs);
    this.#retryMs = Math.min(this.#retryMs * 2, limits.outputRetryMsMax);
    this.#say('failing', `${reason}; trying again`);
  }

  #say(kind: string, text: string): void {
    const now = this.#ports.nowMs();
    if (now - (this.#saidAtMs.get(kind) ?? Number.NEGATIVE_INFINITY) < limits.outputNoticeMs) return;
    this.#saidAtMs.set(kind, now);
    this.#ports.onNotice(`Alert output "${this.#settings.name}": ${text}`);
  }
}
