// Alerts for a person: a service with ranks, `GET /v1/alerts`, and `ranktrace alerts` on the service and on the stored run.

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Aggregator, startAggregator } from '@ranktrace/aggregator';
import type { Alert, Overview, ViewMessage } from '@ranktrace/protocol';
import { afterAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { makeAlert } from '../packages/aggregator/src/testing/make-alert.ts';
import { runCommand } from './setup/ranktrace-command.ts';
import { slowingRun, stepRulesAlone } from './setup/slowing-run.ts';
import { runLine } from './setup/warm-command.ts';

const out = mkdtempSync(join(tmpdir(), 'ranktrace-alerts-'));
afterAll(() => rmSync(out, { recursive: true }));

/** The overview that the service sends a page. */
async function pageOf(aggregator: Aggregator): Promise<Overview> {
  const socket = new WebSocket(`${aggregator.address.replace('http', 'ws')}/v1/view`);
  const messages: ViewMessage[] = [];
  socket.on('message', (data) => messages.push(JSON.parse(String(data)) as ViewMessage));
  await once(socket, 'open');
  const ask = async (id: number, request: object): Promise<unknown> => {
    socket.send(JSON.stringify({ id, ...request }));
    for (;;) {
      const answer = messages.find((message) => message.type === 'answer' && message.id === id);
      if (answer?.type === 'answer') return answer.answer;
      const refused = messages.find((message) => message.type === 'error');
      if (refused !== undefined) throw new Error(JSON.stringify(refused));
      await once(socket, 'message');
    }
  };
  await ask(1, { type: 'open', run: 'night' });
  const overview = (await ask(2, { type: 'overview', run: 'night', bins: 8 })) as Overview;
  socket.terminate();
  return overview;
}

/** The next message. */
const next = (aggregator: Aggregator): Promise<Alert> =>
  new Promise((resolve) => {
    const stop = aggregator.alerts.subscribe((alert) => {
      stop();
      resolve(alert);
    });
  });

describe('ranktrace alerts', () => {
  it('of a service, and of the run that it stored', async () => {
    {
      await using aggregator = await startAggregator({ out, config: stepRulesAlone() });
      const nothing = await runLine(['alerts', '--url', aggregator.address]);
      expect(nothing).toMatchObject({ code: 0, stdout: 'no alerts\n' });
      const printed = next(aggregator);
      const training = slowingRun(aggregator);
      training.next();
      const fired = await printed;
      expect(fired).toMatchObject({ rule: 'step_time', cause: { kind: 'straggler', ranks: [1], phase: 'forward' }, link: null });
      const answer = (await (await fetch(`${aggregator.address}/v1/alerts?run=night`)).json()) as { alerts: Alert[] };
      expect(answer.alerts.map(({ id }) => id)).toEqual([fired.id]);
      const other = await fetch(`${aggregator.address}/v1/alerts?run=other`);
      expect([other.status, await other.text()]).toEqual([404, 'There is no run "other"\n']);
      const mistyped = await runLine(['alerts', '--url', aggregator.address, '--run', 'nihgt']);
      expect(mistyped).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/^ranktrace: There is no run "nihgt" at http:\/\/.*\n$/),
      });
      const view = (await pageOf(aggregator)).findings;
      expect(view[0]).toMatchObject({ severity: 'alert', kind: 'step_time', text: fired.summary, ranks: [1] });
      const data = await runLine(['alerts', '--url', aggregator.address, '--run', 'night', '--json']);
      expect((JSON.parse(data.stdout) as { alerts: Alert[] }).alerts[0]?.id).toBe(fired.id);
      training.next();
    }
    // The ranks ended in good order.
    const stored = await runLine(['alerts', join(out, 'night')]);
    expect(stored.stderr).toBe('');
    expect(stored.stdout).toMatch(
      /^fired +state +severity +rule +run +what\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +resolved +critical +step_time +night +steps are 1\d\.\d % slower since step \d+: .*; rank 1 \(a\.example\), in forward\n {2}cause: straggler: rank 1 works 1\d\.\d\d ms more per step.*\n {2}resolved: .*, the run ended\n1 alert, 0 firing\n$/,
    );
    expect(stored.code).toBe(0);
    expect((await runLine(['alerts', out, '--json'])).code).toBe(0);
    // The report has the fault once, with the alert.
    const reported = JSON.parse((await runLine(['report', join(out, 'night'), '--json'])).stdout);
    const printed = reported.findings.map(({ kind, ranks, alerts }: { kind: string; ranks: number[]; alerts?: string[] }) => [
      kind,
      ranks,
      alerts?.length,
    ]);
    expect(printed).toEqual([['straggler', [1], 1]]);
    // One fault has one figure: the report's equals the alert's for the steps around its onset.
    const [, costMs] = /it costs ([\d.]+) ms per affected step/.exec(stored.stdout) ?? [];
    expect(Math.abs(Number(costMs) / reported.findings[0].costMsPerAffectedStep - 1)).toBeLessThan(0.15);
  });

  it('shows what it can read of the answer of a service, and says what it cannot', async () => {
    const answer = { alerts: [makeAlert({ state: 'resolved' }), { ...makeAlert({ id: 'odd' }), onsetStep: 2 ** 53 }] };
    await using server = createServer((_, response) => void response.end(JSON.stringify(answer)));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { code, stdout, stderr } = await runCommand(['alerts', '--url', url]);
    expect(stderr).toContain(`${url}: 1 of its alerts cannot be read and are left out`);
    expect(stdout).toContain('1 alert, 0 firing');
    // The other one says that it is firing.
    expect(code).toBe(1);
  });

  it('says in one line what it cannot do', async () => {
    for (const [args, message] of [
      [['alerts', join(out, 'nothing')], /there is no such directory/],
      [['alerts', tmpdir(), '--run', 'no-such-run'], /is no run and holds no run "no-such-run"/],
      [['alerts', '--url', 'http://127.0.0.1:1'], /No service answers at http:\/\/127\.0\.0\.1:1/],
      [['alerts', '--url', 'nowhere'], /--url must be/],
    ] as const) {
      const { code, stderr } = await runCommand(args);
      expect(stderr).toMatch(message);
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(code).toBe(2);
    }
  });
});
