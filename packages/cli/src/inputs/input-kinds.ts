// Determines the kinds of the paths on a command line, before any is opened.
//
//   directory   a run's, or of such               store      whatever lies beside the runs
//               with torch.profiler files         torch      its .json files; those that are no trace are named and left out when they are read
//               with segments in it or below      store      a spool, or a directory further up
//               with .pftrace files alone         perfetto   such as a run whose segments were pruned
//               with timelines of NDTimeline      ndtimeline its .json files that are such
//               with logs of NCCL Inspector       inspector  its .log files that are such
//               with dumps of Flight Recorder     flightRecorder
//   file        JSON, zipped or not               torch      or zipkin, ndtimeline, inspector or flightRecorder, by how it begins
//               a pickle                          flightRecorder
//               .pftrace, or a packet's first tag perfetto
//               anything else                     store      a segment; its reader reports errors
//
// A trace of several ranks in Chrome's form, as `merge` writes it, is none of them: the file is refused, and in a directory it is left out. So are
// traces of other kinds than the first that the directory has; all of them are named.
//
// Invariant: a kind rests on names and on the beginnings of files; no file is read to its end here.

import { existsSync, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { aggregatorLimits } from '@ranktrace/aggregator';
import { isSegment } from '@ranktrace/protocol';
import { looksLikeInspector } from '@ranktrace/trace/nccl';
import { looksLikeNdtimeline } from '@ranktrace/trace/ndtimeline';
import { looksLikeFlightRecorder, looksLikeMergedChrome } from '@ranktrace/trace/torch';
import { looksLikeZipkin } from '@ranktrace/trace/zipkin';
import { CliError } from '../terminal/errors.ts';
import { beginningOf } from './file-beginning.ts';

export type InputKind = 'store' | 'torch' | 'ndtimeline' | 'zipkin' | 'inspector' | 'flightRecorder' | 'perfetto';

/** One path of the command line. */
export interface Input {
  readonly kind: InputKind;
  readonly path: string;
  /** Files to open: the path itself, or the files of a directory. */
  readonly files: readonly string[];
  /** Traces in a directory that are of another kind, and left out. */
  readonly strays?: readonly string[];
  /** Whether it is a directory: stray files in it are left out, while a named file of the wrong kind is an error. */
  readonly isDirectory: boolean;
}

/** Names of the kinds in messages. */
export const kindNames: Readonly<Record<InputKind, string>> = {
  store: 'what ranktrace recorded',
  torch: 'a torch.profiler file',
  ndtimeline: 'a timeline of NDTimeline',
  zipkin: 'a Zipkin file',
  inspector: 'a log of NCCL Inspector',
  flightRecorder: 'a dump of Flight Recorder',
  perfetto: 'a .pftrace file',
};

const readable = 'traces that it reads (.json and .pftrace, also .gz, or logs of NCCL)';
const jsonName = /\.json(\.gz)?$/;
/** torch's own names for traces. */
const torchName = /\.trace\.json(\.gz)?$/;
const perfettoName = /\.(?:pftrace|perfetto-trace)(?:\.gz)?$/;
/** Keys at the begin of the events, unless a device description before them is longer than the bytes examined. */
const torchKeys = /"(?:traceEvents|schemaVersion)"\s*:/;
/** Inspector names its logs after host and process: `node-7-pid4711.log`. */
const logName = /\.log(\.gz)?$/;
/** Dumps are named after the rank: `nccl_trace_rank_3`. */
const dumpName = /\d(?:\.(?:json|pickle|pkl))?(?:\.gz)?$/;
const stemOf = (path: string): string => path.replace(/\d+(?:\.\w+)*$/, '');
/** The first entry of a dump or a log, the dump's groups, and the names of a merged trace's first processes lie within so many bytes. */
const firstEntryBytes = 4096;
const json = /^\uFEFF?\s*[[{]/;
/** A Perfetto trace begins with the tag of its first packet. */
const packetTag = 0x0a;

/** The kind of each of `paths`. Throws CliError `bad_input` for a missing one, `bad_usage` for one given twice. */
export function inputsOf(paths: readonly string[]): readonly Input[] {
  const inputs = paths.map(inputOf);
  const files = inputs.flatMap((input) => input.files);
  const twice = files.find((file, index) => files.indexOf(file) < index);
  if (twice !== undefined) throw new CliError('bad_usage', `"${twice}" is given twice: name each file once`);
  return inputs;
}

function inputOf(path: string): Input {
  const about = statOf(path);
  if (!about.isDirectory()) return { kind: kindOfFile(path), path, files: [path], isDirectory: false };
  const names = readdirSync(path).sort(byNumber);
  const named = (name: RegExp): string[] => names.filter((of) => name.test(of)).map((of) => join(path, of));
  const of = (name: RegExp): string[] => named(name).filter((file) => whatIs(file) === 'file');
  const directory = (kind: InputKind, files: readonly string[]): Input => ({ kind, path, files, isDirectory: true });
  const isStore = isStoreAt(path, names);
  const allJson = isStore ? [] : of(jsonName);
  const merged = allJson.filter((file) => looksLikeMergedChrome(textOf(beginningOf(file, firstEntryBytes))));
  const jsonFiles = allJson.filter((file) => !merged.includes(file));
  // Links to nothing, and pipes, which a look at their beginning would wait for.
  const links = isStore ? [] : named(jsonName).filter((file) => whatIs(file) === 'other');
  /** Traces of other kinds beside `files`. */
  const beside = (files: readonly string[]): string[] => {
    if (isStore) return [];
    const others = new Set([...merged, ...jsonFiles, ...of(logName), ...of(dumpName), ...of(perfettoName)]);
    for (const file of files) others.delete(file);
    return [...others].filter((file) => merged.includes(file) || isTrace(file));
  };
  if (jsonFiles.some(isTorch)) return { ...directory('torch', jsonFiles), strays: [...links, ...beside(jsonFiles)] };
  if (holdsSegments(path, 0)) return directory('store', [path]);
  const traces = of(names.includes('run.json') ? /^trace\.pftrace(\.gz)?$/ : perfettoName);
  if (traces.length > 0) return { ...directory('perfetto', traces), strays: beside(traces) };
  const timelines = jsonFiles.filter((file) => looksLikeNdtimeline(beginningOf(file)));
  if (timelines.length > 0) {
    const others = jsonFiles.filter((file) => !timelines.includes(file));
    return { ...directory('ndtimeline', timelines), strays: [...new Set([...others, ...beside(timelines)])] };
  }
  const logs = isStore ? [] : of(logName).filter((file) => isInspector(beginningOf(file)));
  if (logs.length > 0) return { ...directory('inspector', logs), strays: beside(logs) };
  const dumps = isStore ? [] : of(dumpName).filter((file) => isFlightRecorder(beginningOf(file)));
  if (dumps.length > 0) {
    const stems = new Set(dumps.map(stemOf));
    // Empty, say: without it the rank would seem to have none.
    const broken = of(dumpName).filter((file) => stems.has(stemOf(file)) && !dumps.includes(file));
    return { ...directory('flightRecorder', dumps), strays: [...new Set([...broken, ...beside(dumps)])] };
  }
  if (jsonFiles.length > 0) return { ...directory('torch', jsonFiles), strays: [...merged, ...links] };
  if (merged[0] !== undefined) refuseMerged(merged[0]);
  if (isStore) return directory('store', [path]);
  throw new CliError('bad_input', `Cannot open "${path}": it holds neither a run that ranktrace recorded, nor ${readable}`);
}

/** A link is what it leads to; a directory may have a trace's name, too. */
function whatIs(path: string): 'file' | 'directory' | 'other' {
  try {
    const about = statSync(path);
    return about.isFile() ? 'file' : about.isDirectory() ? 'directory' : 'other';
  } catch {
    return 'other';
  }
}

/** A run directory, or a directory of run directories. */
const isStoreAt = (path: string, names: readonly string[]): boolean =>
  names.includes('run.json') || names.some((name) => existsSync(join(path, name, 'run.json')));

/** Throws CliError `bad_input` where there is nothing. */
export function statOf(path: string): Stats {
  try {
    return statSync(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why = code === 'ENOENT' || code === 'ENOTDIR' ? 'there is no such file or directory' : code;
    throw new CliError('bad_input', `Cannot open "${path}": ${why}`);
  }
}

function kindOfFile(path: string): InputKind {
  const beginning = beginningOf(path);
  if (json.test(textOf(beginning.subarray(0, 64)))) {
    if (looksLikeMergedChrome(textOf(beginning))) refuseMerged(path);
    if (isFlightRecorder(beginning)) return 'flightRecorder';
    if (isInspector(beginning)) return 'inspector';
    return looksLikeZipkin(beginning) ? 'zipkin' : looksLikeNdtimeline(beginning) ? 'ndtimeline' : 'torch';
  }
  if (isFlightRecorder(beginning)) return 'flightRecorder';
  if (perfettoName.test(path) || beginning[0] === packetTag) return 'perfetto';
  if (jsonName.test(path) || path.endsWith('.gz')) return 'torch';
  // The reader reports an empty or damaged file.
  if (isSegment(beginning) || path.endsWith('.seg') || beginning.length === 0) return 'store';
  throw new CliError('bad_input', `Cannot read "${path}": it is neither what ranktrace recorded, nor of the ${readable}`);
}

function refuseMerged(path: string): never {
  const wanted = 'give the run that it was made of, or merge that into a .pftrace';
  throw new CliError('bad_input', `Cannot read "${path}": it is of several ranks, in Chrome's form for other programs; ${wanted}`);
}

const isFlightRecorder = (beginning: Uint8Array): boolean =>
  looksLikeFlightRecorder(beginning, textOf(beginning.subarray(0, firstEntryBytes)));
const isInspector = (beginning: Uint8Array): boolean => looksLikeInspector(textOf(beginning.subarray(0, firstEntryBytes)));
/** Whether a file of a directory is a trace, of whichever kind. */
function isTrace(path: string): boolean {
  const beginning = beginningOf(path);
  const isOwnKind = [isFlightRecorder, isInspector, looksLikeZipkin, looksLikeNdtimeline].some((isOfKind) => isOfKind(beginning));
  return isOwnKind || perfettoName.test(path) || isTorch(path);
}
const isTorch = (path: string): boolean => torchName.test(path) || torchKeys.test(textOf(beginningOf(path)));
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Whether there is a segment within the depth that a batch log searches. */
function holdsSegments(directory: string, depth: number): boolean {
  const entries = readdirSync(directory, { withFileTypes: true });
  if (entries.some((entry) => !entry.isDirectory() && entry.name.endsWith('.seg'))) return true;
  if (depth >= aggregatorLimits.searchDepthMax) return false;
  return entries.some(
    (entry) => entry.isDirectory() && isReadable(join(directory, entry.name)) && holdsSegments(join(directory, entry.name), depth + 1),
  );
}

function isReadable(directory: string): boolean {
  try {
    readdirSync(directory);
    return true;
  } catch {
    return false;
  }
}

/** Whether its batches are whole runs: a run directory, or a directory of run directories. A spool or a segment holds parts of runs. */
export const isRunStore = ({ path, isDirectory }: Input): boolean => isDirectory && isStoreAt(path, readdirSync(path));

/** rank10 sorts after rank9. */
const byNumber = new Intl.Collator('en', { numeric: true }).compare;
