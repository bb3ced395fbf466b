// Opens the inputs of a command; no other file does. Every command takes the same kinds of input (input-kinds.ts):
//
//   store      run directories, directories of runs, spools, segments: read as one, of several runs the one that `--run` names
//   torch      torch.profiler's files and directories of them: one job
//   ndtimeline one file, which holds all workers of a job
//   zipkin     one file
//   inspector  logs of NCCL Inspector and directories of them: one job
//   flightRecorder  dumps of PyTorch's Flight Recorder and directories of them: one job
//   perfetto   one .pftrace
//
// Only `view` shows several side by side. Invariants: kinds are not mixed in one run; an option that has no effect on an input is an error.

import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { type MergeInput, openBatchLog, RunLock, type StoredSource, type ViewInput } from '@ranktrace/aggregator';
import { limits } from '@ranktrace/protocol';
import type { ReadBudget } from '@ranktrace/trace';
import type { KinetoTable } from '@ranktrace/trace/torch';
import { CliError } from '../terminal/errors.ts';
import { formatCount } from '../terminal/format.ts';
import { say } from '../terminal/output.ts';
import { openFlightRecorderFiles } from './flight-recorder-files.ts';
import { type Input, type InputKind, inputsOf, isRunStore, kindNames } from './input-kinds.ts';
import { openInspectorFiles } from './inspector-files.ts';
import { openNdtimelineFile } from './ndtimeline-file.ts';
import { openPerfettoFile } from './perfetto-file.ts';
import { filesOf } from './piped-files.ts';
import { readBudget } from './read-memory.ts';
import { readTorchFiles } from './torch-files.ts';
import { openTorchJob, type TorchProfile } from './torch-job.ts';
import { openZipkinFile } from './zipkin-file.ts';

export interface InputOptions {
  /** `--run`: selects one of several runs in a store. */
  readonly run?: string | undefined;
  /** The option that `run` came from, for messages; default `--run`. */
  readonly runOption?: string | undefined;
  /** `--allow-mixed`: accepts torch.profiler files of several jobs as one. */
  readonly allowMixed?: boolean | undefined;
  /** `--memory`: bound for reading, bytes. */
  readonly memory?: number | undefined;
}

/** One run, opened. */
export interface RunInput extends Disposable {
  readonly kind: InputKind;
  readonly run: string;
  readonly input: MergeInput;
  /** For a store: its incarnations, as stored. */
  readonly stored: readonly StoredSource[];
  /** A store's own directories of the run, where a service keeps more than batches. */
  readonly directories: readonly string[];
  /** Whether a service writes it now: for a store. */
  readonly isWritten?: boolean;
  /** For torch.profiler's files: each of them. */
  readonly profiles: readonly TorchProfile[];
  /** The rest of `--memory`, for the analysis. */
  readonly budget: ReadBudget;
}

/** Runs side by side. */
export interface RunInputs extends Disposable {
  /** In the given order; at least one. */
  readonly inputs: readonly ViewInput[];
}

/** Name of the run of torch's own files, which do not name it. */
const torchRun = 'torch-profiler';
const flightRecorderRun = 'flight-recorder';
const inspectorRun = 'nccl-inspector';

/** Opens `given` as one run. Throws CliError; AggregatorError and TraceError for unreadable inputs. */
export async function openRun(given: readonly string[], options: InputOptions): Promise<RunInput> {
  const paths = await filesOf(given);
  const inputs = inputsOf(paths);
  const [first] = inputs as readonly [Input, ...Input[]];
  const { kind } = first;
  const other = inputs.find((input) => input.kind !== kind);
  if (other !== undefined) {
    const both = `"${first.path}" is ${kindNames[kind]}, "${other.path}" is ${kindNames[other.kind]}`;
    throw new CliError('bad_usage', `Inputs must be of one kind: ${both}`);
  }
  refuseWithoutEffect(inputs, options);
  sayStrays(inputs);
  const budget = readBudget(inputs, options.memory);
  if (kind === 'store') return openStore(paths, options, budget);
  const none = { stored: [], directories: [], profiles: [], budget, [Symbol.dispose]: () => {} };
  if (kind === 'torch') {
    const { run = torchRun, profiles, sources, [Symbol.dispose]: close } = await openTorchJob(inputs, options.allowMixed === true, budget);
    return { ...none, kind, run, input: sources(run), profiles, [Symbol.dispose]: close };
  }
  if (kind === 'flightRecorder')
    return { ...none, kind, run: flightRecorderRun, input: openFlightRecorderFiles(inputs, flightRecorderRun) };
  if (kind === 'inspector') return { ...none, kind, run: inspectorRun, input: await openInspectorFiles(inputs, inspectorRun, budget) };
  const files = inputs.flatMap((input) => input.files);
  const [file] = files as [string, ...string[]];
  if (files.length > 1) {
    throw new CliError('bad_usage', `"${file}" is ${kindNames[kind]}, which is a whole run: give one of them alone, got ${files.length}`);
  }
  if (kind === 'zipkin') return { ...none, kind, run: 'zipkin', input: openZipkinFile(file, budget) };
  if (kind === 'ndtimeline') return { ...none, kind, run: 'ndtimeline', input: await openNdtimelineFile(inputs, 'ndtimeline', budget) };
  const { trace, [Symbol.dispose]: close } = await openPerfettoFile(file, budget);
  return { ...none, kind, run: trace.header.run, input: trace, [Symbol.dispose]: close };
}

