import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Alert, alertSchema } from '@ranktrace/protocol';
import { connect } from 'nats';
import { expect, test } from 'vitest';
import { startNatsServer } from '../../../../test/setup/nats-server.ts';
import { makeAlert, resolved } from '../testing/make-alert.ts';
import { startReceiver } from '../testing/receiver.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { AlertDelivery, type AlertDeliveryOptions } from './alert-delivery.ts';
import { deliveryLimits as limits } from './delivery-limits.ts';
import type { OutputConfig } from './output-config.ts';

type Webhook = Extract<OutputConfig, { type: 'webhook' }>;

const webhookTo = (url: string, fields: Partial<Webhook> = {}): Webhook => ({
  type: 'webhook',
  name: 'hook',
  severity: 'warning',
  perMinute: 6000,
  retryForMs: 60_000,
  holdMs: 0,
  resolved: true,
  url,
  headers: {},
  timeoutMs: 5000,
  format: 'json',
  ...fields,
});

/** A delivery that closes with the test, and its notices. One whose receivers fail to the end would wait for them as long as `closeMs`. */
function open(
  outputs: readonly OutputConfig[],
  options: Partial<AlertDeliveryOptions> = {},
): { delivery: AlertDelivery; notices: string[] } & AsyncDisposable {
  const notices: string[] = [];
  const delivery = new AlertDelivery(outputs, { onNotice: (notice) => notices.push(notice), retryMs: 10, closeMs: 60_000, ...options });
  return { delivery, notices, [Symbol.asyncDispose]: () => delivery.close() };
}

const numbered = (number: number): Alert => makeAlert({ id: `alert-${number}` });
const ids = (requests: readonly { readonly body: unknown }[]): string[] => requests.map(({ body }) => (body as Alert).id);

test('a webhook gets the alert as it is, once per state and in order', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(`${receiver.url}/hook?a=b`, { token: 'sesame', headers: { 'x-team': 'training' } })]);
  const { delivery, notices } = opened;
  const alert = makeAlert();
  for (let repeat = 0; repeat < 3; repeat++) delivery.deliver(alert);
  await waitUntil('it is reported', () => delivery.status()[0]?.sent === 1);
  delivery.deliver({ ...alert, after: 230e6 });
  delivery.deliver(resolved(alert));
  delivery.deliver(resolved(alert));
  delivery.deliver(alert);
  await waitUntil('its end is reported', () => delivery.status()[0]?.sent === 2);
  await delivery.close();
  expect(receiver.requests.map(({ body }) => body)).toEqual([alert, resolved(alert)]);
  expect(alertSchema.parse(receiver.requests[1]?.body)).toEqual(resolved(alert));
  expect(receiver.requests[0]).toMatchObject({
    path: '/hook?a=b',
    headers: { authorization: 'Bearer sesame', 'x-team': 'training', 'content-type': 'application/json', 'user-agent': 'ranktrace' },
  });
  expect(delivery.status()).toMatchObject([{ name: 'hook', state: 'ok', waiting: 0, sent: 2, failures: 0, lost: 0, repeated: 5 }]);
  expect(notices).toEqual([]);
});

test('a configured header replaces the one that the request has, whatever its case', async () => {
  await using receiver = await startReceiver();
  const headers = { 'Content-Type': 'application/json; charset=utf-8', 'User-Agent': 'me', Authorization: 'Splunk sesame' };
  await using opened = open([webhookTo(receiver.url, { headers })]);
  opened.delivery.deliver(makeAlert());
  await waitUntil('it is reported', () => receiver.requests.length > 0);
  expect(receiver.requests[0]?.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'user-agent': 'me',
    authorization: 'Splunk sesame',
  });
});

