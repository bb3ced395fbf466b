// One side of a check: the few numbers about a run's steps that a comparison needs. `check --save` writes the same as JSON, so that a pipeline keeps
// kilobytes of its baseline and no store:
//
//   {"format":"ranktrace-baseline","version":1,"run":…,"ranks":…,"steps":…,"level":{…},"phasesNs":{…},"blame":{…}}
//
// Invariant: a file is read within limits and checked in full; its name proves nothing.

import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { OpenWorkSink, type RunSummary } from '@ranktrace/trace';
import { type BlameLevels, levelsOf, StepBlameSink } from '@ranktrace/trace/blame';
import { stepLevelOf, stepTimesOf } from '@ranktrace/trace/compare';
import { type SeriesLevel, seriesStepsMin } from '@ranktrace/trace/detect';
import { type DeviceLevels, GpuBlameSink, GpuSink } from '@ranktrace/trace/gpu';
import { z } from 'zod';
import { beginningOf } from '../inputs/file-beginning.ts';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { badEnds } from '../print/run-end.ts';
import { CliError } from '../terminal/errors.ts';

export interface RecordedSteps {
  readonly run: string;
  readonly ranks: number;
  readonly steps: number;
  readonly level: SeriesLevel;
  /** Whose steps these are. Absent in what earlier versions saved: those of hosts, and of devices nothing is known. */
  readonly takenBy?: RunSummary['takenBy'];
  /** Where they are those of devices, the level of the hosts' steps. */
  readonly hostLevel?: SeriesLevel | undefined;
  /** Mean time per step and rank of each phase, ns. */
  readonly phases: ReadonlyMap<string, number>;
  /** From the last steps: the data to find the cause of a difference; undefined where no step was reported by all ranks. */
  readonly blame: BlameLevels | undefined;
  /** The same of steps on the devices; undefined where not every rank has device work. */
  readonly devices?: DeviceLevels | undefined;
  /** How the run did not end well (`badEnds`); none for a run that did, and for a saved baseline. */
  readonly badEnds: readonly string[];
}

const format = 'ranktrace-baseline';
const version = 1;
/** 65,536 ranks with eight phases each. */
const fileBytesMax = 64 * 1024 ** 2;
/** Longest text, in characters, of a place in a file that an error shows. */
const pathCharsMax = 200;

/** Reads the steps of the run in `paths`. Throws the errors of `openRun`, and CliError `bad_input` for fewer than three steps. */
export async function recordedSteps(paths: readonly string[], options: InputOptions, signal: AbortSignal): Promise<RecordedSteps> {
  using opened = await openRun(paths, options);
  const blame = new StepBlameSink();
  const openWork = new OpenWorkSink();
  const gpus = new GpuSink();
  const deviceBlame = new GpuBlameSink(gpus);
  const report = await mergeAndReport(opened, undefined, [blame, openWork, gpus, deviceBlame], signal);
  const { header, summary } = report;
  const level = stepLevelOf(summary);
  if (level === undefined) {
    const names = paths.map((path) => `"${path}"`).join(', ');
    const times = stepTimesOf(summary);
    const empty = times.filter((length) => length <= 0).length;
    const steps = `${times.length} ${times.length === 1 ? 'step' : 'steps'} that all ranks reported`;
    const what = `it has ${steps}${empty > 0 ? `, ${empty} of them without a length` : ''}, at least ${seriesStepsMin} are needed`;
    throw new CliError('bad_input', `Cannot check ${names}: ${what}`);
  }
  const { run } = header;
  const { takenBy, hosts } = summary;
  const steps = {
    ranks: summary.ranks.length,
    steps: summary.stepCount,
    level,
    takenBy,
    hostLevel: hosts && stepLevelOf(hosts),
    phases: meanPhases(summary),
    blame: levelsOf(blame.window),
    devices: deviceBlame.levels,
  };
  return { run, ...steps, badEnds: badEnds(report, openWork.summary) };
}

function meanPhases({ ranks }: RunSummary): Map<string, number> {
  const steps = ranks.reduce((sum, rank) => sum + rank.steps, 0);
  const means = new Map<string, number>();
  for (const rank of ranks) {
    for (const [name, length] of rank.phases) means.set(name, (means.get(name) ?? 0) + (length * rank.steps) / steps);
  }
  return means;
}

const count = z.number().int().nonnegative();
// As long as what --save writes, which is bounded by the file alone: names of kernels have no limit.
const name = z.string();
const length = z.number().finite();
const alignment = z.object({ bound: length.nonnegative().optional(), unaligned: z.array(count) });
const blameSchema = z
  .object({
    steps: count.positive(),
    step: length.positive(),
    phases: z.array(name).min(1).max(4096),
    ranks: z.array(z.object({ rank: count, hostName: name, peers: name, own: z.array(length), error: length.nonnegative() })),
    frontier: z.array(length),
    transfers: z.array(z.tuple([name, length])),
    spread: length,
    alignment,
    uncertainty: length.nonnegative().optional(),
    hidesWaits: z.boolean(),
    cpuWait: z.object({ isBusy: z.boolean(), text: z.array(name).max(4).readonly() }).optional(),
  })
  .refine(({ phases, frontier, ranks }) => [frontier, ...ranks.map(({ own }) => own)].every((of) => of.length === phases.length), {
    message: 'must have a number for each phase',
  });
