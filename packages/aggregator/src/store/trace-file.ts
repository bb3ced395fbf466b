// A trace file being written: bytes go to a temporary name, renamed when whole. An aborted merge never leaves half a trace under the final name.
// A device or a pipe is written straight, for a file must not replace it.

import { once } from 'node:events';
import { createWriteStream, realpathSync, statSync, type WriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { createGzip, type Gzip } from 'node:zlib';
import { chromeWriter, dumpWriter, type TraceSink, type WriteBytes } from '@ranktrace/trace';
import { perfettoWriter } from '@ranktrace/trace/perfetto';
import { AggregatorError, messageOf } from '../model/errors.ts';

/** The formats of trace files. */
export type TraceFormat = 'perfetto' | 'chrome' | 'text';

const formats: readonly (readonly [string, TraceFormat])[] = [
  ['.pftrace', 'perfetto'],
  ['.perfetto-trace', 'perfetto'],
  ['.json', 'chrome'],
  ['.txt', 'text'],
];

/** The format of `path` by its extension; `.gz` may follow. Throws AggregatorError `bad_option`. */
export function traceFormatOf(path: string): TraceFormat {
  const name = path.replace(/\.gz$/, '');
  const found = formats.find(([extension]) => name.endsWith(extension));
  if (found !== undefined) return found[1];
  throw new AggregatorError(
    'bad_option',
    `Cannot recognize the format of "${path}": its name must end in .pftrace, .json or .txt (each with .gz, if wanted)`,
  );
}

/** The writer of a format. */
export function createTraceWriter(format: TraceFormat, write: WriteBytes): TraceSink {
  if (format === 'perfetto') return perfettoWriter(write);
  return format === 'chrome' ? chromeWriter(write) : dumpWriter(write);
}

/** Where a file for `path` is written: as `draft`, which becomes `whole` (a link's target) by a rename; undefined: straight to a device or a pipe. */
export function draftOf(path: string): { readonly draft: string; readonly whole: string | undefined } {
  let whole = path;
  try {
    const about = statSync(path);
    if (!about.isFile() && !about.isDirectory()) return { draft: path, whole: undefined };
    whole = realpathSync(path);
  } catch {
    // Nothing is there yet, or writing will say what is wrong with the path.
  }
  return { draft: `${whole}.partial`, whole };
}

/** Ends with `commit` or `discard`. */
export class TraceFile {
  readonly path: string;
  readonly #draft: string;
  readonly #whole: string | undefined;
  readonly #file: WriteStream;
  readonly #gzip: Gzip | undefined;
  #bytes = 0;
  #error: Error | undefined;

  constructor(path: string) {
    this.path = path;
    const { draft, whole } = draftOf(path);
    this.#draft = draft;
    this.#whole = whole;
    this.#file = createWriteStream(draft, { highWaterMark: 8 << 20 });
    this.#gzip = path.endsWith('.gz') ? createGzip({ level: 6 }) : undefined;
    this.#gzip?.pipe(this.#file);
    const keep = (error: Error): void => {
      this.#error ??= error;
    };
    this.#file.on('error', keep);
    this.#gzip?.on('error', keep);
  }

  /** Bytes on disk once committed. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Takes a copy of `chunk`. */
  write = (chunk: Uint8Array): void => {
    (this.#gzip ?? this.#file).write(Buffer.from(chunk));
  };

  /** Resolves when few enough bytes wait for more to come: this keeps a merge's memory flat. */
  async drained(): Promise<void> {
    const stream = this.#gzip ?? this.#file;
    if (stream.writableNeedDrain && this.#error === undefined) {
      const failed = new AbortController();
      const onError = (): void => failed.abort();
      this.#file.once('error', onError);
      await once(stream, 'drain', { signal: failed.signal }).catch(() => {});
      this.#file.off('error', onError);
    }
    this.#check();
  }

  /** Finishes the file and gives it its final name. */
  async commit(): Promise<void> {
    // After an error the stream has closed itself, maybe already: waiting for its `close` would never end.
    this.#check();
    const closed = new Promise<void>((resolve) => this.#file.once('close', resolve));
    (this.#gzip ?? this.#file).end();
    await closed;
    this.#check();
    this.#bytes = this.#file.bytesWritten;
    if (this.#whole !== undefined) await rename(this.#draft, this.#whole);
  }

  /** Removes the unfinished file. */
  async discard(): Promise<void> {
    this.#gzip?.destroy();
    if (!this.#file.closed) {
      const closed = new Promise<void>((resolve) => this.#file.once('close', resolve));
      this.#file.destroy();
      await closed;
    }
    if (this.#whole !== undefined) await rm(this.#draft, { force: true });
  }

  #check(): void {
    if (this.#error === undefined) return;
    throw new AggregatorError('store_write_failed', `Cannot write "${this.path}": ${messageOf(this.#error)}`, { cause: this.#error });
  }
}
