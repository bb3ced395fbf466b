// `ranktrace detect FILE.csv`: the regression detector over a recorded series of step times.

import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { printable } from '@ranktrace/protocol';
import {
  contextKeyOf,
  DetectorPlan,
  defaultDetectorOptions,
  detectLimits,
  detectorOptionsFor,
  LongStepDetector,
  type LongStepsOver,
  type LongStepsRise,
  longStepsChangeMin,
  type Sensitivity,
  type SeriesColumn,
  type SeriesColumnNames,
  SeriesCsvReader,
  SeriesDetector,
  type StepTimeFinding,
  seriesColumns,
  shortSeriesOptions,
} from '@ranktrace/trace/detect';
import { isGzip } from '../inputs/file-beginning.ts';
import { statOf } from '../inputs/input-kinds.ts';
import { filesOf } from '../inputs/piped-files.ts';
import { CliError } from '../terminal/errors.ts';
import { formatCount, formatNanos } from '../terminal/format.ts';
import { print, printData, say } from '../terminal/output.ts';

export interface DetectOptions {
  readonly column?: readonly string[];
  readonly short?: boolean;
  /** A share: 0.03 is 3 %. */
  readonly minChange?: number;
  readonly sensitivity?: Sensitivity;
  readonly fail?: boolean;
  readonly json?: boolean;
}

type Finding = StepTimeFinding | LongStepsRise | LongStepsOver;

/** Findings and statistics of one file. */
interface Detected {
  readonly detector: SeriesDetector;
  readonly longSteps: LongStepDetector;
  readonly reader: SeriesCsvReader;
  readonly findings: readonly Finding[];
  /** Number of findings beyond the kept ones. */
  readonly more: number;
  /** The step at which the column of conditions changed last. */
  readonly changedAt: number | undefined;
}

export async function detect(path: string, options: DetectOptions): Promise<number> {
  const names = columnNames(options.column ?? []);
  const detected = await detectIn(path, names, options);
  const { detector, longSteps, reader } = detected;
  if (!reader.hasSteps) say(`${path} has no column of step numbers: rows are counted from 0`);
  if (reader.skipped > 0) {
    say(`${path}: ${reader.skipped} rows without a step number and a time were skipped, the first in line ${reader.firstSkippedLine}`);
  }
  if (!detector.isReady && detected.findings.length === 0) {
    const { changedAt } = detected;
    const why = changedAt === undefined ? ' is too short' : `: its context changed at step ${changedAt}, and the steps since are too few`;
    say(`${path}${why} to judge its end${options.short ? '' : ': --short needs fewer steps'}`);
  }
  if (options.json) printData(asData(detected));
  else print(asText(detected));
  return options.fail && (detector.incident !== undefined || longSteps.openSince !== undefined) ? 1 : 0;
}

function planFor({ short, minChange, sensitivity }: DetectOptions): DetectorPlan {
  return new DetectorPlan(detectorOptionsFor({ minChange, sensitivity }, short ? shortSeriesOptions : defaultDetectorOptions));
}

