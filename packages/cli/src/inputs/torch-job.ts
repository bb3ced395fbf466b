// torch.profiler's files as one job: a source for each of its processes.
//
//   files  ──►  tables  ──►  by rank  ──►  windows of one process, in order of time  ──►  kinetoSource
//
// The rank comes from the file's content (`distributedInfo`), else from its name (`rank3…`, `worker3…`), else from its position, where files of one
// process at different times (`HOST_PID.TIME.pt.trace.json`, a file per cycle of a schedule) share one. Several files of one
// rank are windows of one process (as tensorboard's handler writes them) if none begins before the previous one has ended; with another pid, or where
// the numbers of launches go back (in containers pids repeat), they are another incarnation of the rank. Those of different ranks that ran together are
// one attempt of the job: it was started again, or its folder is that of an earlier one.
//
// Files of several jobs are an error, for one report on both would be wrong (one-job.ts); with `allowMixed` they are accepted, and a file whose rank
// is taken at that time gets a free one.

import { basename } from 'node:path';
import { limits } from '@ranktrace/protocol';
import { type BatchSource, leftOutText, type ReadBudget, TraceError } from '@ranktrace/trace';
import { isNdtimeline } from '@ranktrace/trace/ndtimeline';
import {
  attemptsOf,
  type KinetoExtent,
  type KinetoFile,
  type KinetoTable,
  kinetoExtent,
  kinetoSources,
  rankInFile,
  rankInName,
  worldSizeInFile,
} from '@ranktrace/trace/torch';
import { CliError } from '../terminal/errors.ts';
import { say } from '../terminal/output.ts';
import type { Input } from './input-kinds.ts';
import { byRank, whyNotOneJob } from './one-job.ts';
import { ofFile } from './read-memory.ts';
import { SpillFile } from './spill-file.ts';
import { readTorchFiles, type TorchFile } from './torch-files.ts';

/** A file with its own facts, before the comparison with others. */
export interface TorchProfile extends KinetoFile, KinetoExtent {
  readonly path: string;
  readonly rank: number;
}

export interface TorchJob extends Disposable {
  /** The run that all of them name; undefined for torch's own files. */
  readonly run: string | undefined;
  readonly profiles: readonly TorchProfile[];
  /** One source per process. */
  sources(run: string): readonly BatchSource[];
}

/**
 * Reads the files of `inputs` as one job. Notices on stderr state the assumptions. Throws CliError `bad_input` for files of several jobs and,
 * without `allowMixed`, for two files of one rank at one time; TraceError for a named file that is no trace. Rows beyond memory go to `spill`, which is closed with the job.
 */
export async function openTorchJob(
  inputs: readonly Input[],
  allowMixed: boolean,
  budget: ReadBudget,
  spill = new SpillFile(inputs),
): Promise<TorchJob> {
  try {
    return jobOf(await readTorchFiles(inputs, { keep: 'all', budget, spill }), allowMixed, () => spill[Symbol.dispose]());
  } catch (error) {
    spill[Symbol.dispose]();
    throw error;
  }
}

function jobOf(files: readonly TorchFile[], allowMixed: boolean, close: () => void): TorchJob {
  const timeline = files.find(({ table }) => isNdtimeline(table));
  if (timeline !== undefined) {
    const why = 'it is a timeline of NDTimeline, which holds all workers of a job: give it alone';
    throw new CliError('bad_input', `Cannot read "${timeline.path}" as a torch.profiler file: ${why}`);
  }
  const found = files.map(({ path, table }) => ({ path, name: basename(path), table, ...kinetoExtent(table) }));
  const ranks = ranksOf(found);
  const profiles = found.map((file, index): TorchProfile => ({ ...file, rank: ranks[index] as number }));
  for (const { path, table } of profiles) sayWhatIsLeftOut(path, table);
  const why = allowMixed ? undefined : whyNotOneJob(profiles);
  if (why !== undefined)
    throw new CliError('bad_input', `Cannot read these files as one job: ${why}; --allow-mixed takes them all the same`);
  const placed = allowMixed ? withRanksOfTheirOwn(profiles) : profiles;
  const processes = byRank(placed).flatMap(processesOf);
  const worldSize = worldSizeOf(placed);
  const attempts = attemptsOfJob(processes);
  sayWhatDiffers(processes, attempts);
  const described = (run: string) => processes.map((files, at) => ({ run, rank: rankOf(files), worldSize, attempt: attempts[at], files }));
  return {
    run: runOf(placed),
    profiles: placed,
    sources: (run) => kinetoSources(described(run)).map((source, at) => naming(source, processes[at] as readonly TorchProfile[])),
    [Symbol.dispose]: close,
  };
}