test('is tried again until the receiver is back, and says so', async () => {
  await using receiver = await startReceiver();
  receiver.answer = { code: 503, body: 'not\nnow' };
  await using opened = open([webhookTo(receiver.url)]);
  const { delivery, notices } = opened;
  delivery.deliver(numbered(1));
  delivery.deliver(numbered(2));
  await waitUntil('it was tried again', () => receiver.requests.length >= 3);
  expect(delivery.status()).toMatchObject([
    { state: 'failing', waiting: 2, lastFailure: `127.0.0.1:${receiver.port} answered 503: not now` },
  ]);
  receiver.answer = { code: 204 };
  await waitUntil('both are reported', () => delivery.status()[0]?.sent === 2);
  expect(ids(receiver.requests).slice(-2)).toEqual(['alert-1', 'alert-2']);
  expect(notices).toEqual([
    `Alert output "hook": 127.0.0.1:${receiver.port} answered 503: not now; trying again`,
    'Alert output "hook": it works again',
  ]);
});

test('waits longer after each failure, and as long as the receiver asks for', async () => {
  await using receiver = await startReceiver();
  receiver.answer = { code: 429, headers: { 'retry-after': '0.15' } };
  await using opened = open([webhookTo(receiver.url)], { closeMs: 0 });
  const began = performance.now();
  opened.delivery.deliver(numbered(1));
  await waitUntil('it was tried three times', () => receiver.requests.length === 3);
  expect(performance.now() - began).toBeGreaterThan(290);
});

test('what is refused is not tried again; what is too old is given up; the next one has its turn', async () => {
  await using receiver = await startReceiver();
  receiver.answer = { code: 404, body: 'no_service' };
  await using opened = open([webhookTo(receiver.url, { retryForMs: 50 })]);
  const { delivery, notices } = opened;
  delivery.deliver(numbered(1));
  await waitUntil('it is given up', () => delivery.status()[0]?.lost === 1);
  expect(receiver.requests).toHaveLength(1);
  expect(notices[0]).toContain('alert "alert-1" (firing) is given up');
  expect(notices[0]).toContain('answered 404: no_service');
  receiver.answer = { code: 302, headers: { location: receiver.url } };
  delivery.deliver(numbered(2));
  await waitUntil('a redirection is not followed', () => delivery.status()[0]?.lost === 2);
  receiver.answer = { code: 500 };
  delivery.deliver(numbered(3));
  await waitUntil('it is too old', () => delivery.status()[0]?.lost === 3);
  // The number of tries in that time depends on the machine (the test above counts tries).
  expect(receiver.requests.length).toBeGreaterThanOrEqual(3);
  receiver.answer = { code: 200 };
  delivery.deliver(numbered(4));
  await waitUntil('the next one is reported', () => delivery.status()[0]?.sent === 1);
});

test('a receiver that does not answer, or is not there, delays nobody else', async () => {
  await using silent = await startReceiver();
  await using good = await startReceiver();
  silent.answer = { code: 0 };
  let gone: string;
  {
    await using ended = await startReceiver();
    gone = ended.url;
  }
  await using opened = open(
    [webhookTo(silent.url, { name: 'silent', timeoutMs: 60 }), webhookTo(gone, { name: 'gone' }), webhookTo(good.url, { name: 'good' })],
    { closeMs: 0 },
  );
  const { delivery } = opened;
  delivery.deliver(numbered(1));
  await waitUntil('the others failed', () => delivery.status().every(({ name, failures }) => name === 'good' || failures > 1));
  expect(delivery.status()[0]?.lastFailure).toBe(`127.0.0.1:${silent.port} did not answer within 0.06 s`);
  expect(delivery.status()[1]?.lastFailure).toBe(`cannot reach ${new URL(gone).host}: ECONNREFUSED`);
  expect(good.requests).toHaveLength(1);
});

test('the queue is bounded: the oldest are dropped and counted', async () => {
  await using receiver = await startReceiver();
  receiver.answer = { code: 503 };
  await using opened = open([webhookTo(receiver.url)], { retryMs: 300, closeMs: 0 });
  const { delivery, notices } = opened;
  const count = limits.outputQueueMax + 50;
  for (let number = 0; number < count; number++) delivery.deliver(numbered(number));
  expect(delivery.status()).toMatchObject([{ waiting: limits.outputQueueMax, lost: 50 }]);
  expect(notices).toEqual([`Alert output "hook": more than ${limits.outputQueueMax} alerts wait: the oldest are dropped`]);
});