const levelSchema = z.object({
  level: length.positive(),
  noise: length.positive(),
  blocks: count.positive(),
  steps: count.positive(),
  warmUp: count,
  error: length.positive().max(10).optional(),
  degrees: length.positive().optional(),
  long: z
    .object({
      steps: count.positive(),
      count,
      size: length.nonnegative().max(1e9),
      scatter: length.nonnegative().max(1e18),
      irregularity: length.nonnegative().max(1e9),
    })
    .refine((long) => long.count <= long.steps, { message: 'must not count more than steps' })
    .optional(),
});
const devicesSchema = z.object({ blame: blameSchema, kernelsNs: z.record(name, length.nonnegative()), kernelsLeftOut: count });
const fileSchema = z.object({
  format: z.literal(format),
  version: z.literal(version),
  run: name,
  ranks: count.positive(),
  steps: count.positive(),
  takenBy: z.enum(['hosts', 'devices', 'both', 'unknown']).optional(),
  level: levelSchema,
  hostLevel: levelSchema.optional(),
  phasesNs: z.record(name, length.nonnegative()),
  blame: blameSchema.optional(),
  devices: devicesSchema.optional(),
});

/** Whether `saveSteps` wrote the file at `path`, judged by its beginning; other programs may have written it anew, with spaces. */
export const isSavedSteps = (path: string): boolean =>
  new RegExp(`"format"\\s*:\\s*"${format}"`).test(new TextDecoder().decode(beginningOf(path).subarray(0, 256)));

/** Writes `recorded` to `path`; returns its size in bytes. */
export function saveSteps(path: string, { phases, blame, devices, badEnds: _, ...recorded }: RecordedSteps): number {
  const saved: z.input<typeof fileSchema> = {
    ...{ format, version, ...recorded },
    phasesNs: Object.fromEntries(phases),
    ...(blame && { blame: savedLevels(blame) }),
    ...(devices && { devices: savedDevices(devices) }),
  };
  const text = `${JSON.stringify(saved)}\n`;
  writeWhole(path, text);
  return Buffer.byteLength(text);
}

/** Throws CliError `bad_input`. */
export function writeWhole(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (cause) {
    throw new CliError('bad_input', `Cannot write "${path}": ${(cause as Error).message}`, { cause });
  }
}

/** Roles are not saved: those of the checked run count. */
const savedLevels = ({ roles: _, phases, ranks, frontier, transfers, alignment: { bound, unaligned }, ...rest }: BlameLevels) => ({
  ...rest,
  phases: [...phases],
  ranks: ranks.map((rank) => ({ ...rank, own: [...rank.own] })),
  frontier: [...frontier],
  transfers: [...transfers],
  alignment: { bound, unaligned: [...unaligned] },
});

const readLevels = ({ transfers, alignment: { bound, unaligned }, ...rest }: z.output<typeof blameSchema>): BlameLevels => ({
  ...rest,
  transfers: new Map(transfers),
  alignment: { bound, unaligned },
  uncertainty: rest.uncertainty,
});

const savedDevices = ({ blame, kernels, kernelsLeftOut }: DeviceLevels) => ({
  blame: savedLevels(blame),
  ...{ kernelsNs: Object.fromEntries(kernels), kernelsLeftOut },
});

const readDevices = ({ blame, kernelsNs, kernelsLeftOut }: z.output<typeof devicesSchema>): DeviceLevels => ({
  blame: readLevels(blame),
  ...{ kernels: new Map(Object.entries(kernelsNs)), kernelsLeftOut },
});

/** Reads a file of `saveSteps`. Throws CliError `bad_input` with the first error. */
export function readSavedSteps(path: string): RecordedSteps {
  const { size } = statSync(path);
  if (size > fileBytesMax) throw new CliError('bad_input', `Cannot read "${path}": a baseline may have ${fileBytesMax} bytes, got ${size}`);
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new CliError('bad_input', `Cannot read the baseline "${path}": ${(cause as Error).message}`, { cause });
  }
  const written = z.object({ version: z.number() }).safeParse(value).data?.version;
  if (written !== undefined && written !== version) {
    throw new CliError(
      'bad_input',
      `Cannot read the baseline "${path}": it is of version ${written}, this ranktrace reads version ${version}`,
    );
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new CliError(
      'bad_input',
      `Cannot read the baseline "${path}": ${issue?.path.join('.').slice(0, pathCharsMax)}: ${issue?.message}`,
    );
  }
  const { phasesNs, blame, devices, run, ranks, steps, level, takenBy, hostLevel } = parsed.data;
  return {
    ...{ run, ranks, steps, level, takenBy, hostLevel },
    phases: new Map(Object.entries(phasesNs)),
    blame: blame && readLevels(blame),
    devices: devices && readDevices(devices),
    badEnds: [],
  };
}