/**
 * The table of the single torch.profiler file in `paths`, with no more of it in memory than torch's averages need; undefined for any other input.
 * Throws as `openRun`.
 */
export async function openTorchTable(paths: readonly string[], options: InputOptions): Promise<KinetoTable | undefined> {
  const inputs = inputsOf(await filesOf(paths));
  const [{ kind }] = inputs as readonly [Input, ...Input[]];
  if (kind !== 'torch' || inputs.flatMap(({ files }) => files).length > 1) return undefined;
  refuseWithoutEffect(inputs, options);
  const [file] = await readTorchFiles(inputs, { keep: 'known', budget: readBudget(inputs, options.memory) });
  return file?.table;
}

/** Rejects options that have no effect on the kinds of `inputs`. Throws CliError `bad_usage`. */
function refuseWithoutEffect(inputs: readonly Input[], { run, runOption = '--run', allowMixed }: InputOptions): void {
  const [{ path, kind }] = inputs as readonly [Input, ...Input[]];
  const isOf = (wanted: InputKind): boolean => inputs.some((input) => input.kind === wanted);
  if (run !== undefined && !isOf('store')) {
    throw new CliError('bad_usage', `${runOption} chooses among the runs of a store: "${path}" is ${kindNames[kind]}`);
  }
  if (allowMixed === true && !isOf('torch')) {
    throw new CliError('bad_usage', `--allow-mixed is about torch.profiler files: "${path}" is ${kindNames[kind]}`);
  }
}

/** A folder may have as many dumps beside its traces as there are ranks. */
const straysShownMax = 16;

function sayStrays(inputs: readonly Input[]): void {
  for (const { kind, path: directory, strays = [] } of inputs) {
    for (const path of strays.slice(0, straysShownMax)) say(`left out "${path}": it is not ${kindNames[kind]}, as others beside it are`);
    const more = strays.length - straysShownMax;
    if (more > 0) say(`left out ${formatCount(more)} more of "${directory}" for that reason`);
  }
}

/** Opens a run of the store in `paths`. */
function openStore(paths: readonly string[], { run, runOption = '--run' }: InputOptions, budget: ReadBudget): RunInput {
  const log = openBatchLog(paths);
  try {
    for (const notice of log.notices) say(notice);
    if (run === undefined && log.runs.length > 1) {
      throw new CliError('bad_usage', `${quoted(paths)} holds ${log.runs.length} runs: name one with ${runOption}, of ${quoted(log.runs)}`);
    }
    const chosen = run ?? log.runs[0];
    if (chosen === undefined) throw new CliError('bad_input', `${quoted(paths)} holds no batches of any run`);
    const stored = log.run(chosen).sources();
    const directories = directoriesOf(paths, chosen);
    const isWritten = directories.some((directory) => RunLock.isHeld(directory));
    const about = { kind: 'store', run: chosen, input: stored, stored, directories, isWritten } as const;
    return { ...about, profiles: [], budget, [Symbol.dispose]: () => log.close() };
  } catch (error) {
    log.close();
    throw error;
  }
}

/** The directories of this run among `paths` and their subdirectories. A spool or a segment is in none. */
function directoriesOf(paths: readonly string[], run: string): string[] {
  const isRun = (path: string): boolean => basename(resolve(path)) === run && existsSync(join(path, 'run.json'));
  return paths.flatMap((path) => [path, join(path, run)]).filter(isRun);
}

/**
 * Opens all of `paths` as runs side by side: each run of a run directory or of a directory of run directories (with `run`, only that one), spools and
 * segments together, torch.profiler's files together and each directory of them, each Zipkin and .pftrace file. Their names differ, and are valid in
 * an address. Throws the errors of `openRun`.
 */
