// The configuration file of `ranktrace serve`: rules, captures, outputs. docs/alerting.md has every key.
//
// Invariant: an unknown key is an error. A misspelt rule would otherwise never fire.

import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type AlertRule, alertRules } from '@ranktrace/protocol';
import { type AlertRules, defaultAlertRules as defaults, resolveAlertRules } from '@ranktrace/trace/alert';
import { sensitivities } from '@ranktrace/trace/detect';
import { z } from 'zod';
import { AggregatorError, systemCode } from '../model/errors.ts';
import {
  address,
  bytes,
  duration,
  durationText,
  listOf,
  mapOf,
  numberOf,
  oneOf,
  section,
  share,
  share100,
  switchable,
  text,
  truth,
  whole,
} from './config-values.ts';
import { deliveryLimits as limits } from './delivery-limits.ts';
import { parseAddress, readSecret, readToken, tokenPattern } from './http-post.ts';
import type { AlertOutputs, OutputConfig } from './output-config.ts';

/** The configuration of `ranktrace serve`. */
export interface ServeConfig {
  /** Address of the page as people reach it, for links; undefined: where the service listens. */
  readonly page: string | undefined;
  readonly rules: AlertRules;
  /** Each alert gets a trace of this many steps before and after its onset; undefined: none. */
  readonly capture: { readonly stepsBefore: number; readonly stepsAfter: number } | undefined;
  readonly outputs: AlertOutputs;
}

/** A usable configuration, or one line per error: `FILE:LINE: KEY what is allowed, got VALUE`. */
export type ConfigCheck = { readonly config: ServeConfig } | { readonly errors: readonly string[] };

const dayMs = 24 * 3600_000;
const rules = section({
  step_time: switchable({
    change: share(0.001, 9).prefault(share100(defaults.stepTimeChangeMin)),
    sensitivity: oneOf(sensitivities).default(defaults.stepTimeSensitivity),
  }),
  step_time_drift: switchable({ change: share(0.001, 9).prefault(share100(defaults.driftChangeMin)) }),
  step_time_limit: switchable({ limit: duration(0.001, dayMs).optional() }),
  rank_stopped: switchable({ after: duration(100, dayMs).prefault(durationText(defaults.rankStoppedMs)) }),
  hang: switchable({ after: duration(100, dayMs).prefault(durationText(defaults.hangMs)) }),
  memory_growth: switchable({
    perStep: bytes(1, 2 ** 40).prefault(`${defaults.memoryGrowthBytesMin}B`),
    steps: whole(8, 1e6).default(defaults.memoryGrowthStepsMin),
  }),
  data_loss: switchable({ quiet: duration(100, dayMs).prefault(durationText(defaults.dataLossQuietMs)) }),
  clock_unaligned: switchable({ after: duration(100, dayMs).prefault(durationText(defaults.clockUnalignedMs)) }),
  overhead: switchable({
    budget: share(0, 1).prefault(share100(defaults.overheadBudget)),
    factor: numberOf(1, 1000).default(defaults.overheadFactor),
  }),
}).superRefine((given, context) => {
  const { enabled, limit } = given.step_time_limit;
  if (enabled === true && limit === undefined) {
    context.addIssue({ code: 'custom', path: ['step_time_limit'], message: 'must have a limit, such as { limit: 500ms }' });
  }
});

const routed = {
  name: text('a name of letters, digits, ".", "_" and "-"', /^[\w.-]{1,64}$/).optional(),
  rules: listOf(oneOf(alertRules), 'rules', alertRules.length).optional(),
  severity: oneOf(['warning', 'critical']).default('warning'),
};
const paced = (perMinute: number) => ({
  ...routed,
  perMinute: whole(1, limits.outputPerMinuteMax).default(perMinute),
  retryFor: duration(0, limits.outputRetryForMsMax).prefault(durationText(limits.outputRetryForMs)),
});
const remote = { ...paced(limits.outputPerMinute), hold: duration(0, limits.outputHoldMsMax).prefault(durationText(limits.outputHoldMs)) };
const ended = { resolved: truth().default(true) };
/** Headers that the request itself has: with another value of theirs, nothing would be delivered. */
const ownHeaders: ReadonlySet<string> = new Set(['connection', 'content-length', 'expect', 'host', 'transfer-encoding']);
const headerName = /^[A-Za-z0-9-]{1,64}$/;
const http = {
  url: address().optional(),
  urlFile: text('a file').optional(),
  token: text('a token of visible ASCII characters', tokenPattern).optional(),
  tokenFile: text('a file').optional(),
  headers: mapOf(headerName, 'header names of letters, digits and "-"')
    .refine((given) => Object.values(given).every((value) => /^[\x20-\x7e]*$/.test(value)), 'must have visible ASCII characters alone')
    .refine(
      (given) => !Object.keys(given).some((name) => ownHeaders.has(name.toLowerCase())),
      `must be without ${[...ownHeaders].join(', ')}, which the request sets itself`,
    )
    .default({}),
  timeout: duration(10, limits.outputRequestMsMax).prefault(durationText(limits.outputRequestMs)),
};

