// Compares docs/alerting.md with the code: it checks every configuration, its defaults are the defaults, its keys are all keys there are.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { alertRules, alertSchema } from '@ranktrace/protocol';
import { afterAll, expect, test } from 'vitest';
import { checkConfig, defaultConfig } from '../../packages/aggregator/src/alert/alert-config.ts';
import { alertSeverities, criticalShare } from '../../packages/trace/src/alert/alert-severity.ts';
import { read } from './source-files.ts';

const page = read('docs/alerting.md');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-alerting-'));
afterAll(() => rmSync(directory, { recursive: true }));
// The files that the page's examples name.
writeFileSync(join(directory, 'slack-url'), 'https://hooks.example/services/T0/B0/x\n');
writeFileSync(join(directory, 'pager-token'), 'sesame\n');

/** Code blocks of a language; with a mark, those right below it. */
const blocks = (language: string, mark?: string): string[] =>
  [...page.matchAll(/^(?:<!-- (\w+) -->\n)?```(\w*)\n([\s\S]*?\n)```$/gm)]
    .filter(([, marked, written]) => written === language && (mark === undefined ? marked !== 'wrong' : marked === mark))
    .map(([, , , text = '']) => text);

async function check(text: string): ReturnType<typeof checkConfig> {
  const path = join(directory, 'alerts.yml');
  writeFileSync(path, text);
  return await checkConfig(path);
}

const errorsOf = async (text: string): Promise<string[]> => {
  const checked = await check(text);
  return 'errors' in checked ? checked.errors.map((line) => line.replaceAll(`${directory}/`, '')) : [];
};

test('every configuration on the page is right', async () => {
  const texts = blocks('yaml');
  expect(texts.length).toBeGreaterThanOrEqual(3);
  for (const text of texts) expect(await errorsOf(text)).toEqual([]);
});

test('what it says the defaults are, they are', async () => {
  const [text = ''] = blocks('yaml', 'defaults');
  expect(await check(text)).toEqual({ config: { ...defaultConfig(), rules: { ...defaultConfig().rules, off: ['step_time_limit'] } } });
});

test('the wrong one is wrong as it says', async () => {
  const [wrong = ''] = blocks('yaml', 'wrong');
  const [errors = ''] = blocks('', 'error');
  expect(await errorsOf(wrong)).toEqual(errors.trim().split('\n'));
});

test('the alert that it shows is one', () => {
  const [text = ''] = blocks('json', 'alert');
  expect(() => alertSchema.parse(JSON.parse(text))).not.toThrow();
  expect(Object.keys(JSON.parse(text))).toEqual(Object.keys(alertSchema.shape));
});

/** The keys allowed in a place, from the error about an unknown one: `yaml` has it as `unknown: 1`. */
async function allowed(yaml: string): Promise<string[]> {
  const errors = await errorsOf(yaml);
  const [, keys = ''] = errors.join('\n').match(/unknown is not known here: allowed are (.*)/) ?? [];
  return keys.split(', ');
}

test('it has every key, and no other', async () => {
  const keys = new Set<string>(await allowed('unknown: 1'));
  for (const key of await allowed('capture: { unknown: 1 }')) keys.add(`capture.${key}`);
  for (const rule of await allowed('rules: { unknown: 1 }')) {
    keys.add(`rules.${rule}`);
    for (const key of await allowed(`rules: { ${rule}: { unknown: 1 } }`)) keys.add(`rules.${rule}.${key}`);
  }
  for (const type of ['log', 'webhook', 'alertmanager', 'nats', 'exit_code']) {
    for (const key of await allowed(`outputs: [{ type: ${type}, unknown: 1 }]`)) keys.add(`outputs[].${key}`);
  }
  const documented = [...page.matchAll(/^\| `((?:page|rules|capture|outputs)[^`]*)` \|/gm)].map((match) => match[1] as string);
  expect([...documented].sort()).toEqual([...keys].sort());
  expect(documented.filter((key) => /^rules\.\w+$/.test(key)).map((key) => key.slice(6))).toEqual([...alertRules]);
});

test('it says how severe each rule is, and which of them escalate', () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| (warning|critical) \| (.*?) ?\|$/gm)].map(([, rule, first, becomes = '']) => {
    return [rule, { first, escalates: becomes.startsWith('once ') }];
  });
  expect(rows.map(([rule]) => rule)).toEqual([...alertRules]);
  expect(Object.fromEntries(rows)).toEqual(alertSeverities);
  expect(page).toContain(`jumped by ${100 * criticalShare} % or more`);
});
