// Metrics, their page, the rules and the dashboard over them: each knows the same names; promtool reads what is for Prometheus.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Metrics } from '../../packages/aggregator/src/metrics/metrics.ts';
import { read, repository } from './source-files.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-metrics-'));
afterAll(() => rmSync(directory, { recursive: true }));

const { all } = new Metrics({ status: () => ({ type: 'status', runs: [], quarantined: 0 }) });
const labelsOf = new Map(all.map(({ name, labels }) => [name, labels]));

/** Runs promtool; gives what it said. */
function promtool(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.env.PROMTOOL_BIN ?? 'promtool', args, { encoding: 'utf8', cwd: directory });
  expect(status, `${stdout}${stderr}`).toBe(0);
  return stdout;
}

/** The metrics that an expression names, without what histograms append. */
const namesIn = (text: string): string[] =>
  [...text.matchAll(/\branktrace_[a-z_]+/g)].map(([name]) => (labelsOf.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '')));

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly description?: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const dashboard = JSON.parse(read('deploy/grafana-dashboard.json')) as { readonly panels: readonly Panel[] };
const panels = dashboard.panels.filter(({ type }) => type !== 'row');

describe('docs/metrics.md', () => {
  test('has every metric with its type and labels, and no other', () => {
    const rows = [...read('docs/metrics.md').matchAll(/^\| `(ranktrace_\w+)` \| (\w+) \|([^|]*)\|/gm)].map(
      ([, name, type, labels = '']) => ({
        name,
        type,
        labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label),
      }),
    );
    const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }): number =>
      (a.name ?? '') < (b.name ?? '') ? -1 : 1;
    expect(rows.sort(byName)).toEqual([...all].sort(byName));
  });
});

describe('deploy/prometheus-rules.yml', () => {
  const rules = read('deploy/prometheus-rules.yml');

  test('is what promtool takes', () => {
    expect(promtool('check', 'rules', join(repository, 'deploy/prometheus-rules.yml'))).toMatch(/SUCCESS: \d+ rules found/);
  });

  test('names metrics that there are', () => {
    expect(namesIn(rules).length).toBeGreaterThan(10);
    expect(namesIn(rules).filter((name) => !labelsOf.has(name))).toEqual([]);
  });

  test('fires where it shall, and only there', () => {
    const series = (text: string, values: string): string => `      - { series: '${text}', values: '${values}' }`;
    const of = (rank: number): string => `{job="ranktrace",instance="a:1",run="night",rank="${rank}"}`;
    const run = '{job="ranktrace",instance="a:1",run="night"}';
    const alerts = (name: string, labels: string): string =>
      `      - { eval_time: 15m, alertname: ${name}, exp_alerts: [${labels === '' ? '' : `{ exp_labels: { job: ranktrace, instance: 'a:1', ${labels} } }`}] }`;
    const text = [
      `rule_files: ['${join(repository, 'deploy/prometheus-rules.yml')}']`,
      'evaluation_interval: 15s',
      'tests:',
      '  - interval: 1m',
      '    input_series:',
      series(`ranktrace_cluster_step_seconds${run}`, '0.2x20'),
      series(`ranktrace_rank_excess_seconds${of(0)}`, '0x20'),
      series(`ranktrace_rank_excess_seconds${of(3)}`, '0.05x20'),
      series(`ranktrace_rank_silence_seconds${run}`, '1x20'),
      series(`ranktrace_ring_fill_ratio${of(1)}`, '0.1x20'),
      series('ranktrace_lost_total{job="ranktrace",instance="a:1",run="night",what="events"}', '0x9 40x11'),
      series('ranktrace_alerts{job="ranktrace",instance="a:1",rule="hang",state="firing"}', '0x9 1x11'),
      series('up{job="ranktrace",instance="a:1"}', '1x20'),
      '    alert_rule_test:',
    ];
    const summaries = [
      ...text,
      alerts('RanktraceDown', ''),
      alerts('RanktraceRankSilent', ''),
      alerts('RanktraceRingNearlyFull', ''),
      alerts('RanktraceStepsSlower', ''),
    ];
    const path = join(directory, 'quiet.yml');
    writeFileSync(path, `${summaries.join('\n')}\n`);
    promtool('test', 'rules', path);
    const loud = [
      ...text,
      '      - eval_time: 15m',
      '        alertname: RanktraceRankSlow',
      '        exp_alerts:',
      "          - exp_labels: { severity: warning, job: ranktrace, instance: 'a:1', run: night, rank: '3' }",
      "            exp_annotations: { summary: 'run night: rank 3 works 25% of the step longer than the median rank' }",
      '      - eval_time: 15m',
      '        alertname: RanktraceDataLost',
      '        exp_alerts:',
      "          - exp_labels: { severity: warning, job: ranktrace, instance: 'a:1', run: night, what: events }",
      "            exp_annotations: { summary: 'run night: 40 events lost in 10 minutes (docs/data-loss.md)' }",
    ];
    const loudPath = join(directory, 'loud.yml');
    writeFileSync(loudPath, `${loud.join('\n')}\n`);
    promtool('test', 'rules', loudPath);
  });
});

describe('deploy/grafana-dashboard.json', () => {
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  test('asks for metrics that there are, and shows every one', () => {
    const named = new Set(expressions.flatMap(namesIn));
    expect([...named].filter((name) => !labelsOf.has(name))).toEqual([]);
    expect(all.map(({ name }) => name).filter((name) => !named.has(name))).toEqual([]);
  });

  test('has expressions that Prometheus takes', () => {
    const rules = expressions.map((expr, at) => {
      const plain = expr.replaceAll('$__rate_interval', '1m').replaceAll('$run', 'night');
      return `      - { record: 'panel:${at}', expr: ${JSON.stringify(plain)} }`;
    });
    const path = join(directory, 'panels.yml');
    writeFileSync(path, `groups:\n  - name: panels\n    rules:\n${rules.join('\n')}\n`);
    expect(promtool('check', 'rules', path)).toContain(`SUCCESS: ${expressions.length} rules found`);
  });

  test('says what each panel shows', () => {
    expect(panels.length).toBeGreaterThan(12);
    expect(panels.filter(({ description = '', targets = [] }) => description === '' || targets.length === 0)).toEqual([]);
  });
});