test('no more than a burst is sent at once; the others follow at their rate', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(receiver.url, { perMinute: 600 })]);
  const { delivery } = opened;
  const began = performance.now();
  for (let number = 0; number < limits.outputBurst + 3; number++) delivery.deliver(numbered(number));
  await waitUntil('the burst is through', () => receiver.requests.length >= limits.outputBurst);
  await waitUntil('all are reported', () => receiver.requests.length === limits.outputBurst + 3);
  expect(performance.now() - began).toBeGreaterThan(290);
  expect(ids(receiver.requests)).toEqual(Array.from({ length: limits.outputBurst + 3 }, (_, number) => `alert-${number}`));
});

const pending: Alert['capture'] = { state: 'pending', path: null, fromStep: null, toStep: null, ranks: [], ranksMissing: [], text: '' };
const written: Alert['capture'] = { ...pending, state: 'written', path: 'captures/a.pftrace' };

test('an alert waits for the trace of its steps, but not behind its own end', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(receiver.url, { holdMs: 60_000 })]);
  const { delivery } = opened;
  delivery.deliver(makeAlert({ id: 'b', capture: pending }));
  delivery.deliver(makeAlert({ id: 'c', capture: pending }));
  delivery.deliver(numbered(1));
  await waitUntil('one without a trace overtakes', () => receiver.requests.length === 1);
  delivery.deliver(makeAlert({ id: 'b', capture: written }));
  await waitUntil('the trace is there', () => receiver.requests.length === 2);
  delivery.deliver(resolved(makeAlert({ id: 'c', capture: pending })));
  await waitUntil('the other one is reported', () => receiver.requests.length === 4);
  expect(receiver.requests.map(({ body }) => [(body as Alert).id, (body as Alert).state, (body as Alert).capture?.state])).toEqual([
    ['alert-1', 'firing', undefined],
    ['b', 'firing', 'written'],
    ['c', 'firing', 'pending'],
    ['c', 'resolved', 'pending'],
  ]);
});

test('an alert does not wait forever for the trace of its steps', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(receiver.url, { holdMs: 150 })]);
  opened.delivery.deliver(makeAlert({ id: 'a', capture: pending }));
  await waitUntil('it is reported', () => receiver.requests.length === 1);
  expect(receiver.requests.map(({ body }) => (body as Alert).capture?.state)).toEqual(['pending']);
});

test('an output gets what it is for', async () => {
  await using receiver = await startReceiver();
  const lines: string[] = [];
  const severity = 'warning';
  await using opened = open(
    [
      webhookTo(receiver.url, { rules: ['hang'], resolved: false }),
      { ...webhookTo('http://x'), type: 'log', name: 'log', severity: 'critical' },
      { type: 'exit_code', name: 'exit_code', rules: ['data_loss'], severity },
    ],
    { log: (line) => lines.push(line) },
  );
  const { delivery } = opened;
  const hang = makeAlert({ id: 'hang', rule: 'hang', severity });
  for (const alert of [makeAlert(), hang, resolved(hang)]) delivery.deliver(alert);
  await waitUntil('the log has it', () => lines.length > 0);
  expect(delivery.exitCode).toBe(0);
  delivery.deliver(makeAlert({ id: 'loss', rule: 'data_loss', severity, unit: 'count', before: 0, after: 7, change: null }));
  expect(delivery.exitCode).toBe(1);
  await delivery.close();
  expect(ids(receiver.requests)).toEqual(['hang']);
  expect(lines).toEqual([
    'run night-42: critical step_time firing: steps are 7.4 % slower since step 1200: 212 → 228 ms; rank 3 (node-b), forward',
    '  change: 212 ms → 228 ms (+7.4 %)',
    '  since: step 1200, 2026-02-03T04:04:58.000Z',
    '  confidence: +6.8 % to +8.1 %, T 11.5',
    '  cause: rank 3 on node-b, phase forward',
    '  ranks: 3',
    '  timeline: http://127.0.0.1:7400/#/timeline?run=night-42&from=1&to=2',
  ]);
});

