// Metrics, their page, the rules and the dashboard over them all have the same names; promtool checks the files for Prometheus.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { alertName } from '../../packages/aggregator/src/alert/alertmanager.ts';
import { Metrics } from '../../packages/aggregator/src/metrics/metrics.ts';
import { alertRules } from '../../packages/protocol/src/alert-messages.ts';
import { read, repository } from './source-files.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-metrics-'));
afterAll(() => rmSync(directory, { recursive: true }));

const { all } = new Metrics({ status: () => ({ type: 'status', runs: [], quarantined: 0, expired: 0 }) });
const labelsOf = new Map(all.map(({ name, labels }) => [name, labels]));

/** Runs promtool; gives its output. */
function promtool(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.env.PROMTOOL_BIN ?? 'promtool', args, { encoding: 'utf8', cwd: directory });
  expect(status, `${stdout}${stderr}`).toBe(0);
  return stdout;
}

/** The metrics that an expression names, without the suffixes of histograms. */
const namesIn = (text: string): string[] =>
  [...text.matchAll(/\branktrace_[a-z_]+/g)].map(([name]) => (labelsOf.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '')));

interface Rule {
  readonly alert?: string;
  readonly expr: string;
}

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig: {
    readonly defaults: { readonly unit?: string; readonly links?: readonly { readonly url: string }[] };
    readonly overrides: readonly unknown[];
  };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly sort?: number }[] };
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly links: readonly { readonly url: string }[];
}

