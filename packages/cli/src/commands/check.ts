// `ranktrace check RUN --baseline B --fail-on 3%`: the gate of a pipeline. Are the steps of a run longer than those of another, by how much, how
// sure is that, and where does the time go?
//
//   each input ──merge──► steps, each as long as its slowest rank ──► level, noise ─┐
//                   └───► what blame keeps of the last steps ──────────────────────┴► change, its confidence, its cause
//
// slower: by `--fail-on` or more, and the difference is certain (exit code 1). inconclusive: by `--fail-on` or more, but it may be noise.

import {
  type BlameChange,
  type BlameWindow,
  blameOf,
  compareSeries,
  levelOfSeries,
  type RunSummary,
  type SeriesComparison,
  StepBlameSink,
  seriesStepsMin,
} from '@ranktrace/trace';
import { CliError } from '../errors.ts';
import { formatCount, formatNanos, formatTable, printable } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport, openMergeInputs } from '../merge-inputs.ts';

export interface CheckOptions {
  readonly baseline: readonly string[];
  /** Share: 0.03 is 3 %. */
  readonly failOn: number;
  readonly run?: string | undefined;
  readonly baselineRun?: string | undefined;
  readonly json?: boolean;
}

export type CheckVerdict = 'slower' | 'inconclusive' | 'faster' | 'unchanged';

/** One of the two. */
interface Recorded {
  readonly run: string;
  readonly ranks: number;
  readonly summary: RunSummary;
  readonly times: readonly number[];
  readonly window: BlameWindow;
}

interface Checked {
  readonly verdict: CheckVerdict;
  readonly failOn: number;
  readonly baseline: Recorded;
  readonly run: Recorded;
  readonly comparison: SeriesComparison;
  /** What the difference is due to; undefined where there is none to explain. */
  readonly cause: BlameChange | undefined;
}

const phasesShown = 12;

export async function check(inputs: readonly string[], options: CheckOptions): Promise<number> {
  using interrupt = abortOnInterrupt();
  const baseline = await read(options.baseline, options.baselineRun, interrupt.signal);
  const run = await read(inputs, options.run, interrupt.signal);
  const comparison = compareSeries(levelOf(options.baseline, baseline), levelOf(inputs, run));
  const verdict = verdictOf(comparison, options.failOn);
  const hasCause = comparison.isCertain && verdict !== 'unchanged';
  const cause = hasCause ? blameOf(baseline.window, run.window) : undefined;
  const checked: Checked = { verdict, failOn: options.failOn, baseline, run, comparison, cause };
  process.stdout.write(options.json ? `${JSON.stringify(asData(checked))}\n` : `${asText(checked)}\n`);
  return verdict === 'slower' ? 1 : 0;
}

/** `3%` or `2.5 %` as a share; undefined for anything else. */
export function percentIn(text: string): number | undefined {
  const [, number] = /^(\d{1,4}(?:\.\d{1,6})?)\s*%$/.exec(text.trim()) ?? [];
  return number === undefined ? undefined : Number(number) / 100;
}

function verdictOf({ change, isCertain }: SeriesComparison, failOn: number): CheckVerdict {
  if (change >= failOn) return isCertain ? 'slower' : 'inconclusive';
  return change <= -failOn && isCertain ? 'faster' : 'unchanged';
}

async function read(paths: readonly string[], run: string | undefined, signal: AbortSignal): Promise<Recorded> {
  using opened = await openMergeInputs(paths, run);
  const blame = new StepBlameSink();
  const { header, summary } = await mergeAndReport(opened.sources, undefined, [blame], signal);
  // A step that not all ranks told may have been longer.
  const most = Math.max(0, ...summary.steps.map(({ ranks }) => ranks));
  const times = summary.steps.filter(({ ranks }) => ranks === most).map(({ longest }) => longest);
  return { run: header.run, ranks: summary.ranks.length, summary, times, window: blame.window };
}

function levelOf(paths: readonly string[], { times }: Recorded): SeriesComparison['before'] {
  const level = levelOfSeries(times);
  if (level !== undefined) return level;
  const names = paths.map((path) => `"${path}"`).join(', ');
  throw new CliError(
    'bad_input',
    `Cannot check ${names}: it has ${times.length} steps that all ranks told, at least ${seriesStepsMin} are needed`,
  );
}