test('Slack gets a message in its own words, in which nothing of a trace is markup', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(`${receiver.url}/services/T0/B0/x`, { format: 'slack' })]);
  const alert = makeAlert({ summary: 'phase <!channel> & more', cause: null, confidence: null });
  opened.delivery.deliver(alert);
  opened.delivery.deliver(resolved(alert));
  await waitUntil('both are reported', () => receiver.requests.length === 2);
  expect(receiver.requests[0]?.body).toEqual({
    text: 'Critical: step_time in night-42: phase &lt;!channel&gt; &amp; more',
    attachments: [
      {
        color: '#d0021b',
        title: 'Critical: step_time in night-42',
        title_link: 'http://127.0.0.1:7400/#/timeline?run=night-42&from=1&to=2',
        text: 'phase &lt;!channel&gt; &amp; more',
        fallback: 'phase &lt;!channel&gt; &amp; more',
        fields: [
          { title: 'change', value: '212 ms → 228 ms (+7.4 %)', short: true },
          { title: 'since', value: 'step 1200, 2026-02-03T04:04:58.000Z', short: true },
          { title: 'ranks', value: '3', short: true },
        ],
        footer: 'ranktrace',
        ts: 1770091506,
      },
    ],
  });
  expect(receiver.requests[1]?.body).toMatchObject({ attachments: [{ color: '#2eb886', title: 'Resolved: step_time in night-42' }] });
});

test('secrets are read when they are needed, and given to nobody else', async () => {
  await using receiver = await startReceiver();
  using directory = temporaryDirectory();
  const file = (name: string): string => join(directory.path, name);
  writeFileSync(file('url'), `${receiver.url.replace('//', '//user:p%40ss%@')}/sesame\n`);
  receiver.answer = { code: 500 };
  await using opened = open([
    webhookTo('', { name: 'a', url: undefined, urlFile: file('url') }),
    webhookTo(`${receiver.url}/sesame`, { name: 'b', tokenFile: file('token') }),
  ]);
  const { delivery, notices } = opened;
  delivery.deliver(numbered(1));
  await waitUntil('both failed', () => delivery.status().every(({ failures }) => failures > 0));
  expect(delivery.status()[1]?.lastFailure).toBe(`cannot read "${file('token')}": ENOENT`);
  expect(JSON.stringify([notices, delivery.status()])).not.toContain('sesame');
  receiver.answer = { code: 200 };
  writeFileSync(file('token'), 'first');
  await waitUntil('both are reported', () => delivery.status().every(({ sent }) => sent === 1));
  const reported = receiver.requests.slice(-2).map(({ headers }) => headers.authorization);
  expect(reported.sort()).toEqual([`Basic ${Buffer.from('user:p@ss%').toString('base64')}`, 'Bearer first']);
});

test('a token that no header can hold is not sent, and not quoted', async () => {
  await using receiver = await startReceiver();
  using directory = temporaryDirectory();
  const tokenFile = join(directory.path, 'token');
  // As a file of two bytes a character.
  writeFileSync(tokenFile, 's\0e\0s\0a\0m\0e\0');
  await using opened = open([webhookTo(receiver.url, { tokenFile })]);
  const { delivery, notices } = opened;
  delivery.deliver(numbered(1));
  await waitUntil('it failed', () => delivery.status().every(({ failures }) => failures > 0));
  expect(delivery.status()[0]?.lastFailure).toBe(`"${tokenFile}" must hold a token of visible ASCII characters`);
  expect(JSON.stringify([notices, delivery.status()])).not.toMatch(/s(?:\\u0000)?e(?:\\u0000)?s(?:\\u0000)?a/);
  writeFileSync(tokenFile, 'sesame');
  await waitUntil('it is reported', () => delivery.status().every(({ sent }) => sent === 1));
});

test('at the end it delivers what waits, and reports what it could not', async () => {
  await using receiver = await startReceiver();
  await using slow = await startReceiver();
  slow.answer = { code: 0 };
  const outputs = [webhookTo(receiver.url, { holdMs: 60_000 }), webhookTo(slow.url, { name: 'slow', timeoutMs: 600_000 })];
  await using opened = open(outputs, { closeMs: 5000 });
  const { delivery, notices } = opened;
  delivery.deliver(makeAlert({ id: 'a', capture: pending }));
  delivery.deliver(makeAlert({ id: 'b', capture: pending }));
  const began = performance.now();
  await delivery.close();
  expect(performance.now() - began).toBeLessThan(60_000);
  expect(ids(receiver.requests)).toEqual(['a', 'b']);
  expect(delivery.status()).toMatchObject([
    { sent: 2, lost: 0 },
    { sent: 0, lost: 2, waiting: 0 },
  ]);
  expect(notices).toContain('Alert output "slow": 2 alerts were not delivered when the service ended');
  delivery.deliver(numbered(3));
  expect(delivery.status()[0]?.waiting).toBe(0);
});