export async function openRuns(paths: readonly string[], options: InputOptions): Promise<RunInputs> {
  const inputs = inputsOf(await filesOf(paths));
  refuseWithoutEffect(inputs, options);
  sayStrays(inputs);
  const opened = new OpenedRuns(readBudget(inputs, options.memory));
  try {
    for (const group of groupsOf(inputs)) await openGroup(group, options, opened);
    if (opened.inputs.length === 0) throw new CliError('bad_input', `${quoted(paths)} holds no batches of any run`);
    return opened;
  } catch (error) {
    opened[Symbol.dispose]();
    throw error;
  }
}

class OpenedRuns implements RunInputs {
  readonly inputs: ViewInput[] = [];
  readonly #names = new Set<string>();
  readonly #close: (() => void)[] = [];
  /** The memory bound for all of them together. */
  readonly budget: ReadBudget;

  constructor(budget: ReadBudget) {
    this.budget = budget;
  }

  /** `wanted` as a unique name among the inputs. */
  name(wanted: string): string {
    const clean = wanted.replaceAll(/[^A-Za-z0-9_-]+/g, '-').replaceAll(/^-+|-+$/g, '') || 'trace';
    let name = clean.slice(0, limits.runNameCharsMax);
    for (let number = 2; this.#names.has(name); number++) {
      const suffix = `-${number}`;
      name = clean.slice(0, limits.runNameCharsMax - suffix.length) + suffix;
    }
    this.#names.add(name);
    return name;
  }

  onClose(close: () => void): void {
    this.#close.push(close);
  }

  [Symbol.dispose](): void {
    for (let close = this.#close.pop(); close !== undefined; close = this.#close.pop()) close();
  }
}

/** Groups inputs that belong together: files of a job, and parts of a run. A group takes the place of its first input. */
function groupsOf(inputs: readonly Input[]): readonly (readonly Input[])[] {
  const groups: Input[][] = [];
  const isOfJob = ({ kind }: Input): boolean => kind === 'torch' || kind === 'inspector' || kind === 'flightRecorder';
  const joins = (input: Input): boolean => (isOfJob(input) ? !input.isDirectory : input.kind === 'store' && !isRunStore(input));
  for (const input of inputs) {
    const together = joins(input) ? groups.find(([first]) => first !== undefined && first.kind === input.kind && joins(first)) : undefined;
    if (together === undefined) groups.push([input]);
    else together.push(input);
  }
  return groups;
}

async function openGroup(group: readonly Input[], options: InputOptions, opened: OpenedRuns): Promise<void> {
  const [{ kind, path, isDirectory, files }] = group as readonly [Input, ...Input[]];
  switch (kind) {
    case 'perfetto':
      for (const file of files) {
        const { trace, [Symbol.dispose]: close } = await openPerfettoFile(file, opened.budget);
        opened.onClose(close);
        opened.inputs.push({ run: opened.name(fileName(file)), perfetto: () => trace });
      }
      return;
    case 'zipkin':
      opened.inputs.push({ run: opened.name(fileName(path)), sources: openZipkinFile(path, opened.budget) });
      return;
    case 'flightRecorder': {
      const run = opened.name(isDirectory ? basename(resolve(path)) : flightRecorderRun);
      opened.inputs.push({ run, sources: openFlightRecorderFiles(group, run) });
      return;
    }
    case 'inspector': {
      const run = opened.name(isDirectory ? basename(resolve(path)) : inspectorRun);
      opened.inputs.push({ run, sources: await openInspectorFiles(group, run, opened.budget) });
      return;
    }
    case 'ndtimeline':
      for (const file of files) {
        const run = opened.name(fileName(file));
        opened.inputs.push({
          run,
          sources: await openNdtimelineFile([{ kind, path: file, files: [file], isDirectory: false }], run, opened.budget),
        });
      }
      return;
    case 'torch': {
      const isOne = !isDirectory && group.length === 1;
      const name = opened.name(isOne ? fileName(path) : basename(resolve(isDirectory ? path : dirname(path))));
      const job = await openTorchJob(group, options.allowMixed === true, opened.budget);
      opened.onClose(() => job[Symbol.dispose]());
      opened.inputs.push({ run: name, sources: job.sources(name) });
      return;
    }
    default: {
      const log = openBatchLog(group.map((input) => input.path));
      opened.onClose(() => log.close());
      for (const notice of log.notices) say(notice);
      for (const name of options.run === undefined ? log.runs : [options.run]) {
        const sources = log.run(name).sources();
        if (sources.length === 0 && options.run === undefined) continue;
        const [directory] = directoriesOf(
          group.map((input) => input.path),
          name,
        );
        opened.inputs.push({ run: opened.name(name), sources, directory });
      }
    }
  }
}

/** A file's name without the extensions of its format. */
const fileName = (path: string): string =>
  basename(path).replace(/(?:\.pt)?(?:\.trace|\.chrome-trace)?\.(?:json|pftrace|perfetto-trace)(?:\.gz)?$/, '');
const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');
