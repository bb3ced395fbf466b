// Four ranks train, a fault hits one of them, and receivers get the alert: real processes, a real Alertmanager, a real receiver of webhooks.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type Alert, alertSchema, type LiveMessage } from '@ranktrace/protocol';
import type { ProcessTotals, TraceEvent, TraceHeader } from '@ranktrace/trace';
import { readPerfetto } from '@ranktrace/trace/perfetto';
import { describe, expect, test } from 'vitest';
import { type Alertmanager, startAlertmanager } from './setup/alertmanager.ts';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { type StartedCommand, startCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const run = 'job';
const minute = 60_000;

/** Receives requests to `/ranktrace` and `/alertmanager`. */
interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly alerts: Alert[];
  /** Groups that Alertmanager sent: status and labels of each alert. */
  readonly notified: { readonly status: string; readonly labels: Record<string, string>; readonly annotations: Record<string, string> }[];
}

async function startReceiver(): Promise<Receiver> {
  const alerts: Alert[] = [];
  const notified: Receiver['notified'] = [];
  const server: Server = createServer((request, response) => {
    let body = '';
    request.on('data', (data) => {
      body += data;
    });
    request.on('end', () => {
      const value = JSON.parse(body);
      if (request.url === '/ranktrace') alerts.push(alertSchema.parse(value));
      else notified.push(...value.alerts);
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    alerts,
    notified,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A service, and ranks that train. Disposing ends all of them. */
class Job implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'ranktrace-alerts-'));
  #service: StartedCommand | undefined;
  ranks: readonly RankProgram[] = [];

  /** Starts the service with this configuration; gives its address. */
  async serve(config: string): Promise<string> {
    const path = join(this.directory, 'alerts.yml');
    writeFileSync(path, config);
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', join(this.directory, 'out'), '--config', path]);
    this.#service = service;
    await service.said('listening on http');
    return /listening on (http:\S+?),/.exec(service.output())?.[1] ?? '';
  }

  async startRanks(address: string, args: readonly string[], environment: Record<string, string>): Promise<void> {
    this.ranks = await startRanks(4, args, {
      RANKTRACE_URL: address.replace('http', 'ws'),
      RANKTRACE_RUN: run,
      RANKTRACE_SPOOL_DIRECTORY: join(this.directory, 'spool'),
      ...environment,
    });
  }

  /** Starts the service and four ranks of slow-rank.mjs whose schedule records nothing; gives the service's address. */
  async train(config: string, program: readonly string[]): Promise<string> {
    const address = await this.serve(config);
    await this.startRanks(address, ['test/programs/slow-rank.mjs', '1000000', ...program], {
      RANKTRACE_SCHEDULE: 'wait=1000000,warmup=1,active=1',
    });
    return address;
  }

  /** The trace that was recorded with an alert. */
  capturePath({ capture }: Alert): string {
    return join(this.directory, 'out', run, capture?.path ?? '');
  }

  async until(what: string, isSo: () => boolean | Promise<boolean>, withinMs = 3 * minute): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!(await isSo())) {
      if (performance.now() > deadline)
        throw new Error(`${what}: not within ${withinMs / 1000} s; the service said:\n${this.#service?.output()}${this.#raised()}`);
      await wait(50);
    }
  }

  /** What was raised instead: under load, other slow steps than those of the fault. */
  #raised(): string {
    const path = join(this.directory, 'out', run, 'alerts.jsonl');
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.ranks) child.kill('SIGKILL');
    await Promise.all(this.ranks.map(({ ended }) => ended));
    this.#service?.child.kill('SIGINT');
    await this.#service?.ended;
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** The last finished step of the rank that is furthest behind. */
async function stepOf(address: string): Promise<number> {
  const { runs } = (await (await fetch(`${address}/status`)).json()) as LiveMessage;
  const known = runs.find((one) => one.run === run)?.ranks ?? [];
  return known.length < 4 ? -1 : Math.min(...known.map(({ step }) => step));
}

