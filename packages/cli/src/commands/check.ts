// `ranktrace check RUN --baseline B --fail-on 3%`: the gate of a pipeline. Are the steps of a run longer than those of another, by how much, how
// certain is that, and where does the time go?
//
//   each input ──merge──► steps, each as long as its slowest rank ──► level, noise ─┐
//                   └───► what blame keeps of the last steps ──────────────────────┴► change, its confidence, its cause
//
// With --save, check also writes the steps of the run to a small file, a baseline from then on. Only `slower` fails (exit code 1).

import { formatCheck, savedLine } from '../check/check-formats.ts';
import { checkResult } from '../check/check-result.ts';
import { isSavedSteps, type RecordedSteps, readSavedSteps, recordedSteps, saveSteps, writeWhole } from '../check/recorded-steps.ts';
import type { InputOptions } from '../inputs/open-inputs.ts';
import { filesOf } from '../inputs/piped-files.ts';
import type { CheckFormat } from '../options/option-choices.ts';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { print, printData, say } from '../terminal/output.ts';

export interface CheckOptions extends InputOptions {
  readonly baseline?: readonly string[] | undefined;
  readonly baselineRun?: string | undefined;
  /** Share: 0.03 is 3 %. */
  readonly failOn: number;
  /** File that keeps the steps of the run as a baseline. */
  readonly save?: string | undefined;
  /** Format of the output. */
  readonly format?: CheckFormat | undefined;
  /** The same as format `json`. */
  readonly json?: boolean | undefined;
  /** File that gets the check in this format, beside the output. */
  readonly markdown?: string | undefined;
  readonly junit?: string | undefined;
}

export async function check(inputs: readonly string[], options: CheckOptions): Promise<number> {
  const format = formatOf(options);
  const { baseline: given, save } = options;
  if (given === undefined && save === undefined) {
    throw new CliError('bad_usage', 'check needs --baseline INPUT to compare with, or --save FILE to make a baseline');
  }
  if (given === undefined && (options.markdown ?? options.junit ?? options.baselineRun) !== undefined) {
    throw new CliError('bad_usage', '--markdown, --junit and --baseline-run are about a comparison: check needs --baseline INPUT for it');
  }
  if (given === undefined && format !== 'text' && format !== 'json')
    throw new CliError('bad_usage', `--format ${format} needs --baseline INPUT to compare with`);
  using interrupt = abortOnInterrupt();
  const baseline = given === undefined ? undefined : await readBaseline(given, options, interrupt.signal);
  const checked = await recordedSteps(
    inputs,
    { run: options.run, allowMixed: options.allowMixed, memory: options.memory },
    interrupt.signal,
  );
  if (given === undefined)
    for (const text of checked.badEnds) say(`the run did not end well, and its steps are those before that: ${text}`);
  const saves = (): string => (save === undefined ? '' : savedLine(save, saveSteps(save, checked), checked.run, checked.level));
  if (baseline === undefined) {
    const saved = saves();
    if (format === 'json') printData({ saved: save, run: checked.run, steps: checked.steps });
    else print(saved);
    return 0;
  }
  const result = checkResult(baseline, checked, options.failOn);
  // First, as a file that cannot be written must not cost the verdict.
  print(formatCheck(result, format));
  if (save !== undefined) say(saves());
  for (const kind of ['markdown', 'junit'] as const) {
    const path = options[kind];
    if (path !== undefined) writeWhole(path, formatCheck(result, kind));
  }
  return result.verdict === 'slower' ? 1 : 0;
}

function formatOf({ format, json }: CheckOptions): CheckFormat {
  if (json !== true) return format ?? 'text';
  if (format !== undefined && format !== 'json')
    throw new CliError('bad_usage', `--json is --format json: leave one of them out, got ${format}`);
  return 'json';
}

/** Reads a run, or a file of `--save`. */
async function readBaseline(given: readonly string[], options: CheckOptions, signal: AbortSignal): Promise<RecordedSteps> {
  const paths = await filesOf(given);
  const saved = paths.find(isSavedSteps);
  if (saved === undefined)
    return recordedSteps(
      paths,
      { run: options.baselineRun, runOption: '--baseline-run', allowMixed: options.allowMixed, memory: options.memory },
      signal,
    );
  if (paths.length > 1) throw new CliError('bad_usage', `"${saved}" is a saved baseline: give it alone, got ${paths.length} inputs`);
  if (options.baselineRun !== undefined) {
    throw new CliError('bad_usage', `--baseline-run chooses among the runs of a store: "${saved}" is a saved baseline of one`);
  }
  return readSavedSteps(saved);
}
