// torch.profiler's files as inputs: read in pieces, and for `merge` put together as one source per process of the job.
//
//   files  ──►  tables  ──►  by rank  ──►  windows of one process, in order of time  ──►  kinetoSource
//
// The rank is what the file says (`distributedInfo`), else what its name says (`rank3…`, `worker3…`), else its place. Several files of one
// rank are windows of one process (as tensorboard's handler writes them) if none begins before the one before has ended; with another pid,
// they are another life of the rank.

import { closeSync, createReadStream, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createGunzip } from 'node:zlib';
import { limits } from '@ranktrace/protocol';
import {
  type BatchSource,
  type KinetoFile,
  KinetoReader,
  type KinetoReaderOptions,
  type KinetoTable,
  kinetoExtent,
  kinetoSource,
  TraceError,
} from '@ranktrace/trace';
import { CliError } from './errors.ts';
import { type Progress, showProgress } from './progress.ts';
import { say } from './say.ts';

/** Run name in the trace where none is given. */
const defaultRun = 'torch-profiler';
const gzipMagic = [0x1f, 0x8b] as const;
const jsonName = /\.json(\.gz)?$/;
/** torch's own names for traces: beside them, other JSON files of a directory are something else. */
const traceName = /\.trace\.json(\.gz)?$/;