/** The place that each rank reports, by rank. */
async function placesOf(address: string): Promise<(string | null)[]> {
  const { runs } = (await (await fetch(`${address}/status`)).json()) as LiveMessage;
  const places: (string | null)[] = [];
  for (const { rank, inside } of runs.find((one) => one.run === run)?.ranks ?? []) places[rank] = inside;
  return places;
}

test(
  'slow steps are reported once, with who is slow in what, and with the trace of the onset; and when they are over',
  async () => {
    await using job = new Job();
    await using receiver = await startReceiver();
    await using alertmanager = await startAlertmanager(`${receiver.url}/alertmanager`);
    const outputs = [
      `  - { type: webhook, url: "${receiver.url}/ranktrace", hold: 5m }`,
      `  - { type: alertmanager, url: "${alertmanager.url}", resend: 1s }`,
    ];
    const address = await job.train(['rules: { step_time: { change: 150% } }', 'outputs:', ...outputs].join('\n'), [
      '2',
      '700',
      '1000',
      '120',
    ]);
    // Other programs of the machine may make steps longer at any time; alerts about that are correct, and ignored here.
    const reported = (state: Alert['state']): Alert[] =>
      receiver.alerts.filter(
        (alert) => alert.rule === 'step_time' && alert.state === state && Math.abs((alert.onsetStep ?? 0) - 700) <= 16,
      );

    await job.until('the alert', () => reported('firing').length > 0, 6 * minute);
    const [alert] = reported('firing') as [Alert];
    // The cluster's own noise may make the rank's alert the first; both name the rank.
    expect(alert.summary).toMatch(/(steps are|rank 2 is) [\d.]+ % slower since step \d+: .*rank 2.*forward/);
    expect(alert.summary).not.toContain('little by little');
    expect(alert.cause).toMatchObject({ ranks: [2], phase: 'forward' });
    expect((alert.after ?? 0) - (alert.before ?? 0)).toBeGreaterThan(80e6);
    expect(alert.link).toContain(`${address}/#/timeline?run=${run}`);
    // One alert of Alertmanager is this incident.
    const active = (await alertmanager.alerts()).filter(({ labels }) => labels.incident === alert.id);
    expect(active).toHaveLength(1);
    expect(active[0]?.labels).toMatchObject({ run, rule: 'step_time' });

    // The trace of the slow steps: all ranks, at full detail, from before the onset on, recorded before the alert.
    expect(alert.capture).toMatchObject({ state: 'written', ranks: [0, 1, 2, 3], ranksMissing: [] });
    const forward = forwardIn(job.capturePath(alert), 700);
    expect([...forward.keys()].sort()).toEqual([0, 1, 2, 3]);
    for (const [rank, { length, at }] of forward) {
      expect(at).toBeLessThan(Date.parse(alert.firedAt));
      if (rank === 2) expect(length).toBeGreaterThan(120e6);
      else expect(length).toBeLessThan(forward.get(2)?.length ?? 0);
    }

    await job.until('its end', () => reported('resolved').length > 0, 6 * minute);
    await job.until("Alertmanager's word of it", () =>
      receiver.notified.some(({ status, labels }) => status === 'resolved' && labels.incident === alert.id),
    );
    expect(reported('firing')).toHaveLength(1);
    expect(reported('resolved').map(({ id }) => id)).toEqual([alert.id]);
    for (const { child } of job.ranks) child.kill('SIGTERM');
  },
  15 * minute,
);

/** A captured trace: its events, and where its processes were at the end. */
function capturedIn(path: string) {
  const bytes = readFileSync(path);
  const events: (Pick<TraceEvent, 'kind' | 'name' | 'step' | 'state' | 'start' | 'length' | 'sequence'> & { rank: number })[] = [];
  let begun: TraceHeader | undefined;
  let totals: readonly ProcessTotals[] = [];
  const sink = {
    begin: (given: TraceHeader) => {
      begun = given;
    },
    lane: () => {},
    event: ({ kind, name, lane, step, state, start, length, sequence }: TraceEvent) => {
      events.push({ rank: lane.process.rank, kind, name, step, state, start, length, sequence });
    },
    end: (given: readonly ProcessTotals[]) => {
      totals = given;
    },
  };
  for (const _ of readPerfetto(() => [bytes]).events(sink));
  const unixMs = (time: number): number => Number((begun?.unixEpoch ?? 0n) / 1_000_000n) + time / 1e6;
  return { events, totals, unixMs };
}