/** The source, with errors that name its file: rows of a temporary file are read with the batches. */
function naming(source: BatchSource, [profile]: readonly TorchProfile[]): BatchSource {
  const { rank, incarnation, count, missing, hostUnknown = false, attempt = 0, tellsTracks = false } = source;
  const batch: BatchSource['batch'] = (index, only) => {
    try {
      return source.batch(index, only);
    } catch (error) {
      throw error instanceof TraceError && profile !== undefined ? ofFile(profile.path, error) : error;
    }
  };
  return { rank, incarnation, count, missing, hostUnknown, attempt, tellsTracks, batch };
}

/** Our own recorder writes it into its files. */
function runOf(profiles: readonly TorchProfile[]): string | undefined {
  const [run, ...others] = new Set(profiles.map(({ table }) => (table.metadata.get('ranktrace') as { run?: unknown } | undefined)?.run));
  return others.length === 0 && typeof run === 'string' && run.length <= limits.runNameCharsMax && /^[A-Za-z0-9_-]+$/.test(run)
    ? run
    : undefined;
}

type FoundFile = Omit<TorchProfile, 'rank'>;

/** The rank of every file. */
function ranksOf(files: readonly FoundFile[]): number[] {
  const said = files.map(({ table }) => rankInFile(table));
  const named = files.map(({ name }, index) => said[index] ?? rankInName(name));
  const taken = new Set(named);
  const fromNames: string[] = [];
  const placed: { readonly rank: number; readonly windows: FoundFile[] }[] = [];
  const ranks = files.map((file, index) => {
    const rank = named[index];
    if (rank !== undefined) {
      if (said[index] === undefined) fromNames.push(`"${file.name}" is rank ${rank}`);
      return rank;
    }
    const known = placed.find(({ windows }) => windows.every((window) => areWindows(window, file)));
    if (known !== undefined) {
      known.windows.push(file);
      return known.rank;
    }
    let place = index - placed.reduce((sum, { windows }) => sum + windows.length - 1, 0);
    while (taken.has(place)) place++;
    taken.add(place);
    placed.push({ rank: place, windows: [file] });
    return place;
  });
  if (fromNames.length > 0) say(`rank taken from the file's name, for the file does not say it: ${shortList(fromNames)}`);
  const fromPlaces = placed.map(({ rank, windows: [first, ...others] }) => {
    const count = others.length === 1 ? 'another file' : `${others.length} other files`;
    return others.length === 0 ? `"${first?.name}" is rank ${rank}` : `"${first?.name}" and ${count} of its process are rank ${rank}`;
  });
  if (fromPlaces.length > 0) say(`rank taken from the order of the files, for neither file nor name says it: ${shortList(fromPlaces)}`);
  return ranks;
}

/** Whether both files are of one process, at different times. */
const areWindows = (a: FoundFile, b: FoundFile): boolean =>
  a.pid > 0 && a.pid === b.pid && hostOf(a) === hostOf(b) && (a.last <= b.first || b.last <= a.first);

/** The host that the file states, else what its name begins with: torch's default is `HOST_PID.TIME.pt.trace.json`. */
const hostOf = ({ name, table }: FoundFile): unknown => table.metadata.get('host_name') ?? name.split('.', 1)[0];

const byTime = (a: TorchProfile, b: TorchProfile): number => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0);