const output = z
  .discriminatedUnion(
    'type',
    [
      section({ type: z.literal('log'), ...paced(limits.outputPerMinuteMax), ...ended }),
      section({ type: z.literal('webhook'), ...remote, ...ended, ...http, format: oneOf(['json', 'slack']).default('json') }),
      section({
        type: z.literal('alertmanager'),
        ...paced(limits.outputPerMinuteMax),
        ...http,
        labels: mapOf(/^[a-zA-Z_]\w*$/, 'label names of letters, digits and "_"').default({}),
        resend: duration(100, limits.alertmanagerResendMsMax).prefault(durationText(limits.alertmanagerResendMs)),
      }),
      section({
        type: z.literal('nats'),
        ...remote,
        ...ended,
        subject: text('a subject without wildcards, such as ranktrace.v1.{run}.alert', /^[^\s.*>]+(\.[^\s.*>]+)*$/).default(
          'ranktrace.v1.{run}.alert',
        ),
      }),
      section({ type: z.literal('exit_code'), ...routed }),
    ],
    'must be one of log, webhook, alertmanager, nats, exit_code',
  )
  .superRefine((given, context) => {
    if (given.type !== 'webhook' && given.type !== 'alertmanager') return;
    const { url, urlFile, token, tokenFile, headers } = given;
    if ((url === undefined) === (urlFile === undefined)) context.addIssue({ code: 'custom', message: 'must have either url or urlFile' });
    if (token !== undefined && tokenFile !== undefined)
      context.addIssue({ code: 'custom', message: 'must have either token or tokenFile' });
    const { username, password } = (url !== undefined && URL.canParse(url) && new URL(url)) || { username: '', password: '' };
    if (username + password !== '' && (token ?? tokenFile) !== undefined)
      context.addIssue({ code: 'custom', message: 'must have either a token or a user in its url: both are sent as authorization' });
    const hasHeader = Object.keys(headers).some((name) => name.toLowerCase() === 'authorization');
    if (hasHeader && (username + password !== '' || (token ?? tokenFile) !== undefined))
      context.addIssue({ code: 'custom', message: 'must have either a header authorization, or a token or a user in its url' });
  });

const schema = section({
  page: address().optional(),
  rules: rules.prefault({}),
  capture: switchable({ before: whole(0, 1000).default(16), after: whole(1, 1000).default(16) }),
  outputs: listOf(output, 'outputs', limits.outputsMax)
    .superRefine((given, context) => {
      const names = given.map(({ name }) => name).filter((name) => name !== undefined);
      const twice = names.find((name, index) => names.indexOf(name) !== index);
      if (twice !== undefined) context.addIssue({ code: 'custom', message: `must have names of their own, "${twice}" is there twice` });
    })
    .prefault([{ type: 'log' }]),
});

/** The configuration without a file: all rules with their defaults, reported in the log. */
export const defaultConfig = (): ServeConfig => configOf(schema.parse({}), '.');

/** Reads a configuration file; throws AggregatorError `bad_config` with the first error and the number of errors. */
export async function readConfig(path: string): Promise<ServeConfig> {
  const check = await checkConfig(path);
  if ('config' in check) return check.config;
  const [first = '', ...more] = check.errors;
  throw new AggregatorError('bad_config', more.length === 0 ? first : `${first} (and ${more.length} more: see --check-config)`);
}

/** Reads a configuration file and reports everything that is wrong with it, at most `configErrorsMax` lines. Never throws. */
export async function checkConfig(path: string): Promise<ConfigCheck> {
  const source = readSource(path);
  if ('error' in source) return { errors: [source.error] };
  // The parser of YAML is large, and few services have a file.
  const { ConfigDocument } = await import('./config-document.ts');
  const document = new ConfigDocument(path, source.text);
  if (document.errors.length > 0) return { errors: document.errors.slice(0, limits.configErrorsMax) };
  const parsed = schema.safeParse(document.value);
  if (!parsed.success) return { errors: document.errorsOf(parsed.error.issues).slice(0, limits.configErrorsMax) };
  const config = configOf(parsed.data, dirname(resolve(path)));
  const issues = await secretIssues(config.outputs);
  return issues.length === 0 ? { config } : { errors: document.errorsOf(issues) };
}