async function detectIn(path: string, names: SeriesColumnNames, options: DetectOptions): Promise<Detected> {
  const detector = new SeriesDetector(planFor(options));
  const newLongSteps = (): LongStepDetector => new LongStepDetector(Math.max(options.minChange ?? 0, longStepsChangeMin));
  let longSteps = newLongSteps();
  const findings: Finding[] = [];
  let more = 0;
  let [text, key] = ['', contextKeyOf('')];
  let rows = 0;
  let changedAt: number | undefined;
  const reader = new SeriesCsvReader((step, timeMs, context, tag) => {
    if (context !== text) {
      [text, key, longSteps] = [context, contextKeyOf(context), newLongSteps()];
      if (rows > 0) changedAt = step;
    }
    rows++;
    const isWatched = tag === undefined || tag === 'checkpoint';
    for (const finding of [detector.add(step, timeMs, key, tag), isWatched ? longSteps.add(step, timeMs) : undefined]) {
      if (finding === undefined) continue;
      // The last numbers are the best ones.
      const known = findings.findLastIndex(({ kind }) => kind === 'long_steps');
      const told = findings[known];
      if (finding.kind === 'long_steps_refined' && told !== undefined)
        findings[known] = { ...finding, kind: 'long_steps', step: told.step };
      if (finding.kind === 'long_steps_refined') continue;
      if (findings.length < detectLimits.seriesFindingsMax) findings.push(finding);
      else more++;
    }
  }, names);
  const read = async (pieces: AsyncIterable<Buffer>): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const piece of pieces) reader.push(decoder.decode(piece, { stream: true }));
    reader.push(decoder.decode());
    reader.end();
  };
  const [file = path] = await filesOf([path]);
  if (statOf(file).isDirectory()) throw new CliError('bad_input', `Cannot open "${path}": it is a directory, and a series is one file`);
  try {
    if (await isZipped(file)) await pipeline(createReadStream(file), createGunzip(), read);
    else await pipeline(createReadStream(file), read);
  } catch (error) {
    // One line that names the file, whatever the error.
    throw new CliError('bad_input', `${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
  return { detector, longSteps, reader, findings, more, changedAt };
}

async function isZipped(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return isGzip(buffer);
  } finally {
    await file.close();
  }
}

/** `time=step_ms` → the column's name. */
function columnNames(given: readonly string[]): SeriesColumnNames {
  const names: Partial<Record<SeriesColumn, string>> = {};
  for (const text of given) {
    const [, what, name] = /^([a-z]+)=(.+)$/.exec(text) ?? [];
    const column = seriesColumns.find((one) => one === what);
    if (column === undefined || name === undefined) {
      throw new CliError('bad_usage', `--column must be ${seriesColumns.join('=NAME, ')}=NAME, got "${text}"`);
    }
    names[column] = name;
  }
  return names;
}

function asText({ detector, longSteps, reader, findings, more }: Detected): string {
  const lines = findings.map(inWords);
  if (more > 0) lines.push(`(${formatCount(more)} more)`);
  const { incident } = detector;
  const { tagged } = reader;
  const counts = [`${formatCount(reader.rows)} steps`];
  if (tagged > 0) counts.push(`${formatCount(tagged)} of them tagged and left out`);
  const open = [
    ...(incident === undefined ? [] : [`a ${incident.kind} is open since step ${incident.onsetStep}, ${levels(incident)} at worst`]),
    ...(longSteps.openSince === undefined ? [] : [`long steps take more of the time since step ${longSteps.openSince}`]),
  ];
  const state = open.length === 0 ? 'nothing is open' : open.join('; ');
  return `${[...lines, `${counts.join(', ')}; ${state}`].map(printable).join('\n')}\n`;
}

const levels = ({ before, slowest }: { before: number; slowest: number }): string => `${milliseconds(before)} → ${milliseconds(slowest)}`;

function inWords(finding: Finding): string {
  if (finding.kind === 'long_steps_over') {
    return `step ${finding.step}: long steps went away (open since step ${finding.onsetStep}), they add ${percent(finding.added)}`;
  }
  if (finding.kind === 'rebaselined') {
    return `step ${finding.step}: new baseline (context), what was open since step ${finding.openedStep} is closed`;
  }
  const { step, kind, change, before, after, onsetStep, confidence } = finding;
  const what =
    kind === 'went_away'
      ? `went away (open since step ${finding.openedStep})`
      : kind === 'long_steps'
        ? `long steps, about one in ${finding.every}: mean of all steps`
        : kind;
  const further = 'isFurther' in finding && finding.isFurther ? ' further' : '';
  const range = `${percent(confidence.low)} to ${percent(confidence.high)}`;
  return `step ${step}: ${what}${further} ${percent(change)} (${milliseconds(before)} → ${milliseconds(after)}) since step ${onsetStep}, 95 %: ${range}`;
}

const milliseconds = (ms: number): string => formatNanos(ms * 1e6);
const percent = (share: number): string => `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(1)} %`;

function asData({ detector, longSteps, reader, findings, more }: Detected): unknown {
  const { incident, isReady } = detector;
  return {
    steps: reader.rows,
    tagged: reader.tagged,
    skippedRows: reader.skipped,
    isReady,
    findings: findings.map((finding) => {
      if (finding.kind === 'rebaselined' || finding.kind === 'long_steps_over') return finding;
      const { before, after, ...rest } = finding;
      return { ...rest, beforeMs: before, afterMs: after };
    }),
    moreFindings: more,
    open:
      incident === undefined
        ? undefined
        : { kind: incident.kind, onsetStep: incident.onsetStep, beforeMs: incident.before, slowestMs: incident.slowest },
    longStepsSince: longSteps.openSince,
  };
}