/** `forward` in a captured trace from `first` on, by rank: its median length, ns, and the start of the first, Unix ms. */
function forwardIn(path: string, first: number): Map<number, { length: number; at: number }> {
  const { events, unixMs } = capturedIn(path);
  const found = new Map<number, { length: number; at: number }>();
  for (const { rank, start } of events.filter(({ kind, step }) => kind === 'step' && step === first)) {
    const lengths = events.filter((one) => one.rank === rank && one.name === 'forward' && one.start >= start && one.length > 0);
    const sorted = lengths.map(({ length }) => length).sort((a, b) => a - b);
    if (sorted.length > 0) found.set(rank, { length: sorted[sorted.length >> 1] as number, at: unixMs(start) });
  }
  return found;
}

// They wait most of their time: side by side. Those whose verdict is about the length of steps run alone.
describe.concurrent('a rank that goes no further', () => {
  /** Rank 1 is in the middle of this step's `forward`. */
  const step = 100;
  const program = ['1', String(step), String(step + 1), '60000'];

  /** Trains until rank 1 gets `signal` in that step; gives the webhook's alert: ranks, place, and the trace of the onset. */
  async function halted(job: Job, receiver: Receiver, alertmanager: Alertmanager, signal: NodeJS.Signals, rules = ''): Promise<Alert> {
    const outputs = [
      `  - { type: webhook, url: "${receiver.url}/ranktrace", hold: 5m }`,
      `  - { type: alertmanager, url: "${alertmanager.url}", resend: 1s }`,
    ];
    const address = await job.train([`rules: { rank_stopped: { after: 5s }${rules} }`, 'outputs:', ...outputs].join('\n'), program);
    await job.until('the step before', async () => (await stepOf(address)) >= step - 1);
    // The others wait, and every rank has reported its place.
    const wanted = ['all_reduce', 'forward', 'all_reduce', 'all_reduce'];
    await job.until('all places', async () => {
      const places = await placesOf(address);
      return wanted.every((name, rank) => places[rank]?.startsWith(name) === true);
    });
    const killedAt = new Date().toISOString();
    job.ranks[1]?.child.kill(signal);
    // If a busy machine kept a rank silent for so long, an earlier alert was correct.
    const reported = (): Alert[] => receiver.alerts.filter(({ rule, firedAt }) => rule === 'rank_stopped' && firedAt > killedAt);
    await job.until('the alert', () => reported().length > 0);
    const [alert] = reported() as [Alert];
    expect(alert).toMatchObject({ state: 'firing', severity: 'critical', ranks: [1], step: step - 1, onsetStep: step });
    expect(alert.summary).toContain(
      `after step ${step - 1}; rank 1 was in forward of step ${step} when last heard; ranks 0, 2, 3 wait in all_reduce`,
    );
    expect(alert.cause).toMatchObject({ kind: 'rank_stopped', ranks: [1], hosts: [hostname()], phase: 'forward' });
    expect(alert.link).toContain(`${address}/#/timeline?run=${run}`);
    const isActive = async (): Promise<boolean> => (await alertmanager.alerts()).some(({ labels }) => labels.rule === 'rank_stopped');
    await job.until('Alertmanager has it', isActive);

    // The trace holds the steps before it of all ranks, at full detail for those that continue, and the step in which it stopped, as far as it came.
    expect(alert.capture).toMatchObject({ state: 'written', ranks: [0, 2, 3], ranksMissing: [1] });
    const { events, totals, unixMs } = capturedIn(job.capturePath(alert));
    const before = [...Array(16).keys()].map((place) => step - 16 + place);
    for (const rank of [0, 1, 2, 3]) {
      const steps = events.filter((one) => one.kind === 'step' && one.rank === rank);
      expect(steps.map((one) => one.step)).toEqual(before);
      for (const { start } of steps) expect(unixMs(start)).toBeLessThan(Date.parse(alert.firedAt));
    }
    for (const rank of [0, 2, 3]) {
      expect(events.filter(({ rank: of, name, length }) => of === rank && name === 'forward' && length > 0)).toHaveLength(16 + 1);
      expect(events.filter(({ rank: of, name, state }) => of === rank && name === 'all_reduce' && state === 'open')).toHaveLength(1);
    }
    expect(totals.find(({ process }) => process.rank === 1)?.place).toMatchObject({ step, phase: { name: 'forward' } });

    // The same from the store, by hand.
    const report = await runLine(['report', join(job.directory, 'out', run), '--json']);
    const { openWork } = JSON.parse(report.stdout);
    const inside = openWork.ranks.find(({ rank }: { rank: number }) => rank === 1).open;
    expect(inside).toMatchObject([{ name: 'forward' }]);
    const [collective] = openWork.collectives;
    expect([collective.op, collective.missing, collective.inside.length]).toEqual(['all_reduce', [1], 3]);
    return alert;
  }

  test('because it was killed is reported of once, with the phase it was in and the trace', { timeout: 10 * minute }, async () => {
    await using job = new Job();
    await using receiver = await startReceiver();
    await using alertmanager = await startAlertmanager(`${receiver.url}/alertmanager`);
    // Even if the ranks that wait for it would count as a hang soon.
    const { id } = await halted(job, receiver, alertmanager, 'SIGKILL', ', hang: { after: 500ms }');
    expect(receiver.alerts.filter(({ rule }) => rule === 'rank_stopped').map((alert) => alert.id)).toEqual([id]);
    // In `forward` it was alive and kept the others waiting, which may have raised an alert; the open alert is now that it was killed.
    const open = receiver.alerts.filter(({ rule }) => rule === 'hang');
    expect(open.filter(({ state }) => state === 'firing')).toHaveLength(open.filter(({ state }) => state === 'resolved').length);
  });

  test('because its work is done is not reported of, whenever the others end', { timeout: 10 * minute }, async () => {
    await using job = new Job();
    await using receiver = await startReceiver();
    const address = await job.serve(
      `rules: { rank_stopped: { after: 2s }, hang: { after: 2s } }\noutputs: [{ type: webhook, url: "${receiver.url}/ranktrace", hold: 0s }]`,
    );
    const program = `
      import { existsSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      import { profile } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; step < 20; step++) { await setTimeout(5); prof.step(); }
      // The first to end does so at once: who waits before that hangs.
      while (process.env.RANK !== '2' && !existsSync(process.env.LEAVE + process.env.RANK)) await setTimeout(20);
      if (process.env.RANK === '1') process.exit(0);
      if (process.env.RANK === '2') await prof.stop();`;
    const leave = join(job.directory, 'leave-');
    await job.startRanks(address, ['--input-type=module', '-e', program], {
      LEAVE: leave,
    });
    await job.until('the last step', async () => (await stepOf(address)) >= 19);
    // A rank that starts late is waited for before that.
    const since = Date.now();
    // One ends in good order, one exits, and two just finish; each long after the one before, by the rules' measure.
    for (const rank of [2, 1, 0, 3]) {
      writeFileSync(`${leave}${rank}`, '');
      expect(await job.ranks[rank]?.ended).toMatchObject({ code: 0 });
      await wait(3500);
    }
    const { alerts } = (await (await fetch(`${address}/v1/alerts`)).json()) as { alerts: Alert[] };
    const ended = alerts.filter(({ resolution, firedAt }) => resolution !== 'the rank is back' && Date.parse(firedAt) > since);
    expect(ended).toEqual([]);
    expect(receiver.alerts.filter(({ id }) => ended.some((alert) => alert.id === id))).toEqual([]);
  });

  test('because it was stopped is reported of, and that it goes on', { timeout: 10 * minute }, async () => {
    await using job = new Job();
    await using receiver = await startReceiver();
    await using alertmanager = await startAlertmanager(`${receiver.url}/alertmanager`);
    const { id } = await halted(job, receiver, alertmanager, 'SIGSTOP');
    job.ranks[1]?.child.kill('SIGCONT');
    const reported = (): string[] =>
      receiver.alerts.filter(({ rule }) => rule === 'rank_stopped').map(({ state, id, ranks }) => `${state} ${id} ${ranks}`);
    await job.until('its end', () => reported().length > 1);
    expect(reported()).toEqual([`firing ${id} 1`, `resolved ${id} 1`]);
    const notified = (): string[] => receiver.notified.filter(({ labels }) => labels.rule === 'rank_stopped').map(({ status }) => status);
    await job.until("Alertmanager's word of its end", () => notified().includes('resolved'));
    expect(notified()[0]).toBe('firing');
  });

  test(
    'a collective that one rank does not enter is reported of, with what keeps it and the trace; and when it is over',
    async () => {
      await using job = new Job();
      await using receiver = await startReceiver();
      const outputs = `outputs: [{ type: webhook, url: "${receiver.url}/ranktrace", hold: 5m }]`;
      await job.train(`rules: { hang: { after: 3s } }\n${outputs}`, ['1', '100', '101', '30000']);
      // A rank that starts late keeps the others in their first collective.
      const reported = (): Alert[] => receiver.alerts.filter(({ rule, onsetStep }) => rule === 'hang' && onsetStep === 100);
      await job.until('the alert', () => reported().length > 0);
      const [alert] = reported() as [Alert];
      expect(alert.summary).toMatch(/^ranks 0, 2, 3 are inside of all_reduce \d+ of group world for [\d.]+ s; rank 1 never entered it$/);
      expect(alert).toMatchObject({ state: 'firing', severity: 'critical', ranks: [1], onsetStep: 100 });
      expect(alert.cause).toMatchObject({ kind: 'hang', ranks: [1], hosts: [hostname()], phase: 'forward' });
      expect(alert.cause?.text).toContain('rank 1 is in forward of step 100');
      expect(alert.capture).toMatchObject({ state: 'written', ranks: [0, 1, 2, 3], ranksMissing: [] });
      const { events } = capturedIn(job.capturePath(alert));
      const open = events.filter(({ state }) => state === 'open').map(({ rank, name }) => `${rank} ${name}`);
      expect(open.sort()).toEqual(['0 all_reduce', '1 forward', '2 all_reduce', '3 all_reduce']);

      await job.until('its end', () => reported().some(({ state }) => state === 'resolved'));
      expect(reported().map(({ id, state }) => `${state} ${id}`)).toEqual([`firing ${alert.id}`, `resolved ${alert.id}`]);
    },
    10 * minute,
  );
});

test(
  'a larger batch, as was planned, is nothing to be reported of',
  async () => {
    await using job = new Job();
    await using receiver = await startReceiver();
    // Steps become two thirds longer. Other programs may make them a little longer at any time; that would rightly raise an alert.
    const rules = 'rules: { step_time: { change: 30% }, step_time_drift: { change: 30% } }';
    const outputs = `outputs: [{ type: webhook, url: "${receiver.url}/ranktrace", hold: 0s }]`;
    const address = await job.train(`${rules}\n${outputs}`, ['-1', '0', '0', '0', '500']);
    await job.until('steps with the larger batch', async () => (await stepOf(address)) >= 900, 6 * minute);
    const about = receiver.alerts.filter(({ rule, onsetStep }) => rule.startsWith('step_time') && Math.abs((onsetStep ?? 0) - 500) <= 32);
    expect(about).toEqual([]);
    for (const { child } of job.ranks) child.kill('SIGTERM');
  },
  10 * minute,
);
