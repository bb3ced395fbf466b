// Downloads of traces, for readers:
//
//   GET /v1/trace?run=R&from=NS&until=NS&ranks=0,3&format=pftrace    what overlaps a window of trace time; without one, the whole run; or format=json
//   GET /v1/captures/RUN/NAME                                        the trace of a capture
//
// A window is merged while it is sent: memory is that of a merge, whatever the size of the file. Invariant: an answer that cannot be finished breaks
// its connection, so a download is whole or has visibly failed; no path of a request reaches the file system, for names are looked up in a list.

import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { limits as protocolLimits } from '@ranktrace/protocol';
import { WindowSink } from '@ranktrace/trace';
import type { ViewProgress } from '@ranktrace/trace/timeline';
import { withDeadline } from '../model/deadline.ts';
import { driveSteps } from '../model/drive-steps.ts';
import { messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { createTraceWriter } from '../store/trace-file.ts';
import type { RunView, ViewRuns } from '../view/run-view.ts';
import { ViewError } from '../view/view-error.ts';
import type { Answer } from './http-service.ts';
import { pathOf, queryOf } from './request-target.ts';

/** The answer to a request for a trace; undefined for another path. */
export type AnswerTrace = (request: IncomingMessage) => Promise<Answer | undefined>;

const formats = { pftrace: 'perfetto', json: 'chrome' } as const;

interface TraceRequest {
  readonly run: string;
  readonly from: number | undefined;
  readonly until: number | undefined;
  readonly ranks: ReadonlySet<number> | undefined;
  readonly format: keyof typeof formats;
}

export function traceRequests(runs: ViewRuns, onNotice: (notice: string) => void): AnswerTrace {
  return async (request) => {
    const path = pathOf(request);
    const [, run, name] = /^\/v1\/captures\/([A-Za-z0-9_-]{1,64})\/([A-Za-z0-9_.-]{1,160})$/.exec(path) ?? [];
    if (run !== undefined && name !== undefined) return captureOf(runs, run, name, onNotice);
    if (path !== '/v1/trace') return undefined;
    const asked = traceRequestOf(queryOf(request));
    if (typeof asked === 'string') return { code: 400, body: `${asked}\n` };
    return await windowOf(runs, asked, request.method === 'HEAD', onNotice);
  };
}

function captureOf(runs: ViewRuns, run: string, name: string, onNotice: (notice: string) => void): Answer {
  const file = runs.captures(run).find((one) => one.name === name);
  if (file === undefined) return { code: 404, body: 'not found\n' };
  return {
    headers: { ...attachment(name), 'content-length': file.bytes },
    body: (response) =>
      // A file that grew meanwhile must not be longer than announced.
      pipeline(createReadStream(file.path, { end: Math.max(0, file.bytes - 1) }), response).catch((error: unknown) => {
        if (!isGone(error)) onNotice(`Cannot send "${file.path}": ${messageOf(error)}`);
        response.destroy();
      }),
  };
}

async function windowOf(runs: ViewRuns, asked: TraceRequest, isHead: boolean, onNotice: (notice: string) => void): Promise<Answer> {
  const { run, format } = asked;
  let view: RunView & Disposable;
  try {
    view = await runs.open(run);
  } catch (error) {
    return refusalOf(error);
  }
  const headers = attachment(`${nameOf(asked, view.timeline.firstStep)}.${format}`);
  if (isHead) {
    view[Symbol.dispose]();
    return { headers, body: async () => {} };
  }
  const merge = new WindowMerge(view, asked);
  try {
    // With too many merges under way this one does not begin: the answer can still say so.
    merge.steps.next();
  } catch (error) {
    view[Symbol.dispose]();
    return refusalOf(error);
  }
  let sent: Promise<void> | undefined;
  const body = (response: ServerResponse): Promise<void> => {
    sent ??= send(merge, response).catch((error: unknown) => {
      if (!isGone(error)) onNotice(`Cannot send a trace of run ${run}: ${messageOf(error)}`);
      response.destroy();
    });
    return sent.finally(() => view[Symbol.dispose]());
  };
  return { headers, body };
}

/** The answer in place of a trace; throws any error but the view's. */
function refusalOf(error: unknown): Answer {
  if (error instanceof ViewError) return { code: error.code === 'no_such_run' ? 404 : 503, body: `${error.message}\n` };
  throw error;
}

/** The merge of a window; what it writes waits until `sendTo` has a response for it. */
class WindowMerge {
  readonly steps: Generator<ViewProgress, void>;
  readonly #waiting: Uint8Array[] = [];
  #response: ServerResponse | undefined;

  constructor(view: RunView, { from, until, ranks, format }: TraceRequest) {
    const hasRank = ranks === undefined ? undefined : (rank: number): boolean => ranks.has(rank);
    const writer = createTraceWriter(formats[format], (chunk) => this.#write(Buffer.from(chunk)));
    this.steps = view.merge(new WindowSink(writer, { from, until, hasRank }));
  }

  sendTo(response: ServerResponse): void {
    this.#response = response;
    for (const chunk of this.#waiting.splice(0)) response.write(chunk);
  }

  #write(chunk: Uint8Array): void {
    if (this.#response === undefined) this.#waiting.push(chunk);
    else this.#response.write(chunk);
  }
}

/** Merges the window into the response, as fast as its reader takes it. */
async function send(merge: WindowMerge, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  merge.sendTo(response);
  const between = async (): Promise<void> => {
    if (!response.writableNeedDrain) return;
    await withDeadline(gone.signal, limits.viewDownloadStallMs, (signal) => once(response, 'drain', { signal }));
  };
  try {
    await driveSteps(merge.steps, { signal: gone.signal, between });
  } finally {
    merge.steps.return(undefined);
  }
  response.end();
}

/** The request, or the reason why it is none. */
function traceRequestOf(parameters: URLSearchParams): TraceRequest | string {
  const known = ['run', 'from', 'until', 'ranks', 'format'];
  const unknown = [...parameters.keys()].find((key, at, all) => !known.includes(key) || all.indexOf(key) < at);
  if (unknown !== undefined) return `"${unknown.slice(0, 64)}" is unknown or given twice: a trace has ${known.join(', ')}`;
  const run = parameters.get('run') ?? '';
  if (run === '' || run.length > protocolLimits.runNameCharsMax) return '"run" must be the name of a run';
  const format = parameters.get('format') ?? 'pftrace';
  if (!Object.hasOwn(formats, format)) return `"format" must be one of ${Object.keys(formats).join(', ')}`;
  const [from, until] = [timeIn(parameters.get('from')), timeIn(parameters.get('until'))];
  if (Number.isNaN(from) || Number.isNaN(until)) return '"from" and "until" must be times of the trace in ns';
  if (from !== undefined && until !== undefined && until <= from) return '"until" must be after "from"';
  const listed = parameters.get('ranks');
  if (listed !== null && !/^\d{1,5}(?:,\d{1,5}){0,4095}$/.test(listed)) return '"ranks" must be numbers of at most 4096 ranks, as in 0,3';
  return {
    run,
    from,
    until,
    ranks: listed === null ? undefined : new Set(listed.split(',').map(Number)),
    format: format as keyof typeof formats,
  };
}

/** Undefined where there is none; NaN for anything but a time. */
function timeIn(text: string | null): number | undefined {
  if (text === null) return undefined;
  return /^-?\d{1,16}(?:\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
}

/** `demo-1500ms-2000ms`: letters, digits, `_` and `-` alone; times since the first step, as the page shows them. */
function nameOf({ run, from, until }: TraceRequest, firstStep = 0): string {
  const part = [from, until].map((time) => (time === undefined ? '' : `-${Math.round((time - firstStep) / 1e6)}ms`)).join('');
  return `${run.replaceAll(/[^A-Za-z0-9_-]/g, '_')}${part}`;
}

const attachment = (name: string): Record<string, string> => ({
  'content-type': 'application/octet-stream',
  'content-disposition': `attachment; filename="${name}"`,
});

/** Whether the reader of a response has left, which is no failure of ours. */
const isGone = (error: unknown): boolean =>
  error instanceof Error && (error.name === 'AbortError' || (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE');
