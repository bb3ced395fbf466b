import { expect, test } from 'vitest';
import { formatCheck } from './check-formats.ts';
import { checkResult } from './check-result.ts';
import type { RecordedSteps } from './recorded-steps.ts';

const steps = (run: string, ms: number, phase = 'forward'): RecordedSteps => ({
  ...{ run, ranks: 4, steps: 5 },
  level: { level: ms * 1e6, noise: 0.01, blocks: 5, steps: 5, warmUp: 0, degrees: 4 },
  phases: new Map([[phase, (ms - 10) * 1e6]]),
  blame: undefined,
  badEnds: [],
});

const hostile = '</failure>]]>|`<img src=x>&"\u0000\ud800';

test('JUnit: names from a trace are text, whatever is in them', () => {
  const xml = formatCheck(checkResult(steps('main', 100), steps(hostile, 200, hostile), 0.03), 'junit');
  expect(xml).not.toContain('<img');
  expect(xml.match(/<\/failure>/g)).toHaveLength(1);
  expect(xml).toContain('&lt;/failure&gt;]]&gt;');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
  expect(xml).not.toMatch(/[\u0000-\u0008]|\p{Surrogate}/u);
});

test('Markdown: a name makes no cell, no picture and no mention', () => {
  const markdown = formatCheck(checkResult(steps('main', 100), steps('a|b @all', 200, '![x](y)'), 0.03), 'markdown');
  expect(markdown).toContain('| checked | a\\|b \\@all | 4 |');
  expect(markdown).toContain('\\!\\[x\\](y)');
  const rows = markdown.split('\n').filter((line) => line.startsWith('| '));
  // Splits a row into cells at bars without a backslash before them.
  expect(rows.map((row) => row.replaceAll('\\|', '').split('|').length - 2)).toEqual([7, 7, 7, 4, 4, 4]);
});

test('a run that did not end well says so before the verdict on its steps, in every format', () => {
  const failed = { ...steps('pr', 82), badEnds: ['rank_failed: rank 1 failed: ValueError: <bad>'] };
  const said = 'the checked run did not end well, and its steps are those before that: rank_failed: rank 1 failed: ValueError: ';
  const result = checkResult(steps('main', 100), failed, 0.03);
  expect(formatCheck(result, 'text')).toContain(`\n${said}<bad>\nfaster: −`);
  expect(formatCheck(result, 'markdown')).toContain('the checked run did not end well');
  expect(formatCheck(result, 'junit')).toContain(`${said}&lt;bad&gt;`);
  expect(JSON.parse(formatCheck(result, 'json'))).toMatchObject({ verdict: 'faster', checked: { badEnds: failed.badEnds } });
  expect(formatCheck(checkResult(failed, steps('pr', 82), 0.03), 'text')).toContain('\nthe baseline did not end well');
});

test('a difference that scatter explains as well is not probable: the steps are unchanged', () => {
  const noisy = (of: RecordedSteps) => ({ ...of, level: { ...of.level, noise: 0.1 } });
  const text = formatCheck(checkResult(noisy(steps('main', 100)), noisy(steps('pr', 104.4)), 0.03), 'text');
  expect(text).toMatch(
    /^unchanged: \+4\.4 % \(95 %: −[\d.]+ % to \+[\d.]+ %, T \d\.\d\), over 3 %, but steps scatter too much to show any difference/m,
  );
});

test.each([
  [1.5, 0.03, 'slower'],
  [1.045, 0.03, 'probably slower, not certain'],
  [1.01, 0.03, 'unchanged'],
  [0.82, 0.03, 'faster'],
  [0.96, 0.03, 'probably faster, not certain'],
])('%d times as long, --fail-on %d: %s', (factor, failOn, verdict) => {
  const text = formatCheck(checkResult(steps('main', 100), steps('pr', 100 * factor), failOn), 'text');
  expect(text).toContain(`\n${verdict}: ${factor < 1 ? '−' : '+'}`);
  // Five steps with a noise of 1 %: 7.6 · √(2 / 5) · 1 % slower, and the same factor faster.
  expect(text).toContain(`5 steps each: a difference under ${verdict === 'faster' ? 4.7 : 4.9} % cannot be distinguished from scatter`);
  expect(text.includes('so 3 % more would not fail this check: record more steps, or choose --fail-on 5')).toBe(verdict !== 'slower');
});