/** Mixed files: a file whose rank is taken at its time gets the lowest free one. */
function withRanksOfTheirOwn(profiles: readonly TorchProfile[]): readonly TorchProfile[] {
  const taken = new Set(profiles.map(({ rank }) => rank));
  const placed: TorchProfile[] = [];
  for (const profile of profiles.toSorted(byTime)) {
    let { rank } = profile;
    if (placed.some((other) => other.rank === rank && profile.first < other.last)) {
      rank = 0;
      while (taken.has(rank)) rank++;
      taken.add(rank);
      say(`rank ${profile.rank} is there twice at the same time: "${profile.path}" is shown as rank ${rank}`);
    }
    placed.push({ ...profile, rank });
  }
  return placed;
}

/** The files of one rank, as windows of its processes. */
function processesOf(ofRank: readonly TorchProfile[]): TorchProfile[][] {
  const processes: TorchProfile[][] = [];
  for (const file of ofRank.toSorted(byTime)) {
    const before = processes.at(-1)?.at(-1);
    if (before !== undefined && isSameProcess(before, file)) processes.at(-1)?.push(file);
    else processes.push([file]);
  }
  return processes;
}

const isSameProcess = (before: KinetoExtent, after: KinetoExtent): boolean =>
  before.pid === after.pid && (after.launches?.least ?? Number.POSITIVE_INFINITY) > (before.launches?.greatest ?? 0);

const rankOf = ([first]: readonly TorchProfile[]): number => (first as TorchProfile).rank;

/** The attempt of each process. */
function attemptsOfJob(processes: readonly (readonly TorchProfile[])[]): readonly number[] {
  const origin = processes[0]?.[0]?.first ?? 0n;
  return attemptsOf(
    processes.map((files) => {
      const [first, last] = [files[0] as TorchProfile, files.at(-1) as TorchProfile];
      const size = worldSizeInFile(first.table);
      return { rank: rankOf(files), from: Number(first.first - origin), until: Number(last.last - origin), size };
    }),
  );
}

function worldSizeOf(profiles: readonly TorchProfile[]): number {
  return Math.max(1, ...profiles.map(({ table }) => worldSizeInFile(table) ?? 1), ...profiles.map(({ rank }) => rank + 1));
}

/** Where a file ends early, its reader has said so. */
function sayWhatIsLeftOut(path: string, { skipped, leftOutAt, brokenAt }: KinetoTable): void {
  const text = leftOutText({ ...skipped, rest: 0 });
  const where = [
    ...(leftOutAt === undefined ? [] : [`; the first at byte ${leftOutAt}`]),
    ...(brokenAt === undefined ? [] : [`; the first place that is no JSON: ${brokenAt}`]),
  ];
  if (text !== '') say(`"${path}": left out ${text}${where.join('')}`);
}

/** Windows are counted from the last one: a rank that lacks one is matched wrongly, so this reports the difference. */
function sayWhatDiffers(processes: readonly (readonly TorchProfile[])[], attempts: readonly number[]): void {
  const numbers = [...new Set(attempts)];
  if (numbers.length > 1) {
    const [first] = processes[attempts.lastIndexOf(Math.max(...numbers))] as readonly TorchProfile[];
    say(`the files are of ${numbers.length} attempts of the job; for the last one alone, give its files, such as "${first?.path}"`);
  }
  const differing = numbers.flatMap((attempt) => {
    const counts = processes.flatMap((files, at) => (attempts[at] === attempt ? [files.length] : []));
    const [few, many] = [Math.min(...counts), Math.max(...counts)];
    return few === many ? [] : [`${few} to ${many}`];
  });
  if (differing.length === 0) return;
  say(`ranks have from ${differing[0]} files: collectives without a number of their own are matched from the last file backwards`);
}

const listed = 4;
const shortList = (parts: readonly string[]): string =>
  parts.slice(0, listed).join(', ') + (parts.length > listed ? `, and ${parts.length - listed} more` : '');
