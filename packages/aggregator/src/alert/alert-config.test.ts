import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultAlertRules } from '@ranktrace/trace/alert';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { checkConfig, defaultConfig, readConfig, type ServeConfig } from './alert-config.ts';

/** Checks `text` as a file `c.yml`; errors come without its directory. */
async function check(text: string, files: Record<string, string> = {}): Promise<ServeConfig | string[]> {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'c.yml');
  for (const [name, content] of Object.entries({ ...files, 'c.yml': text })) writeFileSync(join(directory.path, name), content);
  const checked = await checkConfig(path);
  if ('config' in checked) return checked.config;
  return checked.errors.map((line) => line.replaceAll(`${directory.path}/`, ''));
}

async function accepted(text: string): Promise<ServeConfig> {
  const checked = await check(text);
  if (Array.isArray(checked)) throw new Error(checked.join('\n'));
  return checked;
}

test('without a file, or with an empty one, all rules are as they are by default and reported in the log', async () => {
  expect(defaultConfig()).toMatchObject({ page: undefined, rules: defaultAlertRules, outputs: [{ type: 'log', name: 'log' }] });
  expect(await check('')).toEqual(defaultConfig());
  expect(await check('# nothing yet\n')).toEqual(defaultConfig());
});

test('quantities come with their units', async () => {
  const { rules, capture, page } = await accepted(`
page: https://ranktrace.example/
rules:
  step_time: { change: 2.5%, sensitivity: low }
  step_time_limit: { limit: 1.5s }
  rank_stopped: { after: 2m }
  hang: false
  memory_growth: { perStep: 512KiB, steps: 50 }
  data_loss: { enabled: false, quiet: 1h }
  clock_unaligned: true
  overhead: { budget: 1%, factor: 2 }
capture: { before: 4, after: 8 }
`);
  expect(rules).toEqual({
    ...defaultAlertRules,
    off: ['hang', 'data_loss'],
    stepTimeChangeMin: 0.025,
    stepTimeSensitivity: 'low',
    stepTimeLimitMs: 1500,
    rankStoppedMs: 120_000,
    memoryGrowthBytesMin: 512 * 1024,
    memoryGrowthStepsMin: 50,
    dataLossQuietMs: 3600_000,
    overheadBudget: 0.01,
    overheadFactor: 2,
  });
  expect(capture).toEqual({ stepsBefore: 4, stepsAfter: 8 });
  expect(page).toBe('https://ranktrace.example');
  expect((await accepted('capture: false')).capture).toBeUndefined();
});

test('outputs without a name get one that nobody has', async () => {
  const { outputs } = await accepted(`
outputs:
  - { type: webhook, url: http://a.example/x }
  - { type: webhook, url: http://b.example/x, name: webhook-2 }
  - { type: webhook, url: http://c.example/x, format: slack, resolved: false, rules: [hang, rank_stopped] }
  - { type: alertmanager, url: http://user:word@am.example:9093/prefix/, labels: { team: training } }
  - { type: nats }
  - { type: exit_code, severity: critical }
`);
  expect(outputs.map(({ name }) => name)).toEqual(['webhook', 'webhook-2', 'webhook-3', 'alertmanager', 'nats', 'exit_code']);
  expect(outputs[2]).toMatchObject({
    format: 'slack',
    resolved: false,
    rules: ['hang', 'rank_stopped'],
    holdMs: 20_000,
    timeoutMs: 10_000,
  });
  expect(outputs[3]).toMatchObject({ labels: { team: 'training' }, resendMs: 60_000 });
  expect(outputs[4]).toMatchObject({ subject: 'ranktrace.v1.{run}.alert' });
});

