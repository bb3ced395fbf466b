// A report as one file for a browser: the page that packages/viewer builds (dist/report/report.html), with the run's data in it.
//
// Invariant: no text of a trace can end the element that holds the data, nor change how the page reads: every text is made printable, and `<` is
// written as an escape of JSON.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { alertFindings, draftOf, withAlerts } from '@ranktrace/aggregator';
import { type Alert, printable, type ReportPage } from '@ranktrace/protocol';
import type { Finding } from '@ranktrace/trace';
import type { StepRange } from '@ranktrace/trace/blame';
import { CliError } from '../terminal/errors.ts';
import { formatBytes } from '../terminal/format.ts';
import { print } from '../terminal/output.ts';

/** Stands in the built page where the data goes (packages/viewer/report-file.ts). */
const dataMark = '"report data"';

type Data = Omit<ReportPage, 'run' | 'input' | 'version'>;

export interface ReportAbout {
  readonly run: string;
  readonly input: string;
  /** Only these steps. */
  readonly steps: StepRange | undefined;
}

/** The report as data; `findings`: those of the merge, of which the analysis lacks what reading left out. `alerts`: those stored, oldest first. */
export function reportPage(
  { run, input, steps }: ReportAbout,
  data: Data,
  findings: readonly Finding[],
  alerts: readonly Alert[],
): ReportPage {
  const known = new Set(data.overview.findings.map(({ text }) => text));
  const leftOut = findings
    .filter(({ kind, text }) => kind === 'left_out' && !known.has(text))
    .map(({ kind, text, ranks }) => ({ severity: 'note' as const, kind, text, ranks }));
  const only = steps === undefined ? '' : ` (steps ${steps.first} to ${steps.last} alone)`;
  return {
    run,
    input: `${input}${only}`,
    version: '0.1.0',
    ...data,
    overview: {
      ...data.overview,
      findings: withAlerts(alertFindings(alerts, [], data.overview.toStep), [...data.overview.findings, ...leftOut]),
    },
  };
}

/** The file's text. Throws CliError `bad_input` in a checkout without a build. */
export function reportHtml(report: ReportPage): string {
  const data = JSON.stringify(report, (_, value) => (typeof value === 'string' ? printable(value) : value)).replaceAll('<', '\\u003c');
  const [before = '', after] = pageTemplate().split(dataMark);
  if (after === undefined)
    throw new CliError('bad_input', 'Cannot make the page: its template has no place for data; build it with "npm run build"');
  return `${before}${data}${after}`;
}

/** Writes the report to `path`, whole or not at all; without one to stdout. Throws CliError `bad_input`. */
export function writeReportPage(report: ReportPage, path: string | undefined): void {
  const html = reportHtml(report);
  if (path === undefined) {
    print(html);
    return;
  }
  const { draft, whole } = draftOf(path);
  try {
    writeFileSync(draft, html);
    if (whole !== undefined) renameSync(draft, whole);
  } catch (cause) {
    if (whole !== undefined) rmSync(draft, { force: true });
    throw new CliError('bad_input', `Cannot write "${path}": ${(cause as Error).message}`, { cause });
  }
  print(`report: ${printable(path)} (${formatBytes(Buffer.byteLength(html))}; open it in a browser)`);
}

function pageTemplate(): string {
  const path = fileURLToPath(import.meta.resolve('@ranktrace/viewer/report/report.html'));
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new CliError('bad_input', `Cannot make the page: "${path}" is missing; build it with "npm run build"`, { cause });
  }
}
