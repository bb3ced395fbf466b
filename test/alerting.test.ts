// From a rank that becomes slow to a person who is told, with real parts alone: four rank processes that train in lockstep, `ranktrace serve` with a
// configuration, a real Alertmanager, a webhook.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { type Alert, liveMessageSchema } from '@ranktrace/protocol';
import { readPerfetto, type TraceEvent } from '@ranktrace/trace';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Receiver, startReceiver } from '../packages/aggregator/src/testing/receiver.ts';
import { waitUntil } from '../packages/aggregator/src/testing/wait-until.ts';
import { type Alertmanager, startAlertmanager } from './setup/alertmanager.ts';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { type StartedCommand, startCommand } from './setup/ranktrace-command.ts';

const worldSize = 4;
const run = 'night';
const minute = 60_000;

let directory: string;
let webhook: Receiver;
let pages: Receiver;
let alertmanager: Alertmanager;
let service: StartedCommand | undefined;
let address: string;
let ranks: RankProgram[] = [];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-alerting-'));
  webhook = await startReceiver();
  pages = await startReceiver();
  alertmanager = await startAlertmanager(pages.url);
});
afterEach(async () => {
  for (const { child } of ranks) child.kill('SIGKILL');
  await Promise.all(ranks.map(({ ended }) => ended));
  ranks = [];
  service?.child.kill('SIGKILL');
  await service?.ended.catch(() => undefined);
  service = undefined;
  for (const part of [alertmanager, webhook, pages]) await part[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** Starts the service, and four ranks of `slow-rank.mjs` that report to it. */
async function start(...args: (string | number)[]): Promise<StartedCommand> {
  const config = join(directory, 'alerts.yml');
  // What a loaded machine does to steps of a few ms is no regression.
  const lines = [
    'page: https://ranktrace.example',
    'rules:',
    '  step_time: { change: 30% }',
    '  step_time_drift: { change: 200% }',
    '  rank_stopped: { after: 2s }',
    'outputs:',
    `  - { type: alertmanager, url: ${JSON.stringify(alertmanager.url)}, resend: 1s }`,
    `  - { type: webhook, url: ${JSON.stringify(webhook.url)} }`,
    '  - { type: log }',
    '  - { type: exit_code }',
  ];
  writeFileSync(config, lines.join('\n'));
  const out = join(directory, 'out');
  const started = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out, '--config', config]);
  service = started;
  await started.said('listening on http://127.0.0.1:');
  [address = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(started.output()) ?? [];
  const environment = {
    RANKTRACE_URL: address.replace('http', 'ws'),
    RANKTRACE_RUN: run,
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    RANKTRACE_SCHEDULE: 'wait=100000,warmup=1,active=1',
    RANKTRACE_FLIGHT_RECORDER_STEPS: '256',
  };
  ranks = await startRanks(worldSize, ['test/programs/slow-rank.mjs', ...args.map(String)], environment);
  return started;
}

const told = (rule: Alert['rule']): Alert[] => webhook.requests.map(({ body }) => body as Alert).filter((alert) => alert.rule === rule);
const told1 = (rule: Alert['rule'], state: Alert['state']): Alert => {
  const found = told(rule).filter((alert) => alert.state === state);
  expect(found, `${rule} ${state}`).toHaveLength(1);
  return found[0] as Alert;
};
const isActive = async (name: string): Promise<boolean> => (await alertmanager.alerts()).some(({ labels }) => labels.alertname === name);

/** By rank, the numbers of the steps in a trace. */
function stepsIn(path: string): Map<number, Set<number>> {
  const bytes = readFileSync(path);
  const steps = new Map<number, Set<number>>();
  const event = ({ kind, lane, step }: TraceEvent): void => {
    const { rank } = lane.process;
    if (kind === 'step') steps.set(rank, (steps.get(rank) ?? new Set()).add(step));
  };
  for (const _ of readPerfetto(() => [bytes]).events({ begin: () => {}, lane: () => {}, event, end: () => {} }));
  return steps;
}

test('a rank that becomes slow in one phase: Alertmanager and webhook are told who and where, with the trace; then that it is over', {
  timeout: 3 * minute,
}, async () => {
  const onset = 400;
  const started = await start(1400, 2, onset, 700, 14);
  await waitUntil('Alertmanager has it', () => isActive('RanktraceStepTime'), minute);
  const [held] = (await alertmanager.alerts()).filter(({ labels }) => labels.alertname === 'RanktraceStepTime');
  expect(held?.labels).toMatchObject({ run, rule: 'step_time' });

  await waitUntil('the webhook is told', () => told('step_time').length > 0, minute);
  const fired = told1('step_time', 'firing');
  expect(fired.capture, JSON.stringify(fired)).toMatchObject({ state: 'written', ranks: [0, 1, 2, 3], ranksMissing: [] });
  expect(Math.abs((fired.onsetStep ?? 0) - onset)).toBeLessThanOrEqual(16);
  expect(fired.change).toBeGreaterThan(0.3);
  expect(fired.cause).toMatchObject({ ranks: [2], phase: 'forward' });
  expect(fired.summary).toContain('rank 2');
  expect(fired.link).toMatch(/^https:\/\/ranktrace\.example\/#\/timeline\?run=night&from=/);
  const path = fired.capture?.path ?? '';
  const steps = stepsIn(isAbsolute(path) ? path : join(directory, 'out', run, path));
  expect([...steps.keys()].sort()).toEqual([0, 1, 2, 3]);
  for (const [rank, numbers] of steps) {
    // The onset, which was over when the alert fired, and what came then.
    for (let step = onset - 4; step < onset + 16; step++) expect(numbers.has(step), `step ${step} of rank ${rank}`).toBe(true);
  }

  await waitUntil('it is over', async () => !(await isActive('RanktraceStepTime')), minute);
  await waitUntil('the webhook is told that', () => told('step_time').some(({ state }) => state === 'resolved'), minute);
  expect(told1('step_time', 'resolved').id).toBe(fired.id);
  expect(told1('step_time', 'firing').id).toBe(fired.id);
  const statuses = (): string[] => pages.requests.map(({ body }) => (body as { status: string }).status);
  await waitUntil('Alertmanager pages both', () => statuses().includes('resolved'), minute);
  expect(statuses()[0]).toBe('firing');

  await Promise.all(ranks.map(({ ended }) => ended));
  started.child.kill('SIGINT');
  const { code, stderr } = await started.ended;
  expect(stderr).toContain(`run ${run}: ${fired.severity} step_time firing: `);
  expect(code, stderr).toBe(1);
});

test('a rank that is stopped, goes on, and is killed', { timeout: 3 * minute }, async () => {
  await start(100_000, -1, 0, 0, 0);
  await waitUntil('all ranks train', async () => {
    const status = liveMessageSchema.parse(await (await fetch(`${address}/status`)).json());
    const steps = status.runs[0]?.ranks.map(({ step }) => step) ?? [];
    return steps.length === worldSize && Math.min(...steps) > 50;
  });
  ranks[3]?.child.kill('SIGSTOP');
  await waitUntil('Alertmanager has it', () => isActive('RanktraceRankStopped'), minute);
  ranks[3]?.child.kill('SIGCONT');
  await waitUntil('it is over', async () => !(await isActive('RanktraceRankStopped')), minute);
  await waitUntil('the webhook is told both', () => told('rank_stopped').length === 2, minute);
  expect(told1('rank_stopped', 'firing').ranks).toEqual([3]);
  expect(told1('rank_stopped', 'resolved').id).toBe(told1('rank_stopped', 'firing').id);
  webhook.requests.length = 0;
  ranks[1]?.child.kill('SIGKILL');
  await waitUntil('the killed one is told', () => told('rank_stopped').length > 0, minute);
  expect(told1('rank_stopped', 'firing').ranks).toContain(1);
});

test('a batch that was planned to be larger is no regression', { timeout: 3 * minute }, async () => {
  const started = await start(900, -1, 0, 0, 0, 500);
  await Promise.all(ranks.map(({ ended }) => ended));
  started.child.kill('SIGINT');
  const { code, stderr } = await started.ended;
  expect(code, stderr).toBe(0);
  expect(webhook.requests.map(({ body }) => (body as Alert).summary)).toEqual([]);
  expect(await alertmanager.alerts()).toEqual([]);
});
