// `ranktrace alerts [RUN-DIR]`: the alerts of a service, or of a stored run; exit code 1 while one is firing.

import { existsSync, readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { readAlertLog } from '@ranktrace/aggregator';
import { type Alert, alertSchema, printable } from '@ranktrace/protocol';
import { CliError } from '../terminal/errors.ts';
import { formatTable } from '../terminal/format.ts';
import { print, printData, say } from '../terminal/output.ts';
import { askService } from '../terminal/service-request.ts';

export interface AlertsOptions {
  readonly url: string;
  readonly run?: string | undefined;
  readonly token?: string | undefined;
  readonly json?: boolean | undefined;
}

const answerMsMax = 10_000;

export async function alerts(directory: string | undefined, options: AlertsOptions): Promise<number> {
  const { alerts: found, isAnyFiring } = directory === undefined ? await ofService(options) : ofDirectory(directory, options.run);
  const inOrder = found.toSorted((a, b) => (a.firedAt < b.firedAt ? -1 : 1));
  if (options.json === true) printData({ alerts: inOrder });
  else print(asText(inOrder));
  return isAnyFiring || inOrder.some(({ state }) => state === 'firing') ? 1 : 0;
}

interface FoundAlerts {
  readonly alerts: readonly Alert[];
  /** Whether one that cannot be read says that it is firing. */
  readonly isAnyFiring: boolean;
}

async function ofService({ url, run, token }: AlertsOptions): Promise<FoundAlerts> {
  const path = `/v1/alerts${run === undefined ? '' : `?run=${encodeURIComponent(run)}`}`;
  const { code, text } = await askService({ url, method: 'GET', path, token, answerMsMax });
  if (code === 404 && /^There is no (?:such )?run/.test(text)) throw new CliError('bad_input', `There is no run "${run}" at ${url}`);
  const given = code === 200 ? (jsonOf(text) as { alerts?: unknown } | undefined)?.alerts : undefined;
  const found = Array.isArray(given) ? given.map((one) => ({ alert: alertSchema.safeParse(one).data, state: one?.state })) : undefined;
  const alerts = found?.flatMap(({ alert }) => alert ?? []) ?? [];
  if (found !== undefined && (alerts.length > 0 || found.length === 0)) {
    const unreadable = found.length - alerts.length;
    if (unreadable > 0) say(`${url}: ${unreadable} of its alerts cannot be read and are left out`);
    return { alerts, isAnyFiring: found.some(({ state }) => state === 'firing') };
  }
  throw new CliError('bad_input', `${url} answered with something else (HTTP ${code}): is it a ranktrace service of this version?`);
}

/** The alerts of one run, or of the runs in an output directory. */
function ofDirectory(directory: string, run: string | undefined): FoundAlerts {
  const isRun = (path: string): boolean => existsSync(join(path, 'run.json'));
  if (!existsSync(directory)) throw new CliError('bad_input', `${directory}: there is no such directory`);
  if (run !== undefined && isRun(directory) && basename(resolve(directory)) !== run)
    throw new CliError('bad_input', `${directory} is the run "${basename(resolve(directory))}", not "${run}"`);
  const directories = isRun(directory)
    ? [directory]
    : readdirSync(directory, { withFileTypes: true })
        .filter((entry) => entry.isDirectory() && (run === undefined || entry.name === run))
        .map(({ name }) => join(directory, name))
        .filter(isRun);
  if (directories.length === 0)
    throw new CliError('bad_input', `${directory} is no run${run === undefined ? '' : ` and holds no run "${run}"`}`);
  const alerts = directories.flatMap((path) => {
    const log = readAlertLog(path);
    if (log.unreadable > 0) say(`${path}: ${log.unreadable} lines of its alerts cannot be read and are left out`);
    return log.alerts;
  });
  return { alerts, isAnyFiring: false };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function asText(found: readonly Alert[]): string {
  if (found.length === 0) return 'no alerts\n';
  const head = ['fired', 'state', 'severity', 'rule', 'run', 'what'];
  const rows = found.map(({ firedAt, state, severity, rule, run, summary }) => [shortTime(firedAt), state, severity, rule, run, summary]);
  const table = formatTable(
    [head, ...rows],
    head.map(() => false),
  ).split('\n');
  const lines = found.flatMap((alert, at) => [table[at + 1] ?? '', ...detailsOf(alert).map(([name, text]) => `  ${name}: ${text}`)]);
  const firing = found.filter(({ state }) => state === 'firing').length;
  return `${[table[0], ...lines, `${found.length} alert${found.length === 1 ? '' : 's'}, ${firing} firing`].join('\n')}\n`;
}

function detailsOf({ cause, resolvedAt, resolution, capture, link }: Alert): (readonly [string, string])[] {
  return [
    ...(cause === null ? [] : [['cause', `${cause.kind}: ${cause.text}`] as const]),
    ...(resolvedAt === null ? [] : [['resolved', `${shortTime(resolvedAt)}, ${resolution ?? ''}`] as const]),
    ...(capture === null ? [] : [['trace', capture.path ?? `${capture.state}: ${capture.text}`] as const]),
    ...(link === null ? [] : [['timeline', link] as const]),
  ].map(([name, text]) => [name, printable(text)] as const);
}

/** `2026-01-05 12:00:01`. */
const shortTime = (iso: string): string => iso.slice(0, 19).replace('T', ' ');
