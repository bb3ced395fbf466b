// Writes traces where TensorBoard's profiler plugin looks for them, under torch's file names:
//
//   DIR / gpu-host-3_48213 . 1766000000123456002 .pt.trace.json[.gz]
//         worker             ns since 1970: the plugin's "span"
//
// The plugin parses file names with ^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$ and a worker's name with ^(.*)_(\d+) into node and process.

import { mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { SdkError } from '../model/errors.ts';
import { shownValue } from '../model/shown-value.ts';
import { reasonOf } from '../process/guarded.ts';

export interface TensorboardTraceOptions {
  /** Distinct for every worker; default `HOST_PID`, which the plugin shows as node and process. Not a path: it begins a file's name. */
  readonly workerName?: string | undefined;
  /** Writes `.json.gz`. Default false. */
  readonly useGzip?: boolean | undefined;
}

/** The part of a profile that a handler needs. */
export interface TraceExporter {
  exportChromeTrace(path: string): void;
}

export type TraceHandler = (prof: TraceExporter) => void;

/**
 * For `onTraceReady`: writes each trace to a file of its own in `dirName`, which it makes for the first one. Accepts positional arguments,
 * too, as torch does. Throws SdkError `bad_option`; the handler throws it when it cannot make the directory, and the errors of the export.
 *
 * @example profile({ schedule, onTraceReady: tensorboardTraceHandler('./log', { useGzip: true }) })
 */
export function tensorboardTraceHandler(dirName: string, options?: TensorboardTraceOptions): TraceHandler;
export function tensorboardTraceHandler(dirName: string, workerName?: string, useGzip?: boolean): TraceHandler;
export function tensorboardTraceHandler(dirName: string, second?: string | TensorboardTraceOptions, third = false): TraceHandler {
  const given: TensorboardTraceOptions = typeof second === 'object' && second !== null ? second : { workerName: second, useGzip: third };
  // As in torch, an empty name counts as missing.
  const workerName = given.workerName || `${hostname()}_${process.pid}`;
  if (typeof dirName !== 'string' || dirName === '' || dirName.includes('\0')) {
    throw new SdkError('bad_option', `Bad dirName of tensorboardTraceHandler: it must be a path, got ${shownValue(dirName)}`);
  }
  if (typeof workerName !== 'string' || /[/\\\0]/.test(workerName)) {
    const shown = shownValue(workerName);
    throw new SdkError(
      'bad_option',
      `Bad workerName of tensorboardTraceHandler: it must be a file name's beginning, no path, got ${shown}`,
    );
  }
  const suffix = given.useGzip ? '.pt.trace.json.gz' : '.pt.trace.json';
  return (prof) => {
    makeDirectory(dirName);
    return prof.exportChromeTrace(join(dirName, `${workerName}.${traceTimes.next()}${suffix}`));
  };
}

/** Calls `handler` at the end of each cycle, and after it the program's own, if any, whatever becomes of the file. */
export function beforeOwn<P extends TraceExporter>(
  handler: TraceHandler,
  own: ((prof: P) => unknown) | undefined,
  warn: (text: string) => void,
): (prof: P) => unknown {
  if (own === undefined) return handler;
  return (prof) => {
    try {
      handler(prof);
    } catch (error) {
      warn(`no trace in tensorboardDirectory: ${reasonOf(error)}`);
    }
    return own(prof);
  };
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw new SdkError('bad_option', `Can't create directory: ${path} (${code}); tensorboardTraceHandler needs one it can write to`, {
      cause,
    });
  }
}

/**
 * Times since 1970, ns, strictly increasing, also when the clock stands still or is set back.
 *
 *   1766000000 123 456 | 002     µs, distinct within this thread | the thread, so that threads of a process never collide
 */
export class TraceTimes {
  readonly #unixMs: () => number;
  readonly #thread: bigint;
  #lastMicros = 0;

  constructor(unixMs: () => number, thread: number) {
    this.#unixMs = unixMs;
    this.#thread = BigInt(thread % 1000);
  }

  next(): bigint {
    this.#lastMicros = Math.max(this.#unixMs() * 1000, this.#lastMicros + 1);
    return BigInt(this.#lastMicros) * 1000n + this.#thread;
  }
}

/** One per thread, for all its handlers: two of them may write to one directory under one name. */
const traceTimes = new TraceTimes(Date.now, threadId);