test('what the service says of itself goes to its log alone, unless an output names the rule', async () => {
  await using receiver = await startReceiver();
  const lines: string[] = [];
  const log: OutputConfig = { type: 'log', name: 'log', severity: 'warning', perMinute: 6000, retryForMs: 0, holdMs: 0, resolved: true };
  const pager: OutputConfig = { type: 'exit_code', name: 'pager', severity: 'warning' };
  const overhead = makeAlert({ id: 'overhead', rule: 'overhead', severity: 'warning' });
  {
    await using opened = open([log, webhookTo(receiver.url), pager], { log: (line) => lines.push(line) });
    opened.delivery.deliver(overhead);
    await opened.delivery.close();
    expect(opened.delivery.exitCode).toBe(0);
    expect(lines[0]).toContain('warning overhead firing');
    expect(receiver.requests).toEqual([]);
  }
  await using routed = open([webhookTo(receiver.url, { rules: ['overhead'] })]);
  routed.delivery.deliver(overhead);
  await routed.delivery.close();
  expect(ids(receiver.requests)).toEqual(['overhead']);
});

test('an output for what is critical gets an incident once it is, and its end', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(receiver.url, { severity: 'critical' })]);
  const warning = makeAlert({ severity: 'warning' });
  const critical: Alert = { ...warning, severity: 'critical' };
  for (const alert of [warning, critical, critical, resolved(critical)]) opened.delivery.deliver(alert);
  await opened.delivery.close();
  expect(receiver.requests.map(({ body }) => body)).toEqual([critical, resolved(critical)]);
});

test('an incident of an earlier life is not reported again; its end is', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(receiver.url)]);
  opened.delivery.resume(makeAlert());
  opened.delivery.deliver(makeAlert());
  opened.delivery.deliver(resolved(makeAlert()));
  await waitUntil('its end is reported', () => receiver.requests.length === 1);
  expect(receiver.requests[0]?.body).toMatchObject({ state: 'resolved' });
});

test('the same trouble at the same place is reported again when it comes again', async () => {
  await using receiver = await startReceiver();
  await using opened = open([webhookTo(receiver.url)]);
  const first = makeAlert();
  const second = makeAlert({ firedAt: '2026-02-03T05:00:00.000Z' });
  for (const alert of [first, resolved(first), first, second, second]) opened.delivery.deliver(alert);
  await opened.delivery.close();
  expect(receiver.requests.map(({ body }) => body)).toEqual([first, resolved(first), second]);
});

test('NATS: a subscriber gets the alert on the subject of its run; without NATS it is an error that says what to do', async () => {
  await using server = await startNatsServer();
  const connection = await connect({ servers: server.url });
  const subscription = connection.subscribe('ranktrace.v1.*.alert', { max: 1 });
  await connection.flush();
  const nats: OutputConfig = { ...webhookTo('http://x'), type: 'nats', name: 'nats', subject: 'ranktrace.v1.{run}.alert' };
  const publish = async (subject: string, text: string): Promise<void> => {
    connection.publish(subject, text);
    await connection.flush();
  };
  await using opened = open([nats], { publish, closeMs: 0 });
  opened.delivery.deliver(makeAlert());
  for await (const message of subscription) {
    expect(message.subject).toBe('ranktrace.v1.night-42.alert');
    expect(alertSchema.parse(message.json())).toEqual(makeAlert());
  }
  await connection.close();
  opened.delivery.deliver(resolved(makeAlert()));
  await waitUntil('the loss is seen', () => (opened.delivery.status()[0]?.failures ?? 0) > 0);
  expect(() => new AlertDelivery([nats], { onNotice: () => undefined })).toThrow(
    'Alert output "nats" needs NATS: name its servers with --nats',
  );
});