/** Mean time per step and rank of each phase, ns; of both, in order of the difference. */
function phasesOf({ baseline, run }: Checked): { readonly phase: string; readonly before: number; readonly after: number }[] {
  const [before, after] = [meanPhases(baseline.summary), meanPhases(run.summary)];
  const names = [...new Set([...before.keys(), ...after.keys()])];
  const rows = names.map((phase) => ({ phase, before: before.get(phase) ?? 0, after: after.get(phase) ?? 0 }));
  return rows.sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before) || (a.phase < b.phase ? -1 : 1));
}

function meanPhases({ ranks }: RunSummary): Map<string, number> {
  const steps = ranks.reduce((sum, rank) => sum + rank.steps, 0);
  const means = new Map<string, number>();
  for (const rank of ranks) {
    for (const [name, length] of rank.phases) means.set(name, (means.get(name) ?? 0) + (length * rank.steps) / steps);
  }
  return means;
}

function asText(checked: Checked): string {
  const { verdict, failOn, baseline, run, comparison, cause } = checked;
  const { before, after, change, confidence } = comparison;
  const line = (name: string, { run, ranks, summary }: Recorded, level: SeriesComparison['before']): string[] => [
    ...[name, run, String(ranks), formatCount(summary.stepCount), formatCount(level.steps), formatNanos(level.level), percent(level.noise)],
  ];
  const head = ['', 'run', 'ranks', 'steps', 'compared', 'step', 'noise'];
  const levels = formatTable(
    [head, line('baseline', baseline, before), line('checked', run, after)],
    [false, false, true, true, true, true, true],
  );
  const range = `95 %: ${signed(confidence.low)} to ${signed(confidence.high)}, T ${confidence.t.toFixed(1)}`;
  const blocks = [levels, `${verdict}: ${signed(change)} (${range}), ${inWords(verdict, failOn)}`];
  if (cause !== undefined) blocks.push([`cause: ${cause.kind}`, ...cause.evidence.map((text) => `  ${printable(text)}`)].join('\n'));
  const phases = phasesOf(checked).slice(0, phasesShown);
  if (phases.length > 0) {
    const rows = phases.map(({ phase, before, after }) => [phase, formatNanos(before), formatNanos(after), difference(after - before)]);
    blocks.push(formatTable([['phase, mean per step', 'baseline', 'checked', 'difference'], ...rows], [false, true, true, true]));
  }
  return blocks.join('\n\n');
}

function inWords(verdict: CheckVerdict, failOn: number): string {
  const limit = `${Number((100 * failOn).toFixed(4))} %`;
  switch (verdict) {
    case 'slower':
      return `${limit} or more fail the check`;
    case 'inconclusive':
      return `over ${limit}, but steps scatter so much that it may be noise: more steps would tell`;
    case 'faster':
      return `a new baseline would hold it`;
    default:
      return `less than ${limit}`;
  }
}

function asData(checked: Checked): unknown {
  const { verdict, failOn, baseline, run, comparison, cause } = checked;
  const side = ({ run, ranks, summary }: Recorded, { level, noise, steps, warmUp }: SeriesComparison['before']): unknown => ({
    ...{ run, ranks, steps: summary.stepCount, comparedSteps: steps, warmUpSteps: warmUp, stepNs: level, noise },
  });
  return {
    verdict,
    failOn,
    change: comparison.change,
    confidence: comparison.confidence,
    isCertain: comparison.isCertain,
    baseline: side(baseline, comparison.before),
    checked: side(run, comparison.after),
    ...(cause === undefined ? {} : { cause: causeData(cause) }),
    phases: phasesOf(checked).map(({ phase, before, after }) => ({ phase, beforeNs: before, afterNs: after })),
  };
}

function causeData({ change, before, now, ...about }: BlameChange): unknown {
  return { ...about, changeNs: change, beforeNs: before, afterNs: now };
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const signed = (share: number): string => `${share < 0 ? '−' : '+'}${percent(Math.abs(share))}`;
const difference = (ns: number): string => `${ns < 0 ? '−' : '+'}${formatNanos(Math.abs(ns))}`;
