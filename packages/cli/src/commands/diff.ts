// `ranktrace diff A B`: two runs compared: steps, phases, ops, kernels, collectives; what is slower, faster, added or gone, and what of that is noise.

import type { RunDifference } from '@ranktrace/protocol';
import { OpenWorkSink } from '@ranktrace/trace';
import type { StepRange } from '@ranktrace/trace/blame';
import { compareRuns, type RunTimes, RunTimesSink } from '@ranktrace/trace/compare';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { chosenNames, type DifferenceOptions, firstOfEachKind, formatDifference } from '../print/print-difference.ts';
import { badEnds } from '../print/run-end.ts';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt, type Interrupt } from '../terminal/interrupt.ts';
import { print, printData, say } from '../terminal/output.ts';

export interface DiffOptions extends Omit<InputOptions, 'run' | 'runOption'> {
  readonly runA?: string | undefined;
  readonly runB?: string | undefined;
  /** Share: 0.03 is 3 %. */
  readonly failOn: number;
  /** Only these steps of both, and ranks. */
  readonly steps?: StepRange | undefined;
  readonly ranks?: readonly StepRange[] | undefined;
  readonly on?: DifferenceOptions['on'];
  readonly sort: DifferenceOptions['sort'];
  readonly limit?: number | undefined;
  readonly all?: boolean | undefined;
  readonly json?: boolean | undefined;
}

const textRows = 20;

export async function diff(a: string, b: string, options: DiffOptions): Promise<number> {
  using interrupt = abortOnInterrupt();
  const before = await timesOf(a, { run: options.runA, runOption: '--run-a' }, options, interrupt);
  const after = await timesOf(b, { run: options.runB, runOption: '--run-b' }, options, interrupt);
  const difference = compareRuns(before, after, options.failOn);
  if (options.json === true) {
    const names = chosenNames(difference, options);
    const shown = firstOfEachKind(names, options.limit);
    const data: RunDifference = { ...difference, names: shown, namesLeftOut: difference.namesLeftOut + names.length - shown.length };
    printData(data);
  } else {
    print(
      formatDifference(difference, { sort: options.sort, on: options.on, limit: options.limit ?? textRows, all: options.all === true }),
    );
  }
  return difference.verdict === 'slower' ? 1 : 0;
}

async function timesOf(
  path: string,
  chosen: Pick<InputOptions, 'run' | 'runOption'>,
  options: DiffOptions,
  { signal }: Interrupt,
): Promise<RunTimes> {
  const { allowMixed, memory, steps, ranks } = options;
  using opened = await openRun([path], { ...chosen, allowMixed, memory });
  const hasRank = (rank: number): boolean => ranks?.some(({ first, last }) => rank >= first && rank <= last) ?? true;
  const sink = new RunTimesSink({ hasRank, steps });
  const openWork = new OpenWorkSink();
  const report = await mergeAndReport(opened, undefined, [sink, openWork], signal);
  const { header, summary } = report;
  for (const text of badEnds(report, openWork.summary)) say(`"${path}" did not end well, and its steps are those before that: ${text}`);
  const { times } = sink;
  if (times.ranks.length === 0) {
    const there = [...new Set(header.processes.map(({ rank }) => rank))];
    throw new CliError(
      'bad_input',
      `"${path}" has none of the ranks of --ranks: it has ${there.slice(0, 16).join(', ')}${there.length > 16 ? ', …' : ''}`,
    );
  }
  if (steps !== undefined && times.steps === 0) {
    const [first, last] = [summary.steps[0]?.step, summary.steps.at(-1)?.step];
    const has = first === undefined ? 'it has no steps' : `it has steps ${first} to ${last}`;
    throw new CliError('bad_input', `"${path}" has no step from ${steps.first} to ${steps.last}: ${has}`);
  }
  if (times.names.length === 0 && times.summary.stepCount === 0)
    throw new CliError('bad_input', `"${path}" holds nothing to compare: no steps and no spans`);
  // Files of other programs name no run: what was typed distinguishes A from B.
  return opened.kind === 'store' ? times : { ...times, run: path };
}