function readSource(path: string): { readonly text: string } | { readonly error: string } {
  try {
    const { size } = statSync(path);
    if (size > limits.configBytesMax)
      return { error: `Cannot read "${path}": it must be at most ${limits.configBytesMax} bytes, it has ${size}` };
    return { text: readFileSync(path, 'utf8') };
  } catch (error) {
    const code = systemCode(error);
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a directory' : (error as Error).message;
    return { error: `Cannot read "${path}": ${why}` };
  }
}

/** The service reads files with secrets when it needs them; this reports now whether that would work. */
async function secretIssues(outputs: AlertOutputs): Promise<z.core.$ZodIssue[]> {
  const issues: z.core.$ZodIssue[] = [];
  for (const [index, given] of outputs.entries()) {
    if (given.type !== 'webhook' && given.type !== 'alertmanager') continue;
    for (const key of ['urlFile', 'tokenFile'] as const) {
      const path = given[key];
      if (path === undefined) continue;
      const wrong = await (key === 'tokenFile' ? readToken(path) : readSecret(path)).then(
        (secret) =>
          key === 'urlFile' && parseAddress(secret) === undefined ? 'must hold an address that begins with http:// or https://' : undefined,
        (error: Error) => `must name a file that can be read: ${error.message}`,
      );
      if (wrong !== undefined) issues.push({ code: 'custom', path: ['outputs', index, key], message: wrong, input: path });
    }
  }
  return issues;
}

type Parsed = z.infer<typeof schema>;

function configOf({ page, rules, capture, outputs }: Parsed, directory: string): ServeConfig {
  const names = new Set(outputs.flatMap(({ name }) => name ?? []));
  return {
    page: page?.replace(/\/+$/, ''),
    rules: resolveAlertRules({
      off: alertRules.filter((rule) => rules[rule].enabled === false) as AlertRule[],
      stepTimeChangeMin: rules.step_time.change,
      stepTimeSensitivity: rules.step_time.sensitivity,
      driftChangeMin: rules.step_time_drift.change,
      stepTimeLimitMs: rules.step_time_limit.limit,
      rankStoppedMs: rules.rank_stopped.after,
      hangMs: rules.hang.after,
      memoryGrowthBytesMin: rules.memory_growth.perStep,
      memoryGrowthStepsMin: rules.memory_growth.steps,
      dataLossQuietMs: rules.data_loss.quiet,
      clockUnalignedMs: rules.clock_unaligned.after,
      overheadBudget: rules.overhead.budget,
      overheadFactor: rules.overhead.factor,
    }),
    capture: capture.enabled === false ? undefined : { stepsBefore: capture.before, stepsAfter: capture.after },
    outputs: outputs.map((given) => outputConfig(given, given.name ?? freeName(given.type, names), directory)),
  };
}

/** `webhook`, `webhook-2`, …: the first free one. */
function freeName(type: string, names: Set<string>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type}-${number}`;
  names.add(name);
  return name;
}

function outputConfig(given: Parsed['outputs'][number], name: string, directory: string): OutputConfig {
  const { rules, severity } = given;
  if (given.type === 'exit_code') return { type: given.type, name, rules, severity };
  const { perMinute, retryFor: retryForMs } = given;
  const settings = { name, rules, severity, perMinute, retryForMs, holdMs: 0, resolved: true };
  if (given.type === 'log') return { type: given.type, ...settings, resolved: given.resolved };
  if (given.type === 'nats') {
    return { type: given.type, ...settings, holdMs: given.hold, resolved: given.resolved, subject: given.subject };
  }
  const { url, urlFile, token, tokenFile, headers, timeout: timeoutMs } = given;
  const file = (path: string | undefined): string | undefined => (path === undefined ? undefined : resolve(directory, path));
  const receiver = { url, urlFile: file(urlFile), token, tokenFile: file(tokenFile), headers, timeoutMs };
  if (given.type === 'webhook') {
    return { type: given.type, ...settings, ...receiver, holdMs: given.hold, resolved: given.resolved, format: given.format };
  }
  return { type: given.type, ...settings, ...receiver, labels: given.labels, resendMs: given.resend };
}
