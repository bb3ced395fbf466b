// A real Prometheus, with the configuration and rules of deploy/, scrapes a service with a live run: every panel of the dashboard has
// data to show.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { startRanks } from './setup/rank-programs.ts';
import { repository, startCommand } from './setup/ranktrace-command.ts';
import { freePort, ServerProcess } from './setup/server-process.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-prometheus-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Steps until it is killed, with phases and the counters of a GPU. */
const program = `
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';
const prof = profile().start();
for (;;) {
  await recordFunction('forward', () => setTimeout(10));
  prof.collective({ op: 'all_reduce', bytes: 8 }, () => {});
  for (const [name, value] of Object.entries({ 'gpu utilization': 80, 'memory used': 1e9, 'memory total': 8e9, power: 300, temperature: 60, 'sm clock': 1980 }))
    prof.counter('GPU 0 ' + name, value);
  prof.step();
}`;

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}
const dashboard = JSON.parse(readFileSync(join(repository, 'deploy/grafana-dashboard.json'), 'utf8')) as {
  readonly panels: readonly Panel[];
  readonly annotations: { readonly list: readonly { readonly name: string; readonly expr: string }[] };
};

test('every panel of the dashboard shows something of a run that goes on', async () => {
  const alerts = join(directory, 'alerts.yml');
  // Two panels need an alert, and an output that fails.
  writeFileSync(
    alerts,
    'rules: { step_time_limit: { limit: 1ms } }\noutputs: [{ type: log }, { type: webhook, url: "http://127.0.0.1:1/" }]\n',
  );
  const listen = `127.0.0.1:${await freePort()}`;
  const environment = { RANKTRACE_TOKEN: 'secret' };
  const service = startCommand(['serve', '--listen', listen, '--out', join(directory, 'out'), '--config', alerts], environment);
  await service.said('listening on');
  const to = { RANKTRACE_URL: `ws://${listen}`, RANKTRACE_RUN: 'night', RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool') };
  const ranks = await startRanks(2, ['--input-type=module', '-e', program], { ...environment, ...to, RANKTRACE_SAMPLE_INTERVAL_MS: '250' });
  await using server = new ServerProcess('prometheus');
  try {
    const config = join(server.directory, 'prometheus.yml');
    writeFileSync(join(server.directory, 'token'), 'secret');
    writeFileSync(
      config,
      readFileSync(join(repository, 'deploy/prometheus.yml'), 'utf8')
        .replaceAll(/15s/g, '1s')
        .replaceAll('/etc/prometheus/ranktrace-token', join(server.directory, 'token'))
        .replaceAll('/etc/prometheus/', join(repository, 'deploy/'))
        .replaceAll('aggregator:7400', listen),
    );
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    await server.start({
      name: `Prometheus on port ${port}`,
      command: join(dirname(process.env.PROMTOOL_BIN ?? '/usr/bin/promtool'), 'prometheus'),
      args: [`--config.file=${config}`, `--storage.tsdb.path=${join(server.directory, 'data')}`, `--web.listen-address=127.0.0.1:${port}`],
      isReady: async () => {
        const isReady = await fetch(`${url}/-/ready`).then(
          ({ ok }) => ok,
          () => false,
        );
        if (!isReady) await new Promise((resolve) => setTimeout(resolve, 50));
        return isReady;
      },
    });
    const [alertsOfService] = dashboard.annotations.list;
    const all = [
      ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr }))),
      { title: alertsOfService?.name ?? '', expr: alertsOfService?.expr ?? '' },
      // Recorded series carry the run.
      { title: 'recorded', expr: 'ranktrace:step_mean_seconds:rate5m{run="night"}' },
    ];
    expect(all.length).toBeGreaterThan(30);
    const values = { $run: 'night', $instance: listen, $rank: '.*', $__rate_interval: '1m' };
    /** How many series an expression has now. */
    const seriesOf = async (expr: string): Promise<number> => {
      const query = Object.entries(values).reduce((text, [name, value]) => text.replaceAll(name, value), expr);
      const answer = (await (await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`)).json()) as {
        readonly status: string;
        readonly error?: string;
        readonly data?: { readonly result: readonly unknown[] };
      };
      expect([expr, answer.status, answer.error]).toEqual([expr, 'success', undefined]);
      return answer.data?.result.length ?? 0;
    };
    let empty = all;
    const deadline = performance.now() + 120_000;
    while (empty.length > 0 && performance.now() < deadline) {
      const counts = await Promise.all(empty.map(({ expr }) => seriesOf(expr)));
      empty = empty.filter((_, at) => counts[at] === 0);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    expect(empty, server.output).toEqual([]);
  } finally {
    for (const { child } of ranks) child.kill('SIGKILL');
    service.child.kill('SIGINT');
    await service.ended;
  }
});