const dashboard = JSON.parse(read('deploy/grafana-dashboard.json')) as Dashboard;
const annotations = dashboard.annotations.list.map(({ expr }) => expr);
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

  const all = (parse(rules) as { readonly groups: readonly { readonly rules: readonly Rule[] }[] }).groups.flatMap(({ rules }) => rules);
  const alerting = all.flatMap(({ alert, expr }) => (alert === undefined ? [] : [{ name: alert, expr }]));

  test('alerts about nothing that the service alerts about itself', () => {
    expect(alerting.length).toBeGreaterThan(5);
    expect(alerting.filter(({ name }) => alertRules.some((rule) => name === alertName(rule)))).toEqual([]);
    const own = ['ranktrace_alerts', 'ranktrace_cluster_step_seconds', 'ranktrace_rank_excess_seconds', 'ranktrace_lost_total'];
    own.push('ranktrace_recording_overhead_ratio', 'ranktrace_clocks_unknown', 'ranktrace_clock_bound_seconds');
    expect(alerting.flatMap(({ expr }) => namesIn(expr)).filter((name) => own.includes(name))).toEqual([]);
  });

  test('keeps the run in everything that is about one', () => {
    const ofRuns = all.map(({ expr }) => expr).filter((expr) => namesIn(expr).some((name) => labelsOf.get(name)?.includes('run')));
    expect(ofRuns.length).toBeGreaterThan(5);
    // The outermost aggregation, if there is one.
    for (const expr of ofRuns) expect(expr).toMatch(/^(histogram_quantile\(0\.99, )?(sum|max) by \(job, instance, run\b/);
  });

  test('fires where the service cannot speak for itself, and only there', () => {
    const series = (text: string, values: string): string => `      - { series: '${text}', values: '${values}' }`;
    const service = 'job="ranktrace",instance="a:1"';
    const healthy = [
      series(`up{${service}}`, '1x40'),
      series(`ranktrace_ranks{${service},run="night",state="live"}`, '4x40'),
      series(`ranktrace_rank_silence_seconds{${service},run="night"}`, '1x40'),
      series(`ranktrace_ring_fill_ratio{${service},run="night",rank="1"}`, '0.1x40'),
      series(`ranktrace_batches_total{${service},result="stored"}`, '0+60x40'),
      series(`ranktrace_batches_total{${service},result="unavailable"}`, '0x40'),
      series(`ranktrace_alert_output_failing{${service},output="webhook"}`, '0x40'),
    ];
    const down = [series(`up{${service}}`, '1x9 0x31')];
    const stalled = [
      series(`up{${service}}`, '1x60'),
      series(`ranktrace_ranks{${service},run="night",state="live"}`, '4x60'),
      series(`ranktrace_rank_silence_seconds{${service},run="night"}`, '1x9 0+60x50'),
      series(`ranktrace_batches_total{${service},result="stored"}`, '0+60x9 600x50'),
    ];
    const full = [
      series(`up{${service}}`, '1x40'),
      series(`ranktrace_ring_fill_ratio{${service},run="night",rank="1"}`, '0.1x9 0.9x31'),
      series(`ranktrace_batches_total{${service},result="stored"}`, '0+60x40'),
      series(`ranktrace_batches_total{${service},result="unavailable"}`, '0x9 5+5x31'),
      series(`ranktrace_alert_output_failing{${service},output="webhook"}`, '0x9 1x31'),
    ];
    /** Tests all rules at a time: `fires` alone fire, by name, with labels and summary. */
    const test = (name: string, input: readonly string[], at: string, fires: Readonly<Record<string, readonly [string, string]>>) => {
      const rule = (alert: string): string => {
        const [labels, summary] = fires[alert] ?? [];
        const one = `{ exp_labels: { job: ranktrace, instance: 'a:1', ${labels} }, exp_annotations: { summary: ${JSON.stringify(summary)} } }`;
        return `      - { eval_time: ${at}, alertname: ${alert}, exp_alerts: [${labels === undefined ? '' : one}] }`;
      };
      const path = join(directory, `${name}.yml`);
      const file = `rule_files: ['${join(repository, 'deploy/prometheus-rules.yml')}']`;
      const tests = ['evaluation_interval: 15s', 'tests:', '  - interval: 1m', '    input_series:', ...input, '    alert_rule_test:'];
      writeFileSync(path, `${[file, ...tests, ...alerting.map(({ name }) => rule(name))].join('\n')}\n`);
      promtool('test', 'rules', path);
    };
    test('healthy', healthy, '30m', {});
    test('down', down, '15m', {
      RanktraceDown: ['severity: critical', 'the ranktrace service at a:1 does not answer; ranks keep what they record in their spools'],
    });
    const stalls = 'run night: no batch of its 4 live ranks reached the service for 5 minutes: is NATS there, or was the job killed?';
    test('stalled', stalled, '17m', { RanktraceIngestStalled: ['severity: critical, run: night', stalls] });
    test('killed', stalled, '50m', {});
    test('full', full, '15m', {
      RanktraceStoreUnavailable: [
        'severity: critical',
        "the service at a:1 cannot store batches, its disk may be full; they wait in NATS and in the ranks' spools",
      ],
      RanktraceRingNearlyFull: ["severity: warning, run: night, rank: '1'", 'run night: the ring of rank 1 was 90% full'],
      RanktraceAlertsNotDelivered: [
        'severity: warning, output: webhook',
        'alerts do not reach the output webhook; the log of the service says why',
      ],
    });
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
    const rules = [...expressions, ...annotations].map((expr, at) => {
      const plain = expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(run|rank|instance)\b/g, '.*');
      return `      - { record: 'panel:${at}', expr: ${JSON.stringify(plain)} }`;
    });
    const path = join(directory, 'panels.yml');
    writeFileSync(path, `groups:\n  - name: panels\n    rules:\n${rules.join('\n')}\n`);
    expect(promtool('check', 'rules', path)).toContain(`SUCCESS: ${rules.length} rules found`);
  });

  test('lists ranks by their numbers, from 0 on', () => {
    // Grafana's VariableSort: 3 is numericalAsc, 4 numericalDesc.
    expect(dashboard.templating.list.find(({ name }) => name === 'rank')?.sort).toBe(3);
  });

  test('filters each metric by service, run and rank, as far as it has them', () => {
    const variables = dashboard.templating.list.map(({ name }) => name);
    expect(variables).toEqual(expect.arrayContaining(['datasource', 'instance', 'run', 'rank', 'page']));
    for (const expr of expressions) {
      const selectors = [...expr.matchAll(/\b(ranktrace_\w+)\{([^}]*)\}/g)];
      expect(selectors.length, expr).toBe(namesIn(expr).length);
      for (const [, name = '', selector = ''] of selectors) {
        const labels = labelsOf.get(namesIn(name)[0] as string) ?? [];
        expect(selector).toContain('instance=~"$instance"');
        expect(selector.includes('run=~"$run"'), expr).toBe(labels.includes('run'));
        expect(selector.includes('rank=~"$rank"'), expr).toBe(labels.includes('rank'));
      }
    }
  });

  test('shows one unit on each axis', () => {
    const unitOf = (name: string): string =>
      /(seconds|bytes|watts|celsius|hertz|ratio|total)$/.exec(name.replace(/(cpu_seconds|batch_bytes|pruned_bytes)_total$/, '$1'))?.[1] ??
      'number';
    for (const { title, fieldConfig, targets = [] } of panels) {
      expect([title, fieldConfig.defaults.unit]).toEqual([title, expect.any(String)]);
      expect([title, fieldConfig.overrides]).toEqual([title, []]);
      // A quotient of a histogram's sum by its count has the unit of the sum.
      const units = targets.map(({ expr }) => unitOf(namesIn(expr)[0] as string));
      expect([title, new Set(units).size]).toEqual([title, 1]);
    }
  });

  test('marks alerts on every panel, and leads to the page', () => {
    expect(annotations.flatMap(namesIn)).toContain('ranktrace_alerts');
    expect(dashboard.links.map(({ url }) => url)).toEqual(['$' + '{page}']);
    const linked = panels.filter(({ targets = [] }) => targets.some(({ legendFormat }) => legendFormat.includes('{{run}}')));
    expect(linked.length).toBeGreaterThan(8);
    for (const { title, fieldConfig } of linked)
      expect([title, fieldConfig.defaults.links?.[0]?.url]).toEqual([title, expect.stringContaining('/#/overview?run=')]);
  });

  test('has panels that lie side by side, none upon another', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });

  test('says what each panel shows', () => {
    expect(panels.length).toBeGreaterThan(12);
    expect(panels.filter(({ description = '', targets = [] }) => description === '' || targets.length === 0)).toEqual([]);
  });
});