test.for([
  [
    'an unknown key',
    'rules:\n  steptime: true\n',
    /^c\.yml:2: rules\.steptime is not known here: allowed are step_time, step_time_drift, /,
  ],
  ['an unknown section', 'page: http://x\nalerts: []\n', ['c.yml:2: alerts is not known here: allowed are page, rules, capture, outputs']],
  ['a name of JavaScript', '__proto__: { page: 1 }', ['c.yml:1: __proto__ is not known here: allowed are page, rules, capture, outputs']],
  [
    'a time without its unit',
    'rules:\n  hang:\n    after: 30\n',
    ['c.yml:3: rules.hang.after must be a time such as 500ms, 30s, 5m or 1h, got 30'],
  ],
  ['a time that is too short', 'rules: { hang: { after: 1ms } }', ['c.yml:1: rules.hang.after must be 100ms to 1d, got "1ms"']],
  [
    'a share without its sign',
    'rules: { step_time: { change: 3 } }',
    /:1: rules\.step_time\.change must be a share such as 3% or 0\.5%, got 3$/,
  ],
  ['a limit that is missing', 'rules:\n  step_time_limit: true\n', /:2: rules\.step_time_limit must have a limit, such as/],
  ['a number that is no whole one', 'capture: { before: 1.5 }', ['c.yml:1: capture.before must be a whole number from 0 to 1000, got 1.5']],
  ['null where a map belongs', 'rules:\n', /^c\.yml:1: rules must be a map of step_time, .*, got null$/],
  ['no map at all', '- 1\n', ['c.yml:1: the file must be a map of page, rules, capture, outputs']],
  [
    'an unknown type of output',
    'outputs:\n  - { type: log }\n  - type: slack\n',
    ['c.yml:3: outputs[1].type must be one of log, webhook, alertmanager, nats, exit_code, got "slack"'],
  ],
  ['no type', 'outputs:\n  - name: x\n', ['c.yml:2: outputs[0].type must be one of log, webhook, alertmanager, nats, exit_code']],
  [
    'a key of another type',
    'outputs:\n  - type: log\n    url: http://x\n',
    /^c\.yml:3: outputs\[0\]\.url is not known here: allowed are type, /,
  ],
  ['no address', 'outputs:\n  - type: webhook\n', ['c.yml:2: outputs[0] must have either url or urlFile']],
  [
    'two tokens, and none of them in the error',
    'outputs:\n  - { type: webhook, url: http://x, token: sesame, tokenFile: y }',
    ['c.yml:2: outputs[0] must have either token or tokenFile'],
  ],
  [
    'an address that is a password, and is not repeated',
    'outputs: [{ type: webhook, url: "hooks.example/sesame" }]',
    ['c.yml:1: outputs[0].url must be an address that begins with http:// or https://'],
  ],
  [
    'a header that would be two',
    'outputs: [{ type: webhook, url: http://x, headers: { a: "b\\nc: d" } }]',
    ['c.yml:1: outputs[0].headers must have visible ASCII characters alone'],
  ],
  [
    'a header that the request sets itself',
    'outputs: [{ type: webhook, url: http://x, headers: { Content-Length: "5" } }]',
    [
      'c.yml:1: outputs[0].headers must be without connection, content-length, expect, host, transfer-encoding, which the request sets itself',
    ],
  ],
  [
    'a token beside a header that it would replace, and neither in the error',
    'outputs:\n  - { type: webhook, url: http://x, token: sesame, headers: { Authorization: "Splunk sesame" } }',
    ['c.yml:2: outputs[0] must have either a header authorization, or a token or a user in its url'],
  ],
  [
    'a token that no header can hold',
    'outputs: [{ type: webhook, url: http://x, token: "ü" }]',
    ['c.yml:1: outputs[0].token must be a token of visible ASCII characters'],
  ],
  [
    'two ways to show who sends, and neither in the error',
    'outputs:\n  - { type: webhook, url: "http://me:sesame@x", token: sesame }',
    ['c.yml:2: outputs[0] must have either a token or a user in its url: both are sent as authorization'],
  ],
  [
    'a name given twice',
    'outputs: [{ type: log, name: a }, { type: nats, name: a }]',
    /:1: outputs must have names of their own, "a" is there twice$/,
  ],
  [
    'a file that is not there',
    'outputs: [{ type: webhook, urlFile: nowhere }]',
    /^c\.yml:1: outputs\[0\]\.urlFile .*cannot read "nowhere": ENOENT/,
  ],
  [
    'a file that holds no address',
    'outputs: [{ type: webhook, urlFile: word }]',
    /:1: outputs\[0\]\.urlFile must hold an address that begins/,
  ],
  [
    'a file that holds no token for a header',
    'outputs: [{ type: webhook, url: http://x, tokenFile: wide }]',
    /:1: outputs\[0\]\.tokenFile must name a file that can be read: "wide" must hold a token of visible ASCII characters, got "/,
  ],
  ['a wildcard', 'outputs: [{ type: nats, subject: "a.*" }]', /:1: outputs\[0\]\.subject must be a subject without wildcards/],
  ['YAML that is none', 'page: x\nrules: [1\n', /^c\.yml:3: /],
  ['a key given twice', 'page: http://a\npage: http://b\n', ['c.yml:2: Map keys must be unique']],
  ['a tag', 'outputs: !include x\n', ['c.yml:1: Unresolved tag: !include']],
  ['a bomb of aliases', bomb(), /^c\.yml: Excessive alias count/],
] as const)('says what is allowed, and the line: %s', async ([, text, expected]) => {
  const errors = await check(text, { word: 'sesame\n', wide: 's\0e\0s\0a\0m\0e\0' });
  expect(errors).toBeInstanceOf(Array);
  if (expected instanceof RegExp) expect(errors).toEqual([expect.stringMatching(expected)]);
  else expect(errors).toEqual(expected);
  expect(JSON.stringify(errors)).not.toContain('sesame');
});

