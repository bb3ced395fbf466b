// `ranktrace export INPUT… --to FORMAT -o FILE`: a run, or a part of it, for other programs: torch.profiler's files, Chrome JSON, a Perfetto trace,
// collapsed stacks, CSV.

import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type MergeInput, mergeStored } from '@ranktrace/aggregator';
import { printable } from '@ranktrace/protocol';
import {
  chromeWriter,
  csvWriter,
  foldedWriter,
  type ProcessTotals,
  StepTimesSink,
  type TraceEvent,
  type TraceHeader,
  type TraceLane,
  type TraceSink,
  WindowSink,
  type WriteBytes,
} from '@ranktrace/trace';
import type { StepRange } from '@ranktrace/trace/blame';
import { perfettoWriter } from '@ranktrace/trace/perfetto';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import type { ExportFormat } from '../options/option-choices.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { CliError } from '../terminal/errors.ts';
import { formatBytes, formatCount } from '../terminal/format.ts';
import { abortOnInterrupt, Interrupted } from '../terminal/interrupt.ts';
import { printData, say } from '../terminal/output.ts';
import { type ExportFiles, NamedFiles, StandardOutput } from './export-files.ts';
import { KinetoExport } from './kineto-export.ts';

export interface ExportOptions extends InputOptions {
  readonly to: ExportFormat;
  /** A file, a directory, or `-` for stdout. */
  readonly output: string;
  readonly steps?: StepRange | undefined;
  /** ns from the first step, as the page shows times; without steps, trace time. */
  readonly from?: number | undefined;
  readonly until?: number | undefined;
  readonly ranks?: readonly StepRange[] | undefined;
  readonly json?: boolean | undefined;
}

const extensions: Readonly<Record<ExportFormat, string>> = {
  kineto: '.pt.trace.json.gz',
  chrome: '.json.gz',
  perfetto: '.pftrace',
  folded: '.folded',
  csv: '.csv.gz',
};

const writers: Readonly<Record<Exclude<ExportFormat, 'kineto'>, (write: WriteBytes) => TraceSink>> = {
  chrome: chromeWriter,
  perfetto: perfettoWriter,
  folded: foldedWriter,
  csv: csvWriter,
};

export async function exportRun(inputs: readonly string[], options: ExportOptions): Promise<number> {
  const { to, output, steps, from, until, ranks } = options;
  if (from !== undefined && until !== undefined && until <= from) throw new CliError('bad_usage', '--until must be after --from');
  const isPipe = output === '-';
  if (isPipe && options.json === true) throw new CliError('bad_usage', '--json prints on stdout, where -o - writes the export');
  using opened = await openRun(inputs, options);
  using interrupt = abortOnInterrupt();
  const files: ExportFiles = isPipe ? new StandardOutput() : new NamedFiles(namesOf(output, to, opened.run));
  const hasRank = (rank: number): boolean => ranks?.some(({ first, last }) => rank >= first && rank <= last) ?? true;
  try {
    const zero = from === undefined && until === undefined ? 0 : await zeroOf(opened.input, interrupt.signal);
    const since = from === undefined ? undefined : from + zero;
    const before = until === undefined ? undefined : until + zero;
    const writer = to === 'kineto' ? new KinetoExport(files) : writers[to](files.open(undefined));
    const window = new WindowSink(new KnownRanks(writer, options.ranks !== undefined), { from: since, until: before, hasRank });
    await mergeAndReport(opened, undefined, [window], interrupt.signal, steps, () => files.drained());
    if (window.events === 0) throw new CliError('bad_input', 'There is no event in this part of the run: nothing was written');
    const written = await files.commit();
    const shown = written.map(({ path, bytes }) => `${printable(path)} (${formatBytes(bytes)})`);
    if (options.json === true) printData({ format: to, events: window.events, files: written });
    else if (!isPipe)
      say(
        `exported ${formatCount(window.events)} events: ${shown.slice(0, 4).join(', ')}${shown.length > 4 ? ` and ${shown.length - 4} more` : ''}`,
      );
    return 0;
  } catch (error) {
    await files.discard();
    if (interrupt.signal.aborted)
      throw new Interrupted(interrupt.exitCode, `Interrupted: nothing was written${isPipe ? ' to its end' : ''}`);
    throw error;
  }
}

/** The trace time that the page and the report count times from: the first step of any rank. */
async function zeroOf(input: MergeInput, signal: AbortSignal): Promise<number> {
  const sink = new StepTimesSink(0, Number.MAX_SAFE_INTEGER);
  // The merge that follows reports what cannot be read.
  await mergeStored(input, [sink], { signal, onUnreadable: () => {}, onSkipped: () => {} });
  return sink.firstStart ?? 0;
}

/** Ends an export before its first event where none of the ranks of `--ranks` is in the run. */
class KnownRanks implements TraceSink {
  readonly #sink: TraceSink;
  readonly #isChosen: boolean;

  constructor(sink: TraceSink, isChosen: boolean) {
    this.#sink = sink;
    this.#isChosen = isChosen;
  }

  begin(header: TraceHeader): void {
    if (this.#isChosen && header.processes.length === 0) throw new CliError('bad_input', 'None of the ranks of --ranks is in this run');
    this.#sink.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#sink.lane(lane);
  }

  event(event: TraceEvent): void {
    this.#sink.event(event);
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#sink.end(totals);
  }
}

/** Paths of the files: in a directory under names of their own; of several ranks in one path, `{rank}` is the number. */
function namesOf(output: string, to: ExportFormat, run: string): (rank: number | undefined) => string {
  const isDirectory = output.endsWith('/') || (statSync(output, { throwIfNoEntry: false })?.isDirectory() ?? false);
  if (isDirectory) {
    if (!existsSync(output)) mkdirSync(output, { recursive: true });
    return (rank) => join(output, `${rank === undefined ? run : `rank${rank}`}${extensions[to]}`);
  }
  return (rank) => (rank === undefined ? output : output.replaceAll('{rank}', String(rank)));
}
