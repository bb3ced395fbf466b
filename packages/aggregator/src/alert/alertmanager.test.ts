import { alertRules } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { startAlertmanager } from '../../../../test/setup/alertmanager.ts';
import { makeAlert, resolved } from '../testing/make-alert.ts';
import { startReceiver } from '../testing/receiver.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { AlertDelivery } from './alert-delivery.ts';
import { alertName, postableAlert } from './alertmanager.ts';
import type { OutputConfig } from './output-config.ts';

const outputTo = (url: string, resendMs: number): OutputConfig => ({
  type: 'alertmanager',
  name: 'alertmanager',
  severity: 'warning',
  perMinute: 6000,
  retryForMs: 60_000,
  holdMs: 0,
  resolved: true,
  url,
  headers: {},
  timeoutMs: 5000,
  labels: { team: 'training', run: 'not ours to change' },
  resendMs,
});

interface Announcement {
  readonly status: string;
  readonly alerts: readonly { readonly labels: Record<string, string>; readonly annotations: Record<string, string> }[];
}

test('a real Alertmanager is reported what fires, keeps it while it is reported, has it again after a restart, and is reported its end', async () => {
  await using receiver = await startReceiver();
  await using server = await startAlertmanager(receiver.url);
  const notices: string[] = [];
  const delivery = new AlertDelivery([outputTo(server.url, 1000)], { onNotice: (notice) => notices.push(notice), retryMs: 20 });
  // Alertmanager uses the wall clock: an end in the past counts as resolved.
  const alert = makeAlert({ firedAt: new Date().toISOString(), series: { kind: 'phase', rank: 3, phase: 'forward "a"' } });
  delivery.deliver(alert);
  await waitUntil('it fires', async () => (await server.alerts()).length === 1);
  const [held] = await server.alerts();
  expect(held).toMatchObject({
    labels: {
      alertname: 'RanktraceStepTime',
      run: 'night-42',
      rule: 'step_time',
      severity: 'critical',
      incident: alert.id,
      series: 'phase',
      rank: '3',
      phase: 'forward "a"',
      team: 'training',
    },
    annotations: { summary: alert.summary, change: '212 ms → 228 ms (+7.4 %)', cause: 'rank 3 on node-b, phase forward', link: alert.link },
    generatorURL: alert.link,
    startsAt: alert.firedAt,
  });
  await waitUntil('it notifies', () => receiver.requests.length === 1);
  expect(receiver.requests[0]?.body).toMatchObject({ status: 'firing', alerts: [{ labels: { incident: alert.id } }] });

  // Resent: its end moves on. An update comes as the same alert.
  await waitUntil('its end moves on', async () => Date.parse((await server.alerts())[0]?.endsAt ?? '') > Date.parse(held?.endsAt ?? ''));
  // An alert of a phase may become that of the cluster.
  delivery.deliver({ ...alert, cause: null, after: 240e6, series: { kind: 'cluster' } });
  await waitUntil('it is updated', async () => (await server.alerts())[0]?.annotations.change === '212 ms → 240 ms (+7.4 %)');
  expect(await server.alerts()).toHaveLength(1);

  const notified = receiver.requests.length;
  await server.restart();
  await waitUntil('it is there again', async () => (await server.alerts()).length === 1);
  // Its log of notifications is gone, too: it notifies of the end of what it has notified of alone.
  await waitUntil('it notifies again', () => receiver.requests.length > notified);

  delivery.deliver({ ...resolved(alert), resolvedAt: new Date().toISOString() });
  await waitUntil('it is over', async () => (await server.alerts()).length === 0);
  const states = (): string[] => receiver.requests.map(({ body }) => (body as Announcement).status);
  await waitUntil('its end is notified', () => states().at(-1) === 'resolved');
  await delivery.close();
  expect(delivery.status()).toMatchObject([{ state: 'ok', waiting: 0, sent: 3, lost: 0 }]);
});

test('an alert whose service died ends by itself', async () => {
  await using receiver = await startReceiver();
  await using server = await startAlertmanager(receiver.url);
  const delivery = new AlertDelivery([outputTo(server.url, 150)], { onNotice: () => undefined });
  delivery.resume(makeAlert({ firedAt: new Date().toISOString() }));
  await waitUntil('it fires', async () => (await server.alerts()).length === 1);
  await delivery.close();
  await waitUntil('it is over', async () => (await server.alerts()).length === 0);
});

test('what Alertmanager refuses is reported in its words', async () => {
  await using receiver = await startReceiver();
  await using server = await startAlertmanager(receiver.url);
  const notices: string[] = [];
  const delivery = new AlertDelivery([outputTo(server.url, 60_000)], { onNotice: (notice) => notices.push(notice) });
  delivery.deliver(makeAlert({ firedAt: 'yesterday' }));
  await waitUntil('it is given up', () => delivery.status()[0]?.lost === 1);
  await delivery.close();
  expect(notices[0]).toMatch(/is given up: 127\.0\.0\.1:\d+ answered 400: .*parsing time .*yesterday/);
});

test('every rule has a name of its own in the style of Prometheus', () => {
  expect(alertRules.map(alertName)).toContain('RanktraceClockUnaligned');
  expect(new Set(alertRules.map(alertName)).size).toBe(alertRules.length);
});

test('a clock that was set back makes no end before the beginning', () => {
  const alert = { ...resolved(makeAlert()), resolvedAt: '2020-01-01T00:00:00.000Z' };
  expect(postableAlert(alert, {}, new Date(0))).toMatchObject({ startsAt: alert.firedAt, endsAt: alert.firedAt });
  expect(postableAlert(makeAlert(), {}, new Date(0)).endsAt).toBe(alert.firedAt);
});