/** Nine lists of nine times the one before. */
function bomb(): string {
  const lines = Array.from({ length: 9 }, (_, level) => {
    const items = level === 0 ? ['x'] : Array.from({ length: 9 }, () => `*a${level - 1}`);
    return `k${level}: &a${level} [${items.join(', ')}]`;
  });
  return lines.join('\n');
}

test('all errors are reported, in the order of the file', async () => {
  const errors = await check('capture: 5\nrules: { hang: { after: x }, foo: 1 }\noutputs: [7]\n');
  expect((errors as string[]).map((line) => line.split(' ', 2).join(' '))).toEqual([
    'c.yml:1: capture',
    'c.yml:2: rules.hang.after',
    'c.yml:2: rules.foo',
    'c.yml:3: outputs[0]',
  ]);
});

test('whatever the file holds, the answer is a configuration or errors that name it', async () => {
  const word = fc.constantFrom(
    'rules',
    'outputs',
    'type',
    'webhook',
    'log',
    '3%',
    '30s',
    'true',
    '&a',
    '*a',
    '!x',
    '"',
    "'",
    '-1',
    '1e999',
    '|',
    '?',
  );
  const mark = fc.constantFrom(': ', '- ', '\n', '\n  ', '{', '}', '[', ']', ', ', '#', '\t', '\u2028', '---\n', '\0');
  const file = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.array(fc.oneof(word, mark), { maxLength: 40 }).map((parts) => parts.join('')),
  );
  await fc.assert(
    fc.asyncProperty(file, async (text) => {
      const checked = await check(text);
      if (Array.isArray(checked)) for (const line of checked) expect(line).toMatch(/^c\.yml(:\d+)?: /);
    }),
    { seed: 6, numRuns: 300 },
  );
});

test('readConfig throws the first error and says how many there are; a file that cannot be read is an error', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'c.yml');
  writeFileSync(path, 'capture: 5\npage: 6\n');
  await expect(readConfig(path)).rejects.toMatchObject({
    code: 'bad_config',
    message: expect.stringMatching(/c\.yml:1: capture .* \(and 1 more/),
  });
  await expect(readConfig(`${path}.gone`)).rejects.toThrow(`Cannot read "${path}.gone": there is no such file`);
  await expect(readConfig(directory.path)).rejects.toThrow('it is a directory');
  writeFileSync(path, `# ${'x'.repeat(300_000)}`);
  await expect(readConfig(path)).rejects.toThrow('it must be at most 262144 bytes');
});

test('files are named from the directory of the configuration', async () => {
  using directory = temporaryDirectory();
  writeFileSync(join(directory.path, 'secret-url'), 'https://hooks.example/T0/B0/x\n');
  writeFileSync(join(directory.path, 'c.yml'), 'outputs: [{ type: webhook, urlFile: secret-url }]');
  const { outputs } = await readConfig(join(directory.path, 'c.yml'));
  expect(outputs[0]).toMatchObject({ urlFile: join(directory.path, 'secret-url') });
});
