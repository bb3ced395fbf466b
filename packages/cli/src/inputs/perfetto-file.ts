// A .pftrace file, zipped or not, as input. A zipped one is unzipped to a file without a name first, for a trace is read twice.

import { closeSync, createReadStream, mkdtempSync, openSync, readSync, rmSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { constants, createGunzip, unzipSync } from 'node:zlib';
import { type ReadBudget, TraceError } from '@ranktrace/trace';
import { type InflateBundle, type PerfettoTrace, readPerfetto } from '@ranktrace/trace/perfetto';
import { CliError } from '../terminal/errors.ts';
import { say } from '../terminal/output.ts';
import { isGzip } from './file-beginning.ts';
import { ofFile } from './read-memory.ts';

export interface PerfettoFile extends Disposable {
  readonly trace: PerfettoTrace;
}

const chunkBytes = 1 << 20;
/** Largest unzipped size; an unzipped trace stays in the temporary directory while it is in use. */
const unzippedBytesMax = 64 * 1024 ** 3;
/** The same for a small file: gzip shrinks repetitive data to a thousandth, and a trace to a tenth. */
const unzippedBytesMin = 1024 ** 3;
const unzippedTimesMax = 100;

/** Reads its processes at once, so that a file without a trace is reported early. Throws TraceError, CliError `bad_input`. */
export async function openPerfettoFile(path: string, budget: ReadBudget): Promise<PerfettoFile> {
  let file = openSync(path, 'r');
  try {
    const head = new Uint8Array(2);
    readSync(file, head, 0, 2, 0);
    if (isGzip(head)) {
      const unzipped = await unzip(path);
      closeSync(file);
      file = unzipped;
    }
    const trace = readPerfetto(() => chunksOf(file), budget, inflateBundle);
    if (trace.stopped !== undefined) say(`"${path}": read only its beginning: ${trace.stopped}`);
    return { trace: naming(path, trace), [Symbol.dispose]: () => closeSync(file) };
  } catch (error) {
    closeSync(file);
    if (error instanceof TraceError) throw ofFile(path, error);
    throw error;
  }
}

/** Perfetto's own tools take a bundle of zlib or of gzip, too. */
const inflateBundle: InflateBundle = (bytes, maxOutputLength) => unzipSync(bytes, { maxOutputLength });

/** The trace, with errors of its events that name the file. */
function naming(path: string, { header, stopped, events }: PerfettoTrace): PerfettoTrace {
  return {
    header,
    stopped,
    *events(sink) {
      try {
        return yield* events(sink);
      } catch (error) {
        throw error instanceof TraceError ? ofFile(path, error) : error;
      }
    },
  };
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

/** A temporary file, unlinked at once: nothing is left of it, however this process ends. */
async function unzip(path: string): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-trace-'));
  const temporary = join(directory, basename(path));
  const file = openSync(temporary, 'wx+', 0o600);
  rmSync(directory, { recursive: true, force: true });
  const zipped = createReadStream(path, { highWaterMark: chunkBytes });
  // The reader itself sees where a stream that is cut off ends.
  const unzipped = zipped.pipe(createGunzip({ chunkSize: chunkBytes, finishFlush: constants.Z_SYNC_FLUSH }));
  // `pipe` does not forward errors.
  zipped.on('error', (error) => unzipped.destroy(error));
  try {
    let bytes = 0;
    const bytesMax = Math.min(unzippedBytesMax, Math.max(unzippedBytesMin, unzippedTimesMax * statSync(path).size));
    for await (const chunk of unzipped as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > bytesMax) throw new Error(`it unfolds to over ${bytesMax} bytes; if this is no fault of the file, unzip it first`);
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