/** Whether `path` is a file that begins like JSON or gzip: no segment, no directory. */
export function isProfile(path: string): boolean {
  const head = headOf(path);
  return startsAsGzip(head) || /^\uFEFF?\s*[[{]/.test(head.toString());
}

const startsAsGzip = (head: Buffer): boolean => gzipMagic.every((byte, index) => head[index] === byte);

/** The first bytes; none of what is no file: whoever opens it as a store says so. */
function headOf(path: string): Buffer {
  const head = Buffer.alloc(64);
  try {
    const file = openSync(path, 'r');
    try {
      return head.subarray(0, readSync(file, head));
    } finally {
      closeSync(file);
    }
  } catch {
    return head.subarray(0, 0);
  }
}

/**
 * The files that `paths` name, where they are torch.profiler's or directories of such; undefined when none of them is.
 * Throws CliError `bad_usage` for some of both.
 */
export function kinetoFilesOf(paths: readonly string[]): readonly string[] | undefined {
  const found = paths.map((path) => ({ path, files: isProfile(path) || isNamedAsOne(path) ? [path] : profilesIn(path) }));
  const profiles = found.find(({ files }) => files.length > 0);
  if (profiles === undefined) return undefined;
  const other = found.find(({ files }) => files.length === 0);
  if (other !== undefined) {
    if (!existsSync(other.path)) throw new CliError('bad_input', `Cannot open "${other.path}": there is no such file or directory`);
    const wanted = 'merge takes torch.profiler files or what ranktrace recorded, not both at once';
    throw new CliError('bad_usage', `${wanted}: "${profiles.path}" is the one, "${other.path}" is not`);
  }
  const files = found.flatMap((input) => input.files);
  const twice = files.find((file, index) => files.indexOf(file) < index);
  if (twice !== undefined) throw new CliError('bad_usage', `"${twice}" is given twice: name each file once`);
  return files;
}

/** An empty file, or one of noise: whoever reads it says what is wrong. */
const isNamedAsOne = (path: string): boolean => jsonName.test(path) && statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** torch.profiler's files directly in a directory; none in one that holds a run or a spool. */
function profilesIn(directory: string): string[] {
  let names: string[];
  try {
    if (!statSync(directory).isDirectory()) return [];
    names = readdirSync(directory).sort(byNumber);
  } catch {
    return [];
  }
  if (names.some((name) => name === 'run.json' || name === 'segments' || name.endsWith('.seg'))) return [];
  const traces = names.filter((name) => traceName.test(name));
  const chosen = traces.length > 0 ? traces : names.filter((name) => jsonName.test(name));
  return chosen.map((name) => join(directory, name)).filter(isProfile);
}

/** rank10 comes behind rank9. */
const byNumber = new Intl.Collator('en', { numeric: true }).compare;

/** Reads files one after the other; the error of a bad one begins with its name. */
export async function readProfiles(paths: readonly string[], keep: KinetoReaderOptions['keep']): Promise<KinetoTable[]> {
  const sizes = paths.map((path) => statSync(path).size);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const progress = showProgress('reading');
  const tables: KinetoTable[] = [];
  let before = 0;
  try {
    for (const [index, path] of paths.entries()) {
      tables.push(await readProfile(path, keep, { ...progress, update: (done) => progress.update(before + done, total) }));
      before += sizes[index] as number;
    }
    return tables;
  } finally {
    progress.stop();
  }
}

async function readProfile(path: string, keep: KinetoReaderOptions['keep'], progress: Progress): Promise<KinetoTable> {
  const file = createReadStream(path, { highWaterMark: 1 << 20 });
  const reader = new KinetoReader(keep === undefined ? {} : { keep });
  try {
    const text = startsAsGzip(headOf(path)) ? file.pipe(createGunzip({ chunkSize: 1 << 20 })) : file;
    // `pipe` hands no errors on.
    file.on('error', (error) => text.destroy(error));
    for await (const chunk of text) {
      reader.push(chunk as Buffer);
      progress.update(file.bytesRead, 0);
    }
    return reader.finish();
  } catch (error) {
    if (error instanceof TraceError) throw new TraceError(error.code, `"${path}": ${error.message}`, { cause: error });
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!code.startsWith('Z_')) throw error;
    throw new CliError('bad_input', `Cannot read "${path}": its gzip stream is broken or ends too early (${code})`, { cause: error });
  } finally {
    file.destroy();
  }
}

/** A file with what is known of it before it is put beside others. */
interface Profile extends KinetoFile {
  readonly path: string;
  readonly rank: number;
  /** ns since 1970: its events begin within. */
  readonly first: bigint;
  readonly last: bigint;
  readonly pid: number;
}

/**
 * One source for each process of the job whose files `paths` are. Notices on stderr say what was assumed. Throws CliError `bad_input` for
 * two files of one rank at one time, TraceError for what is no trace.
 */
export async function openKinetoFiles(paths: readonly string[], run: string | undefined): Promise<readonly BatchSource[]> {
  const tables = await readProfiles(paths, 'all');
  const ranks = ranksOf(paths, tables);
  const profiles = paths.map((path, index): Profile => {
    const table = tables[index] as KinetoTable;
    return { path, name: basename(path), table, rank: ranks[index] as number, ...kinetoExtent(table) };
  });
  for (const { path, table } of profiles) sayWhatIsLeftOut(path, table);
  const byRank = new Map<number, Profile[]>();
  for (const profile of profiles) byRank.set(profile.rank, [...(byRank.get(profile.rank) ?? []), profile]);
  const processes = [...byRank.values()].flatMap(processesOf);
  const worldSize = worldSizeOf(profiles);
  sayWhatDiffers(processes);
  return processes.map((files) => {
    const [{ rank }] = files as [Profile, ...Profile[]];
    return kinetoSource({ run: run ?? defaultRun, rank, worldSize, files });
  });
}

/** The rank of every file. */
function ranksOf(paths: readonly string[], tables: readonly KinetoTable[]): number[] {
  const said = tables.map(rankIn);
  const named = paths.map((path, index) => said[index] ?? rankInName(path));
  const taken = new Set(named);
  const fromNames: string[] = [];
  const fromPlaces: string[] = [];
  const ranks = named.map((rank, index) => {
    const path = paths[index] as string;
    if (rank !== undefined) {
      if (said[index] === undefined) fromNames.push(`"${basename(path)}" is rank ${rank}`);
      return rank;
    }
    let place = index;
    while (taken.has(place)) place++;
    taken.add(place);
    fromPlaces.push(`"${basename(path)}" is rank ${place}`);
    return place;
  });
  if (fromNames.length > 0) say(`rank taken from the file's name, for the file does not say it: ${shortList(fromNames)}`);
  if (fromPlaces.length > 0) say(`rank taken from the order of the files, for neither file nor name says it: ${shortList(fromPlaces)}`);
  return ranks;
}

function rankIn({ metadata }: KinetoTable): number | undefined {
  const rank = infoOf(metadata).rank;
  return isRank(rank) ? rank : undefined;
}

function rankInName(path: string): number | undefined {
  const digits = /(?:rank|worker)[-_.=]?(\d{1,6})/i.exec(basename(path))?.[1];
  return digits !== undefined && isRank(Number(digits)) ? Number(digits) : undefined;
}

const isRank = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= limits.rankMax;

function infoOf(metadata: ReadonlyMap<string, unknown>): Readonly<Record<string, unknown>> {
  const info = metadata.get('distributedInfo');
  return typeof info === 'object' && info !== null ? (info as Record<string, unknown>) : {};
}

/** The files of one rank, as windows of its processes. */
function processesOf(ofRank: readonly Profile[]): Profile[][] {
  const files = ofRank.toSorted((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  const processes: Profile[][] = [];
  for (const [index, file] of files.entries()) {
    const before = files[index - 1];
    if (before !== undefined && file.first < before.last) {
      const what = `"${before.path}" and "${file.path}" both hold rank ${file.rank} at the same time`;
      throw new CliError('bad_input', `Cannot merge: ${what}; each file must be of a rank of its own, or of another time of it`);
    }
    if (before !== undefined && before.pid === file.pid) processes.at(-1)?.push(file);
    else processes.push([file]);
  }
  return processes;
}

function worldSizeOf(profiles: readonly Profile[]): number {
  const sizes = profiles.map(({ table }) => infoOf(table.metadata).world_size).filter((size) => isRank(size) && size > 0) as number[];
  const different = [...new Set(sizes)];
  if (different.length > 1) say(`the files are of jobs of different size: ${different.sort((a, b) => a - b).join(', ')} ranks`);
  return Math.max(1, ...sizes, ...profiles.map(({ rank }) => rank + 1));
}

function sayWhatIsLeftOut(path: string, { skipped }: KinetoTable): void {
  const parts = [
    [skipped.malformed, 'events without a name, process or time'],
    [skipped.otherKinds, 'events of a kind that torch does not write'],
    [skipped.arguments, 'events that lost their arguments, for there are too many different ones'],
    [skipped.metadata, 'entries beside the events, for they are too large'],
  ] as const;
  const told = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  if (told.length > 0) say(`"${path}": left out ${told.join(', ')}`);
}

/** Windows are counted from the last one: a rank that lacks one is matched wrongly, so that must be known. */
function sayWhatDiffers(processes: readonly (readonly Profile[])[]): void {
  const counts = [...new Set(processes.map((files) => files.length))];
  if (counts.length < 2) return;
  const [few, many] = [Math.min(...counts), Math.max(...counts)];
  say(`ranks have from ${few} to ${many} files: collectives without a number of their own are matched from the last file backwards`);
}

const listed = 4;
const shortList = (parts: readonly string[]): string =>
  parts.slice(0, listed).join(', ') + (parts.length > listed ? `, and ${parts.length - listed} more` : '');
