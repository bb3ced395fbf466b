// What `ranktrace view` is given, as runs side by side. Unlike in a merge, inputs are not made one:
//
//   run directory, or a directory of such     each run of it; with --run, that one
//   spools and segment files                  read together: parts of the runs that they name
//   torch.profiler files                      one run together, named like the file, or like their directory
//   directory of torch.profiler files         a run
//   Zipkin file, .pftrace[.gz]                a run
//
// Invariant: names are different, and may stand in an address.

import {
  closeSync,
  createReadStream,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { createGunzip } from 'node:zlib';
import { type BatchLog, openBatchLog, type ViewInput } from '@ranktrace/aggregator';
import { limits } from '@ranktrace/protocol';
import { type PerfettoTrace, readPerfetto, TraceError } from '@ranktrace/trace';
import { CliError } from './errors.ts';
import { beginningOf, isGzip } from './file-beginning.ts';
import { isProfile, kinetoFilesOf, openKinetoFiles } from './kineto-inputs.ts';
import { say } from './say.ts';
import { openZipkinFile } from './zipkin-inputs.ts';

export interface ViewInputs extends Disposable {
  /** In the order they were given; at least one. */
  readonly inputs: readonly ViewInput[];
}

const perfettoName = /\.(?:pftrace|perfetto-trace)(?:\.gz)?$/;
const chunkBytes = 1 << 20;
/** An unzipped trace lies in the temporary directory for as long as it is looked at. */
const unzippedBytesMax = 64 * 1024 ** 3;

/** Opens all of `paths`. Throws what opening any of them throws; CliError `bad_input` where there is no run in them. */
export async function openViewInputs(paths: readonly string[], run: string | undefined): Promise<ViewInputs> {
  const opened = new Opened();
  try {
    for (const group of groupsOf(paths)) await openGroup(group, run, opened);
    if (opened.inputs.length === 0) throw new CliError('bad_input', `${quoted(paths)} holds no batches of any run`);
    return opened;
  } catch (error) {
    opened[Symbol.dispose]();
    throw error;
  }
}

class Opened implements ViewInputs {
  readonly inputs: ViewInput[] = [];
  readonly #names = new Set<string>();
  readonly #close: (() => void)[] = [];

  /** `wanted` as a name that no other input has. */
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

type Kind = 'perfetto' | 'zipkin' | 'profile' | 'profiles' | 'store' | 'part';
interface Group {
  readonly kind: Kind;
  readonly paths: readonly string[];
}

/** Which inputs are one: files of a job, and parts of a run. They stand where the first of them stood. */
function groupsOf(paths: readonly string[]): Group[] {
  const groups: { kind: Kind; paths: string[] }[] = [];
  for (const path of paths) {
    const kind = kindOf(path);
    const together = kind === 'profile' || kind === 'part' ? groups.find((group) => group.kind === kind) : undefined;
    if (together === undefined) groups.push({ kind, paths: [path] });
    else together.paths.push(path);
  }
  return groups;
}

function kindOf(path: string): Kind {
  if (!existsSync(path)) throw new CliError('bad_input', `Cannot open "${path}": there is no such file or directory`);
  if (statSync(path).isDirectory()) return kinetoFilesOf([path]) !== undefined ? 'profiles' : isRunStore(path) ? 'store' : 'part';
  const beginning = beginningOf(path);
  if (/^\uFEFF?\s*[[{]/.test(new TextDecoder().decode(beginning.subarray(0, 64)))) {
    return openZipkinFile([path]) === undefined ? 'profile' : 'zipkin';
  }
  // A trace of Perfetto's begins with the tag of its first packet.
  if (perfettoName.test(path) || beginning[0] === 0x0a) return 'perfetto';
  return isProfile(path) || /\.json(\.gz)?$/.test(path) ? 'profile' : 'part';
}

/** A run directory, or a directory of such: their batches are whole runs. */
const isRunStore = (directory: string): boolean =>
  existsSync(join(directory, 'run.json')) || readdirSync(directory).some((name) => existsSync(join(directory, name, 'run.json')));

async function openGroup({ kind, paths }: Group, run: string | undefined, opened: Opened): Promise<void> {
  const [path] = paths as [string, ...string[]];
  switch (kind) {
    case 'perfetto': {
      const name = opened.name(fileName(path));
      opened.inputs.push({ run: name, perfetto: await openPerfetto(path, opened) });
      return;
    }
    case 'zipkin':
      opened.inputs.push({ run: opened.name(fileName(path)), sources: openZipkinFile([path]) ?? [] });
      return;
    case 'profile':
    case 'profiles': {
      const files = kinetoFilesOf(paths) ?? [];
      const name = opened.name(
        kind === 'profile' && files.length === 1 ? fileName(path) : directoryName(kind === 'profile' ? dirname(path) : path),
      );
      opened.inputs.push({ run: name, sources: await openKinetoFiles(files, name) });
      return;
    }
    default:
      openStore(paths, run, opened);
  }
}

function openStore(paths: readonly string[], run: string | undefined, opened: Opened): void {
  const log: BatchLog = openBatchLog(paths);
  opened.onClose(() => log.close());
  for (const notice of log.notices) say(notice);
  for (const name of run === undefined ? log.runs : [run]) {
    const sources = log.run(name).sources();
    if (sources.length > 0 || run !== undefined) opened.inputs.push({ run: opened.name(name), sources });
  }
}

/** Reads who is in it at once: a file that is no trace is known before anybody looks. Throws TraceError, CliError `bad_input`. */
async function openPerfetto(path: string, opened: Opened): Promise<() => PerfettoTrace> {
  const file = openSync(path, 'r');
  opened.onClose(() => closeSync(file));
  const head = new Uint8Array(2);
  readSync(file, head, 0, 2, 0);
  const unzipped = isGzip(head) ? await unzip(path) : file;
  if (unzipped !== file) opened.onClose(() => closeSync(unzipped));
  try {
    const trace = readPerfetto(() => chunksOf(unzipped));
    return () => trace;
  } catch (error) {
    if (error instanceof TraceError) throw new TraceError(error.code, `"${path}": ${error.message}`, { cause: error });
    throw error;
  }
}

function* chunksOf(file: number): Generator<Uint8Array> {
  for (let position = 0; ; ) {
    const chunk = new Uint8Array(chunkBytes);
    const length = readSync(file, chunk, 0, chunkBytes, position);
    if (length === 0) return;
    position += length;
    yield chunk.subarray(0, length);
  }
}

/** A temporary file that has lost its name already: nothing is left of it, however this process ends. */
async function unzip(path: string): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-view-'));
  const temporary = join(directory, basename(path));
  const file = openSync(temporary, 'wx+', 0o600);
  rmSync(directory, { recursive: true, force: true });
  const zipped = createReadStream(path, { highWaterMark: chunkBytes });
  const unzipped = zipped.pipe(createGunzip({ chunkSize: chunkBytes }));
  // `pipe` hands no errors on.
  zipped.on('error', (error) => unzipped.destroy(error));
  try {
    let bytes = 0;
    for await (const chunk of unzipped as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > unzippedBytesMax) throw new Error(`it unfolds to over ${unzippedBytesMax} bytes`);
      writeSync(file, chunk);
    }
    return file;
  } catch (cause) {
    closeSync(file);
    throw new CliError('bad_input', `Cannot read "${path}": ${unzipProblem(cause as NodeJS.ErrnoException)}`, { cause });
  } finally {
    zipped.destroy();
  }
}

const unzipProblem = ({ code, message }: NodeJS.ErrnoException): string =>
  code?.startsWith('Z_') === true ? `its gzip stream is broken or ends too early (${code})` : message;

/** A file's name without what says its format. */
const fileName = (path: string): string =>
  basename(path).replace(/(?:\.pt)?(?:\.trace|\.chrome-trace)?\.(?:json|pftrace|perfetto-trace)(?:\.gz)?$/, '');
const directoryName = (path: string): string => basename(resolve(path));
const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');
